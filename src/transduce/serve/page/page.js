// The page: translates the text while it is typed and shows details of the translation.
import { createRequester, RequestError, setApiKey } from "./api_client.js";
import { showAlternatives, showConfidence, warnings } from "./details.js";
import { offerCorrections } from "./corrections.js";
import { offerFiles } from "./files.js";
import {
  continuations, createPopover, inItsCase, sentenceRanges, showWords, sourceAsRead, textAsWritten, wordsOf,
} from "./output.js";

const $ = (id) => document.getElementById(id);
const { make } = window.Drawing;
const [input, output, source, target] = ["q", "output", "source", "target"].map($);
const STORED_TEXT = "transduce-text"; // in this tab's storage: a text in the address would reach logs and histories
const ATTENTION_DELAY_MS = 350; // from a translation to the request for its attention weights
const PROGRESS_DELAY_MS = 700; // until a slow translation shows a message
const NBEST = 4;

let models = [];
let edited = false; // possibly before the models are loaded
let typingDelay = 300; // ms
let result = null; // the response on display
let translated = ""; // the text that it translates
let acceptsCorrections = false;
let closeCorrection = () => {};
let original = null; // the model's own translation, while an alternative is on display
let selected = 0; // index of the sentence whose details are shown
let typingTimer = 0;
let attentionTimer = 0;
let progressTimer = 0;
const attentionSelection = { words: false }; // kind, layer and head, kept between sentences

const showStatus = (text) => { $("state").textContent = text; };
const requestTranslation = createRequester(showStatus);
const requestRevision = createRequester(showStatus);
const requestAlternatives = createRequester((text) => text && popover.showMessage(text));
const requestAttention = createRequester((text) => { $("attention-state").textContent = text; });

// ---- languages ---------------------------------------------------------------------------
const hasLanguages = (model, from, to) => model.source.code === from && model.target.code === to;

const currentModel = () =>
  models.find((model) => hasLanguages(model, result?.source ?? source.value, target.value))
  ?? models.find((model) => (source.value === "auto" ? model.target.code === target.value
    : model.source.code === source.value)) ?? models[0];

const unique = (languages) =>
  [...new Map(languages.map((language) => [language.code, language])).values()];

const fillSelect = (box, languages, requested) => {
  const value = requested ?? box.value;
  box.replaceChildren(...languages.map(({ code, name }) => new Option(name || code, code)));
  box.value = languages.some(({ code }) => code === value) ? value : languages[0].code;
};

const fillSources = (requested) => {
  const languages = unique(models.map((model) => model.source));
  const auto = languages.length > 1 ? [{ code: "auto", name: "Detect language" }] : [];
  fillSelect(source, [...auto, ...languages], requested);
};
const fillTargets = (requested) => fillSelect(target, unique(models
  .filter((model) => source.value === "auto" || model.source.code === source.value)
  .map((model) => model.target)), requested);

const reverseDirection = () => {
  const from = source.value === "auto" ? result?.source : source.value;
  return models.some((model) => hasLanguages(model, target.value, from))
    ? { source: target.value, target: from } : null;
};

const updateControls = () => {
  const { name, parameters, engine, limits } = currentModel();
  const size = parameters >= 1e6 ? `${(parameters / 1e6).toFixed(1)} million`
    : `${Math.round(parameters / 1e3)} thousand`;
  const [from, to] = [currentModel().source, currentModel().target].map((language) => language.name || language.code);
  $("model").textContent = `${from} → ${to}: a model with ${size} parameters`;
  $("model").title = `${name}, ${engine}`;
  const length = [...input.value].length;
  const limit = limits.characters;
  $("count").textContent = limit >= 0 ? `${length} / ${limit}` : `${length}`;
  $("count").classList.toggle("over", limit >= 0 && length > limit);
  $("clear").hidden = !input.value;
  $("swap").disabled = !reverseDirection();
  const autoOption = [...source.options].find((option) => option.value === "auto");
  const detected = result?.detected;
  if (autoOption) {
    const name = models.find((model) => model.source.code === detected?.language)?.source.name;
    autoOption.text = detected && input.value
      ? `${name || detected.language} (detected, ${Math.round(detected.confidence)} %)` : "Detect language";
  }
};

