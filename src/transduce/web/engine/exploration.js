/** What the explorer shows of one sentence: its tensors, its search, and the effect of switches. */

import { tidy } from "./corpus.js";
import { IncrementalDecoder } from "./incremental_decoder.js";
import { isNoise, repeatsItself } from "./repetition.js";
import { beamSearch, lengthPenalty } from "./search.js";
import { softmax } from "./tensor.js";
import { Tokenizer } from "./tokenizer.js";
import { SwitchedDecoder, switchHook, trace } from "./trace.js";
import { languageCode } from "./translator.js";

const LONGEST = 48; // pieces of a sentence whose every number can be shown
const TOP = 10; // next pieces shown for a position

/**
 * Every number of a sentence. A generator, which yields while it works so that its caller can stop.
 *
 * @param {Translator} translator
 * @param {string} text one sentence
 * @param {object} [options]
 * @param {Switches} [options.switches] see trace.js
 * @param {number} [options.beam]
 * @returns {object} `problem`, a sentence, if it cannot be shown; `repeats`, whether the translator
 *   would search again, which is not shown
 */
export function* explore(translator, text, { switches = {}, beam } = {}) {
  const { model, tokenizer } = translator;
  const { words, source, problem } = read(translator, text);
  if (problem) return { problem };
  const untouched = yield* search(translator, source, { beam });
  const pieces = tokenizer.pieces(source.slice(0, -1));
  const repeats =
    repeatsItself(pieces, tokenizer.pieces(untouched.hypotheses[0].ids)) && !isNoise(pieces);
  let changed = { source, ...untouched };
  if (Object.keys(switches).length) {
    const swapped = read(translator, text, switches);
    if (swapped.problem) return { problem: swapped.problem };
    changed = { ...swapped, ...(yield* search(translator, swapped.source, { beam, switches })) };
  }
  const target = changed.hypotheses[0].ids;
  const tensors = trace(model, changed.source, targetIn(model, target), switches);
  const logits = tensors.get("logits");
  tensors.delete("logits"); // a row for each position, as long as the vocabulary: the best suffice
  return {
    words,
    source: tokenizer.pieces(changed.source),
    targetIn: ["<start>", ...tokenizer.pieces(target.slice(0, -1))],
    target: tokenizer.pieces(target),
    text: changed.hypotheses[0].text,
    untouched: untouched.hypotheses[0].text,
    repeats,
    tensors,
    next: Array.from({ length: logits.rows }, (_, row) => topPieces(translator, logits.row(row))),
    steps: changed.steps,
    hypotheses: changed.hypotheses,
  };
}

/**
 * Take each head of a part away in turn: what it attends to, and what changes without it. A
 * generator, which yields after each head what is known so far, and nothing in between.
 *
 * @param {Translator} translator
 * @param {string} text one sentence
 * @param {object} options
 * @param {string[]} options.attentions such as "encoder.0.self_attention"
 * @param {number} options.query the position whose attention is of interest
 * @param {number} options.position the target position whose probability is of interest
 * @param {Switches} [options.switches] what is off already
 * @param {number} [options.beam]
 * @yields {{total: number, heads: object[]} | undefined}
 * @returns {{total: number, probability: number, heads: {attention: string, head: number,
 *   memory: number, weight: number, probability: number, text: string}[]}} the probability of the
 *   target piece with all heads, and without each
 */
