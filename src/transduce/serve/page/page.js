// The page: what is typed is translated, and the inside of the model is shown below it.
import { asker, Refused, useKey } from "./ask.js";
import { remarks, showOthers, showSureness } from "./inside.js";
import { places, popover, showWords, ways, wordsOf } from "./words.js";

const $ = (id) => document.getElementById(id);
const { make } = window.Draw;
const [q, output, source, target] = ["q", "output", "source", "target"].map($);
const LONGEST_LINK = 2000; // characters of text that are kept in the address
const SOON = 350; // ms from a translation to the question what was looked at
const PATIENCE = 700; // ms after which it is said that a translation takes its time
const NBEST = 4;

let models = [];
let typed = false; // before the models were known, perhaps
let delay = 300;
let result = null; // the answer that is shown
let original = null; // the model's own, while a choice of words stands
let chosen = 0; // the sentence that is looked into
let typing = 0;
let looking = 0;
let slow = 0;
const choice = { words: false }; // of kind, layer and head: kept from sentence to sentence

const tell = (text) => { $("state").textContent = text; };
const askTranslation = asker(tell);
const askAgain = asker(tell);
const askWays = asker((text) => text && list.say(text));
const askLooks = asker((text) => { $("attention-state").textContent = text; });

// ---- languages ---------------------------------------------------------------------------
const model = () => models.find((one) => one.source.code === (result?.source ?? source.value)
  && one.target.code === target.value)
  ?? models.find((one) => source.value === "auto" ? one.target.code === target.value
    : one.source.code === source.value) ?? models[0];

const unique = (languages) => [...new Map(languages.map((one) => [one.code, one])).values()];

const fillBox = (box, languages, wanted) => {
  const value = wanted ?? box.value;
  box.replaceChildren(...languages.map(({ code, name }) => new Option(name || code, code)));
  box.value = languages.some(({ code }) => code === value) ? value : languages[0].code;
};

const fillSources = (wanted) => {
  const all = unique(models.map((one) => one.source));
  fillBox(source, all.length > 1 ? [{ code: "auto", name: "Detect language" }, ...all] : all, wanted);
};
const fillTargets = (wanted) => fillBox(target, unique(models
  .filter((one) => source.value === "auto" || one.source.code === source.value)
  .map((one) => one.target)), wanted);

const other = () => {
  const from = source.value === "auto" ? result?.source : source.value;
  return models.some((one) => one.source.code === target.value && one.target.code === from)
    ? { source: target.value, target: from } : null;
};