const storeText = () => {
  try { sessionStorage.setItem(STORED_TEXT, input.value); } catch { /* storage is disabled */ }
};
// At a change of language only: browsers limit how often a page may change its address.
const updateAddress = () => {
  history.replaceState(null, "", `?${new URLSearchParams({ source: source.value, target: target.value })}`);
  storeText();
};
const storedText = () => {
  try { return sessionStorage.getItem(STORED_TEXT) ?? ""; } catch { return ""; }
};

// ---- translation -------------------------------------------------------------------------
const requestBody = (fields) => ({
  source: source.value,
  target: target.value,
  nbest: Math.min(NBEST, ...models.map((model) => model.beam)),
  markup: "placeholders",
  ...fields,
});

const showError = (error) => {
  if (!(error instanceof RequestError)) throw error;
  clearTimeout(progressTimer);
  showStatus(error.message);
  output.removeAttribute("aria-busy");
  if (/API key/.test(error.message)) $("key").hidden = false;
};

const translate = async () => {
  clearTimeout(typingTimer);
  clearTimeout(attentionTimer);
  popover.close();
  requestRevision.cancel();
  if (!input.value.trim() || $("count").classList.contains("over")) {
    clearTimeout(progressTimer);
    requestTranslation.cancel();
    requestAttention.cancel();
    if (input.value.trim()) showStatus("The text exceeds the server's character limit.");
    original = null;
    showResult(null);
    return;
  }
  output.setAttribute("aria-busy", "true");
  clearTimeout(progressTimer);
  progressTimer = setTimeout(() => { if (!$("state").textContent) showStatus("Translating…"); }, PROGRESS_DELAY_MS);
  const text = input.value;
  try {
    const response = await requestTranslation("api/translate", requestBody({ text }));
    if (!response) return; // a newer request is running
    translated = text;
    clearTimeout(progressTimer);
    showStatus("");
    original = null;
    selected = Math.min(selected, Math.max(response.sentences.length - 1, 0));
    showResult(response);
  } catch (error) {
    if (error instanceof RequestError) {
      original = null;
      showResult(null); // the translation on display is of another text or other languages
    }
    showError(error);
  }
};

const translateSoon = () => {
  clearTimeout(typingTimer);
  typingTimer = setTimeout(translate, typingDelay);
};

// ---- display -----------------------------------------------------------------------------
const showResult = (response, focus = null) => {
  popover.close();
  closeCorrection();
  requestAlternatives.cancel();
  result = response;
  output.removeAttribute("aria-busy");
  output.lang = response?.target ?? "";
  const sentences = response?.sentences ?? [];
  showWords(output, response?.text ?? "", sentences, sentences.length > 1 ? selected : null);
  $("copy").hidden = !response?.text;
  $("copy").textContent = "Copy";
  $("undo").hidden = !original;
  $("correct").hidden = !acceptsCorrections || !response?.text;
  $("announcement").textContent = response?.text ?? "";
  const texts = response ? warnings(response) : [];
  $("notes").hidden = !texts.length;
  $("notes").replaceChildren(...texts.map((text) => make("li", {}, text)));
  updateControls();
  if (focus) output.querySelector(`[data-sentence="${focus.sentence}"][data-word="${focus.word}"]`)?.focus();
  showDetails();
};

