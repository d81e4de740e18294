/** The page around the translator: it shows what the worker answers. */

(() => {
  const DELAY = 120; // milliseconds without typing before a translation begins
  const element = (id) => document.getElementById(id);
  const [input, output, state] = [element("q"), element("output"), element("state")];
  const description = JSON.parse(element("description").textContent);
  const { languages, search } = description;
  const name = (side) => languages[`${side}_name`] || languages[side];
  let number = 0; // of the newest request
  let pending = false; // the answer to it, or the numbers that follow
  let ready = false;
  let timer = 0;

  element("source").textContent = name("source");
  element("target").textContent = name("target");
  element("model").textContent = description.summary;
  if (/^[a-z]{2,3}(-|$)/i.test(languages.target)) output.lang = languages.target;
  const beam = element("beam");
  if (![...beam.options].some(({ value }) => Number(value) === search.beam)) {
    beam.add(new Option(search.beam));
  }
  beam.value = search.beam;

  const source = URL.createObjectURL(
    new Blob([element("engine").textContent], { type: "text/javascript" }),
  );
  const worker = new Worker(source);
  worker.onmessage = ({ data }) => receive(data);
  worker.onerror = ({ message }) => showProblem(message || "The translator could not start.");
  worker.postMessage({
    load: { description, weights: element("weights").textContent, base: location.href },
  });
  element("weights").remove(); // the worker has it

  function receive({ progress, total, ready: loaded, partial, answer, problem, ...results }) {
    const { exploration, ablation, comparison } = results;
    if (problem) showProblem(problem);
    if (progress) state.textContent = `Loading the model: ${megabytes(progress)} of ${megabytes(total)} MB`;
    if (loaded) {
      ready = true;
      state.textContent = "";
      explorer.start(description.model, { explore, ablate, cancel, selected: training.draw });
      training.start(description.history, { request, compare });
      request();
    }
    if (partial?.number === number) show(partial.text, { partial: true });
    if (answer?.number === number) {
      element("problem").hidden = true;
      show(answer.text);
      training.translated(answer.text);
      showAlternatives(answer.alternatives);
      busy(false);
      state.textContent = answer.text ? `${seconds(answer.seconds)} on this device` : "";
      explore();
    }
    if (exploration?.number === number) {
      pending = false;
      explorer.show(exploration);
      training.show(exploration);
    }
    if (comparison?.number === number) training.showComparison(comparison.texts);
    if (ablation) explorer.showAblation(ablation);
    if (ablation?.done) training.compare(); // which it may have replaced
  }

  /** Ask for the numbers of the first sentence; a translation in progress asks when it is done. */
  function explore() {
    if (!element("stop").hidden) return;
    number += 1;
    pending = true;
    const switches = explorer.switches(firstLine());
    worker.postMessage({ exploration: { number, text: firstLine(), switches, ...settings() } });
  }

  // The worker does one thing at a time: what follows would replace what is pending.

  /** @returns {boolean} false if the sentence or its numbers are about to change */
  function ablate(options) {
    if (pending) return false;
    worker.postMessage({ ablation: { ...options, text: explorer.sentence(), ...settings() } });
    return true;
  }

  /** Ask for the translation at each checkpoint; once nothing is pending, `training.show` does. */
  function compare() {
    if (pending) return;
    explorer.stopAblation();
    const text = explorer.sentence();
    worker.postMessage({ comparison: { number, text, beam: Number(beam.value) } });
  }

  const settings = () => ({ beam: Number(beam.value), checkpoint: training.checkpoint() });

  const cancel = () => worker.postMessage({ cancel: true });
  const firstLine = () => input.value.trim().split("\n")[0];

  function request() {
    clearTimeout(timer);
    if (!ready) return;
    explorer.stopAblation();
    number += 1;
    pending = true;
    worker.postMessage({ request: { number, text: input.value, ...settings() } });
    if (input.value.trim()) busy(true);
  }

  function show(text, { partial = false } = {}) {
    output.textContent = text;
    output.classList.toggle("partial", partial);
    element("copy").hidden = partial || !text;
  }

  function busy(is) {
    pending = is;
    output.setAttribute("aria-busy", is);
    element("stop").hidden = !is;
    if (is) state.textContent = "Translating…";
  }

  function stop() {
    if (element("stop").hidden) return;
    training.pause();
    number += 1;
    cancel();
    busy(false);
    state.textContent = "Stopped.";
  }

  function showAlternatives(alternatives) {
    element("details").hidden = !output.textContent;
    element("alternatives").replaceChildren(
      ...alternatives.map(({ text, score }) => {
        const item = document.createElement("li");
        const line = document.createElement("div");
        line.className = "plain";
        const value = document.createElement("span");
        value.className = "score";
        value.textContent = score.toFixed(2).replace("-", "−");
        line.append(text, value);
        item.append(line);
        return item;
      }),
    );
  }

  function showProblem(text) {
    busy(false);
    state.textContent = "";
    element("problem").textContent = text;
    element("problem").hidden = false;
  }

  const megabytes = (bytes) => (bytes / 1e6).toFixed(1);
  const seconds = (value) =>
    value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`;

  input.addEventListener("input", () => {
    element("count").textContent = `${[...input.value].length.toLocaleString("en")} characters`;
    element("clear").hidden = !input.value;
    clearTimeout(timer);
    timer = setTimeout(request, DELAY);
  });
  beam.addEventListener("change", request);
  element("stop").addEventListener("click", stop);
  addEventListener("keydown", ({ key }) => key === "Escape" && stop());
  function readSentence() {
    const linked = new URLSearchParams(location.hash.slice(1)).get("sentence");
    if (!linked || linked === input.value) return;
    input.value = linked;
    input.dispatchEvent(new Event("input"));
  }
  readSentence();
  addEventListener("hashchange", readSentence);
  element("clear").addEventListener("click", () => {
    input.value = "";
    input.dispatchEvent(new Event("input"));
    input.focus();
  });
  element("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(output.textContent);
      state.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(output);
      state.textContent = "Selected: copy it with the keyboard.";
    }
  });
})();
