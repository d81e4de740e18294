/**
 * Attention: section 3.2 of the paper, equation (1).
 *
 * A caller first projects a memory to keys and values, then attends to them with queries, because
 * decoding does the first once and the second at every step. Keys and values are lists with one
 * Float32Array for each position, the heads side by side: beams that share a beginning share these.
 */

import { linear, Matrix, softmax } from "./tensor.js";

/**
 * A hook sees each intermediate result by name, and may change it in place: the explorer records and
 * switches parts off with one. `hook(name, values, head, query)`; the last two only where they apply.
 *
 * @callback Hook
 * @param {string} name
 * @param {Matrix | Float32Array} values
 * @param {number} [head]
 * @param {number} [query]
 */

/** Multi-head attention (section 3.2.2). Self- and cross-attention differ only in the memory. */
export class Attention {
  /**
   * @param {object} config the model's shape
   * @param {(name: string) => Matrix} weights the matrices and biases of this attention
   */
  constructor(config, weights) {
    Object.assign(this, { heads: config.heads, dK: config.d_k, dV: config.d_v });
    for (const name of ["query", "key", "value", "out"]) this[name] = linearLayer(weights, name);
  }

  /**
   * Project a memory to its keys and values, once for all queries.
   *
   * @param {Matrix} memory
   * @param {Hook} [hook]
   * @returns {{keys: Float32Array[], values: Float32Array[]}}
   */
  projectKeyValue(memory, hook) {
    const [keys, values] = [this.key(memory), this.value(memory)];
    hook?.("keys", keys);
    hook?.("values", values);
    return { keys: rows(keys), values: rows(values) };
  }

  /**
   * Attend from each row of `x` to a memory.
   *
   * @param {Matrix} x the queries before their projection
   * @param {(query: number) => {keys: Float32Array[], values: Float32Array[]}} memoryOf of a query
   * @param {(query: number, memory: number) => boolean} [allowed] the mask: whether a query may
   *   attend to a position
   * @param {Hook} [hook]
   * @returns {Matrix}
   */
  forward(x, memoryOf, allowed, hook) {
    const queries = this.query(x);
    hook?.("queries", queries);
    const heads = new Matrix(x.rows, this.heads * this.dV);
    for (let query = 0; query < x.rows; query++) {
      const { keys, values } = memoryOf(query);
      for (let head = 0; head < this.heads; head++) {
        const scores = this.#scores(queries.row(query), keys, head);
        hook?.("scores", scores, head, query);
        // Before the softmax: the weights that remain still sum to 1.
        if (allowed) mask(scores, (memory) => allowed(query, memory));
        hook?.("masked_scores", scores, head, query);
        const weights = softmax(scores);
        hook?.("weights", weights, head, query);
        this.#addWeightedValues(weights, values, head, heads.row(query));
      }
    }
    hook?.("heads", heads);
    return this.out(heads);
  }

  /** q Kᵀ / √d_k, the scores of one query in one head. */
  #scores(query, keys, head) {
    const [first, end] = [head * this.dK, (head + 1) * this.dK];
    const scores = new Float32Array(keys.length);
    for (let memory = 0; memory < keys.length; memory++) {
      const key = keys[memory];
      let product = 0;
      for (let i = first; i < end; i++) product += query[i] * key[i];
      scores[memory] = product / Math.sqrt(this.dK);
    }
    return scores;
  }

  /** The weighted sum of the values of one head, into its part of `output`. */
  #addWeightedValues(weights, values, head, output) {
    const [first, end] = [head * this.dV, (head + 1) * this.dV];
    for (let memory = 0; memory < values.length; memory++) {
      const [weight, value] = [weights[memory], values[memory]];
      for (let i = first; i < end; i++) output[i] += weight * value[i];
    }
  }
}

function mask(scores, allowed) {
  for (let memory = 0; memory < scores.length; memory++) {
    if (!allowed(memory)) scores[memory] = -Infinity;
  }
}

/** @returns {(x: Matrix) => Matrix} a linear map of the model */
export function linearLayer(weights, name) {
  const weight = weights(`${name}.weight`);
  const bias = weights(`${name}.bias`)?.data;
  return (x) => linear(x, weight, bias);
}

function rows(matrix) {
  return Array.from({ length: matrix.rows }, (_, index) => matrix.row(index));
}
