/**
 * SentencePiece models: text to pieces and back, as the library does it.
 *
 * A text is normalised, its spaces become "▁", and it is segmented: by the most probable pieces
 * (unigram, Kudo 2018), by merging from characters up (BPE, Sennrich et al. 2016), into
 * characters, or into words. A character without a piece is unknown, or spelt in pieces of its UTF-8 bytes.
 */

const SPACE_SYMBOL = "▁";
const UNKNOWN_PENALTY = 10; // below the least probable piece
const USER_DEFINED_PENALTY = 0.1;
const SMALLEST_NORMAL = 2 ** -126; // of float32; the library's maximum starts there
const PREFIX_ONLY = -1; // in an index of prefixes: begins a piece, but is none
const PieceType = { NORMAL: 1, UNKNOWN: 2, CONTROL: 3, USER_DEFINED: 4, BYTE: 6 };

/** One model. Segments are `{piece, id}`, because an unknown segment may look like a piece. */
export class SentencePiece {
  /**
   * @param {object} data
   * @param {"unigram" | "bpe" | "char" | "word"} data.type
   * @param {string[]} data.pieces
   * @param {number[]} data.scores
   * @param {string} data.types a digit for each piece; see PieceType
   * @param {boolean} data.byteFallback
   * @param {string} data.unknownSurface what an unknown piece is decoded to
   * @param {boolean} data.addDummyPrefix
   * @param {boolean} data.removeExtraWhitespaces
   * @param {boolean} data.escapeWhitespaces
   * @param {string} data.charsmap base64; empty for the identity
   */
  constructor(data) {
    const { pieces, scores, types, byteFallback, unknownSurface } = data;
    Object.assign(this, { pieces, byteFallback, unknownSurface });
    this.scores = Float32Array.from(scores);
    this.types = Array.from(types, Number);
    this.stripsPrefix = data.addDummyPrefix || data.removeExtraWhitespaces;
    this.stripsEveryPrefix = data.removeExtraWhitespaces;
    this.unknown = this.types.indexOf(PieceType.UNKNOWN);

    const entries = pieces.map((piece, id) => [piece, id]);
    const ofType = (...some) => entries.filter(([, id]) => some.includes(this.types[id]));
    const text = ofType(PieceType.NORMAL, PieceType.USER_DEFINED);
    this.reserved = new Map(ofType(PieceType.UNKNOWN, PieceType.CONTROL, PieceType.BYTE));
    this.index = new Map(text);
    this.symbols = prefixIndex(ofType(PieceType.USER_DEFINED));
    this.normalizer = new Normalizer(data, this.symbols);
    const { unigram, bpe, characters: char, words: word } = this;
    this.segment = { unigram, bpe, char, word }[data.type];
    if (data.type === "unigram") {
      this.prefixes = prefixIndex(text);
      const normal = ofType(PieceType.NORMAL).map(([, id]) => this.scores[id]);
      const lowest = normal.reduce((least, score) => Math.min(least, score), Infinity);
      this.unknownScore = Math.fround(lowest - UNKNOWN_PENALTY);
      this.highest = normal.reduce((most, score) => Math.max(most, score), SMALLEST_NORMAL);
    }
  }

  /**
   * @param {string} text
   * @returns {{piece: string, id: number}[]}
   */
  encode(text) {
    const segments = [];
    let afterUnknown = false;
    for (const piece of this.segment(this.normalizer.normalize(text))) {
      const id = this.idOf(piece);
      const isUnknown = id === this.unknown;
      if (isUnknown && this.byteFallback) {
        for (const byte of new TextEncoder().encode(piece)) {
          const name = bytePiece(byte);
          segments.push({ piece: name, id: this.idOf(name) });
        }
      } else if (isUnknown && afterUnknown) {
        segments.at(-1).piece += piece; // a run of unknown characters is one piece
      } else {
        segments.push({ piece, id });
      }
      afterUnknown = isUnknown;
    }
    return segments;
  }

  /**
   * @param {string[]} pieces
   * @returns {string} control pieces are left out
   */
  decode(pieces) {
    let text = "";
    let bytes = [];
    let prefixSeen = false;
    let atStart = true;
    for (const piece of pieces) {
      const id = this.idOf(piece);
      if (this.types[id] === PieceType.BYTE) {
        bytes.push(parseInt(piece.slice(3, 5), 16));
        continue;
      }
      text += decodeBytes(bytes);
      bytes = [];
      if (prefixSeen || text) atStart = false;
      const strips = atStart && this.stripsPrefix && piece.startsWith(SPACE_SYMBOL);
      const isText = this.types[id] !== PieceType.CONTROL && id !== this.unknown;
      prefixSeen = isText && strips && !this.stripsEveryPrefix;
      text += this.surface(piece, id, isText && strips);
    }
    return text + decodeBytes(bytes);
  }