const showDetails = () => {
  const sentences = result?.sentences ?? [];
  $("details").hidden = !sentences.length;
  clearTimeout(attentionTimer);
  if (!sentences.length) return;
  showSentenceChoice(sentences);
  const sentence = sentences[selected];
  const { explorer } = currentModel();
  $("explore").hidden = !explorer;
  // A browser sends no fragment: the sentence stays on this device.
  $("explore").href = `${explorer}#sentence=${encodeURIComponent(sourceAsRead(sentence))}`;
  showConfidence($("confidence"), sentence, currentModel().calibrated);
  const replaceable = sentences.length === 1 || sentenceRanges(result.text, sentences)[selected];
  // What is in capitals is no text of the model, so no prefix.
  const choose = (text) => revise(selected, text, sentence.recased ? { ends: true, text } : null);
  showAlternatives($("alternatives"), sentence, replaceable && choose);
  $("attention").setAttribute("aria-busy", "true");
  attentionTimer = setTimeout(showAttention, ATTENTION_DELAY_MS, sentence);
};

// What a correction is of: the selected sentence, or a text from the translation memory; null if none.
const correctable = () => {
  if (!result) return null;
  const sentence = result.sentences[selected] ?? { source: translated, text: result.text };
  return { q: sentence.source, s: sentence.text, source: result.source, target: result.target };
};

const showSentenceChoice = (sentences) => {
  const box = $("sentences");
  box.hidden = sentences.length < 2;
  box.replaceChildren(...sentences.map((sentence, index) => make("button", { type: "button", role: "radio",
    "aria-checked": index === selected, tabindex: index === selected ? 0 : -1, "data-index": index },
    sentence.source)));
};

const selectSentence = (index, focus = false) => {
  if (index === selected || !result?.sentences[index]) return;
  selected = index;
  output.querySelectorAll(".word").forEach((word) =>
    word.classList.toggle("selected", +word.dataset.sentence === index));
  showDetails();
  if (focus) $("sentences").children[index].focus();
};

const showAttention = async (sentence) => {
  if (!sentence.text) return;
  try {
    const weights = await requestAttention("api/attention", { text: sourceAsRead(sentence),
      translation: textAsWritten(sentence), source: result.source, target: result.target });
    if (!weights) return;
    $("attention-state").textContent = "";
    window.AttentionView.mount($("attention"), weights, attentionSelection);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    $("attention").replaceChildren();
    $("attention-state").textContent = error.message;
  }
  $("attention").removeAttribute("aria-busy");
};

// ---- alternatives ------------------------------------------------------------------------
const positionOf = (word) => {
  const [sentence, index] = [+word.dataset.sentence, +word.dataset.word];
  const text = textAsWritten(result.sentences[sentence]);
  const { start, text: current } = wordsOf(text)[index];
  return { sentence, word: index, current, after: text.slice(0, start).trimEnd() };
};

let openPosition = null; // of the word whose alternatives are listed
const popover = createPopover($("popover"), (continuation) => {
  revise(openPosition.sentence, continuation.prefix, continuation, openPosition.word);
});

const listAlternatives = async (word) => {
  if (!result) return; // the languages have changed, the answer is not here yet
  openPosition = positionOf(word);
  popover.open(word);
  selectSentence(openPosition.sentence);
  const sentence = result.sentences[openPosition.sentence];
  try {
    const response = await requestAlternatives("api/alternatives", { text: sourceAsRead(sentence),
      after: openPosition.after, count: 6, source: result.source, target: result.target });
    if (response) popover.fill(continuations(response.alternatives, openPosition.after), openPosition.current);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    popover.showMessage(error.message);
  }
};

