/** What the explorer's panels are made of: tables and heat maps. They know nothing of the model. */

const panels = (() => {
  const create = (tag, properties = {}, ...children) => {
    const { key, ...rest } = properties;
    const node = Object.assign(document.createElement(tag), rest);
    if (key) node.dataset.key = key;
    node.append(...children);
    return node;
  };

  const signed = (value, digits) => {
    const text = value.toFixed(digits);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };
  const number = (value) => (value === -Infinity ? "−∞" : signed(value, 2));
  const shown = (piece) => piece.replace("▁", "") || "␣";

  /** A part of the page that scrolls by itself, also with the arrow keys. */
  function scrolling(label, key, content) {
    const box = create("div", { className: "scroll", tabIndex: 0, key }, content);
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", label);
    return box;
  }

  /**
   * A row for each query, a column for each key.
   *
   * @param {Matrix} matrix
   * @param {{queries: string[], memory: string[], row: number}} labels with the selected row
   * @param {(cell: HTMLElement, place: {row, column, value}) => void} [decorate]
   */
  function numberTable({ rows, columns, data }, { queries, memory, row: selected }, decorate) {
    const largest = Math.max(0, ...Array.from(data).filter(Number.isFinite));
    const heading = (piece, scope, current) =>
      create("th", { scope, textContent: shown(piece), className: current ? "selected" : "" });
    const head = create("tr", {}, create("td"), ...memory.map((piece) => heading(piece, "col")));
    const lines = Array.from({ length: rows }, (_, row) => {
      const line = create("tr", {}, heading(queries[row], "row", row === selected));
      for (let column = 0; column < columns; column++) {
        const value = data[row * columns + column];
        const share = largest ? Math.max(0, value / largest) : 0;
        const cell = create("td", { textContent: number(value) });
        if (value === -Infinity) cell.className = "masked";
        else cell.style.setProperty("--share", share.toFixed(3));
        decorate?.(cell, { row, column, value });
        line.append(cell);
      }
      return line;
    });
    return create("table", { className: "numbers" }, create("tbody", {}, head, ...lines));
  }

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const clamp = (value, count) => Math.min(count - 1, Math.max(0, value));

  /** Where an arrow key leads in a table of this size; undefined for another key. */
  function moved({ row, column }, key, { rows, columns }) {
    const move = MOVES[key];
    return move && { row: clamp(row + move[0], rows), column: clamp(column + move[1], columns) };
  }

  /** A matrix as an image: a row for each position; the value under the pointer is written below. */
  function heatMap({ rows, columns, data }, { labels, row, selected, key }) {
    const [width, height] = [Math.max(2, Math.min(12, Math.floor(900 / columns))), 18];
    const canvas = create("canvas", { className: "heat", width: columns * width, height: rows * height, key });
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${rows} × ${columns} numbers; arrow keys read them out below`);
    const reading = create("p", { className: "reading" });
    reading.setAttribute("aria-live", "polite");
    paint(canvas, { rows, columns, data, width, height });
    let cursor = { row: clamp(row, rows), column: 0 };
    const read = (place) => {
      cursor = place;
      const value = data[cursor.row * columns + cursor.column];
      reading.textContent = `${shown(labels[cursor.row])}, dimension ${cursor.column + 1}: ${signed(value, 4)}`;
    };
    canvas.addEventListener("pointermove", ({ offsetX, offsetY }) =>
      read({
        row: clamp(Math.floor(offsetY / height), rows),
        column: clamp(Math.floor(offsetX / width), columns),
      }),
    );
    canvas.addEventListener("keydown", (event) => {
      const place = moved(cursor, event.key, { rows, columns });
      if (!place) return;
      event.preventDefault();
      read(place);
    });
    const names = labels.slice(0, rows).map((piece, index) =>
      create("div", {
        className: selected && index === row ? "label selected" : "label",
        textContent: shown(piece),
      }),
    );
    const grid = create("div", { className: "rows" }, create("div", {}, ...names), canvas);
    return create("div", {}, create("div", { className: "scroll" }, grid), reading);
  }

  function paint(canvas, { rows, columns, data, width, height, gap = 1 }) {
    const context = canvas.getContext("2d");
    let largest = 0;
    for (const value of data) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
    const [positive, negative] = ["--heat", "--warm"].map(colour);
    for (let index = 0; index < rows * columns; index++) {
      const share = largest ? data[index] / largest : 0;
      context.globalAlpha = Math.min(1, Math.abs(share));
      context.fillStyle = share < 0 ? negative : positive;
      context.fillRect((index % columns) * width, Math.floor(index / columns) * height, width, height - gap);
    }
  }

  /** A small heat map without labels. */
  function thumbnail(matrix) {
    const [width, height] = [matrix.columns, matrix.rows].map((count) => Math.round(clamp(72 / count, 9)) || 1);
    const canvas = create("canvas", { width: matrix.columns * width, height: matrix.rows * height });
    paint(canvas, { ...matrix, width, height, gap: 0 });
    return canvas;
  }

  /** A colour of the current scheme, as the canvas needs it. */
  function colour(name) {
    const probe = create("span");
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  }

  /** @param {string} id of the step; @param {string} title */
  function panel(id, title, ...content) {
    const section = create("section", { className: "step", id: `step-${id}` });
    section.setAttribute("aria-labelledby", `title-${id}`);
    section.append(create("h3", { id: `title-${id}`, textContent: title, tabIndex: -1, key: `title-${id}` }), ...content);
    return section;
  }

  /** A formula with what follows _ below the line and what follows ^ above it. */
  function typeset(text) {
    return text.split(/([_^](?:\([^)]*\)|\w+))/).map((part) => {
      if (!/^[_^]./.test(part)) return part;
      const inner = typeset(part.slice(1).replace(/^\((.*)\)$/, "$1"));
      return create(part[0] === "_" ? "sub" : "sup", {}, ...inner);
    });
  }

  const note = (text) => create("p", { className: "note", textContent: text });

  return { create, heatMap, moved, note, number, numberTable, panel, scrolling, shown, signed, thumbnail, typeset };
})();
