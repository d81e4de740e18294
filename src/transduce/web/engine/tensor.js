/** Matrices in single precision, and the operations on them that the model consists of. */

export class Matrix {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {Float32Array} [data] row after row; zeros by default
   */
  constructor(rows, columns, data = new Float32Array(rows * columns)) {
    this.rows = rows;
    this.columns = columns;
    this.data = data;
    /** What multiplies by this matrix faster than `linear`, if it does: see kernels.js. */
    this.kernel = null;
  }

  /** @returns {Matrix} */
  copy() {
    return new Matrix(this.rows, this.columns, this.data.slice());
  }

  /** @returns {Float32Array} a view of one row */
  row(index) {
    return this.data.subarray(index * this.columns, (index + 1) * this.columns);
  }
}

/** Weights in int8 with a scale for each row. Only a kernel multiplies by them: see kernels.js. */
export class Int8Matrix {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {{data: Int8Array, scales: Float32Array}} values
   */
  constructor(rows, columns, { data, scales }) {
    Object.assign(this, { rows, columns, data, scales, kernel: null });
  }

  /** @returns {Float32Array} the numbers of one row */
  row(index) {
    const values = this.data.subarray(index * this.columns, (index + 1) * this.columns);
    return Float32Array.from(values, (value) => value * this.scales[index]);
  }

  /** @returns {Matrix} the same numbers in single precision */
  toFloat32() {
    const matrix = new Matrix(this.rows, this.columns);
    for (let row = 0; row < this.rows; row++) matrix.row(row).set(this.row(row));
    return matrix;
  }
}

/**
 * y = x Wᵀ + b.
 *
 * @param {Matrix} x a row for each position
 * @param {Matrix} weight a row for each output
 * @param {Float32Array} [bias] one number for each output
 * @returns {Matrix}
 */
export function linear(x, weight, bias) {
  const y = new Matrix(x.rows, weight.rows);
  if (weight.kernel) weight.kernel.multiply(x, y);
  else multiply(x, weight, y);
  if (bias) for (let row = 0; row < y.rows; row++) addInPlace(y.row(row), bias);
  return y;
}

function multiply(x, weight, y) {
  const inner = x.columns;
  for (let row = 0; row < x.rows; row++) {
    for (let output = 0; output < weight.rows; output++) {
      let sum = 0;
      for (let i = 0; i < inner; i++) {
        sum += x.data[row * inner + i] * weight.data[output * inner + i];
      }
      y.data[row * weight.rows + output] = sum;
    }
  }
}

/** x + y, into x. */
export function addInPlace(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
}

/** @returns {Matrix} x + y */
export function add(x, y) {
  const sum = x.copy();
  addInPlace(sum.data, y.data);
  return sum;
}

/**
 * exp(x) / Σ exp(x). -Infinity, what a mask writes, becomes 0.
 *
 * @param {Float32Array | number[]} scores
 * @returns {Float32Array}
 */
export function softmax(scores) {
  let largest = -Infinity;
  for (const score of scores) largest = Math.max(largest, score);
  const weights = new Float32Array(scores.length);
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += weights[i] = Math.exp(scores[i] - largest);
  for (let i = 0; i < weights.length; i++) weights[i] /= sum;
  return weights;
}

/**
 * The logarithm of the softmax, in double precision.
 *
 * @param {Float32Array} logits
 * @returns {Float64Array}
 */
export function logSoftmax(logits) {
  let largest = -Infinity;
  for (let i = 0; i < logits.length; i++) if (logits[i] > largest) largest = logits[i];
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - largest);
  const offset = largest + Math.log(sum);
  const logProbs = new Float64Array(logits.length);
  for (let i = 0; i < logits.length; i++) logProbs[i] = logits[i] - offset;
  return logProbs;
}

export const LAYER_NORM_EPSILON = 1e-5;

/**
 * (x - mean) / √(variance + ε) · gain + offset, for each row.
 *
 * @param {Matrix} x
 * @param {Float32Array} gain
 * @param {Float32Array} offset
 */
export function layerNorm(x, gain, offset) {
  const normalized = new Matrix(x.rows, x.columns);
  for (let row = 0; row < x.rows; row++) {
    const input = x.row(row);
    const output = normalized.row(row);
    let mean = 0;
    for (const value of input) mean += value;
    mean /= input.length;
    let variance = 0;
    for (const value of input) variance += (value - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / input.length + LAYER_NORM_EPSILON);
    for (let i = 0; i < input.length; i++) {
      output[i] = (input[i] - mean) * scale * gain[i] + offset[i];
    }
  }
  return normalized;
}