// Replaces a sentence by a translation that begins with `prefix`.
const revise = async (index, prefix, continuation, word = null) => {
  const previous = result;
  if (!previous) return;
  const current = previous.sentences[index];
  const range = sentenceRanges(previous.text, previous.sentences)[index];
  output.setAttribute("aria-busy", "true");
  try {
    let sentence = null;
    if (continuation?.ends) {
      sentence = { ...current, text: inItsCase(current, continuation.text), usual: continuation.text, words: [], pieces: [], others: [],
        confidence: null, flag: "" };
    } else {
      const { source: from, target: to } = previous;
      const response = await requestRevision("api/translate",
        requestBody({ text: sourceAsRead(current), source: from, target: to, prefix }));
      if (!response || result !== previous) return;
      const { source: given, recased } = current;
      sentence = { ...(response.sentences[0] ?? current), text: inItsCase(current, response.text), usual: response.text, source: given, recased };
    }
    showStatus("");
    original ??= previous;
    const text = range
      ? previous.text.slice(0, range.start) + sentence.text + previous.text.slice(range.end)
      : sentence.text;
    showResult({ ...previous, text, sentences: previous.sentences.with(index, sentence) },
      word === null ? null : { sentence: index, word });
  } catch (error) {
    showError(error);
  }
};

// ---- events ------------------------------------------------------------------------------
input.addEventListener("input", () => {
  edited = true;
  if (!models.length) return;
  storeText();
  updateControls();
  translateSoon();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !models.length) return;
  event.preventDefault();
  translate();
});
const changeLanguages = () => { updateAddress(); updateControls(); translate(); };
source.addEventListener("change", () => { fillTargets(); result = null; changeLanguages(); });
target.addEventListener("change", changeLanguages);
$("clear").addEventListener("click", () => { input.value = ""; storeText(); translate(); input.focus(); });
$("undo").addEventListener("click", () => {
  const restored = original;
  original = null;
  showResult(restored);
});
$("swap").addEventListener("click", () => {
  const reverse = reverseDirection();
  if (!reverse) return;
  if (result?.text) input.value = result.text;
  result = null;
  source.value = reverse.source;
  fillTargets(reverse.target);
  changeLanguages();
});

$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(result.text);
  } catch { // the clipboard API needs a secure context
    getSelection().selectAllChildren(output);
    document.execCommand("copy");
    getSelection().removeAllRanges();
  }
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 2000);
});

output.addEventListener("click", (event) => {
  const word = event.target.closest(".word");
  if (word && getSelection().isCollapsed) listAlternatives(word);
});
output.addEventListener("keydown", (event) => {
  const word = event.target.closest(".word");
  if (!word) return;
  const words = [...output.querySelectorAll(".word")];
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const next = step && words[words.indexOf(word) + step];
  if (event.key === "Enter" && !event.ctrlKey || event.key === " ") {
    event.preventDefault();
    listAlternatives(word);
  } else if (next) {
    event.preventDefault();
    word.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
});
$("sentences").addEventListener("click", (event) => {
  if (event.target.dataset.index) selectSentence(+event.target.dataset.index, true);
});
$("sentences").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  selectSentence(selected + step, true);
});
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  setApiKey($("key-text").value.trim());
  $("key").hidden = true;
  translate();
});

// ---- start -------------------------------------------------------------------------------
const start = async () => {
  const query = new URLSearchParams(location.search);
  try {
    models = await createRequester(showStatus)("api/models");
  } catch (error) {
    showError(error);
    return;
  }
  createRequester()("frontend/settings").then(({ frontendTimeout, filesTranslation, suggestions, supportedFilesFormat }) => {
    typingDelay = frontendTimeout;
    if (suggestions) {
      acceptsCorrections = true;
      closeCorrection = offerCorrections(correctable, () => translate().then(() => showStatus("The correction is stored.")));
      if (result) showResult(result);
    }
    if (filesTranslation) offerFiles(supportedFilesFormat, () => ({ source: source.value, target: target.value }));
  }).catch(() => {});
  fillSources(query.get("source") ?? models[0].source.code);
  fillTargets(query.get("target") ?? models[0].target.code);
  if (!edited) input.value = query.get("q") ?? storedText();
  if (edited || query.has("q")) updateAddress();
  if (!input.value && !edited && currentModel().example) {
    input.value = currentModel().example;
    input.addEventListener("focus", () => input.select(), { once: true }); // typing replaces it
  }
  updateControls();
  document.body.dataset.ready = "";
  translate();
};

start();
