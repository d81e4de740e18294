/** Repetition loops: inference/repetition.py, which documents the thresholds. */

export const NO_REPEAT = 3; // size of the n-grams that a retry blocks

const MIN_RUNS = 3; // consecutive repeats of an n-gram that are a loop
const MIN_RUNS_OF_ONE = 4; // of a single piece
const MIN_RUNS_OF_MARKS = 9; // pieces without a letter
const MIN_RUNS_OF_NOISE = 9; // of a source that is no sentence
const MAX_N = 12; // longest n-gram whose consecutive repeats are looked for
const SCATTERED_N = 6; // pieces of an n-gram that may recur anywhere
const SCATTERED_TIMES = 3;
const MARGIN = 2; // repeats allowed beyond the source's own
const [MAX_RATIO, MAX_EXTRA] = [3, 20]; // maximum length in pieces: ratio × source + extra
const MAX_LOSS = 0.25; // nats per piece that a retry may be less probable
const EOS = "</s>";

/**
 * Whether a translation repeats itself, more than its source does, or is far too long.
 *
 * @param {string[]} source its pieces
 * @param {string[]} target the translation's; EOS may end either
 */
export function repeatsItself(source, target) {
  [source, target] = [withoutEos(source), withoutEos(target)];
  for (const size of sizes(target)) {
    const { times, start } = longestRun(target, size);
    const least = leastRuns(target.slice(start, start + size));
    if (times >= least && times >= MARGIN + mostInARow(source)) return true;
  }
  const { times, nGram } = mostAnywhere(target);
  const least = Math.max(SCATTERED_TIMES, MARGIN + mostAnywhere(source).times);
  if (times >= least && hasLetters(nGram)) return true;
  return target.length > MAX_RATIO * source.length + MAX_EXTRA;
}

/** Whether a source repeats itself so often that no retry can mend its translation. */
export function isNoise(source) {
  return sizes(source).some((size) => {
    const { times, start } = longestRun(source, size);
    return times >= MIN_RUNS_OF_NOISE && hasLetters(source.slice(start, start + size));
  });
}

/**
 * Whether a retry should replace a repetitive translation: clean, not empty, about as probable.
 *
 * @param {string[]} source its pieces
 * @param {string[]} retry the pieces of the retry
 * @param {number} loss by how much its `novelLogProb` is below that of the first translation
 */
export function isImprovement(source, retry, loss) {
  // NaN, where most of both repeats, is no reason to keep the first.
  const text = withoutEos(retry).join("").replaceAll("▁", " ").trim();
  return !(loss > MAX_LOSS) && text !== "" && !repeatsItself(source, retry);
}

/**
 * The mean log-probability of the pieces that do not repeat the n-gram before them; -Infinity if most
 * do.
 *
 * @param {number[]} ids
 * @param {number[]} logProbs
 */
export function novelLogProb(ids, logProbs) {
  const repeated = ids.map(() => false);
  for (const size of sizes(ids)) {
    let matches = 0;
    for (let end = size; end < ids.length; end++) {
      matches = ids[end] === ids[end - size] ? matches + 1 : 0;
      if (matches >= size) repeated.fill(true, end + 1 - size, end + 1);
    }
  }
  const novel = logProbs.filter((_, index) => !repeated[index]);
  if (2 * novel.length < ids.length) return -Infinity;
  return novel.reduce((sum, value) => sum + value, 0) / novel.length;
}

/** The ids that would complete an n-gram of `ids` again. */
export function repeatingIds(ids, size) {
  const tail = ids.slice(ids.length - size + 1);
  const repeating = [];
  for (let start = 0; start + size <= ids.length; start++) {
    if (tail.every((id, index) => ids[start + index] === id)) repeating.push(ids[start + size - 1]);
  }
  return repeating;
}

const withoutEos = (pieces) => pieces.filter((piece) => piece !== EOS);

/** The sizes of n-grams that can occur twice in a row. */
function sizes(pieces) {
  const count = Math.min(MAX_N, Math.floor(pieces.length / 2));
  return Array.from({ length: Math.max(0, count) }, (_, index) => index + 1);
}

function leastRuns(nGram) {
  if (!hasLetters(nGram)) return Math.ceil(MIN_RUNS_OF_MARKS / nGram.length);
  return nGram.length === 1 ? MIN_RUNS_OF_ONE : MIN_RUNS;
}

/** Most consecutive repeats of an n-gram of this size, and the start of its last occurrence. */
function longestRun(pieces, size) {
  let [times, start, matches] = [1, 0, 0];
  for (let end = size; end < pieces.length; end++) {
    matches = pieces[end] === pieces[end - size] ? matches + 1 : 0;
    const runs = Math.floor(matches / size) + 1;
    if (runs > times) [times, start] = [runs, end + 1 - size];
  }
  return { times, start };
}

function mostInARow(pieces) {
  return Math.max(1, ...sizes(pieces).map((size) => longestRun(pieces, size).times));
}

/** The most frequent n-gram; of equals the greatest, piece by piece. */
function mostAnywhere(pieces) {
  const counts = new Map(); // by the n-gram's pieces, between which is a character that none has
  for (let start = 0; start + SCATTERED_N <= pieces.length; start++) {
    const key = pieces.slice(start, start + SCATTERED_N).join("\0");
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  let [times, best] = [0, ""];
  for (const [key, count] of counts) if (count > times || (count === times && key > best)) [times, best] = [count, key];
  return { times, nGram: best.split("\0") };
}

const hasLetters = (pieces) => pieces.some((piece) => /\p{L}/u.test(piece));
