/** Normalising a sentence: data/corpus.py. */

const FORBIDDEN = /[\p{Cc}\p{Cs}\u2028\u2029\u2581]/gu; // Cs: lone surrogates, which are not text
const LEADING_BLANKS = /^\p{Zs}+/u;
const BLANK = /\p{Zs}/u; // no other white space is left once forbidden characters are spaces

/**
 * Normalise a sentence: forbidden characters become spaces, Unicode NFC, no blanks at the ends.
 *
 * @param {string} text
 * @returns {string}
 */
export function tidy(text) {
  const line = oneLine(text).normalize("NFC").replace(LEADING_BLANKS, "");
  let end = line.length;
  while (end > 0 && BLANK.test(line[end - 1])) end--; // `\p{Zs}+$` takes quadratic time
  return line.slice(0, end);
}

/**
 * Replace every character that a line of text cannot hold by a space.
 *
 * @param {string} text
 * @returns {string}
 */
export function oneLine(text) {
  return text.replace(FORBIDDEN, " ");
}