  surface(piece, id, strips) {
    if (this.types[id] === PieceType.CONTROL) return "";
    if (id === this.unknown) return piece === this.pieces[id] ? this.unknownSurface : piece;
    return (strips ? piece.slice(1) : piece).replaceAll(SPACE_SYMBOL, " ");
  }

  idOf(piece) {
    return this.reserved.get(piece) ?? this.index.get(piece) ?? this.unknown;
  }

  /** A "▁" begins each word. */
  words(text) {
    return text.match(/▁[^▁]*|[^▁]+/g) ?? [];
  }

  /** The most probable segmentation, by Viterbi's algorithm with the library's float32 sums. */
  unigram(text) {
    const starts = new Int32Array(text.length + 1).fill(-1); // of the last piece, for each end
    const totals = new Float32Array(text.length + 1);
    const consider = (start, end, total) => {
      if (starts[end] !== -1 && total <= totals[end]) return;
      starts[end] = start;
      totals[end] = total;
    };
    for (let start = 0; start < text.length; ) {
      const next = start + characterLength(text, start);
      let hasCharacter = false;
      for (let end = start + 1; end <= text.length; end++) {
        const id = this.prefixes.get(text.slice(start, end));
        if (id === undefined) break;
        if (id === PREFIX_ONLY) continue;
        consider(start, end, this.pathScore(id, totals[start]));
        hasCharacter ||= end === next;
      }
      if (!hasCharacter) consider(start, next, Math.fround(totals[start] + this.unknownScore));
      start = next;
    }
    return backtrack(text, starts);
  }

  pathScore(id, total) {
    if (this.types[id] !== PieceType.USER_DEFINED) return Math.fround(total + this.scores[id]);
    const length = new TextEncoder().encode(this.pieces[id]).length;
    const score = Math.fround(length * this.highest) - USER_DEFINED_PENALTY;
    return Math.fround(total + Math.fround(score));
  }

  /** Merge neighbours, each time the pair of the highest score, the leftmost of equals. */
  bpe(text) {
    const parts = this.characters(text);
    const frozen = parts.map((part) => longestMatch(this.symbols, part, 0) > 0);
    const previous = parts.map((_, index) => index - 1);
    const following = parts.map((_, index) => (index + 1 < parts.length ? index + 1 : -1));
    const queue = new MergeQueue();
    const propose = (left, right) => {
      if (left === -1 || right === -1 || frozen[left] || frozen[right]) return;
      const merged = parts[left] + parts[right];
      const id = this.index.get(merged);
      if (id !== undefined) queue.push({ score: this.scores[id], left, right, merged });
    };
    for (let right = 1; right < parts.length; right++) propose(right - 1, right);
    for (let pair = queue.pop(); pair; pair = queue.pop()) {
      const { left, right, merged } = pair;
      const isOutdated = !parts[left] || !parts[right];
      if (isOutdated || parts[left].length + parts[right].length !== merged.length) continue;
      parts[left] = merged;
      parts[right] = "";
      following[left] = following[right];
      if (following[left] !== -1) previous[following[left]] = left;
      propose(previous[left], left);
      propose(left, following[left]);
    }
    return parts.filter(Boolean);
  }

  /** Characters; a user-defined symbol counts as one. */
  characters(text) {
    const parts = [];
    for (let start = 0; start < text.length; ) {
      const length = longestMatch(this.symbols, text, start) || characterLength(text, start);
      parts.push(text.slice(start, start + length));
      start += length;
    }
    return parts;
  }
}

/** Normalisation: a table of replacements, white space, and the space before a text. */
class Normalizer {
  /**
   * @param {object} data see SentencePiece
   * @param {Map<string, number>} symbols prefixes of the symbols that are not normalised
   */
  constructor(data, symbols) {
    this.addsPrefix = data.addDummyPrefix;
    this.removesExtra = data.removeExtraWhitespaces;
    this.space = data.escapeWhitespaces ? SPACE_SYMBOL : " ";
    this.symbols = symbols;
    this.replacements = data.charsmap ? new ReplacementTrie(data.charsmap) : null;
  }

  normalize(text) {
    const parts = [];
    let afterSpace = this.removesExtra;
    for (let part of this.parts(text)) {
      if (afterSpace) part = part.replace(/^ +/, "");
      if (part) afterSpace = this.removesExtra && part.endsWith(" ");
      parts.push(part);
    }
    let normalized = parts.join("").replaceAll(" ", this.space);
    if (!normalized && (this.removesExtra || !text)) return "";
    if (this.addsPrefix) normalized = this.space + normalized;
    return this.removesExtra ? withoutTrailing(normalized, this.space) : normalized;
  }

  /** The text in parts, each replaced by the longest rule that begins there. */
  *parts(text) {
    if (!this.replacements && !this.symbols.size) {
      yield* this.removesExtra ? text : [text];
      return;
    }
    for (let start = 0; start < text.length; ) {
      let length = longestMatch(this.symbols, text, start);
      let part = text.slice(start, start + length);
      if (!length) {
        const rule = this.replacements?.match(text, start);
        length = rule?.length ?? characterLength(text, start);
        part = rule?.replacement ?? text.slice(start, start + length);
      }
      yield part;
      start += length;
    }
  }
}

