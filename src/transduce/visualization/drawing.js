// Drawing primitives of the attention view: elements, labels, thumbnails, downloads.
window.Drawing ??= (() => {
  const MAX_LABEL = 18; // characters
  const SVG = "http://www.w3.org/2000/svg";

  const build = (element, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const make = (tag, attributes = {}, ...children) =>
    build(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) =>
    build(document.createElementNS(SVG, tag), attributes, children);

  const formatWeight = (weight) => weight.toFixed(weight < 0.0995 ? 3 : 2);
  const shorten = (text) => {
    const characters = [...text];
    return characters.length > MAX_LABEL ? `${characters.slice(0, MAX_LABEL - 1).join("")}…` : text;
  };
  const labelWidth = (text) => [...shorten(text)].reduce((total, character) =>
    total + (/[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]/.test(character)
      ? 15 : 7.5), 0);
  // The word-boundary marker is fainter than the letters.
  const label = (text, makePart) => (text.startsWith("▁")
    ? [build(makePart(), { class: "soft" }, ["▁"]), shorten(text).slice(1)] : [shorten(text)]);

  const thumbnail = (matrix) => {
    const [height, width] = [matrix.length, matrix[0].length];
    const canvas = make("canvas", { width, height, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    matrix.flat().forEach((weight, index) => {
      image.data.set([58, 134, 222, Math.round(255 * Math.sqrt(weight))], 4 * index);
    });
    context.putImageData(image, 0, 0);
    return canvas;
  };

  const opacityScale = () => make("ul", { class: "legend scale", "aria-hidden": "true" }, make("li", {}, "Weight"),
    ...[0, 0.05, 0.1, 0.25, 0.5, 1].map((weight) => make("li", {},
      draw("svg", { width: 14, height: 14 },
        draw("rect", { class: "ground", width: 14, height: 14 }),
        draw("rect", { class: "swatch", width: 14, height: 14,
          "fill-opacity": Math.sqrt(weight).toFixed(3) })), `${weight}`)));

  const download = (file, text, type) => {
    const link = make("a", { download: file, href: URL.createObjectURL(new Blob([text], { type })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };

  // A drawing as a standalone SVG file, with the page's current colours.
  const standaloneSVG = (svg) => {
    const copy = svg.cloneNode(true);
    const colour = (selector) => getComputedStyle(svg.querySelector(selector) ?? svg).fill;
    copy.setAttribute("xmlns", SVG);
    copy.prepend(draw("style"), draw("rect", { width: "100%", height: "100%",
      fill: getComputedStyle(svg.closest(".panel")).backgroundColor }));
    copy.querySelector("style").textContent =
      `text{font:13px sans-serif;fill:${colour("text")}}.soft{fill-opacity:.55}`
      + `.ground{fill:${colour(".ground")}}.cells rect{fill:${colour(".cells rect")}}`;
    copy.querySelectorAll(".on").forEach((mark) => mark.classList.remove("on"));
    return new XMLSerializer().serializeToString(copy);
  };

  return { make, draw, formatWeight, labelWidth, label, thumbnail, opacityScale, download, standaloneSVG };
})();
