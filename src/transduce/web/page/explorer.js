/** The explorer: every number of one sentence, from its embedding to the search. */

(() => {
  const element = (id) => document.getElementById(id);
  const { create, heatMap, moved, note, number, numberTable, panel, scrolling, shown, signed, typeset } = panels;
  const REPEATS =
    "This translation repeats itself. Above, the search is then done again with repetition blocked; the numbers below are of the first search.";

  let exploration = null;
  let actions = null; // what page.js does for us
  let edits = []; // weights changed by hand, the newest last
  let ablation = null; // heads taken away in turn: {number, running, total, probability, heads}
  const view = { part: "encoder", layer: 0, head: 0, token: 0, target: 0, step: "", cell: null, text: null };

  /** Names in the trace for what is selected. */
  function names(layerNumber = view.layer) {
    const stack = view.part === "encoder" ? "encoder" : "decoder";
    const layer = `${stack}.${layerNumber}`;
    const attention = `${layer}.${view.part === "cross" ? "cross" : "self"}_attention`;
    const side = stack === "encoder" ? "source" : "target";
    return { model: explorer.model, part: view.part, side, layer, attention };
  }

  const layerCount = () => explorer.model[`${view.part === "encoder" ? "encoder" : "decoder"}_layers`];
  const queries = () => (view.part === "encoder" ? exploration.source : exploration.targetIn);
  const memory = () => (view.part === "decoder" ? exploration.targetIn : exploration.source);
  const quoted = (piece) => `“${shown(piece)}”`;

  /** Draw everything again; what had the focus keeps it, what was open stays open. */
  function render() {
    const { key } = document.activeElement.dataset;
    const open = [...document.querySelectorAll("#steps details[open]")].map((node) => node.dataset.key);
    const shownSteps = EXPLORER_STEPS.map(renderStep).filter(Boolean);
    element("steps").replaceChildren(...shownSteps, renderRanking(), renderAblation(), renderNext(), renderSearch());
    element("explorer-tokens").replaceChildren(
      ...queries().map((piece, index) => create("li", {}, tokenButton(piece, index))),
    );
    element("explorer-compare").replaceChildren(
      create("dt", { textContent: "Translation" }),
      create("dd", { id: "untouched", textContent: exploration.untouched }),
      create("dt", { textContent: "With these switches" }),
      create("dd", { id: "switched", textContent: exploration.text }),
    );
    renderEdits();
    for (const node of document.querySelectorAll("#steps details")) node.open = open.includes(node.dataset.key);
    if (key) document.querySelector(`#explorer [data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
    showStep();
    actions.selected();
  }

  /** Lead to the step of the address, unless someone types. */
  function showStep() {
    const title = view.step && element(`title-${view.step}`);
    view.step = "";
    if (!title || document.activeElement === element("q")) return;
    title.parentElement.scrollIntoView();
    title.focus({ preventScroll: true });
  }

  function tokenButton(piece, index) {
    const button = create("button", { type: "button", textContent: shown(piece), key: `token-${index}` });
    button.setAttribute("aria-pressed", index === view.token);
    button.addEventListener("click", () => select({ token: index }));
    return button;
  }

  /** A text of a step for the model on the page. */
  const ofModel = (text) => (typeof text === "function" ? text(explorer.model) : text);

  function renderStep(step) {
    const name = step.tensor(names());
    const tensor = name && exploration.tensors.get(name);
    if (!tensor) return null;
    const place = create("span", {}, ...typeset(`${ofModel(step.source)} · ${step.shape}`));
    const formula = create("p", { className: "formula" }, ...typeset(ofModel(step.formula)), " ", place);
    const body = step.matrixOfHead
      ? [matrixTable(step, tensor[view.head])]
      : [
          heatMap(step.perHead ? ofHead(tensor) : tensor, {
            labels: step.memory ? memory() : queries(),
            row: view.token,
            selected: !step.memory || memory() === queries(),
            key: `heat-${step.id}`,
          }),
        ];
    if (step.id === "weights") body.push(editHelp());
    return panel(step.id, step.title, formula, note(ofModel(step.note)), ...body);
  }

  function matrixTable(step, matrix) {
    const labels = { queries: queries(), memory: memory(), row: view.token };
    const editable = step.id === "weights";
    const table = numberTable(matrix, labels, editable ? (cell, place) => makeEditable(cell, place, matrix) : null);
    if (!editable) return scrolling(step.title, `scroll-${step.id}`, table);
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", "Attention weights: Enter edits one");
    return create("div", { className: "scroll" }, table);
  }

  /** The columns of the selected head. */
  function ofHead({ rows, columns, data }) {
    const width = columns / explorer.model.heads;
    const first = view.head * width;
    const part = new Float32Array(rows * width);
    for (let row = 0; row < rows; row++) {
      part.set(data.subarray(row * columns + first, row * columns + first + width), row * width);
    }
    return { rows, columns: width, data: part };
  }

  // Attention weights that are edited by hand.

  function editHelp() {
    const help = create("p", { className: "reading", id: "edit-problem" });
    help.setAttribute("role", "status");
    const text = "Select a weight and press Enter, or click it, to change it: the rest of its row makes room.";
    return create("div", {}, note(text), help);
  }

  const sameRow = (edit, { row }) =>
    edit.attention === names().attention && edit.head === view.head && edit.query === row;

  /** One cell is in the tab order, the last that had the focus; arrow keys lead to the others. */
  function makeEditable(cell, place, matrix) {
    const { row, column, value } = place;
    const cursor = view.cell ?? { row: view.token, column: 0 };
    const current = Math.min(cursor.row, matrix.rows - 1) === row && Math.min(cursor.column, matrix.columns - 1) === column;
    cell.tabIndex = current ? 0 : -1;
    cell.dataset.key = `cell-${row}-${column}`;
    if (edits.some((edit) => sameRow(edit, place) && edit.memory === column)) cell.classList.add("edited");
    cell.addEventListener("click", () => editCell(cell, place, matrix));
    cell.addEventListener("focus", () => {
      view.cell = { row, column };
      for (const other of cell.closest("table").querySelectorAll("td[tabindex='0']")) other.tabIndex = -1;
      cell.tabIndex = 0;
    });
    cell.addEventListener("keydown", (event) => {
      if (event.target !== cell) return;
      const next = moved(place, event.key, matrix);
      if (next) cell.closest("table").querySelector(`[data-key="cell-${next.row}-${next.column}"]`).focus();
      if (event.key === "Enter") editCell(cell, { row, column, value }, matrix);
      if (next || event.key === "Enter") event.preventDefault();
    });
  }

  function editCell(cell, place, matrix) {
    if (cell.firstElementChild) return;
    const reason = refusal(place, matrix);
    element("edit-problem").textContent = reason;
    if (reason) return;
    const input = create("input", { type: "number", min: 0, max: 1, step: "any", value: place.value.toFixed(4) });
    input.setAttribute("aria-label", `Weight of ${quoted(memory()[place.column])} for ${quoted(queries()[place.row])}, 0 to 1`);
    let left = false; // closing takes the focus from the input, which must not close it again
    const close = (focus) => {
      left = true;
      cell.textContent = number(place.value);
      if (focus) cell.focus();
    };
    const commit = (focus) => {
      if (left) return;
      const changed = input.value !== input.defaultValue;
      const text = input.value;
      close(focus);
      if (changed) edit(text, place, cell);
    };
    input.addEventListener("keydown", (event) => {
      event.stopPropagation(); // Escape belongs to the edit, arrow keys to the number
      if (event.key === "Enter") commit(true);
      if (event.key === "Escape") close(true);
    });
    input.addEventListener("click", (event) => event.stopPropagation());
    input.addEventListener("blur", () => commit(false));
    input.defaultValue = input.value;
    cell.replaceChildren(input);
    input.select();
  }

  /** Why a weight cannot be edited; "" if it can. */
  function refusal({ row, column }, { columns, data }) {
    if (view.part === "decoder" && column > row && !switches().noMask) {
      return "This position is later than the query: the mask hides it.";
    }
    const others = [...edits.filter((edit) => sameRow(edit, { row })).map((edit) => edit.memory), column];
    const weights = data.subarray(row * columns, (row + 1) * columns);
    const room = weights.some((weight, index) => weight > 0 && !others.includes(index));
    return room ? "" : "The row has no other weight to make room for this one.";
  }

  function edit(text, place, cell) {
    const value = text === "" ? NaN : Number(text);
    const { row, column } = place;
    const before = edits.find((other) => sameRow(other, place) && other.memory === column);
    const sum = edits.reduce((total, other) => total + (sameRow(other, place) && other !== before ? other.value : 0), 0);
    const problem =
      !(value >= 0 && value <= 1) ? "A weight is a number from 0 to 1."
      : sum + value > 1 ? "The edited weights of a row sum to 1 at most."
      : "";
    element("edit-problem").textContent = problem;
    if (problem) return;
    const was = before?.was ?? place.value;
    edits = edits.filter((other) => other !== before);
    edits.push({ attention: names().attention, head: view.head, query: row, memory: column, value, was, label: editLabel(place) });
    cell.textContent = number(value);
    request();
  }

  function editLabel({ row, column }) {
    const part = { encoder: "Encoder", decoder: "Decoder", cross: "Decoder to encoder" }[view.part];
    return `${part}, layer ${view.layer + 1}, head ${view.head + 1}: ${quoted(queries()[row])} to ${quoted(memory()[column])}`;
  }

  function renderEdits() {
    element("edits").replaceChildren(
      ...edits.map((edit, index) => {
        const text = `${edit.label}: ${number(edit.value)}, was ${number(edit.was)} `;
        const undo = create("button", { type: "button", className: "quiet", textContent: "Undo", key: `undo-${index}` });
        undo.setAttribute("aria-label", `Undo: ${text.trim()}`);
        undo.addEventListener("click", () => {
          edits = edits.filter((other) => other !== edit);
          element(edits.length ? "reset" : "switch-scaling").focus(); // this button goes
          request();
        });
        return create("li", { textContent: text }, undo);
      }),
    );
    element("edits-title").hidden = !edits.length;
    element("reset").hidden = !Object.keys(switches()).length;
  }

  // What a token looks at, and what depends on it.

  function headButton(layer, head, key) {
    const textContent = `layer ${layer + 1}, head ${head + 1}`;
    const button = create("button", { type: "button", className: "quiet", textContent, key });
    button.addEventListener("click", () => select({ layer, head, step: "weights" }));
    return button;
  }

  /** What the selected token looks at, over all layers and heads of this part. */
  function renderRanking() {
    const answers = [];
    for (let layer = 0; layer < layerCount(); layer++) {
      exploration.tensors.get(`${names(layer).attention}.weights`).forEach(({ columns, data }, head) => {
        const row = data.subarray(view.token * columns, (view.token + 1) * columns);
        const best = row.indexOf(Math.max(...row));
        answers.push({ layer, head, piece: memory()[best], weight: row[best] });
      });
    }
    answers.sort((first, second) => second.weight - first.weight);
    const lines = answers.map(({ layer, head, piece, weight }) => {
      const cell = create("td", { textContent: weight.toFixed(4) });
      cell.style.setProperty("--share", weight.toFixed(3));
      const button = create("th", { scope: "row" }, headButton(layer, head, `ranking-${layer}-${head}`));
      return create("tr", {}, button, create("td", { textContent: shown(piece) }), cell);
    });
    const table = create("table", { className: "numbers heads" }, create("tbody", {}, ...lines));
    const text = "Every head's answer, the strongest first. What a head looks at need not decide: switch it off to see.";
    return panel("ranking", `What does ${quoted(queries()[view.token])} look at?`, note(text), table);
  }

  function renderAblation() {
    const target = create("select", { id: "ablation-target", key: "ablation-target" });
    target.append(...exploration.target.map((piece, index) => new Option(shown(piece), index)));
    target.value = view.target;
    target.addEventListener("change", () => select({ target: Number(target.value) }));
    const button = create("button", { type: "button", className: "quiet", id: "ablation-start", key: "ablation-start" });
    button.addEventListener("click", () => (ablation?.running ? stopAblation() : startAblation()));
    const controls = create("div", { className: "controls" });
    controls.append(create("label", { textContent: "Target piece " }, target), button);
    const state = create("p", { className: "state", id: "ablation-state" });
    state.setAttribute("role", "status");
    const text = "What each head looks at, and what becomes of the target piece and of the translation without it. Looking is not deciding.";
    const section = panel("ablation", "Take a head away", note(text), controls, state, create("div", { id: "ablation" }));
    queueMicrotask(renderAblationResult); // once the panel is in the page
    return section;
  }

  function startAblation() {
    const attentions = Array.from({ length: layerCount() }, (_, layer) => names(layer).attention);
    const query = view.part === "encoder" ? view.token : view.target;
    const number = (ablation?.number ?? 0) + 1;
    const options = { number, attentions, query, position: view.target, switches: switches() };
    if (!actions.ablate(options)) {
      element("ablation-state").textContent = "Wait until the numbers are computed, then try again.";
      return;
    }
    ablation = { number, running: true, heads: [], total: 0 };
    renderAblationResult();
  }

  function stopAblation() {
    if (!ablation?.running) return;
    ablation.running = false;
    actions.cancel();
    renderAblationResult();
  }

  /** Results of another token or translation mean nothing now. */
  function dropAblation() {
    stopAblation();
    if (ablation) Object.assign(ablation, { heads: [], total: 0 });
  }

  function renderAblationResult() {
    const { running = false, heads = [], total = 0, probability } = ablation ?? {};
    element("ablation-start").textContent = running ? "Cancel" : "Switch every head off in turn";
    element("ablation-state").textContent = running
      ? `${heads.length} of ${total || "…"} heads`
      : heads.length < total ? `Stopped after ${heads.length} of ${total} heads.` : "";
    element("ablation").replaceChildren(heads.length ? ablationTable(heads, probability) : "");
  }

  function ablationTable(heads, probability) {
    const piece = quoted(exploration.target[view.target]);
    const titles = ["Without", "It looks at", "Weight", `Probability of ${piece}`, "Change", "Translation"];
    const head = create("tr", {}, ...titles.map((title) => create("th", { scope: "col", textContent: title })));
    const change = (result) => result.probability - probability;
    const ranked = [...heads].sort((first, second) => Math.abs(change(second)) - Math.abs(change(first)));
    const lines = ranked.map((result) => {
      const layer = Number(result.attention.split(".")[1]);
      const button = headButton(layer, result.head, `ablation-${layer}-${result.head}`);
      const texts = [
        ...[shown(memory()[result.memory]), result.weight.toFixed(4), result.probability.toFixed(4)],
        ...[signed(change(result), 4), result.text === exploration.text ? "the same" : result.text],
      ];
      const cells = texts.map((textContent) => create("td", { textContent }));
      return create("tr", {}, create("th", { scope: "row" }, button), ...cells);
    });
    const table = create("table", { className: "numbers heads ablation" }, create("tbody", {}, head, ...lines));
    const text = `With all heads the probability of ${piece} is ${probability.toFixed(4)}.`;
    return create("div", {}, create("p", { textContent: text }), scrolling("Heads taken away", "scroll-ablation", table));
  }

  function renderNext() {
    if (view.part === "encoder") return "";
    const rows = exploration.next[view.token].map(({ piece, probability }) => {
      const cell = create("td", { textContent: probability.toFixed(4) });
      cell.style.setProperty("--share", probability.toFixed(3));
      return create("tr", {}, create("th", { scope: "row", textContent: shown(piece) }), cell);
    });
    const table = create("table", { className: "numbers" }, create("tbody", {}, ...rows));
    const { tie, output_bias: bias } = explorer.model;
    const matrix = ["all", "decoder"].includes(tie) ? "embedding matrix" : "output matrix";
    const text = `The decoder's output times the ${matrix}${bias ? " plus a bias" : ""}, then a softmax over the vocabulary.`;
    return panel("next", `The next piece after ${quoted(queries()[view.token])}`, note(text), table);
  }

  function renderSearch() {
    const steps = exploration.steps.map((candidates, index) => {
      const items = candidates.map(({ text, probability, total, finished, kept }) => {
        const state = finished ? "finished" : kept ? "kept" : "dropped";
        const words = text.replaceAll("▁", " ").replace("</s>", " ■");
        return create("li", {
          textContent: `${words} · probability ${probability.toFixed(3)}, log-probability ${number(total)}: ${state}`,
        });
      });
      const title = `Step ${index + 1}: ${candidates.length} candidates`;
      const summary = create("summary", { textContent: title, key: `summary-${index}` });
      return create("details", { key: `search-${index}` }, summary, create("ol", { className: "ranking" }, ...items));
    });
    const results = exploration.hypotheses.map(({ text, logProb, penalty, score }) =>
      create("li", {
        textContent: `${text} · log-probability ${number(logProb)} / length penalty ${penalty.toFixed(2)} = ${number(score)}`,
      }),
    );
    const text = "At each step the best continuations of all beams are kept. At the end the length penalty decides between the finished ones.";
    const list = create("ol", { className: "ranking" }, ...results);
    return panel("search", "Beam search", note(text), ...steps, create("h4", { textContent: "Finished, the best first" }), list);
  }

  /** Change what is selected, and the address with it. */
  function select(change) {
    follow(() => {
      Object.assign(view, change);
      if ("token" in change && view.part !== "encoder") view.target = change.token;
      const { part, layer, head, token, step } = view;
      const place = { part, layer: layer + 1, head: head + 1, token: token + 1 };
      history.replaceState(null, "", addressOf({ ...place, ...(step && { step }) }));
    });
  }

  /** Change what is selected and draw it; its head or its layer may be what is switched off. */
  function follow(change) {
    const place = () => `${view.part} ${view.layer} ${view.head}`;
    const before = place();
    dropAblation();
    change();
    synchronise();
    if (exploration) render();
    if (place() !== before && Object.keys(switches()).length) request();
  }

  /** An address with the update and the sentence of the present one. */
  function addressOf(selection) {
    const result = new URLSearchParams(selection);
    const before = new URLSearchParams(location.hash.slice(1));
    if (before.has("update")) result.set("update", before.get("update"));
    const sentence = before.get("sentence");
    // A sentence stays in the address only if it came from there.
    if (sentence && sentence === element("q").value) result.set("sentence", sentence);
    return `#${result}`;
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
    const { heads } = explorer.model;
    view.layer = Math.min(view.layer, layerCount() - 1);
    view.head = Math.min(view.head, heads - 1);
    if (exploration) {
      view.token = Math.min(view.token, queries().length - 1);
      view.target = Math.min(view.target, exploration.target.length - 1);
    }
    fill("explorer-layer", counted(layerCount()), view.layer);
    fill("explorer-head", counted(heads), view.head);
    element("explorer-part").value = view.part;
  }

  const counted = (count) => Array.from({ length: count }, (_, index) => new Option(index + 1, index));

  function fill(id, options, selected) {
    element(id).replaceChildren(...options);
    element(id).value = selected;
  }

  /** Offer the words of the sentence to be swapped. */
  function fillWords(words) {
    const options = () => [new Option("—", ""), ...words.map((word, index) => new Option(word, index))];
    for (const id of ["swap-first", "swap-second"]) fill(id, options(), element(id).value);
  }

  function switches() {
    const { layer, attention } = names();
    const on = (id) => element(id).checked;
    const temperature = Number(element("switch-temperature").value);
    const swap = ["swap-first", "swap-second"].map((id) => element(id).value);
    return {
      ...(on("switch-scaling") && { noScaling: true }),
      ...(on("switch-positions") && { noPositions: true }),
      ...(on("switch-mask") && { noMask: true }),
      ...(temperature > 0 && temperature !== 1 && { temperature }),
      ...(on("switch-head") && { heads: [{ attention, head: view.head }] }),
      ...(on("switch-layer") && { layer }),
      ...(on("switch-residual") && { residual: layer }),
      ...(swap.every(Boolean) && swap[0] !== swap[1] && { swap: swap.map(Number) }),
      ...(edits.length && {
        weights: edits.map(({ attention: of, head, query, memory, value }) => ({ attention: of, head, query, memory, value })),
      }),
    };
  }

  /** Undo what belongs to the words of one sentence. */
  function forgetWords() {
    edits = [];
    for (const id of ["swap-first", "swap-second"]) element(id).value = "";
  }

  function request() {
    dropAblation();
    element("explorer-compare").setAttribute("aria-busy", true);
    actions.explore();
  }

  function reset() {
    forgetWords();
    for (const box of document.querySelectorAll("#switches input[type=checkbox]")) box.checked = false;
    element("switch-temperature").value = 1;
    request();
    element("switch-scaling").focus();
  }

  function listen() {
    element("explorer-part").addEventListener("change", ({ target: { value: part } }) => {
      const otherQueries = (part === "encoder") !== (view.part === "encoder");
      select({ part, cell: null, ...(otherQueries && { token: 0 }) });
    });
    for (const key of ["layer", "head"]) {
      element(`explorer-${key}`).addEventListener("change", ({ target }) =>
        select({ [key]: Number(target.value) }),
      );
    }
    element("switches").addEventListener("change", ({ target }) => {
      if (target.id.startsWith("swap-")) edits = []; // their positions have other words now
      request();
    });
    element("reset").addEventListener("click", reset);
    // Heat maps are painted in the colours of the scheme.
    const repaint = () => exploration && render();
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
    addEventListener("hashchange", () => follow(readAddress));
  }

  /** The part of this page that page.js talks to. */
  const explorer = {
    model: null,
    /**
     * @param {object} model the model's shape
     * @param {{explore: () => void, ablate: (options) => boolean, cancel: () => void, selected: () => void}}
     *   callbacks ask for the numbers of the sentence, for the effect of every head, or for neither; the
     *   last is called when something else is selected
     */
    start(model, callbacks) {
      explorer.model = model;
      actions = callbacks;
      readAddress();
      synchronise();
      element("explorer").hidden = false;
      element("tour").replaceChildren(
        ...EXPLORER_TOUR.map(([step, part, text]) => {
          const link = create("a", { href: `#part=${part}&step=${step}`, textContent: text });
          link.addEventListener("click", () => (link.href = addressOf({ part, step })));
          return create("li", {}, link);
        }),
      );
      listen();
    },
    /** What is selected, as the training's panel draws it: the heads' weights and their labels. */
    selected() {
      if (!exploration) return null;
      const layers = Array.from({ length: layerCount() }, (_, layer) =>
        exploration.tensors.get(`${names(layer).attention}.weights`));
      const { layer, head, token: row } = view;
      return { layers, layer, head, queries: queries(), memory: memory(), row };
    },
    select,
    stopAblation,
    /** @returns {string} the sentence whose numbers are shown */
    sentence: () => view.text ?? "",
    /** @param {string} text the sentence that the switches are for */
    switches(text) {
      if (text !== view.text) forgetWords();
      view.text = text;
      return switches();
    },
    /** @param {object} result of exploration.js */
    show(result) {
      element("explorer-compare").removeAttribute("aria-busy");
      const repeats = result.repeats && result.checkpoint === undefined; // a checkpoint searches once
      element("explorer-state").textContent = result.problem ?? (repeats ? REPEATS : "");
      element("explorer-content").hidden = Boolean(result.problem);
      dropAblation();
      exploration = result.problem ? null : result;
      if (!exploration) return actions.selected();
      fillWords(result.words);
      synchronise();
      render();
    },
    /** @param {object} result of `ablateHeads` */
    showAblation({ number, done, ...result }) {
      if (number !== ablation?.number || !ablation.running) return;
      Object.assign(ablation, result, { running: !done });
      renderAblationResult();
    },
  };
  window.explorer = explorer;
})();
