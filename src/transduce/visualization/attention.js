// The interactive attention view: lines between pieces, a heat map, selection of a head.
// AttentionView.mount(container, data, selection) draws it and keeps `selection` up to date.
window.AttentionView ??= (() => {
  const { KINDS, headMatrix, selectWeights, headStatistics, sharpestHead, headAnswers, findPronoun } =
    window.AttentionWeights;
  const { make, draw, formatWeight, labelWidth, label, thumbnail, opacityScale, download, standaloneSVG } =
    window.Drawing;
  const CELL = 24;
  const ROW = 26;
  const LABEL_ANGLE = Math.PI / 3;
  const MIN_WEIGHT = 0.01; // fainter lines are not drawn
  const HELP = "Hover over a piece or a cell; click to pin a piece. Keys: Tab, arrows, Enter, Esc.";
  const WARNING = "Attention weights are not an explanation: they need not be the reason for a prediction "
    + "(Jain and Wallace 2019; Wiegreffe and Pinter 2019).";

  const percent = (share) => `${(100 * share).toFixed(0)} %`;

  const DEFAULTS = { kind: "cross", kindChosen: false, layer: null, head: "mean", words: false, ends: true };

  const mounted = new WeakMap(); // container → AbortController of its document listeners

  const mount = (container, data, selection = {}) => {
    for (const [name, value] of Object.entries(DEFAULTS)) selection[name] ??= value;
    if (!selection.kindChosen) selection.kind = findPronoun(data)?.kind ?? DEFAULTS.kind;
    let view = null; // rows, columns, weights
    let pinned = null; // { side: "row" | "column", index }
    let hovered = null;
    let hoveredCell = null; // [row, column]

    const clampSelection = () => {
      const layers = data[selection.kind];
      selection.layer = Math.min(selection.layer ?? layers.length - 1, layers.length - 1);
      if (selection.head !== "mean" && selection.head >= layers[0].length) selection.head = "mean";
    };

    // ---- elements ----------------------------------------------------------------------
    const select = (name, title) => {
      const box = make("select", { name, "aria-label": title });
      return [box, make("label", {}, make("span", {}, title), box)];
    };
    const checkbox = (name, title) => {
      const box = make("input", { type: "checkbox", name });
      return [box, make("label", { class: "tick" }, box, make("span", {}, title))];
    };
    const button = (text, onClick) => {
      const element = make("button", { type: "button", class: "quiet" }, text);
      element.addEventListener("click", onClick);
      return element;
    };
    const [kindBox, kindLabel] = select("kind", "Attention");
    const [layerBox, layerLabel] = select("layer", "Layer");
    const [headBox, headLabel] = select("head", "Head");
    const [wordsBox, wordsLabel] = checkbox("words", "Whole words");
    const [endsBox, endsLabel] = checkbox("ends", "Hide </s>");
    for (const [kind, { name }] of Object.entries(KINDS)) kindBox.append(new Option(name, kind));
    wordsBox.checked = selection.words;
    endsBox.checked = !selection.ends;

    const about = make("p", { class: "note about" });
    const hint = make("p", { class: "note hint" });
    const grid = make("div", { class: "heads", role: "radiogroup", "aria-label": "Layer and head" });
    const lines = make("div", { class: "lines" });
    const heatmap = make("div", { class: "heat" });
    const readout = make("p", { class: "readout", role: "status" }, HELP);
    const answers = make("div", { class: "panel answers", hidden: "" });
    const strongest = make("div");
    const downloads = make("span", { class: "downloads" },
      button("Save SVG", () => download(`${fileName()}.svg`, standaloneSVG(heatmap.querySelector("svg")), "image/svg+xml")),
      button("Save JSON", () => download("attention.json", JSON.stringify(data), "application/json")));
    const form = make("form", { class: "controls" },
      kindLabel, layerLabel, headLabel, wordsLabel, endsLabel, downloads);
    container.replaceChildren(
      form, about,
      make("div", { class: "panel overview" },
        make("div", {}, make("h4", {}, "Every layer and head"), make("div", { class: "scroll" }, grid)),
        hint),
      readout,
      answers,
      make("div", { class: "panels" },
        make("div", { class: "panel" }, make("h4", {}, "Connections"), lines),
        make("div", { class: "panel wide" }, make("h4", {}, "Weights"), heatmap, opacityScale())),
      make("details", {}, make("summary", {}, "Largest weight of each piece, as a table"), strongest),
      make("p", { class: "note warning" }, WARNING));

    // ---- drawing -----------------------------------------------------------------------
    const fillSelect = (box, options, value) => {
      box.replaceChildren(...options.map(([text, optionValue]) => new Option(text, optionValue)));
      box.value = `${value}`;
    };
    const numbered = (length) => Array.from({ length }, (_, index) => [`${index + 1}`, index]);

    const drawThumbnails = () => {
      const layers = data[selection.kind];
      grid.style.setProperty("--columns", layers[0].length + 1);
      const tops = [...numbered(layers[0].length).map(([text]) => text), "mean"];
      grid.replaceChildren(make("span"),
        ...tops.map((text) => make("span", { class: "top", "aria-hidden": "true" }, text)));
      layers.forEach((heads, layer) => {
        grid.append(make("span", { class: "side", "aria-hidden": "true" }, `L${layer + 1}`));
        [...heads.keys(), "mean"].forEach((head) => {
          const title = head === "mean" ? "mean of all heads" : `head ${head + 1}`;
          grid.append(make("button", {
            type: "button", role: "radio", "data-layer": layer, "data-head": head,
            "aria-label": `Layer ${layer + 1}, ${title}`, title: `Layer ${layer + 1}, ${title}`,
          }, thumbnail(headMatrix(heads, head))));
        });
      });
    };

    const describeHead = () => {
      const layers = data[selection.kind];
      const matrix = headMatrix(layers[selection.layer], selection.head);
      const { bits, pattern, share } = headStatistics(data, selection.kind, matrix);
      const sharpest = sharpestHead(data, selection.kind);
      const name = headName();
      const target = pattern ? ` ${percent(share)} of the weight is on ${pattern}.` : "";
      const link = button(`layer ${sharpest.layer + 1}, head ${sharpest.head + 1}`, () => {
        Object.assign(selection, { layer: sharpest.layer, head: sharpest.head });
        render();
      });
      hint.replaceChildren(
        make("strong", {}, name[0].toUpperCase() + name.slice(1)), make("br"),
        `Mean attention entropy: ${bits.toFixed(2)} bits (0 = all weight on one token).${target}`,
        make("br"), "Sharpest head: ", link,
        ` (mean largest weight ${formatWeight(sharpest.weight)}).`);
      about.textContent = `${KINDS[selection.kind].about} ${selection.words
        ? "Words: the weights of a word's pieces are summed over keys and averaged over queries."
        : ""} ${selection.ends ? ""
        : "Without the sentence ends, rows no longer sum to 1."}`.trim();
    };

    const render = () => {
      clampSelection();
      const layers = data[selection.kind];
      const heads = [...numbered(layers[0].length), ["mean", "mean"]];
      kindBox.value = selection.kind;
      fillSelect(layerBox, numbered(layers.length), selection.layer);
      fillSelect(headBox, heads, selection.head);
      if (grid.dataset.kind !== selection.kind) drawThumbnails();
      grid.dataset.kind = selection.kind;
      for (const cell of grid.querySelectorAll("button")) {
        const on = +cell.dataset.layer === selection.layer && cell.dataset.head === `${selection.head}`;
        cell.setAttribute("aria-checked", on);
        cell.tabIndex = on ? 0 : -1;
      }
      view = selectWeights(data, selection);
      hovered = hoveredCell = null;
      if (pinned && pinned.index >= (pinned.side === "row" ? view.rows : view.columns).length) {
        pinned = null;
      }
      describeHead();
      drawTable();
      drawLines();
      drawHeatmap();
      highlight();
    };

    const drawLines = () => {
      const list = (groups, side, title) => make("ol", { class: `side ${side}`, "aria-label": title },
        ...groups.map((group, index) => make("li", {},
          make("button", { type: "button", "data-side": side, "data-index": index,
            "aria-pressed": "false", title: group.text,
            tabindex: side === "row" && index === 0 ? 0 : -1 },
            ...label(group.text, () => make("span"))),
          make("span", { class: "value" }))));
      const { queries, keys } = KINDS[selection.kind];
      const height = Math.max(view.rows.length, view.columns.length) * ROW;
      lines.replaceChildren(
        make("span", { class: "head" }, queries), make("span", { class: "head" }, "attends to"),
        make("span", { class: "head" }, keys),
        list(view.rows, "row", `Queries: ${queries}`),
        draw("svg", { class: "links", viewBox: `0 0 100 ${height}`, height,
          preserveAspectRatio: "none", "aria-hidden": "true" }),
        list(view.columns, "column", `Keys: ${keys}`));
    };

    const drawHeatmap = () => {
      const { rows, columns, weights } = view;
      const widest = Math.max(0, ...columns.map((column) => labelWidth(column.text)));
      const left = Math.max(0, ...rows.map((row) => labelWidth(row.text))) + 8;
      const top = widest * Math.sin(LABEL_ANGLE) + 14;
      const width = (left + columns.length * CELL + widest * Math.cos(LABEL_ANGLE) + 4).toFixed(0);
      const height = (top + rows.length * CELL + 2).toFixed(0);
      const cells = draw("g", { class: "cells" });
      weights.forEach((line, row) => line.forEach((weight, column) => cells.append(draw("rect", {
        x: left + column * CELL, y: top + row * CELL, width: CELL - 1, height: CELL - 1,
        "fill-opacity": Math.sqrt(weight).toFixed(3), "data-row": row, "data-column": column,
      }))));
      const svg = draw("svg", { role: "img", "aria-label": `${KINDS[selection.kind].name}, ${headName()}`,
        width, height, viewBox: `0 0 ${width} ${height}` },
        draw("rect", { class: "ground", x: left, y: top, width: Math.max(0, columns.length * CELL - 1),
          height: Math.max(0, rows.length * CELL - 1) }),
        ...rows.map((row, index) => draw("text", { class: "row", "data-side": "row", "data-index": index,
          x: left - 6, "text-anchor": "end", y: top + (index + 0.5) * CELL + 4.5 }, ...label(row.text, () => draw("tspan")))),
        ...columns.map((column, index) => draw("text", { class: "column", "data-side": "column",
          "data-index": index, transform:
          `translate(${(left + (index + 0.5) * CELL + 3).toFixed(1)} ${(top - 6).toFixed(1)}) rotate(-60)` },
          ...label(column.text, () => draw("tspan")))),
        cells);
      const box = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label":
        `Heat map, ${rows.length} rows by ${columns.length} columns: use the arrow keys to move between cells` },
        svg);
      cells.addEventListener("pointerover", (event) => {
        const { row, column } = event.target.dataset;
        if (row !== undefined) { hoveredCell = [+row, +column]; highlight(); }
      });
      cells.addEventListener("pointerleave", () => { hoveredCell = null; highlight(); });
      box.addEventListener("keydown", moveCell);
      box.addEventListener("blur", () => { hoveredCell = null; highlight(); });
      heatmap.replaceChildren(box);
    };

    const drawTable = () => {
      const { rows, columns, weights } = view;
      const body = rows.map((row, index) => {
        const best = weights[index].indexOf(Math.max(...weights[index]));
        return make("tr", {}, make("td", {}, row.text), make("td", {}, columns[best]?.text ?? ""),
          make("td", { class: "number" }, columns.length ? formatWeight(weights[index][best]) : ""));
      });
      strongest.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region",
        "aria-label": "Table" }, make("table", {},
        make("thead", {}, make("tr", {}, make("th", {}, "piece"), make("th", {}, "attends most to"),
          make("th", { class: "number" }, "weight"))), make("tbody", {}, ...body))));
    };

    // Shows the lines of the hovered (else the pinned) piece only, and its weights beside the others.
    const highlight = () => {
      const { rows, columns, weights } = view;
      const focus = hoveredCell ? { side: "row", index: hoveredCell[0] } : hovered ?? pinned;
      const isShown = (row, column) => !focus
        || (focus.side === "row" ? row === focus.index : column === focus.index);
      const paths = [];
      weights.forEach((line, row) => line.forEach((weight, column) => {
        if (weight < MIN_WEIGHT || !isShown(row, column)) return;
        const [from, to] = [(row + 0.5) * ROW, (column + 0.5) * ROW];
        paths.push(draw("path", { d: `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`,
          "stroke-opacity": weight.toFixed(3), "data-row": row, "data-column": column }));
      }));
      lines.querySelector(".links").replaceChildren(...paths);
      lines.classList.toggle("focused", focus !== null);
      for (const piece of lines.querySelectorAll("li button")) {
        const { side } = piece.dataset;
        const index = +piece.dataset.index;
        const weight = focus && side !== focus.side
          ? (side === "row" ? weights[index][focus.index] : weights[focus.index][index]) : null;
        piece.classList.toggle("on", focus?.side === side && focus.index === index);
        piece.setAttribute("aria-pressed", pinned?.side === side && pinned.index === index);
        piece.style.setProperty("--w", weight === null ? 0 : Math.sqrt(weight).toFixed(3));
        piece.nextSibling.textContent =
          weight !== null && weight >= MIN_WEIGHT ? formatWeight(weight) : "";
      }
      for (const element of heatmap.querySelectorAll("rect.on, text.on")) element.classList.remove("on");
      const mark = (selector, index) =>
        heatmap.querySelectorAll(selector)[index]?.classList.add("on");
      if (hoveredCell) {
        mark("text.row", hoveredCell[0]);
        mark("text.column", hoveredCell[1]);
        mark(".cells rect", hoveredCell[0] * columns.length + hoveredCell[1]);
      } else if (focus) {
        mark(`text.${focus.side}`, focus.index);
      }
      readout.textContent = describeFocus(focus, rows, columns, weights);
      drawAnswers();
    };

    // Every head's answer for the pinned piece; the mean of the heads would hide a sharp one.
    const drawAnswers = () => {
      const key = pinned && JSON.stringify([pinned, selection]);
      answers.hidden = !pinned;
      if (!pinned || answers.dataset.key === key) return;
      const focused = answers.contains(document.activeElement) ? document.activeElement.dataset : null;
      answers.dataset.key = key;
      const isRow = pinned.side === "row";
      const { text } = (isRow ? view.rows : view.columns)[pinned.index];
      answers.replaceChildren(
        make("h4", {}, isRow ? `What each head attends to most for ${text}` : `What attends most to ${text} in each head`),
        make("ol", {}, ...headAnswers(data, selection.kind, view, pinned).map((answer) => {
          const { layer, head } = answer;
          const item = make("button", { type: "button", "data-layer": layer, "data-head": head,
            "aria-pressed": layer === selection.layer && head === selection.head },
            make("span", { class: "piece" }, ...label(answer.text, () => make("span"))),
            make("span", { class: "value" }, ` ${answer.weight.toFixed(4)} `),
            make("span", { class: "head" }, `layer ${layer + 1}, head ${head + 1}`));
          item.style.setProperty("--w", Math.sqrt(answer.weight).toFixed(3));
          return make("li", {}, item);
        })));
      if (focused) {
        answers.querySelector(`[data-layer="${focused.layer}"][data-head="${focused.head}"]`)?.focus();
      }
    };

    const describeFocus = (focus, rows, columns, weights) => {
      if (!focus) return HELP;
      if (hoveredCell) {
        const [row, column] = hoveredCell;
        return `${rows[row].text} attends to ${columns[column].text}: ${weights[row][column].toFixed(3)}`;
      }
      const isRow = focus.side === "row";
      const strongestPieces = (isRow ? columns : rows)
        .map((group, index) =>
          [group.text, isRow ? weights[focus.index][index] : weights[index][focus.index]])
        .sort(([, first], [, second]) => second - first).slice(0, 3)
        .filter(([, weight]) => weight >= MIN_WEIGHT)
        .map(([text, weight]) => `${text} ${formatWeight(weight)}`);
      const name = (isRow ? rows : columns)[focus.index].text;
      const pin = pinned && !hovered ? " · pinned, Esc to unpin" : "";
      return `${name} ${isRow ? "attends most to" : "is attended to most by"} `
        + `${strongestPieces.join(", ") || "—"}${pin}`;
    };

    // ---- events ------------------------------------------------------------------------
    const pieceOf = (event) => {
      const piece = event.target.closest?.("[data-side]");
      return piece && { side: piece.dataset.side, index: +piece.dataset.index };
    };
    const isSame = (piece, other) => piece?.side === other?.side && piece?.index === other?.index;
    const hover = (event) => { hovered = pieceOf(event) ?? null; highlight(); };
    const leave = () => { hovered = null; highlight(); };
    for (const panel of [lines, heatmap]) { // pieces, and the labels of the heat map
      panel.addEventListener("pointerover", hover);
      panel.addEventListener("pointerleave", leave);
      panel.addEventListener("click", (event) => {
        const piece = pieceOf(event);
        if (!piece) return;
        pinned = isSame(pinned, piece) ? null : piece;
        highlight();
      });
    }
    lines.addEventListener("focusin", hover);
    lines.addEventListener("focusout", leave);
    answers.addEventListener("click", (event) => {
      const answer = event.target.closest("button");
      if (!answer) return;
      Object.assign(selection, { layer: +answer.dataset.layer, head: +answer.dataset.head });
      render();
    });
    lines.addEventListener("keydown", (event) => {
      const piece = pieceOf(event);
      if (!piece) return;
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
      const side = { ArrowLeft: "row", ArrowRight: "column" }[event.key] ?? piece.side;
      if (step === 0 && side === piece.side) return;
      event.preventDefault();
      const pieces = [...lines.querySelectorAll(`[data-side="${side}"]`)];
      const next = pieces[Math.min(Math.max(piece.index + step, 0), pieces.length - 1)];
      lines.querySelectorAll("li button").forEach((other) => { other.tabIndex = other === next ? 0 : -1; });
      next?.focus();
    });
    // Esc works wherever the focus is: a redraw may have removed the piece that had it.
    mounted.get(container)?.abort();
    const listeners = new AbortController();
    mounted.set(container, listeners);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && pinned) { pinned = null; highlight(); }
    }, { signal: listeners.signal });

    const moveCell = (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = hoveredCell ? [hoveredCell[0] + step[0], hoveredCell[1] + step[1]] : [0, 0];
      if (view.weights[next[0]]?.[next[1]] === undefined) return;
      hoveredCell = next;
      highlight();
      heatmap.querySelector("rect.on").scrollIntoView({ block: "nearest", inline: "nearest" });
    };

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => {
      const next = {
        kind: kindBox.value,
        layer: kindBox.value === selection.kind ? +layerBox.value : null, // the last layer of the new kind
        head: headBox.value === "mean" ? "mean" : +headBox.value,
        words: wordsBox.checked,
        ends: !endsBox.checked,
      };
      if (next.kind !== selection.kind) next.kindChosen = true; // the next sentence keeps it
      // A change of layer or head leaves the pieces unchanged, so the pin stays.
      if (["kind", "words", "ends"].some((name) => next[name] !== selection[name])) pinned = null;
      Object.assign(selection, next);
      render();
    });
    grid.addEventListener("click", (event) => {
      const cell = event.target.closest("button");
      if (!cell) return;
      const { layer, head } = cell.dataset;
      Object.assign(selection, { layer: +layer, head: head === "mean" ? "mean" : +head });
      render();
    });
    grid.addEventListener("keydown", (event) => {
      const columns = data[selection.kind][0].length + 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      const cells = [...grid.querySelectorAll("button")];
      const next = cells[cells.indexOf(document.activeElement) + step];
      if (!step || !next) return;
      event.preventDefault();
      next.click();
      next.focus();
    });

    // ---- names -------------------------------------------------------------------------
    const headName = () => {
      const head = selection.head === "mean" ? "mean of all heads" : `head ${selection.head + 1}`;
      return `layer ${selection.layer + 1}, ${head}`;
    };
    const fileName = () => `attention-${selection.kind}-layer${selection.layer + 1}-`
      + (selection.head === "mean" ? "mean" : `head${selection.head + 1}`);
    render();
    const pronoun = findPronoun(data, [selection.kind]);
    if (pronoun) {
      pinned = { side: "row", index: view.rows.findIndex(({ indices }) => indices.includes(pronoun.piece)) };
    }
    highlight();
  };

  // A figure in a file embeds its data; the page of `transduce serve` mounts the server's response.
  const mountFigures = () => {
    for (const figure of document.querySelectorAll("figure.attention:not([data-mounted])")) {
      figure.dataset.mounted = "";
      const embedded = figure.querySelector('script[type="application/json"]');
      mount(figure.querySelector(".view"), JSON.parse(embedded.textContent));
    }
  };
  return { mount, mountFigures };
})();
window.AttentionView.mountFigures();
