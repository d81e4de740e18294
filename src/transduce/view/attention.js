// The choice of kind, layer and head of the figure that this script stands in.
(() => {
  const figure = document.currentScript.closest("figure");
  const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
  const form = figure.querySelector(".controls");
  const { kind, layer, head } = form.elements;
  const maps = [...figure.querySelectorAll(".map")];
  const readout = figure.querySelector(".readout");
  const said = (thousandths) => (thousandths / 1000).toFixed(3);
  let shown = [];
  let place = null;

  const fill = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
    select.value = options.some(([value]) => value === chosen) ? chosen : options.at(-1)[0];
  };

  const choose = () => {
    const layers = data[kind.value].weights;
    const numbers = (many, what) => Array.from(many, (_, at) => [`${at}`, `${what}${at + 1}`]);
    fill(layer, numbers(layers, ""), layer.value);
    const heads = [...numbers(layers[0], ""), ["mean", "mean of all"]];
    fill(head, heads, head.value);
  };

  const show = () => {
    const { name, rows, columns, weights } = data[kind.value];
    const heads = weights[layer.value];
    const mean = head.value === "mean";
    shown = mean
      ? heads[0].map((_, at) => heads.reduce((sum, one) => sum + one[at], 0) / heads.length)
      : heads[head.value];
    for (const map of maps) map.hidden = map.dataset.kind !== kind.value;
    const map = maps.find((one) => !one.hidden);
    map.querySelectorAll(".cells rect").forEach((cell, at) => {
      const [row, column] = [Math.floor(at / columns.length), at % columns.length];
      cell.setAttribute("fill-opacity", Math.sqrt(shown[at] / 1000).toFixed(3));
      cell.firstChild.textContent = `${rows[row]} → ${columns[column]}  ${said(shown[at])}`;
    });
    map.querySelectorAll("tbody tr").forEach((line, row) => {
      const part = shown.slice(row * columns.length, (row + 1) * columns.length);
      const most = Math.max(...part);
      line.cells[1].textContent = columns[part.indexOf(most)];
      line.cells[2].textContent = said(most);
    });
    const which = mean ? `mean of ${heads.length} heads` : `head ${+head.value + 1}`;
    figure.querySelector(".shown").textContent =
      `${name}, layer ${+layer.value + 1} of ${weights.length}, ${which}`;
    point(map, null);
  };

  const point = (map, at) => {
    const { rows, columns } = data[kind.value];
    map.querySelectorAll(".on").forEach((one) => one.classList.remove("on"));
    place = at;
    readout.textContent = "Point at a cell, or move from cell to cell with the arrow keys.";
    if (at === null) return;
    const [row, column] = [Math.floor(at / columns.length), at % columns.length];
    const cell = map.querySelectorAll(".cells rect")[at];
    cell.classList.add("on");
    map.querySelectorAll("text.row")[row].classList.add("on");
    map.querySelectorAll("text.column")[column].classList.add("on");
    readout.textContent = `${rows[row]} looks at ${columns[column]}: ${said(shown[at])}`;
    return cell;
  };

  const move = (event) => {
    const wide = data[kind.value].columns.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = place === null ? 0 : place + step;
    const map = event.currentTarget.closest(".map");
    const leaves = Math.abs(step) === 1 && place !== null
      && Math.floor(next / wide) !== Math.floor(place / wide);
    if (next < 0 || next >= shown.length || leaves) return;
    point(map, next).scrollIntoView({ block: "nearest", inline: "nearest" });
  };

  for (const map of maps) {
    const cells = [...map.querySelectorAll(".cells rect")];
    const under = (event) => {
      const at = cells.indexOf(event.target.closest("rect"));
      if (at >= 0) point(map, at);
    };
    map.querySelector(".cells").addEventListener("pointerover", under);
    map.querySelector(".scroll").addEventListener("keydown", move);
  }
  kind.addEventListener("change", () => { choose(); show(); });
  layer.addEventListener("change", show);
  head.addEventListener("change", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  choose();
  form.hidden = readout.hidden = false;
  show();
})();
