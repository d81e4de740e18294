/**
 * The tokenizers: data/tokenizer.py and data/pair_tokenizer.py.
 *
 * EOS is 0, UNK 1, and PAD the last id, which no SentencePiece model holds.
 */

import { oneLine } from "./corpus.js";
import { SentencePiece } from "./sentencepiece.js";

/** One SentencePiece vocabulary for both sides. */
export class Tokenizer {
  static EOS = 0;
  static UNK = 1;

  /** @param {object} data of one SentencePiece model; see web/tokenizer.py */
  constructor(data) {
    this.model = new SentencePiece(data);
    this.pad = data.pieces.length;
    this.vocabSize = this.pad + 1;
    this.names = [...data.pieces, "<pad>"];
  }

  /**
   * @param {string} text
   * @returns {number[]} ids without EOS
   */
  encode(text) {
    return this.model.encode(text).map(({ id }) => id);
  }

  /**
   * @param {Iterable<number>} ids EOS and PAD are left out
   * @returns {string} one line; UNK becomes " ⁇ "
   */
  decode(ids) {
    return oneLine(this.model.decode(this.pieces(textIds(ids, this.pad))));
  }

  /**
   * @param {Iterable<number>} ids
   * @returns {string[]} for display; "▁" is a space
   */
  pieces(ids) {
    return lookUp(this.names, ids);
  }
}

/** A SentencePiece model for each side and a shared table of ids, as imported models have. */
export class PairTokenizer {
  /** @param {{source: object, target: object, table: string[]}} data the table is in id order */
  constructor({ source, target, table }) {
    this.source = new SentencePiece(source);
    this.target = new SentencePiece(target);
    this.names = table;
    this.ids = new Map(table.map((piece, id) => [piece, id]));
    this.pad = table.length - 1;
    this.vocabSize = table.length;
  }

  /**
   * @param {string} text may begin with a target language token, such as ">>deu<<"
   * @returns {number[]} ids of the source side, without EOS
   */
  encode(text) {
    const end = text.startsWith(">>") ? text.indexOf("<<") + 2 : 0;
    const language = end > 1 ? this.ids.get(text.slice(0, end)) : undefined;
    const bare = language === undefined ? text : text.slice(end);
    const ids = this.source
      .encode(bare)
      .map(({ piece }) => this.ids.get(piece) ?? Tokenizer.UNK);
    return language === undefined ? ids : [language, ...ids];
  }

  /**
   * @param {Iterable<number>} ids of the target side; EOS and PAD are left out
   * @returns {string} one line; UNK becomes " ⁇ "
   */
  decode(ids) {
    const text = this.target.decode(this.pieces(textIds(ids, this.pad)));
    // A piece unknown to the target's model is returned as it is, "▁" included.
    return oneLine(text.replace(/^▁/, "").replaceAll("▁", " "));
  }

  /**
   * @param {Iterable<number>} ids
   * @returns {string[]} for display; "▁" is a space
   */
  pieces(ids) {
    return lookUp(this.names, ids);
  }
}

/**
 * @param {object} data written by `tokenizer_data` in web/tokenizer.py
 * @returns {Tokenizer | PairTokenizer}
 */
export function readTokenizer(data) {
  return data.table ? new PairTokenizer(data) : new Tokenizer(data);
}

function textIds(ids, pad) {
  return [...ids].filter((id) => id !== Tokenizer.EOS && id !== pad);
}

function lookUp(names, ids) {
  return Array.from(ids, (id) => {
    if (names[id] === undefined) {
      throw new RangeError(`id ${id} is not in the vocabulary of ${names.length} pieces`);
    }
    return names[id];
  });
}
