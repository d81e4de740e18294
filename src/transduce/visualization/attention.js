// The view of what a model looked at: lines between pieces, a heat map, a choice of head.
// AttentionView.mount(container, data, choice) draws it; `choice` is kept up to date.
window.AttentionView ??= (() => {
  const { KINDS, chosen, seen, habit, clearest } = window.Look;
  const { make, draw, said, width, label, thumbnail, scale, save, alone } = window.Draw;
  const CELL = 24;
  const ROW = 26;
  const SLANT = Math.PI / 3;
  const LEAST = 0.01; // a line that is fainter is not drawn
  const REST = "Point at a piece or a cell; a click pins a piece. Keys: Tab, arrows, Enter, Esc.";
  const WARNING = "Attention is a trace, not an explanation: what a head looks at need not be why "
    + "the model says a word (Jain and Wallace 2019; Wiegreffe and Pinter 2019).";

  const DEFAULTS = { kind: "cross", layer: null, head: "mean", words: false, ends: true };

  const mounted = new WeakMap(); // what to end when a container is drawn into anew

  const mount = (container, data, choice = {}) => {
    for (const [name, value] of Object.entries(DEFAULTS)) choice[name] ??= value;
    let shown = null; // rows, columns, weights
    let pinned = null; // { side: "row" | "column", at }
    let pointed = null;
    let cellAt = null;

    const settle = () => {
      const layers = data[choice.kind];
      choice.layer = Math.min(choice.layer ?? layers.length - 1, layers.length - 1);
      if (choice.head !== "mean" && choice.head >= layers[0].length) choice.head = "mean";
    };

    // ---- what stands there -------------------------------------------------------------
    const select = (name, title) => {
      const box = make("select", { name, "aria-label": title });
      return [box, make("label", {}, make("span", {}, title), box)];
    };
    const tick = (name, title) => {
      const box = make("input", { type: "checkbox", name });
      return [box, make("label", { class: "tick" }, box, make("span", {}, title))];
    };
    const button = (text, what) => {
      const one = make("button", { type: "button", class: "quiet" }, text);
      one.addEventListener("click", what);
      return one;
    };
    const [kindBox, kindLabel] = select("kind", "Attention");
    const [layerBox, layerLabel] = select("layer", "Layer");
    const [headBox, headLabel] = select("head", "Head");
    const [wordsBox, wordsLabel] = tick("words", "Whole words");
    const [endsBox, endsLabel] = tick("ends", "Hide </s>");
    for (const [kind, { name }] of Object.entries(KINDS)) kindBox.append(new Option(name, kind));
    wordsBox.checked = choice.words;
    endsBox.checked = !choice.ends;

    const about = make("p", { class: "note about" });
    const hint = make("p", { class: "note hint" });
    const grid = make("div", { class: "heads", role: "radiogroup", "aria-label": "Layer and head" });
    const lines = make("div", { class: "lines" });
    const map = make("div", { class: "heat" });
    const readout = make("p", { class: "readout", role: "status" }, REST);
    const most = make("div");
    const saves = make("span", { class: "saves" },
      button("Save SVG", () => save(`${name()}.svg`, alone(map.querySelector("svg")), "image/svg+xml")),
      button("Save JSON", () => save("attention.json", JSON.stringify(data), "application/json")));
    const form = make("form", { class: "controls" },
      kindLabel, layerLabel, headLabel, wordsLabel, endsLabel, saves);
    container.replaceChildren(
      form, about,
      make("div", { class: "panel pick" },
        make("div", {}, make("h4", {}, "Every layer and head"), make("div", { class: "scroll" }, grid)),
        hint),
      readout,
      make("div", { class: "panels" },
        make("div", { class: "panel" }, make("h4", {}, "Who looks at whom"), lines),
        make("div", { class: "panel wide" }, make("h4", {}, "Weights"), map, scale())),
      make("details", {}, make("summary", {}, "What each piece looks at most, as a table"), most),
      make("p", { class: "note warning" }, WARNING));

    // ---- drawing -----------------------------------------------------------------------
    const refill = (box, options, value) => {
      box.replaceChildren(...options.map(([text, one]) => new Option(text, one)));
      box.value = `${value}`;
    };
    const count = (many) => Array.from({ length: many }, (_, at) => [`${at + 1}`, at]);

    const pictures = () => {
      const layers = data[choice.kind];
      grid.style.setProperty("--columns", layers[0].length + 1);
      const tops = [...count(layers[0].length).map(([text]) => text), "mean"];
      grid.replaceChildren(make("span"),
        ...tops.map((text) => make("span", { class: "top", "aria-hidden": "true" }, text)));
      layers.forEach((heads, layer) => {
        grid.append(make("span", { class: "side", "aria-hidden": "true" }, `L${layer + 1}`));
        [...heads.keys(), "mean"].forEach((head) => {
          const spoken = head === "mean" ? "mean of all heads" : `head ${head + 1}`;
          grid.append(make("button", {
            type: "button", role: "radio", "data-layer": layer, "data-head": head,
            "aria-label": `Layer ${layer + 1}, ${spoken}`, title: `Layer ${layer + 1}, ${spoken}`,
          }, thumbnail(chosen(heads, head))));
        });
      });
    };

    const tell = () => {
      const layers = data[choice.kind];
      const { bits, where, share } = habit(data, choice.kind, chosen(layers[choice.layer], choice.head));
      const best = clearest(data, choice.kind);
      const way = where ? ` It looks mostly ${where} (${said(share)}).` : "";
      const go = button(`layer ${best.layer + 1}, head ${best.head + 1}`, () => {
        Object.assign(choice, { layer: best.layer, head: best.head });
        render();
      });
      const here = which();
      hint.replaceChildren(
        make("strong", {}, here[0].toUpperCase() + here.slice(1)),
        ` spreads a look over ${bits.toFixed(2)} bits on average; 0 bits is one piece alone.${way}`,
        make("br"), "The head that points most clearly is ", go,
        `: ${said(best.share)} of a look goes to one piece.`);
      about.textContent = `${KINDS[choice.kind].about} ${choice.words
        ? "Words: the weights of a word's pieces are summed where it is looked at, averaged where "
          + "it looks." : ""} ${choice.ends ? ""
        : "Without the ends of the sentence, rows no longer sum to 1."}`.trim();
    };

    const render = () => {
      settle();
      const layers = data[choice.kind];
      const heads = [...count(layers[0].length), ["mean", "mean"]];
      kindBox.value = choice.kind;
      refill(layerBox, count(layers.length), choice.layer);
      refill(headBox, heads, choice.head);
      if (grid.dataset.kind !== choice.kind) pictures();
      grid.dataset.kind = choice.kind;
      for (const one of grid.querySelectorAll("button")) {
        const on = +one.dataset.layer === choice.layer && one.dataset.head === `${choice.head}`;
        one.setAttribute("aria-checked", on);
        one.tabIndex = on ? 0 : -1;
      }
      shown = seen(data, choice);
      pointed = cellAt = null;
      if (pinned && pinned.at >= (pinned.side === "row" ? shown.rows : shown.columns).length) {
        pinned = null;
      }
      tell();
      table();
      sides();
      heat();
      light();
    };

    const sides = () => {
      const side = (groups, which, title) => make("ol", { class: `side ${which}`, "aria-label": title },
        ...groups.map((group, at) => make("li", {},
          make("button", { type: "button", "data-side": which, "data-at": at, "aria-pressed": "false",
            tabindex: which === "row" && at === 0 ? 0 : -1, title: group.text },
            ...label(group.text, () => make("span"))),
          make("span", { class: "value" }))));
      const { looks, looked } = KINDS[choice.kind];
      const high = Math.max(shown.rows.length, shown.columns.length) * ROW;
      lines.replaceChildren(
        make("span", { class: "head" }, looks), make("span", { class: "head" }, "looks at"),
        make("span", { class: "head" }, looked),
        side(shown.rows, "row", `Who looks: ${looks}`),
        draw("svg", { class: "links", viewBox: `0 0 100 ${high}`, height: high,
          preserveAspectRatio: "none", "aria-hidden": "true" }),
        side(shown.columns, "column", `Looked at: ${looked}`));
    };

    const heat = () => {
      const { rows, columns, weights } = shown;
      const longest = Math.max(0, ...columns.map((one) => width(one.text)));
      const left = Math.max(0, ...rows.map((one) => width(one.text))) + 8;
      const top = longest * Math.sin(SLANT) + 14;
      const size = [left + columns.length * CELL + longest * Math.cos(SLANT) + 4,
        top + rows.length * CELL + 2];
      const cells = draw("g", { class: "cells" });
      weights.forEach((row, at) => row.forEach((weight, column) => cells.append(draw("rect", {
        x: left + column * CELL, y: top + at * CELL, width: CELL - 1, height: CELL - 1,
        "fill-opacity": Math.sqrt(weight).toFixed(3), "data-row": at, "data-column": column,
      }))));
      const svg = draw("svg", { role: "img", "aria-label": `${KINDS[choice.kind].name}, ${which()}`,
        width: size[0].toFixed(0), height: size[1].toFixed(0),
        viewBox: `0 0 ${size[0].toFixed(0)} ${size[1].toFixed(0)}` },
        draw("rect", { class: "ground", x: left, y: top, width: Math.max(0, columns.length * CELL - 1),
          height: Math.max(0, rows.length * CELL - 1) }),
        ...rows.map((one, at) => draw("text", { class: "row", x: left - 6, "text-anchor": "end",
          y: top + (at + 0.5) * CELL + 4.5 }, ...label(one.text, () => draw("tspan")))),
        ...columns.map((one, at) => draw("text", { class: "column", transform:
          `translate(${(left + (at + 0.5) * CELL + 3).toFixed(1)} ${(top - 6).toFixed(1)}) rotate(-60)` },
          ...label(one.text, () => draw("tspan")))),
        cells);
      const box = make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label":
        `Heat map, ${rows.length} rows by ${columns.length} columns: the arrow keys go from cell to cell` },
        svg);
      cells.addEventListener("pointerover", (event) => {
        const { row, column } = event.target.dataset;
        if (row !== undefined) { cellAt = [+row, +column]; light(); }
      });
      cells.addEventListener("pointerleave", () => { cellAt = null; light(); });
      box.addEventListener("keydown", walk);
      box.addEventListener("blur", () => { cellAt = null; light(); });
      map.replaceChildren(box);
    };

    const table = () => {
      const { rows, columns, weights } = shown;
      const body = rows.map((row, at) => {
        const best = weights[at].indexOf(Math.max(...weights[at]));
        return make("tr", {}, make("td", {}, row.text), make("td", {}, columns[best]?.text ?? ""),
          make("td", { class: "number" }, columns.length ? said(weights[at][best]) : ""));
      });
      most.replaceChildren(make("div", { class: "scroll", tabindex: "0", role: "region",
        "aria-label": "Table" }, make("table", {},
        make("thead", {}, make("tr", {}, make("th", {}, "piece"), make("th", {}, "looks most at"),
          make("th", { class: "number" }, "weight"))), make("tbody", {}, ...body))));
    };

    // What is pointed at, or else pinned, has its lines alone; its weights stand beside the others.
    const light = () => {
      const { rows, columns, weights } = shown;
      const focus = cellAt ? { side: "row", at: cellAt[0] } : pointed ?? pinned;
      const kept = (row, column) => !focus
        || (focus.side === "row" ? row === focus.at : column === focus.at);
      const paths = [];
      weights.forEach((line, row) => line.forEach((weight, column) => {
        if (weight < LEAST || !kept(row, column)) return;
        const [from, to] = [(row + 0.5) * ROW, (column + 0.5) * ROW];
        paths.push(draw("path", { d: `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`,
          "stroke-opacity": weight.toFixed(3), "data-row": row, "data-column": column }));
      }));
      lines.querySelector(".links").replaceChildren(...paths);
      lines.classList.toggle("focused", focus !== null);
      for (const one of lines.querySelectorAll("li button")) {
        const { side, at } = one.dataset;
        const own = focus?.side === side && focus.at === +at;
        const weight = focus && side !== focus.side
          ? (side === "row" ? weights[at][focus.at] : weights[focus.at][at]) : null;
        one.classList.toggle("on", own);
        one.setAttribute("aria-pressed", pinned?.side === side && pinned.at === +at);
        one.style.setProperty("--w", weight === null ? 0 : Math.sqrt(weight).toFixed(3));
        one.nextSibling.textContent = weight !== null && weight >= LEAST ? said(weight) : "";
      }
      for (const one of map.querySelectorAll("rect.on, text.on")) one.classList.remove("on");
      const mark = (what, at) => map.querySelectorAll(what)[at]?.classList.add("on");
      if (cellAt) {
        mark("text.row", cellAt[0]);
        mark("text.column", cellAt[1]);
        mark(".cells rect", cellAt[0] * columns.length + cellAt[1]);
      } else if (focus) {
        mark(`text.${focus.side}`, focus.at);
      }
      readout.textContent = words(focus, rows, columns, weights);
    };

    const words = (focus, rows, columns, weights) => {
      if (!focus) return REST;
      if (cellAt) {
        const [row, column] = cellAt;
        return `${rows[row].text} looks at ${columns[column].text}: ${weights[row][column].toFixed(3)}`;
      }
      const row = focus.side === "row";
      const others = (row ? columns : rows).map((one, at) =>
        [one.text, row ? weights[focus.at][at] : weights[at][focus.at]])
        .sort((one, other) => other[1] - one[1]).slice(0, 3).filter(([, weight]) => weight >= LEAST)
        .map(([text, weight]) => `${text} ${said(weight)}`);
      const name = (row ? rows : columns)[focus.at].text;
      const pin = pinned && !pointed ? " · pinned, Esc lets go" : "";
      return `${name} ${row ? "looks most at" : "is looked at most by"} ${others.join(", ") || "nothing here"}${pin}`;
    };

    // ---- hands and keys ----------------------------------------------------------------
    const place = (event) => {
      const one = event.target.closest?.("li button");
      return one && { side: one.dataset.side, at: +one.dataset.at };
    };
    const same = (one, other) => one?.side === other?.side && one?.at === other?.at;
    const point = (event) => { pointed = place(event) ?? null; light(); };
    const leave = () => { pointed = null; light(); };
    lines.addEventListener("pointerover", point);
    lines.addEventListener("pointerleave", leave);
    lines.addEventListener("focusin", point);
    lines.addEventListener("focusout", leave);
    lines.addEventListener("click", (event) => {
      const asked = place(event);
      if (!asked) return;
      pinned = same(pinned, asked) ? null : asked;
      light();
    });
    lines.addEventListener("keydown", (event) => {
      const asked = place(event);
      if (!asked) return;
      const far = { ArrowUp: -1, ArrowDown: 1 }[event.key] ?? 0;
      const side = { ArrowLeft: "row", ArrowRight: "column" }[event.key] ?? asked.side;
      if (far === 0 && side === asked.side) return;
      event.preventDefault();
      const all = [...lines.querySelectorAll(`[data-side="${side}"]`)];
      const next = all[Math.min(Math.max(asked.at + far, 0), all.length - 1)];
      lines.querySelectorAll("li button").forEach((one) => { one.tabIndex = one === next ? 0 : -1; });
      next?.focus();
    });
    // Esc is heard wherever the focus is: a new drawing may have taken the piece that had it.
    mounted.get(container)?.abort();
    const here = new AbortController();
    mounted.set(container, here);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && pinned) { pinned = null; light(); }
    }, { signal: here.signal });

    const walk = (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = cellAt ? [cellAt[0] + step[0], cellAt[1] + step[1]] : [0, 0];
      if (shown.weights[next[0]]?.[next[1]] === undefined) return;
      cellAt = next;
      light();
      map.querySelector("rect.on").scrollIntoView({ block: "nearest", inline: "nearest" });
    };

    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", () => {
      const next = {
        kind: kindBox.value,
        layer: kindBox.value === choice.kind ? +layerBox.value : null, // the last of the new kind
        head: headBox.value === "mean" ? "mean" : +headBox.value,
        words: wordsBox.checked,
        ends: !endsBox.checked,
      };
      // Another layer or head has the same pieces at the same places; the pin may stay.
      if (["kind", "words", "ends"].some((one) => next[one] !== choice[one])) pinned = null;
      Object.assign(choice, next);
      render();
    });
    grid.addEventListener("click", (event) => {
      const one = event.target.closest("button");
      if (!one) return;
      const { layer, head } = one.dataset;
      Object.assign(choice, { layer: +layer, head: head === "mean" ? "mean" : +head });
      render();
    });
    grid.addEventListener("keydown", (event) => {
      const wide = data[choice.kind][0].length + 1;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
      const all = [...grid.querySelectorAll("button")];
      const next = all[all.indexOf(document.activeElement) + step];
      if (!step || !next) return;
      event.preventDefault();
      next.click();
      next.focus();
    });

    // ---- taking away -------------------------------------------------------------------
    const which = () => {
      const head = choice.head === "mean" ? "mean of all heads" : `head ${choice.head + 1}`;
      return `layer ${choice.layer + 1}, ${head}`;
    };
    const name = () => `attention-${choice.kind}-layer${choice.layer + 1}-`
      + (choice.head === "mean" ? "mean" : `head${choice.head + 1}`);
    render();
    return { choice };
  };

  // A figure of a file holds its own data; the page at / mounts what it has asked for.
  const wake = () => {
    for (const figure of document.querySelectorAll("figure.attention:not([data-awake])")) {
      figure.dataset.awake = "";
      const held = figure.querySelector('script[type="application/json"]');
      mount(figure.querySelector(".view"), JSON.parse(held.textContent));
    }
  };
  return { mount, wake };
})();
window.AttentionView.wake();
