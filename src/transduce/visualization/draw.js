// What the attention view is drawn with: elements, labels, small pictures, files to keep.
window.Draw ??= (() => {
  const LONGEST = 18; // characters of a label
  const SVG = "http://www.w3.org/2000/svg";

  const fill = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const make = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS(SVG, tag), attributes, children);

  const said = (weight) => weight.toFixed(weight < 0.0995 ? 3 : 2);
  const short = (text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
  const width = (text) => [...short(text)].reduce((all, one) =>
    all + (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/.test(one)
      ? 15 : 7.5), 0);
  // The mark for a space is fainter than the letters.
  const label = (text, part) => (text.startsWith("▁")
    ? [fill(part(), { class: "soft" }, ["▁"]), short(text).slice(1)] : [short(text)]);

  const thumbnail = (matrix) => {
    const [high, wide] = [matrix.length, matrix[0].length];
    const canvas = make("canvas", { width: wide, height: high, "aria-hidden": "true" });
    const paper = canvas.getContext("2d");
    const image = paper.createImageData(wide, high);
    matrix.flat().forEach((weight, at) => {
      image.data.set([58, 134, 222, Math.round(255 * Math.sqrt(weight))], 4 * at);
    });
    paper.putImageData(image, 0, 0);
    return canvas;
  };

  const scale = () => make("ul", { class: "legend scale", "aria-hidden": "true" }, make("li", {}, "Weight"),
    ...[0, 0.05, 0.1, 0.25, 0.5, 1].map((weight) => make("li", {},
      draw("svg", { width: 14, height: 14 },
        draw("rect", { class: "ground", width: 14, height: 14 }),
        draw("rect", { class: "swatch", width: 14, height: 14,
          "fill-opacity": Math.sqrt(weight).toFixed(3) })), `${weight}`)));

  const save = (file, text, type) => {
    const link = make("a", { download: file, href: URL.createObjectURL(new Blob([text], { type })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  // A drawing of the page as a file of its own: its colours are written into it.
  const alone = (svg) => {
    const copy = svg.cloneNode(true);
    const colour = (what) => getComputedStyle(svg.querySelector(what) ?? svg).fill;
    copy.setAttribute("xmlns", SVG);
    copy.prepend(draw("style"), draw("rect", { width: "100%", height: "100%",
      fill: getComputedStyle(svg.closest(".panel")).backgroundColor }));
    copy.querySelector("style").textContent =
      `text{font:13px sans-serif;fill:${colour("text")}}.soft{fill-opacity:.55}`
      + `.ground{fill:${colour(".ground")}}.cells rect{fill:${colour(".cells rect")}}`;
    copy.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    return new XMLSerializer().serializeToString(copy);
  };

  return { make, draw, said, width, label, thumbnail, scale, save, alone };
})();
