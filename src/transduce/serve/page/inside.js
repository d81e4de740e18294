// What is told of one sentence: how sure the model was, what else it might have said.
import { confidences } from "./words.js";

const { make } = window.Draw;

const LEARNED = "Below each word its confidence: of words that the model said as surely, that share "
  + "stood in a person's translation too.";
const PIECES = "Below each piece the probability that the model gave it. It has not learned yet what "
  + "its confidence is worth; transduce calibrate teaches it.";

const shaded = (text, value, doubt) => {
  const chip = make("li", { class: "chip" }, make("span", {}, text),
    make("span", { class: "value" }, value === null ? "–" : value.toFixed(2)));
  if (doubt !== null) chip.style.setProperty("--doubt", doubt.toFixed(3));
  return chip;
};

const legend = () => make("ul", { class: "doubts", "aria-hidden": "true" },
  ...[["sure", 0], ["", 0.25], ["", 0.5], ["", 0.75], ["unsure", 1]].map(([text, doubt]) => {
    const key = make("li", {}, make("span", { class: "key" }), text);
    key.style.setProperty("--doubt", doubt);
    return key;
  }));

// Words with their confidence where the model was calibrated, else pieces with their probability.
export const showSureness = (box, sentence, calibrated) => {
  const words = confidences(sentence);
  const known = calibrated && words.some((word) => word.confidence !== null);
  const chips = known
    ? words.map(({ text, confidence }) => shaded(text, confidence, 1 - confidence))
    : (sentence.pieces ?? []).filter(({ log_prob: one }) => one !== null).map(({ piece, log_prob: one }) =>
      shaded(piece.replace("▁", ""), Math.exp(one), 1 - Math.exp(one)));
  if (!chips.length) {
    box.replaceChildren(make("p", { class: "note" }, "The model says nothing about this one."));
    return;
  }
  const whole = known && sentence.confidence !== null
    ? [make("p", { class: "whole" }, "The whole sentence: ",
      make("strong", {}, sentence.confidence.toFixed(2)))] : [];
  box.replaceChildren(...whole, make("ul", { class: "chips" }, ...chips), legend(),
    make("p", { class: "note" }, known ? LEARNED : PIECES));
};

// The other translations of an n-best list, each a button that takes it.
export const showOthers = (list, sentence, take) => {
  const others = (sentence.others ?? []).filter(({ text }) => text !== sentence.text);
  const row = (text, score) => [make("span", { class: "text", dir: "auto" }, text),
    make("span", { class: "score", title: "score: ln p, by length" }, score.toFixed(2))];
  const items = others.map(({ text, score }) => {
    const button = make("button", { type: "button", "aria-label": `Take: ${text}` }, ...row(text, score));
    button.addEventListener("click", () => take(text));
    return make("li", {}, button);
  });
  list.replaceChildren(make("li", { class: "best" }, ...row(sentence.text, sentence.score)), ...items);
  if (!items.length) {
    list.append(make("li", { class: "note" }, "Nothing that differs."));
  }
};

// What to look at twice: markup that did not come out whole, and what the model itself doubts.
export const remarks = ({ lost, sentences }) => {
  const found = [];
  if (lost.length) found.push(`Did not come out whole: ${lost.join(", ")}`);
  sentences.forEach((one, at) => {
    const which = sentences.length > 1 ? `Sentence ${at + 1}` : "The translation";
    if (one.mended) {
      const why = one.flag ? ` (it ${one.flag})` : "";
      found.push(`${which} came out as a loop at first${why} and was translated again.`);
    } else if (one.flag) {
      found.push(`${which} may be a loop: it ${one.flag}.`);
    }
    if (one.parts > 1) found.push(`${which} was too long and was translated in ${one.parts} parts.`);
  });
  return found;
};