export function* ablateHeads(translator, text, { attentions, query, position, switches = {}, beam }) {
  const { model } = translator;
  const { source } = read(translator, text, switches);
  const { hypotheses } = yield* search(translator, source, { beam, switches });
  const target = hypotheses[0].ids;
  const input = targetIn(model, target);
  const tensors = trace(model, source, input, switches);
  const probabilityOf = (logits) => probabilities(logits.row(position))[target[position]];
  const probability = probabilityOf(tensors.get("logits"));
  const total = attentions.length * model.config.heads;
  const heads = [];
  for (const attention of attentions) {
    for (let head = 0; head < model.config.heads; head++) {
      const row = tensors.get(`${attention}.weights`)[head].row(query);
      const memory = row.indexOf(Math.max(...row));
      const without = { ...switches, heads: [...(switches.heads ?? []), { attention, head }] };
      const logits = model.forward(source, input, switchHook(model, without));
      const found = yield* search(translator, source, { beam, switches: without });
      heads.push({
        ...{ attention, head, memory, weight: row[memory] },
        ...{ probability: probabilityOf(logits), text: found.hypotheses[0].text },
      });
      yield { total, probability, heads };
    }
  }
  return { total, probability, heads };
}

/** The words of a text and its ids with EOS, after the swap of two words. */
function read({ model, tokenizer, languages }, text, { swap } = {}) {
  const segmenter = new Intl.Segmenter(languageCode(languages.source), { granularity: "word" });
  const segments = Array.from(segmenter.segment(tidy(text)));
  const parts = segments.map(({ segment }) => segment);
  const places = [...segments.keys()].filter((place) => segments[place].isWordLike);
  const words = places.map((place) => parts[place]);
  if (swap) {
    const [first, second] = swap.map((word) => places[word]);
    [parts[first], parts[second]] = [parts[second], parts[first]];
  }
  const ids = tokenizer.encode(parts.join(""));
  if (!ids.length) return { problem: "Enter a sentence to see its numbers." };
  const longest = Math.min(LONGEST, model.longest - 1); // EOS has a position too
  if (ids.length > longest) {
    return { problem: `Choose a shorter sentence: this one has ${ids.length} pieces, above ${longest}.` };
  }
  return { words, source: [...ids, Tokenizer.EOS] };
}

const targetIn = (model, target) => [model.pad, ...target.slice(0, -1)];

/** Probabilities of the next piece; PAD is never output. */
function probabilities(logits) {
  const possible = logits.slice();
  possible[possible.length - 1] = -Infinity;
  return softmax(possible);
}

function topPieces({ tokenizer }, logits) {
  const values = probabilities(logits);
  const order = Array.from(values.keys());
  order.sort((first, second) => values[second] - values[first]);
  const top = order.slice(0, TOP);
  const pieces = tokenizer.pieces(top);
  return top.map((id, rank) => ({ piece: pieces[rank], probability: values[id] }));
}

/** The hypotheses, and the candidates of each step with the pieces of the beam that each extends. */
function* search(translator, source, { beam, switches = {} }) {
  const { model, tokenizer } = translator;
  const { alpha, extra, beam: usual } = translator.search;
  const decoder = Object.keys(switches).length
    ? new SwitchedDecoder(model, source, switches)
    : new IncrementalDecoder(model, model.encode(source));
  const limit = Math.min(source.length - 1 + extra, model.longest);
  const settings = { beam: beam ?? usual, alpha, limit, eos: Tokenizer.EOS, pad: model.pad };
  const run = beamSearch(decoder, settings);
  const steps = [];
  let before = [{ ids: [] }];
  let { done, value } = run.next();
  for (; !done; { done, value } = run.next()) {
    const { beams, candidates } = value;
    const kept = (candidate) =>
      beams.some(({ ids, total }) => ids.at(-1) === candidate.id && total === candidate.total);
    steps.push(
      candidates.map((candidate) => ({
        text: tokenizer.pieces([...before[candidate.beam].ids, candidate.id]).join(""),
        probability: Math.exp(candidate.logProb),
        total: candidate.total,
        finished: Boolean(candidate.finished),
        kept: !candidate.finished && kept(candidate),
      })),
    );
    before = beams;
    yield;
  }
  const hypotheses = value.map((hypothesis) => ({
    ...hypothesis,
    text: tokenizer.decode(hypothesis.ids),
    penalty: lengthPenalty(hypothesis.ids.length, alpha),
  }));
  return { steps, hypotheses };
}