/**
 * The compiled rules of a model: the size of a double-array trie (Darts-clone), the trie, whose keys
 * are UTF-8, and the replacements, each ended by a zero byte.
 */
class ReplacementTrie {
  /** @param {string} charsmap base64 */
  constructor(charsmap) {
    const bytes = Uint8Array.from(atob(charsmap), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.texts = bytes.subarray(4 + size);
  }

  /** The longest rule for the text at `start`: its length in UTF-16 and its replacement, or null. */
  match(text, start) {
    let node = unitOffset(this.units[0]);
    let rule = null;
    for (let end = start; end < text.length; ) {
      const length = characterLength(text, end);
      for (const byte of utf8(text.codePointAt(end))) {
        node ^= byte;
        const unit = this.units[node];
        if ((unit & 0x800000ff) !== byte) return rule; // the label of another node
        node ^= unitOffset(unit);
        const hasRule = (unit >>> 8) & 1;
        // Rules begin and end with whole characters, so only the last byte's rule can remain.
        if (hasRule) {
          const offset = this.units[node] & 0x7fffffff;
          rule = { length: end + length - start, replacement: this.replacement(offset) };
        }
      }
      end += length;
    }
    return rule;
  }

  replacement(offset) {
    return new TextDecoder().decode(this.texts.subarray(offset, this.texts.indexOf(0, offset)));
  }
}

/** A binary heap of merges: the highest score first, then the leftmost. */
class MergeQueue {
  heap = [];

  push(pair) {
    const { heap } = this;
    let child = heap.push(pair) - 1;
    while (child > 0) {
      const parent = (child - 1) >> 1;
      if (!mergesBefore(pair, heap[parent])) break;
      heap[child] = heap[parent];
      child = parent;
    }
    heap[child] = pair;
  }

  pop() {
    const { heap } = this;
    const top = heap[0];
    const last = heap.pop();
    if (!heap.length) return top;
    let parent = 0;
    for (let child = 1; child < heap.length; child = 2 * parent + 1) {
      if (child + 1 < heap.length && mergesBefore(heap[child + 1], heap[child])) child++;
      if (!mergesBefore(heap[child], last)) break;
      heap[parent] = heap[child];
      parent = child;
    }
    heap[parent] = last;
    return top;
  }
}

function mergesBefore(pair, other) {
  return pair.score > other.score || (pair.score === other.score && pair.left < other.left);
}

/** Every prefix of the pieces: the id of a piece, or PREFIX_ONLY. */
function prefixIndex(entries) {
  const index = new Map();
  for (const [piece, id] of entries) {
    for (let end = 1; end < piece.length; end++) {
      const prefix = piece.slice(0, end);
      if (!index.has(prefix)) index.set(prefix, PREFIX_ONLY);
    }
    index.set(piece, id);
  }
  return index;
}

/** Length of the longest piece at `start`, or 0. */
function longestMatch(prefixes, text, start) {
  let longest = 0;
  if (!prefixes.size) return longest;
  for (let end = start + 1; end <= text.length; end++) {
    const id = prefixes.get(text.slice(start, end));
    if (id === undefined) break;
    if (id !== PREFIX_ONLY) longest = end - start;
  }
  return longest;
}

function backtrack(text, starts) {
  const pieces = [];
  for (let end = text.length; end > 0; end = starts[end]) pieces.push(text.slice(starts[end], end));
  return pieces.reverse();
}

function characterLength(text, index) {
  return text.codePointAt(index) > 0xffff ? 2 : 1;
}

function withoutTrailing(text, space) {
  let end = text.length;
  while (end > 0 && text[end - 1] === space) end--;
  return text.slice(0, end);
}

function unitOffset(unit) {
  return (unit >>> 10) << ((unit & (1 << 9)) >>> 6);
}

function utf8(codePoint) {
  if (codePoint < 0x80) return [codePoint];
  const rest = (shift) => 0x80 | ((codePoint >> shift) & 0x3f);
  if (codePoint < 0x800) return [0xc0 | (codePoint >> 6), rest(0)];
  if (codePoint < 0x10000) return [0xe0 | (codePoint >> 12), rest(6), rest(0)];
  return [0xf0 | (codePoint >> 18), rest(12), rest(6), rest(0)];
}

function bytePiece(byte) {
  return `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`;
}

/** Decode UTF-8; each byte that is no part of a character becomes U+FFFD. */
function decodeBytes(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let start = 0; start < bytes.length; ) {
    const first = bytes[start];
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    let character = "\ufffd";
    try {
      character = decoder.decode(Uint8Array.from(bytes.slice(start, start + length)));
      start += length;
    } catch {
      start++;
    }
    text += character;
  }
  return text;
}
