/** Splitting text into sentences: data/segmentation.py, which gives the reasons. */

const STOP = /[.!?…]+(?:[ \u00a0]\.(?!\.))*|[؟।॥۔։။]/;
const CLOSING = /(?:["'”’»«“)\]}*_]|[ \u00a0\u202f]»|\[\d{1,3}\])*/;
const UNSPACED = /(?<![。！？｡።፧။])[。！？｡።፧။]+[」』）】〉》”’"]*\s*/;
const SENTENCE_END = new RegExp(
  // The lookahead keeps a stop whole, as Python's atomic group does.
  `(?<![.!?…[])(?<![.…][ \u00a0])(?=(?<stop>${STOP.source}))\\k<stop>${CLOSING.source}\\s+` +
    `|${UNSPACED.source}`,
  "g",
);
const UNSPACED_SCRIPT =
  /[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u;
const LINE_END = /(\r\n|[\n\r\v\f\x85\u2028\u2029])/;
const BULLET = /^\s*(?:(?:[-*•·▪‣–—>#|+]+|\d{1,3}\))\s+)?/;
const OPENING = /^["'“”„«»‚‘’([{¿¡*_–—-]*[ \u00a0\u202f]?/;
const BEFORE_WORD = /[\s"'“„«»‚‘([{/–—]/;
const DOTTED = /^(?:\p{L}{1,2}\.-?)+\p{L}{1,2}$/u;
const CONTEXT = 40; // characters examined before and after a period

/**
 * Split a text into sentences and what stands between them. Sentences of any length stay whole: the
 * translator splits by pieces.
 *
 * @param {string} text
 * @param {object} segmentation lists of words by name: data/segmentation.toml
 * @returns {{sentence: string, gap: string}[]} which joined are the text; a sentence may be ""
 */
export function splitSentences(text, segmentation) {
  const rules = { cased: /\p{Uppercase}/u.test(text) };
  for (const [name, list] of Object.entries(segmentation)) {
    rules[name] = new Set(list.trim().split(/\s+/));
  }
  return text
    .split(LINE_END)
    .flatMap((line, index) => (index % 2 ? { sentence: "", gap: line } : splitLine(line, rules)));
}

/** Whether a translation needs a space where its source, in a script without spaces, has none. */
export function needsSpace(source, translation) {
  return UNSPACED_SCRIPT.test(source) && !UNSPACED_SCRIPT.test(translation);
}

/** Join the translations of a sentence's parts: by spaces, but in a script without them. */
export function joinParts(parts) {
  const texts = parts.filter(Boolean);
  const spaces = texts.map((text, index) =>
    index && !(UNSPACED_SCRIPT.test(texts[index - 1]) && UNSPACED_SCRIPT.test(text)) ? " " : "",
  );
  return texts.map((text, index) => spaces[index] + text).join("");
}

function splitLine(line, rules) {
  const [bullet] = line.match(BULLET);
  const parts = [{ sentence: "", gap: bullet }];
  let start = bullet.length;
  let checked = start;
  const add = (end) => {
    const sentence = line.slice(start, end).trimEnd();
    parts.push({ sentence, gap: line.slice(start + sentence.length, end) });
    start = end;
  };
  for (const { 0: stop, index, groups } of line.matchAll(SENTENCE_END)) {
    const end = index + stop.length;
    if (end === line.length) break;
    const place = { first: bullet.length, index, end, stop: groups.stop };
    if (groups.stop && !isBoundary(line, place, rules)) continue;
    const unchecked = line.slice(checked, (checked = end));
    if (/[\p{L}\p{N}]/u.test(unchecked)) add(end); // ". . ." and "?!" are no sentences
  }
  add(line.length);
  return parts;
}

/** Whether a sentence ends at a stop, from `index` to `end` of its line, that white space follows. */
function isBoundary(line, { first, index, end, stop }, rules) {
  const after = line.slice(end, end + 2 * CONTEXT).replace(OPENING, "");
  if (!after || (rules.cased && /^\p{Lowercase}/u.test(after))) return false;
  if (stop !== ".") return true;
  const start = Math.max(first, index - CONTEXT);
  return isLast(line.slice(start, index), after, { startsLine: start === first, ...rules });
}

/** Whether the word before a period can end its sentence, which `after` follows. */
function isLast(before, after, { startsLine, ...rules }) {
  const word = before.split(BEFORE_WORD).at(-1);
  const bare = word.toLowerCase();
  const next = after.match(/^[\p{L}\p{N}_]*/u)[0].toLowerCase();
  if (!word) return true;
  if (rules.never_last.has(bare)) return false;
  const numbered = rules.before_numbers.has(bare) || bare.endsWith("str");
  if (numbered && /^\p{Nd}/u.test(after)) return false;
  if (/^\d+$/.test(word)) {
    const [earlier] = before.slice(0, -word.length).toLowerCase().match(/\S*(?=\s*$)/);
    if (startsLine && !earlier) return false; // a list item's number
    const ordinal = rules.after_ordinals.has(next) || rules.before_ordinals.has(earlier);
    return word.length > 2 || !ordinal;
  }
  if (DOTTED.test(word) || /^\p{L}$/u.test(word.normalize("NFC"))) {
    return rules.starts.has(next) && /^\p{Uppercase}/u.test(after);
  }
  return true;
}