const dress = () => {
  const { name, parameters, engine, limits } = model();
  const size = parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} M` : `${Math.round(parameters / 1e3)} k`;
  $("model").textContent = `${name} · ${size} parameters · ${engine}`;
  const length = [...q.value].length;
  const limit = limits.characters;
  $("count").textContent = limit >= 0 ? `${length} / ${limit}` : `${length}`;
  $("count").classList.toggle("over", limit >= 0 && length > limit);
  $("clear").hidden = !q.value;
  $("swap").disabled = !other();
  const auto = [...source.options].find((one) => one.value === "auto");
  const found = result?.detected;
  if (auto) {
    const language = models.find((one) => one.source.code === found?.language)?.source.name;
    auto.text = found && q.value
      ? `${language || found.language} (detected, ${Math.round(found.confidence)} %)` : "Detect language";
  }
};

const keep = () => {
  const state = new URLSearchParams({ source: source.value, target: target.value });
  if (q.value && q.value.length <= LONGEST_LINK) state.set("q", q.value);
  history.replaceState(null, "", `?${state}`);
};

// ---- translating -------------------------------------------------------------------------
const body = (more) => ({
  source: source.value,
  target: target.value,
  nbest: Math.min(NBEST, ...models.map((one) => one.beam)),
  markup: "placeholders",
  ...more,
});

const fail = (error) => {
  if (!(error instanceof Refused)) throw error;
  clearTimeout(slow);
  tell(error.message);
  output.removeAttribute("aria-busy");
  if (/API key/.test(error.message)) $("key").hidden = false;
};

const translate = async () => {
  clearTimeout(typing);
  clearTimeout(looking);
  list.close();
  askAgain.stop();
  if (!q.value.trim() || $("count").classList.contains("over")) {
    clearTimeout(slow);
    askTranslation.stop();
    askLooks.stop();
    if (q.value.trim()) tell("The text is longer than this server takes.");
    show(null);
    return;
  }
  output.setAttribute("aria-busy", "true");
  clearTimeout(slow);
  slow = setTimeout(() => { if (!$("state").textContent) tell("Translating…"); }, PATIENCE);
  try {
    const found = await askTranslation("api/translate", body({ text: q.value }));
    if (!found) return; // a newer question is on its way
    clearTimeout(slow);
    tell("");
    original = null;
    chosen = Math.min(chosen, Math.max(found.sentences.length - 1, 0));
    show(found);
  } catch (error) {
    fail(error);
  }
};

const soon = () => {
  clearTimeout(typing);
  typing = setTimeout(translate, delay);
};

// ---- showing -----------------------------------------------------------------------------
const show = (answer, focus = null) => {
  result = answer;
  output.removeAttribute("aria-busy");
  output.lang = answer?.target ?? "";
  showWords(output, answer?.text ?? "", answer?.sentences ?? [], answer?.sentences.length > 1 ? chosen : null);
  $("copy").hidden = !answer?.text;
  $("copy").textContent = "Copy";
  $("undo").hidden = !original;
  $("said").textContent = answer?.text ?? "";
  const found = answer ? remarks(answer) : [];
  $("notes").hidden = !found.length;
  $("notes").replaceChildren(...found.map((text) => make("li", {}, text)));
  dress();
  if (focus) output.querySelector(`[data-sentence="${focus.sentence}"][data-word="${focus.word}"]`)?.focus();
  lookInside();
};

const lookInside = () => {
  const sentences = result?.sentences ?? [];
  $("inside").hidden = !sentences.length;
  clearTimeout(looking);
  if (!sentences.length) return;
  pickSentence(sentences);
  const one = sentences[chosen];
  showSureness($("sure"), one, model().calibrated);
  showOthers($("others"), one, (text) => goOn(chosen, text, null));
  $("attention").setAttribute("aria-busy", "true");
  looking = setTimeout(showLooks, SOON, one);
};

const pickSentence = (sentences) => {
  const box = $("sentences");
  box.hidden = sentences.length < 2;
  box.replaceChildren(...sentences.map((one, at) => make("button", { type: "button", role: "radio",
    "aria-checked": at === chosen, tabindex: at === chosen ? 0 : -1, "data-at": at }, one.source)));
};

const choose = (at, focus = false) => {
  if (at === chosen || !result?.sentences[at]) return;
  chosen = at;
  output.querySelectorAll(".said").forEach((word) =>
    word.classList.toggle("chosen", +word.dataset.sentence === at));
  lookInside();
  if (focus) $("sentences").children[at].focus();
};

const showLooks = async (one) => {
  if (!one.text) return;
  try {
    const data = await askLooks("api/attention",
      { text: one.source, translation: one.text, source: result.source, target: result.target });
    if (!data) return;
    $("attention-state").textContent = "";
    window.AttentionView.mount($("attention"), data, choice);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    $("attention").replaceChildren();
    $("attention-state").textContent = error.message;
  }
  $("attention").removeAttribute("aria-busy");
};

// ---- other ways to go on -----------------------------------------------------------------
const placeOf = (word) => {
  const [sentence, at] = [+word.dataset.sentence, +word.dataset.word];
  const { text } = result.sentences[sentence];
  return { sentence, word: at, after: text.slice(0, wordsOf(text)[at].start).trimEnd() };
};

let asked = null; // the word whose other ways are listed
const list = popover($("popover"), (way) => {
  goOn(asked.sentence, way.begin, way, asked.word);
});

const offer = async (word) => {
  asked = placeOf(word);
  list.open(word);
  choose(asked.sentence);
  const one = result.sentences[asked.sentence];
  try {
    const found = await askWays("api/alternatives", { text: one.source, after: asked.after, count: 6,
      source: result.source, target: result.target });
    if (found) list.fill(ways(found.alternatives, asked.after), word.textContent);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    list.say(error.message);
  }
};

// Puts a sentence that begins as asked in the place of the one that stands there.
const goOn = async (number, prefix, way, word = null) => {
  const before = result;
  const one = before.sentences[number];
  const spot = places(before.text, before.sentences)[number];
  output.setAttribute("aria-busy", "true");
  try {
    let sentence = null;
    if (way?.ends) {
      sentence = { ...one, text: way.text, words: [], pieces: [], others: [], confidence: null, flag: "" };
    } else {
      const { source: from, target: to } = before;
      const asked = body({ text: one.source, source: from, target: to, prefix });
      const found = await askAgain("api/translate", asked);
      if (!found || result !== before) return;
      sentence = { ...(found.sentences[0] ?? one), text: found.text, source: one.source };
    }
    tell("");
    original ??= before;
    const text = spot ? before.text.slice(0, spot.start) + sentence.text + before.text.slice(spot.end)
      : sentence.text;
    show({ ...before, text, sentences: before.sentences.with(number, sentence) },
      word === null ? null : { sentence: number, word });
  } catch (error) {
    fail(error);
  }
};

// ---- hands and keys ----------------------------------------------------------------------
q.addEventListener("input", () => {
  typed = true;
  if (!models.length) return;
  keep();
  dress();
  soon();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !models.length) return;
  event.preventDefault();
  translate();
});
source.addEventListener("change", () => { fillTargets(); keep(); result = null; translate(); });
target.addEventListener("change", () => { keep(); translate(); });
$("clear").addEventListener("click", () => { q.value = ""; keep(); translate(); q.focus(); });
$("undo").addEventListener("click", () => { const back = original; original = null; show(back); });
$("swap").addEventListener("click", () => {
  const next = other();
  if (!next) return;
  if (result?.text) q.value = result.text;
  result = null;
  source.value = next.source;
  fillTargets(next.target);
  keep();
  translate();
});

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(result.text);
  } catch { // no clipboard on a plain connection: the older way
    getSelection().selectAllChildren(output);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
});

output.addEventListener("click", (event) => {
  const word = event.target.closest(".said");
  if (word && getSelection().isCollapsed) offer(word);
});
output.addEventListener("keydown", (event) => {
  const word = event.target.closest(".said");
  if (!word) return;
  const all = [...output.querySelectorAll(".said")];
  const next = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.key === "Enter" && !event.ctrlKey || event.key === " ") {
    event.preventDefault();
    offer(word);
  } else if (next && all[all.indexOf(word) + next]) {
    event.preventDefault();
    word.tabIndex = -1;
    all[all.indexOf(word) + next].tabIndex = 0;
    all[all.indexOf(word) + next].focus();
  }
});
$("sentences").addEventListener("click", (event) => {
  if (event.target.dataset.at) choose(+event.target.dataset.at);
});
$("sentences").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  choose(chosen + step, true);
});
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey($("key-text").value.trim());
  $("key").hidden = true;
  translate();
});

// ---- the beginning -----------------------------------------------------------------------
const begin = async () => {
  const wanted = new URLSearchParams(location.search);
  try {
    models = await asker(tell)("api/models");
  } catch (error) {
    fail(error);
    return;
  }
  asker()("frontend/settings").then(({ frontendTimeout }) => {
    if (frontendTimeout > 0) delay = frontendTimeout;
  }).catch(() => {});
  fillSources(wanted.get("source") ?? models[0].source.code);
  fillTargets(wanted.get("target") ?? models[0].target.code);
  if (typed) keep();
  else q.value = wanted.get("q") ?? "";
  if (!q.value && !typed && model().example) {
    q.value = model().example;
    q.addEventListener("focus", () => q.select(), { once: true }); // typing takes the example's place
  }
  dress();
  document.body.dataset.ready = "";
  translate();
};

begin();
