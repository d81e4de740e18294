/**
 * The training to watch: a slider over its checkpoints, whose weights the whole page then uses; the
 * loss curve; the translation and the attention at that update.
 */

(() => {
  const element = (id) => document.getElementById(id);
  const { create, numberTable, scrolling, thumbnail } = panels;
  const PAUSE = 450; // milliseconds between two checkpoints when playing

  let recorded = null; // {updates, training, validation}: see web/page.py
  let actions = null; // what page.js does for us
  let timer = 0; // of the next checkpoint when playing; 0: paused

  const slider = element("training-update");
  const place = () => Number(slider.value);
  /** The model itself comes after the last checkpoint: an average, or the best of them. */
  const isFinal = (index = place()) => index === recorded.updates.length;
  const updateName = (index) =>
    isFinal(index) ? "the finished model" : `update ${recorded.updates[index].toLocaleString("en")}`;

  function describe(index) {
    const update = isFinal(index) ? null : recorded.updates[index];
    const validated = recorded.validation.find(([at]) => at === update);
    if (!validated) return updateName(index);
    const [, loss, chrF] = validated;
    const score = chrF === null ? "" : `, chrF2 ${chrF.toFixed(1)}`;
    return `${updateName(index)}: validation loss ${loss.toFixed(3)}${score}`;
  }

  function describePlace() {
    const text = describe(place());
    element("training-state").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const at = x(isFinal() ? last() : recorded.updates[place()]);
    for (const end of ["x1", "x2"]) element("training-marker").setAttribute(end, at);
  }

  /** Use the weights of the slider's checkpoint. */
  function choose() {
    describePlace();
    const address = new URLSearchParams(location.hash.slice(1));
    if (isFinal()) address.delete("update");
    else address.set("update", recorded.updates[place()]);
    history.replaceState(null, "", `#${address}`);
    actions.request();
  }

  function play() {
    if (timer) return pause();
    if (isFinal()) move(0);
    timer = setTimeout(next, PAUSE);
    element("training-play").textContent = "❚❚ Pause";
  }

  function pause() {
    clearTimeout(timer);
    timer = 0;
    element("training-play").textContent = "▶ Play";
  }

  function next() {
    if (isFinal()) return pause();
    move(place() + 1); // once it is shown, `show` goes on
  }

  function move(index) {
    slider.value = index;
    choose();
  }

  // The loss curve.

  const [WIDTH, HEIGHT, LEFT, BOTTOM] = [480, 150, 34, 22];
  const last = () => recorded.updates.at(-1);
  const x = (update) => LEFT + (update / last()) * (WIDTH - LEFT - 8);

  function svg(tag, attributes, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  function drawCurve() {
    const { training, validation } = recorded;
    const largest = Math.max(...[...training, ...validation].map(([, loss]) => loss));
    const y = (loss) => HEIGHT - BOTTOM - (loss / largest) * (HEIGHT - BOTTOM - 8);
    const line = (points, className) =>
      svg("polyline", { class: className, points: points.map(([at, loss]) => `${x(at)},${y(loss)}`).join(" ") });
    const text = (value, at, className) => svg("text", { x: at[0], y: at[1], class: className }, value);
    const ticks = [0, largest / 2, largest].flatMap((loss) => [
      svg("line", { class: "rule", x1: LEFT, x2: WIDTH - 8, y1: y(loss), y2: y(loss) }),
      text(loss.toFixed(1), [LEFT - 6, y(loss) + 4], "end"),
    ]);
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": "training-curve-title" },
      svg("title", { id: "training-curve-title" }, "Loss by update: nats per piece"),
      ...ticks,
      text("0", [LEFT, HEIGHT - 6], "middle"),
      text(`update ${last().toLocaleString("en")}`, [WIDTH - 8, HEIGHT - 6], "end"),
      line(training, "loss"),
      line(validation, "validation"),
      svg("line", { id: "training-marker", y1: 4, y2: HEIGHT - BOTTOM }),
    );
    const key = create("p", { className: "key" });
    for (const [className, name] of [["loss", "training loss"], ["validation", "validation loss"]]) {
      key.append(create("span", { className, textContent: name }));
    }
    element("training-curve").replaceChildren(picture, key);
  }

  // The attention.

  /** Draw what the explorer has selected: its part, its head; nothing where no sentence is shown. */
  function draw() {
    if (!recorded) return;
    const selected = explorer.selected();
    element("training-attention").hidden = !selected;
    if (!selected) return;
    const { layers, layer, head, queries, memory, row } = selected;
    const focused = document.activeElement.dataset.key;
    element("training-heads").replaceChildren(
      ...layers.flatMap((heads, ofLayer) =>
        heads.map((matrix, ofHead) => {
          const name = `layer ${ofLayer + 1}, head ${ofHead + 1}`;
          const button = create("button", { type: "button", key: `training-${name}`, title: name }, thumbnail(matrix));
          button.setAttribute("aria-label", name);
          button.setAttribute("aria-pressed", ofLayer === layer && ofHead === head);
          button.addEventListener("click", () => explorer.select({ layer: ofLayer, head: ofHead }));
          return button;
        }),
      ),
    );
    element("training-heads").style.setProperty("--heads", layers[0].length);
    element("training-heads-title").textContent = `Every head ${element("explorer-part").selectedOptions[0].text}`;
    element("training-head-title").textContent = `Layer ${layer + 1}, head ${head + 1}`;
    const table = numberTable(layers[layer][head], { queries, memory, row });
    element("training-head").replaceChildren(scrolling("Attention weights of this head", "scroll-training", table));
    if (focused?.startsWith("training-")) {
      document.querySelector(`#training [data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
    }
  }

  // The translation at every checkpoint.

  function showComparison(texts) {
    const lines = texts.map((text, index) => {
      const button = create("button", { type: "button", className: "quiet", textContent: updateName(index), key: `compare-${index}` });
      button.addEventListener("click", () => move(index));
      const cell = create("td", { textContent: text });
      cell.dir = "auto";
      return create("tr", {}, create("th", { scope: "row" }, button), cell);
    });
    const table = create("table", { className: "numbers texts" }, create("tbody", {}, ...lines));
    const { key } = document.activeElement.dataset;
    element("training-texts").replaceChildren(table);
    if (texts.length === recorded.updates.length) compared = wanted();
    if (key?.startsWith("compare-")) table.querySelector(`[data-key="${key}"]`)?.focus();
  }

  function readAddress() {
    const update = Number(new URLSearchParams(location.hash.slice(1)).get("update") ?? NaN);
    const index = recorded.updates.indexOf(update);
    return index < 0 ? recorded.updates.length : index;
  }

  let compared = ""; // the sentence whose translations are all shown, and the beam size
  const wanted = () => `${element("beam").value} ${explorer.sentence()}`;

  /** Translate at each checkpoint, if that is open and not done; playing would interrupt it. */
  function compare() {
    if (!element("training-comparison").open || compared === wanted()) return;
    pause();
    actions.compare();
  }

  /** The part of this page that page.js talks to. */
  window.training = {
    /**
     * @param {object | undefined} data the training, if the page holds one
     * @param {{request: () => void, compare: () => void}} callbacks translate with the checkpoint
     *   that is chosen, or with all
     */
    start(data, callbacks) {
      if (!data) return;
      [recorded, actions] = [data, callbacks];
      slider.max = recorded.updates.length;
      slider.value = readAddress();
      drawCurve();
      element("training").hidden = false;
      slider.addEventListener("input", () => {
        pause();
        choose();
      });
      element("training-play").addEventListener("click", play);
      element("training-comparison").addEventListener("toggle", compare);
      addEventListener("hashchange", () => readAddress() !== place() && move(readAddress()));
      describePlace();
    },
    /** @returns {number | undefined} the checkpoint that is chosen; none: the model itself */
    checkpoint: () => (recorded && !isFinal() ? place() : undefined),
    /** @param {string} text the translation */
    translated(text) {
      element("training-text").textContent = text;
    },
    /** What the checkpoint computes is known. */
    show() {
      if (!recorded) return;
      if (!timer) return compare();
      clearTimeout(timer);
      timer = setTimeout(next, PAUSE);
    },
    draw,
    pause,
    compare,
    /** @param {string[]} texts of the checkpoints so far */
    showComparison,
  };
})();
