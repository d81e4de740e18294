/** The translator: text in, translation out. */

import { tidy } from "./corpus.js";
import { IncrementalDecoder } from "./incremental_decoder.js";
import { isImprovement, isNoise, NO_REPEAT, novelLogProb, repeatsItself } from "./repetition.js";
import { beamSearch } from "./search.js";
import { joinParts, needsSpace, splitSentences } from "./sentences.js";
import { readTokenizer, Tokenizer } from "./tokenizer.js";
import { Transformer } from "./transformer.js";

export class Translator {
  /**
   * @param {object} description the model's shape, search settings, languages, tokenizer and the
   *   words that tell where sentences end
   * @param {Map<string, Matrix>} tensors the weights by name
   */
  constructor(description, tensors) {
    this.search = description.search;
    this.languages = description.languages;
    this.segmentation = description.segmentation;
    this.model = new Transformer(description.model, tensors);
    this.tokenizer = readTokenizer(description.tokenizer);
  }

  /**
   * Translate one line of text. A generator, which yields after each step of the search.
   *
   * @param {string} text one sentence, as a line of a file is for the command line
   * @param {object} [options]
   * @param {number} [options.beam] hypotheses kept at each step
   * @param {number} [options.alpha] exponent of the length penalty
   * @param {number} [options.alternatives] number of further translations, below the beam
   * @param {boolean} [options.retry] search again without repetition where a translation repeats itself
   * @yields {() => string} the most probable translation so far, decoded only if it is to be shown
   * @returns {{text: string, score: number, pieces: string[], logProbs: number[], parts: number,
   *   alternatives: {text: string, score: number}[]}}
   */
  *translateLine(
    text,
    { beam = this.search.beam, alpha = this.search.alpha, alternatives = 0, retry = false } = {},
  ) {
    const parts = this.splitSource(this.tokenizer.encode(tidy(text)));
    let combinations = [{ hypotheses: [], score: 0 }];
    let before = "";
    for (const part of parts) {
      const hypotheses = yield* this.#searchPart(part, { beam, alpha, before, retry });
      combinations = combine(combinations, hypotheses, 1 + alternatives);
      before = this.#text(combinations[0]);
    }
    const [best, ...others] = combinations;
    const ids = best.hypotheses.flatMap((hypothesis) => hypothesis.ids);
    return {
      text: this.#text(best),
      score: best.score,
      ids,
      pieces: this.tokenizer.pieces(ids),
      logProbs: best.hypotheses.flatMap((hypothesis) => hypothesis.logProbs),
      parts: parts.length,
      alternatives: others.map((other) => ({ text: this.#text(other), score: other.score })),
    };
  }

  /** Split a long sentence at word boundaries, or inside a word that is itself too long. */
  splitSource(ids) {
    const { max_source: longest } = this.search;
    if (ids.length <= longest) return ids.length ? [ids] : [];
    const startsWord = this.tokenizer.pieces(ids).map((piece) => piece.startsWith("▁"));
    const parts = [];
    let start = 0;
    while (ids.length - start > longest) {
      let end = start + longest;
      while (end > start && !startsWord[end]) end--;
      if (end === start) end = start + longest;
      parts.push(ids.slice(start, end));
      start = end;
    }
    return [...parts, ids.slice(start)];
  }

  *#searchPart(ids, { retry, ...settings }) {
    const first = yield* this.#searchOnce(ids, settings);
    const source = this.tokenizer.pieces(ids);
    const pieces = (hypotheses) => this.tokenizer.pieces(hypotheses[0].ids);
    if (!retry || !repeatsItself(source, pieces(first)) || isNoise(source)) return first;
    const second = yield* this.#searchOnce(ids, { ...settings, noRepeat: NO_REPEAT });
    const novel = (hypotheses) => novelLogProb(hypotheses[0].ids, hypotheses[0].logProbs);
    return isImprovement(source, pieces(second), novel(first) - novel(second)) ? second : first;
  }

  *#searchOnce(ids, { before, ...settings }) {
    const search = this.searchSource(ids, settings);
    for (;;) {
      const { done, value } = search.next();
      if (done) return value;
      yield () => joinParts([before, this.tokenizer.decode(value.beams[0].ids)]);
    }
  }

  /**
   * Search the translations of one source; see `beamSearch`.
   *
   * @param {number[]} ids without EOS
   * @param {{beam: number, alpha: number, noRepeat?: number}} settings
   */
  searchSource(ids, { beam, alpha, noRepeat }) {
    const memory = this.model.encode([...ids, Tokenizer.EOS]);
    return beamSearch(new IncrementalDecoder(this.model, memory), {
      beam,
      alpha,
      limit: Math.min(ids.length + this.search.extra, this.model.longest),
      eos: Tokenizer.EOS,
      pad: this.model.pad,
      noRepeat,
    });
  }

  #text({ hypotheses }) {
    return joinParts(hypotheses.map(({ ids }) => this.tokenizer.decode(ids).trim()));
  }
}

/** The `count` best ways to choose one hypothesis for every part, best first. */
function combine(combinations, hypotheses, count) {
  const extended = combinations.flatMap((combination) =>
    hypotheses.map((hypothesis) => ({
      hypotheses: [...combination.hypotheses, hypothesis],
      score: combination.score + hypothesis.score,
    })),
  );
  return extended.sort((first, second) => second.score - first.score).slice(0, count);
}

/**
 * Translate text of several lines and sentences. A generator, which yields the text so far.
 *
 * @param {Translator} translator
 * @param {string} text
 * @param {{beam?: number, retry?: boolean}} [options] as for `translateLine`
 * @yields {() => string}
 * @returns {{text: string, alternatives: {text: string, score: number}[]}} the alternatives of a
 *   single sentence; none of several
 */
export function* translateText(translator, text, { beam, retry } = {}) {
  const sentences = splitSentences(text, translator.segmentation);
  const single = sentences.filter(({ sentence }) => sentence).length === 1;
  const options = { beam, retry, alternatives: single ? ALTERNATIVES : 0 };
  let translated = "";
  let alternatives = [];
  for (const [index, { sentence, gap }] of sentences.entries()) {
    if (sentence) {
      const search = translator.translateLine(sentence, options);
      let step = search.next();
      const before = translated;
      for (; !step.done; step = search.next()) {
        const { value } = step;
        yield () => before + value();
      }
      translated += step.value.text;
      alternatives = single ? step.value.alternatives : [];
    }
    const next = sentences[index + 1]?.sentence;
    const glued = sentence && next && !gap && needsSpace(sentence + next, translated);
    translated += glued ? " " : gap;
  }
  return { text: translated, alternatives };
}

const ALTERNATIVES = 3;

/** A language as `Intl` knows it: English rules for a name that is no code. */
export function languageCode(language) {
  return /^[a-z]{2,3}(-[a-z0-9]+)*$/i.test(language) ? language : "en";
}
