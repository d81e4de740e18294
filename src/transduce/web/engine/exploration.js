/** What the explorer shows of one sentence: its tensors, its search, and the effect of switches. */

import { tidy } from "./corpus.js";
import { lengthPenalty } from "./search.js";
import { softmax } from "./tensor.js";
import { Tokenizer } from "./tokenizer.js";
import { trace, translateSwitched } from "./trace.js";

const LONGEST = 48; // pieces of a sentence whose every number can be shown
const TOP = 10; // next pieces shown for a position

/**
 * @param {Translator} translator
 * @param {string} text one sentence
 * @param {object} [options]
 * @param {Switches} [options.switches] see trace.js
 * @param {number} [options.beam]
 * @returns {object} `problem`, a sentence, if it cannot be shown
 */
export function explore(translator, text, { switches = {}, beam } = {}) {
  const { model, tokenizer, search } = translator;
  const ids = tokenizer.encode(tidy(text));
  if (!ids.length) return { problem: "Enter a sentence to see its numbers." };
  if (ids.length > LONGEST) {
    return { problem: `Choose a shorter sentence: this one has ${ids.length} pieces, above ${LONGEST}.` };
  }
  const source = [...ids, Tokenizer.EOS];
  const settings = { beam: beam ?? search.beam, alpha: search.alpha };
  const { steps, hypotheses } = searchSteps(translator, ids, settings);
  const changed = Object.keys(switches).length > 0;
  const limit = ids.length + search.extra;
  const target = changed
    ? translateSwitched(model, source, { switches, limit, eos: Tokenizer.EOS })
    : hypotheses[0].ids;
  const tensors = trace(model, source, [model.pad, ...target.slice(0, -1)], switches);
  const logits = tensors.get("logits");
  tensors.delete("logits"); // a row for each position, as long as the vocabulary: the best suffice
  return {
    source: tokenizer.pieces(source),
    targetIn: ["<start>", ...tokenizer.pieces(target.slice(0, -1))],
    target: tokenizer.pieces(target),
    text: tokenizer.decode(target),
    untouched: tokenizer.decode(hypotheses[0].ids),
    tensors,
    next: Array.from({ length: logits.rows }, (_, row) => topPieces(tokenizer, logits.row(row))),
    steps,
    hypotheses: hypotheses.map((hypothesis) => ({
      ...hypothesis,
      text: tokenizer.decode(hypothesis.ids),
      penalty: lengthPenalty(hypothesis.ids.length, settings.alpha),
    })),
  };
}

function topPieces(tokenizer, logits) {
  logits[logits.length - 1] = -Infinity; // PAD is never output
  const probabilities = softmax(logits);
  const order = Array.from(probabilities.keys());
  order.sort((first, second) => probabilities[second] - probabilities[first]);
  const top = order.slice(0, TOP);
  const pieces = tokenizer.pieces(top);
  return top.map((id, rank) => ({ piece: pieces[rank], probability: probabilities[id] }));
}

/** The candidates of each step of the search, with the pieces of the beam that each extends. */
function searchSteps(translator, ids, settings) {
  const { tokenizer } = translator;
  const run = translator.searchSource(ids, settings);
  const steps = [];
  let before = [{ ids: [] }];
  let { done, value } = run.next();
  for (; !done; { done, value } = run.next()) {
    const { beams, candidates } = value;
    steps.push(
      candidates.map(({ beam, id, logProb, total }, rank) => ({
        text: tokenizer.pieces([...before[beam].ids, id]).join(""),
        probability: Math.exp(logProb),
        total,
        finished: id === Tokenizer.EOS && rank < settings.beam,
        kept: beams.some((other) => other.ids.at(-1) === id && other.total === total),
      })),
    );
    before = beams;
  }
  return { steps, hypotheses: value };
}
