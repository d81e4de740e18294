// Details of one sentence: confidence, alternative translations, warnings.
import { wordConfidences } from "./output.js";

const { make } = window.Drawing;

const CALIBRATED = "Confidence: how often words with this probability also appear in the reference.";
const UNCALIBRATED = "Probability of each piece. The model's confidence is not calibrated; run "
  + "transduce calibrate.";

// Two digits, and never "-0.00".
const formatScore = (score) => score.toFixed(2).replace(/^-(0\.00)$/, "$1");

const chip = (text, value) => {
  const item = make("li", { class: "chip" }, make("span", {}, text),
    make("span", { class: "value" }, value === null ? "–" : value.toFixed(2)));
  if (value !== null) item.style.setProperty("--doubt", (1 - value).toFixed(3));
  return item;
};

const legend = () => make("ul", { class: "doubts", "aria-hidden": "true" },
  ...[["high", 0], ["", 0.25], ["", 0.5], ["", 0.75], ["low", 1]].map(([text, doubt]) => {
    const item = make("li", {}, make("span", { class: "key" }), text);
    item.style.setProperty("--doubt", doubt);
    return item;
  }));

// Words with their confidence if the model is calibrated, else pieces with their probability.
export const showConfidence = (box, sentence, calibrated) => {
  const words = wordConfidences(sentence);
  const showWords = calibrated && words.some((word) => word.confidence !== null);
  const chips = showWords
    ? words.map(({ text, confidence }) => chip(text, confidence))
    : (sentence.pieces ?? []).filter((piece) => piece.log_prob !== null)
      .map((piece) => chip(piece.piece.replace("▁", ""), Math.exp(piece.log_prob)));
  if (!chips.length) {
    box.replaceChildren(make("p", { class: "note" }, "No probabilities for this sentence."));
    return;
  }
  const sentenceConfidence = showWords && sentence.confidence !== null
    ? [make("p", { class: "sentence-confidence" }, "Whole sentence: ",
      make("strong", {}, sentence.confidence.toFixed(2)))] : [];
  box.replaceChildren(...sentenceConfidence, make("ul", { class: "chips" }, ...chips), legend(),
    make("p", { class: "note" }, showWords ? CALIBRATED : UNCALIBRATED));
};

// The n-best list; each alternative is a button that selects it, if `onSelect` is given.
export const showAlternatives = (list, sentence, onSelect) => {
  const alternatives = (sentence.others ?? []).filter(({ text }) => text !== sentence.text);
  const row = (text, score) => [make("span", { class: "text", dir: "auto" }, text),
    make("span", { class: "score", title: "Log-probability divided by the length penalty" },
      formatScore(score))];
  const items = alternatives.map(({ text, score }) => {
    if (!onSelect) return make("li", { class: "plain" }, ...row(text, score));
    const button = make("button", { type: "button", title: "Use this translation" }, ...row(text, score));
    button.addEventListener("click", () => onSelect(text));
    return make("li", {}, button);
  });
  list.replaceChildren(make("li", { class: "best" }, ...row(sentence.text, sentence.score)), ...items);
  if (!items.length) {
    list.append(make("li", { class: "note" }, "No different translation."));
  }
};

// Text from the translation memory, lost markup, repetitions and splits.
export const warnings = ({ lost, from_memory: fromMemory, sentences }) => {
  const texts = [];
  if (fromMemory) {
    texts.push(sentences.length > 1 ? `${fromMemory} of ${sentences.length} sentences come from the translation memory.`
      : "From the translation memory, not from the model.");
  }
  if (lost.length) texts.push(`Not preserved: ${lost.join(", ")}`);
  sentences.forEach(({ flag, mended, parts, unfamiliar }, index) => {
    const subject = sentences.length > 1 ? `Sentence ${index + 1}` : "The translation";
    if (mended) {
      texts.push(`${subject} was retranslated because of a repetition${flag ? `: ${flag}` : ""}.`);
    } else if (flag) {
      texts.push(`${subject} may be repetitive: ${flag}.`);
    }
    if (unfamiliar) texts.push(`${subject} is unreliable: the text is unlike anything the model learned.`);
    if (parts > 1) texts.push(`${subject} exceeded the maximum length and was split into ${parts} parts.`);
  });
  return texts;
};
