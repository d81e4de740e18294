/**
 * Beam search (section 6.1) for one sentence; a beam of 1 is greedy search.
 *
 * Each step takes the best 2 × beam continuations of all beams. One that ends in EOS is a finished
 * hypothesis if it is among the first `beam`, else it is discarded. Search ends once `beam`
 * hypotheses have finished, or at the length limit. The length penalty only ranks the hypotheses at
 * the end; beams compete by the sum of their log-probabilities.
 */

import { repeatingIds } from "./repetition.js";
import { logSoftmax } from "./tensor.js";

/**
 * The divisor of a hypothesis's log-probability, so that long translations can win:
 * ((5 + |Y|) / 6)^α; Wu et al. 2016, equation 14.
 */
export function lengthPenalty(length, alpha) {
  return ((5 + length) / 6) ** alpha;
}

/**
 * Find the most probable translations of one sentence. A generator, which yields after each step so
 * that its caller can cancel it or show the best translation so far.
 *
 * @param {IncrementalDecoder} decoder before its first step
 * @param {object} settings
 * @param {number} settings.beam hypotheses kept at each step
 * @param {number} settings.alpha exponent of the length penalty
 * @param {number} settings.limit maximum length in pieces, EOS included
 * @param {number} settings.eos id that ends a translation
 * @param {number} [settings.noRepeat] size of the n-grams that may not occur twice; 0 allows all
 * @param {number} settings.pad id that starts a translation; it is never generated
 * @yields {{beams: object[], candidates: object[], finished: object[]}} the unfinished beams, best
 *   first; the candidates they were chosen from, `finished` or not; the hypotheses so far
 * @returns {{ids: number[], logProbs: number[], logProb: number, score: number,
 *   finished: boolean}[]} at most `beam` hypotheses, best first
 */
export function* beamSearch(decoder, { beam, alpha, limit, eos, pad, noRepeat = 0 }) {
  const finished = [];
  let beams = [{ ids: [], logProbs: [], total: 0 }];
  let last = [pad];
  for (let length = 1; length <= limit; length++) {
    const candidates = topCandidates(decoder.step(last), beams, { count: 2 * beam, pad, noRepeat });
    if (!candidates.length) {
      throw new Error("The model's logits are not numbers: its weights are damaged.");
    }
    for (const candidate of candidates.slice(0, beam)) {
      if (candidate.id === eos || length === limit) {
        candidate.finished = true;
        finished.push(hypothesis(extend(beams, candidate), { alpha, eos }));
      }
    }
    const unfinished = candidates.filter(({ id }) => id !== eos).slice(0, beam);
    if (finished.length >= beam || !unfinished.length) {
      yield { beams, candidates, finished: [...finished] };
      break;
    }
    decoder.reorder(unfinished.map((candidate) => candidate.beam));
    beams = unfinished.map((candidate) => extend(beams, candidate));
    last = unfinished.map(({ id }) => id);
    yield { beams, candidates, finished: [...finished] };
  }
  return finished.sort((first, second) => second.score - first.score).slice(0, beam);
}

/** The best continuations of all beams; equal ones in order of beam and id. */
function topCandidates(logits, beams, { count, pad, noRepeat }) {
  const candidates = [];
  beams.forEach(({ ids, total }, beam) => {
    const row = logits.row(beam);
    row[pad] = -Infinity;
    const logProbs = logSoftmax(row);
    // After the softmax: the other log-probabilities stay the model's own.
    if (noRepeat) for (const id of repeatingIds(ids, noRepeat)) logProbs[id] = -Infinity;
    for (const id of topIndices(logProbs, count)) {
      candidates.push({ beam, id, logProb: logProbs[id], total: total + logProbs[id] });
    }
  });
  const byTotal = (first, second) =>
    second.total - first.total || first.beam - second.beam || first.id - second.id;
  return candidates.filter(({ total }) => Number.isFinite(total)).sort(byTotal).slice(0, count);
}

/** The indices of the `count` largest values, largest first, of equals the first. */
function topIndices(values, count) {
  const top = [];
  let least = -Infinity; // a value must be larger to enter a full list
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (!(value > least || top.length < count)) continue;
    let place = top.length;
    while (place && values[top[place - 1]] < value) place--;
    top.splice(place, 0, index);
    if (top.length > count) top.pop();
    if (top.length === count) least = values[top[count - 1]];
  }
  return top;
}

function extend(beams, { beam, id, logProb, total }) {
  const { ids, logProbs } = beams[beam];
  return { ids: [...ids, id], logProbs: [...logProbs, logProb], total };
}

function hypothesis({ ids, logProbs, total }, { alpha, eos }) {
  const score = total / lengthPenalty(ids.length, alpha);
  return { ids, logProbs, logProb: total, score, finished: ids.at(-1) === eos };
}
