/** The explorer: every number of one sentence, from its embedding to the search. */

(() => {
  const element = (id) => document.getElementById(id);
  const create = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  };

  /** The steps of Figure 1, in its order. `tensor` is its name in the trace; null: not in this part. */
  const STEPS = [
    {
      id: "embedding",
      title: "Embedding",
      formula: "x = √d_model · E[piece]",
      source: "section 3.4",
      shape: "positions × d_model",
      note: "Each piece has a learned vector. The same matrix serves source, target and output.",
      tensor: ({ side }) => `${side}.embedded`,
    },
    {
      id: "positions",
      title: "Positional encoding",
      formula: "PE(pos, 2i) = sin(pos / 10000^(2i/d_model))",
      source: "section 3.5",
      shape: "positions × d_model",
      note: "Attention has no order of its own. What is added here says where a piece stands.",
      tensor: ({ side }) => `${side}.positions`,
    },
    {
      id: "queries",
      title: "Queries",
      formula: "Q = X W^Q",
      source: "section 3.2.2",
      shape: "positions × d_k, of this head",
      note: "What each position looks for.",
      tensor: ({ attention }) => `${attention}.queries`,
      perHead: true,
    },
    {
      id: "keys",
      title: "Keys",
      formula: "K = X W^K",
      source: "section 3.2.2",
      shape: "positions × d_k, of this head",
      note: "What each position offers to be found by.",
      tensor: ({ attention }) => `${attention}.keys`,
      perHead: true,
      memory: true,
    },
    {
      id: "values",
      title: "Values",
      formula: "V = X W^V",
      source: "section 3.2.2",
      shape: "positions × d_v, of this head",
      note: "What a position passes on where it is attended to.",
      tensor: ({ attention }) => `${attention}.values`,
      perHead: true,
      memory: true,
    },
    {
      id: "scores",
      title: "Scores",
      formula: "Q Kᵀ / √d_k",
      source: "equation (1)",
      shape: "queries × keys",
      note: "The product of a query and a key is large where they agree; √d_k keeps its variance at 1.",
      tensor: ({ attention }) => `${attention}.scores`,
      matrixOfHead: true,
    },
    {
      id: "mask",
      title: "Mask",
      formula: "−∞ where a query may not look",
      source: "section 3.2.3",
      shape: "queries × keys",
      note: "A target position must not see later ones: they are what it has to predict.",
      tensor: ({ part, attention }) => (part === "decoder" ? `${attention}.masked_scores` : null),
      matrixOfHead: true,
    },
    {
      id: "weights",
      title: "Attention weights",
      formula: "softmax(Q Kᵀ / √d_k)",
      source: "equation (1)",
      shape: "queries × keys",
      note: "Each row sums to 1: how a position divides its attention.",
      tensor: ({ attention }) => `${attention}.weights`,
      matrixOfHead: true,
    },
    {
      id: "heads",
      title: "Weighted sums, head beside head",
      formula: "Concat(head_1, …, head_h)",
      source: "section 3.2.2",
      shape: "positions × h·d_v",
      note: "Each head sums the values by its weights; the heads are set side by side.",
      tensor: ({ attention }) => `${attention}.heads`,
    },
    {
      id: "output",
      title: "Output projection",
      formula: "Concat(head_1, …, head_h) W^O",
      source: "section 3.2.2",
      shape: "positions × d_model",
      note: "One matrix mixes what the heads gathered.",
      tensor: ({ attention }) => `${attention}_norm.sublayer`,
    },
    {
      id: "residual",
      title: "Residual connection",
      formula: "x + Sublayer(x)",
      source: "section 3.1",
      shape: "positions × d_model",
      note: "The sub-layer adds to what was there; it need not repeat it.",
      tensor: ({ attention }) => `${attention}_norm.sum`,
    },
    {
      id: "norm",
      title: "After the sub-layer",
      formula: "LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x))",
      source: "section 3.1",
      shape: "positions × d_model",
      note: "Mean 0 and variance 1 for each position, then a learned gain and offset.",
      tensor: ({ attention }) => `${attention}_output`,
    },
    {
      id: "feed-forward",
      title: "Feed-forward, inner layer",
      formula: "max(0, x W_1 + b_1)",
      source: "equation (2)",
      shape: "positions × d_ff",
      note: "The same two layers at every position. Zeros are inner units that do not respond.",
      tensor: ({ layer }) => `${layer}.feed_forward.hidden`,
    },
    {
      id: "layer",
      title: "Output of the layer",
      formula: "the next layer's x",
      source: "Figure 1",
      shape: "positions × d_model",
      note: "After the feed-forward's residual connection and normalisation.",
      tensor: ({ layer }) => `${layer}.output`,
    },
  ];

  const TOUR = [
    ["embedding", "encoder", "A sentence becomes vectors, all at once: nothing waits for the word before it, as in a recurrent network."],
    ["positions", "encoder", "Positions are added, since all at once means without order."],
    ["scores", "encoder", "A query meets every key: the path between any two words is one step long."],
    ["weights", "encoder", "The softmax turns scores into attention."],
    ["heads", "encoder", "Several heads look for different things at the same time."],
    ["residual", "encoder", "Residual connection and layer normalisation keep deep stacks trainable."],
    ["feed-forward", "encoder", "Each position is then worked on by itself."],
    ["mask", "decoder", "The decoder must not peek: the mask hides later positions."],
    ["weights", "cross", "Decoder meets encoder: where each target word looks in the source."],
    ["search", "cross", "Beam search keeps several translations, and the length penalty chooses."],
  ];

  let exploration = null;
  const view = { part: "encoder", layer: 0, head: 0, token: 0, step: "" };

  /** Names in the trace for what is selected. */
  function names() {
    const stack = view.part === "encoder" ? "encoder" : "decoder";
    const layer = `${stack}.${view.layer}`;
    const attention = `${layer}.${view.part === "cross" ? "cross" : "self"}_attention`;
    return { part: view.part, side: stack === "encoder" ? "source" : "target", layer, attention };
  }

  const queries = () => (view.part === "encoder" ? exploration.source : exploration.targetIn);
  const memory = () => (view.part === "decoder" ? exploration.targetIn : exploration.source);

  function render() {
    const panels = STEPS.map(renderStep).filter(Boolean);
    element("steps").replaceChildren(...panels, renderRanking(), renderNext(), renderSearch());
    element("explorer-tokens").replaceChildren(
      ...queries().map((piece, index) =>
        create("li", {}, tokenButton(piece, index)),
      ),
    );
    element("explorer-compare").replaceChildren(
      create("dt", { textContent: "Translation" }),
      create("dd", { textContent: exploration.untouched }),
      create("dt", { textContent: "With these switches" }),
      create("dd", { id: "switched", textContent: exploration.text }),
    );
    if (view.step) element(`step-${view.step}`)?.scrollIntoView();
  }

  function tokenButton(piece, index) {
    const button = create("button", { type: "button", textContent: shown(piece) });
    button.setAttribute("aria-pressed", index === view.token);
    button.addEventListener("click", () => select({ token: index }));
    return button;
  }

  const shown = (piece) => piece.replace("▁", "") || "␣";

  function renderStep(step) {
    const name = step.tensor(names());
    const tensor = name && exploration.tensors.get(name);
    if (!tensor) return null;
    const body = step.matrixOfHead
      ? numberTable(tensor[view.head])
      : heatMap(step.perHead ? ofHead(tensor) : tensor, step.memory ? memory() : queries());
    const formula = create("p", { className: "formula", textContent: `${step.formula} ` });
    formula.append(create("span", { textContent: `${step.source} · ${step.shape}` }));
    return panel(step.id, step.title, formula, create("p", { className: "note", textContent: step.note }), body);
  }

  function panel(id, title, ...content) {
    const section = create("section", { className: "step", id: `step-${id}` });
    section.setAttribute("aria-labelledby", `title-${id}`);
    section.append(create("h3", { id: `title-${id}`, textContent: title }), ...content);
    return section;
  }

  /** The columns of the selected head. */
  function ofHead({ rows, columns, data }) {
    const width = columns / exploration.heads;
    const first = view.head * width;
    const part = new Float32Array(rows * width);
    for (let row = 0; row < rows; row++) {
      part.set(data.subarray(row * columns + first, row * columns + first + width), row * width);
    }
    return { rows, columns: width, data: part };
  }

  /** Scores or weights as a table: a row for each query, a column for each key. */
  function numberTable({ rows, columns, data }) {
    const largest = Math.max(...Array.from(data).filter(Number.isFinite));
    const heading = (piece, scope, selected) =>
      create("th", { scope, textContent: shown(piece), className: selected ? "selected" : "" });
    const head = create("tr", {}, create("td"), ...memory().map((piece) => heading(piece, "col")));
    const lines = Array.from({ length: rows }, (_, row) => {
      const line = create("tr", {}, heading(queries()[row], "row", row === view.token));
      for (let column = 0; column < columns; column++) {
        const value = data[row * columns + column];
        const cell = create("td", { textContent: number(value) });
        if (value === -Infinity) cell.className = "masked";
        else cell.style.setProperty("--share", Math.max(0, value / largest).toFixed(3));
        line.append(cell);
      }
      return line;
    });
    const table = create("table", { className: "numbers" }, create("tbody", {}, head, ...lines));
    return create("div", { className: "scroll", tabIndex: 0 }, table);
  }

  const number = (value) =>
    value === -Infinity ? "−∞" : value.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−");

  /** A matrix as an image: a row for each position; the value under the pointer is written below. */
  function heatMap({ rows, columns, data }, labels) {
    const [width, height] = [Math.max(2, Math.min(12, Math.floor(900 / columns))), 18];
    const canvas = create("canvas", { className: "heat", width: columns * width, height: rows * height });
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${rows} × ${columns} numbers; arrow keys read them out below`);
    const reading = create("p", { className: "reading" });
    reading.setAttribute("aria-live", "polite");
    paint(canvas, { rows, columns, data, width, height });
    const cursor = { row: Math.min(view.token, rows - 1), column: 0 };
    const read = () => {
      const value = data[cursor.row * columns + cursor.column];
      reading.textContent = `${shown(labels[cursor.row])}, dimension ${cursor.column + 1}: ${value.toFixed(4).replace("-", "−")}`;
    };
    canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
      cursor.row = Math.min(rows - 1, Math.max(0, Math.floor(offsetY / height)));
      cursor.column = Math.min(columns - 1, Math.max(0, Math.floor(offsetX / width)));
      read();
    });
    canvas.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      cursor.row = Math.min(rows - 1, Math.max(0, cursor.row + move[0]));
      cursor.column = Math.min(columns - 1, Math.max(0, cursor.column + move[1]));
      read();
    });
    const names = create("div", {});
    names.append(
      ...labels.slice(0, rows).map((piece, row) =>
        create("div", {
          className: row === view.token && labels === queries() ? "label selected" : "label",
          textContent: shown(piece),
        }),
      ),
    );
    const grid = create("div", { className: "rows" }, names, canvas);
    return create("div", {}, create("div", { className: "scroll" }, grid), reading);
  }

  function paint(canvas, { rows, columns, data, width, height }) {
    const context = canvas.getContext("2d");
    let largest = 0;
    for (const value of data) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
    const [positive, negative] = ["--heat", "--warm"].map(colour);
    for (let index = 0; index < rows * columns; index++) {
      const share = largest ? data[index] / largest : 0;
      context.globalAlpha = Math.min(1, Math.abs(share));
      context.fillStyle = share < 0 ? negative : positive;
      context.fillRect((index % columns) * width, Math.floor(index / columns) * height, width, height - 1);
    }
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

  /** What the selected token looks at, over all layers and heads of this part. */
  function renderRanking() {
    const kind = view.part === "cross" ? "cross_attention" : "self_attention";
    const stack = view.part === "encoder" ? "encoder" : "decoder";
    const answers = [];
    for (const [name, heads] of exploration.tensors) {
      const match = name.match(/^(\w+)\.(\d+)\.(\w+)\.weights$/);
      if (!match || match[1] !== stack || match[3] !== kind) continue;
      heads.forEach(({ columns, data }, head) => {
        const row = data.subarray(view.token * columns, (view.token + 1) * columns);
        const best = row.indexOf(Math.max(...row));
        answers.push({ layer: Number(match[2]), head, piece: memory()[best], weight: row[best] });
      });
    }
    answers.sort((first, second) => second.weight - first.weight);
    const list = create("ol", { className: "ranking" });
    list.append(
      ...answers.map(({ layer, head, piece, weight }) => {
        const text = `${shown(piece)} ${weight.toFixed(4)}`;
        const button = create("button", { type: "button", className: "quiet", textContent: `layer ${layer + 1}, head ${head + 1}` });
        button.addEventListener("click", () => select({ layer, head, step: "weights" }));
        return create("li", {}, `${text} `, button);
      }),
    );
    const note = create("p", { className: "note", textContent: "Every head's answer, the strongest first. What a head looks at need not decide: switch it off to see." });
    return panel("ranking", `What does “${shown(queries()[view.token])}” look at?`, note, list);
  }

  function renderNext() {
    if (view.part === "encoder") return "";
    const rows = exploration.next[view.token].map(({ piece, probability }) => {
      const line = create("tr", {}, create("th", { scope: "row", textContent: shown(piece) }));
      const cell = create("td", { textContent: probability.toFixed(4) });
      cell.style.setProperty("--share", probability.toFixed(3));
      line.append(cell);
      return line;
    });
    const table = create("table", { className: "numbers" }, create("tbody", {}, ...rows));
    const note = create("p", { className: "note", textContent: "The decoder's output times the embedding matrix, then a softmax over the vocabulary." });
    return panel("next", `The next piece after “${shown(queries()[view.token])}”`, note, table);
  }

  function renderSearch() {
    const steps = exploration.steps.map((candidates, index) => {
      const items = candidates.map(({ text, probability, total, finished, kept }) => {
        const state = finished ? "finished" : kept ? "kept" : "dropped";
        const words = text.replaceAll("▁", " ").replace("</s>", " ⏹");
        return create("li", {
          textContent: `${words} · probability ${probability.toFixed(3)}, log-probability ${number(total)}: ${state}`,
        });
      });
      const summary = create("summary", { textContent: `Step ${index + 1}: ${candidates.length} candidates` });
      return create("details", {}, summary, create("ol", { className: "ranking" }, ...items));
    });
    const results = exploration.hypotheses.map(({ text, logProb, penalty, score }) =>
      create("li", {
        textContent: `${text} · log-probability ${number(logProb)} / length penalty ${penalty.toFixed(2)} = ${number(score)}`,
      }),
    );
    const note = create("p", { className: "note", textContent: "At each step the best continuations of all beams are kept. At the end the length penalty decides between the finished ones." });
    return panel("search", "Beam search", note, ...steps, create("ol", { className: "ranking" }, ...results));
  }

  /** Change what is selected, and the address with it. */
  function select(change) {
    Object.assign(view, change);
    const { part, layer, head, token, step } = view;
    const address = new URLSearchParams({ part, layer: layer + 1, head: head + 1, token: token + 1 });
    if (step) address.set("step", step);
    const sentence = new URLSearchParams(location.hash.slice(1)).get("sentence");
    // A sentence stays in the address only if it came from there.
    if (sentence && sentence === document.getElementById("q").value) address.set("sentence", sentence);
    history.replaceState(null, "", `#${address}`);
    synchronise();
    if (exploration) render();
    view.step = "";
  }

  function readAddress() {
    const address = new URLSearchParams(location.hash.slice(1));
    for (const key of ["layer", "head", "token"]) {
      if (address.has(key)) view[key] = Math.max(0, (parseInt(address.get(key), 10) || 1) - 1);
    }
    if (["encoder", "decoder", "cross"].includes(address.get("part"))) view.part = address.get("part");
    view.step = address.get("step") ?? "";
  }

  function synchronise() {
    const { model } = explorer;
    const layers = model[view.part === "encoder" ? "encoder_layers" : "decoder_layers"];
    view.layer = Math.min(view.layer, layers - 1);
    view.head = Math.min(view.head, model.heads - 1);
    if (exploration) view.token = Math.min(view.token, queries().length - 1);
    fill("explorer-layer", layers, view.layer);
    fill("explorer-head", model.heads, view.head);
    element("explorer-part").value = view.part;
  }

  function fill(id, count, selected) {
    const options = Array.from({ length: count }, (_, index) => new Option(index + 1, index));
    element(id).replaceChildren(...options);
    element(id).value = selected;
  }

  function switches() {
    const { layer, attention } = names();
    const on = (id) => element(id).checked;
    const temperature = Number(element("switch-temperature").value);
    return {
      ...(on("switch-scaling") && { noScaling: true }),
      ...(on("switch-positions") && { noPositions: true }),
      ...(on("switch-mask") && { noMask: true }),
      ...(temperature > 0 && temperature !== 1 && { temperature }),
      ...(on("switch-head") && { head: { attention, head: view.head } }),
      ...(on("switch-layer") && { layer }),
      ...(on("switch-residual") && { residual: layer }),
    };
  }

  /** The part of this page that page.js talks to. */
  const explorer = {
    model: null,
    /** @param {object} model the model's shape; @param {() => void} request asks for a trace */
    start(model, request) {
      explorer.model = model;
      readAddress();
      synchronise();
      element("explorer").hidden = false;
      element("tour").replaceChildren(
        ...TOUR.map(([step, part, text]) => {
          const link = create("a", { href: `#part=${part}&step=${step}`, textContent: text });
          return create("li", {}, link);
        }),
      );
      element("explorer-part").addEventListener("change", ({ target }) => {
        select({ part: target.value, token: 0 });
        request();
      });
      for (const key of ["layer", "head"]) {
        element(`explorer-${key}`).addEventListener("change", ({ target }) => {
          select({ [key]: Number(target.value) });
          if (Object.keys(switches()).length) request();
        });
      }
      element("switches").addEventListener("change", request);
      addEventListener("hashchange", () => {
        readAddress();
        synchronise();
        if (exploration) render();
      });
    },
    switches,
    /** @param {object} result of exploration.js */
    show(result) {
      element("explorer-state").textContent = result.problem ?? "";
      element("explorer-content").hidden = Boolean(result.problem);
      if (result.problem) return;
      exploration = { ...result, heads: explorer.model.heads };
      synchronise();
      render();
    },
  };
  window.explorer = explorer;
})();
