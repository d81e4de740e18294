/**
 * The fast path of `linear`: matrix products in WebAssembly with 128-bit SIMD instructions.
 *
 * The weights live in WebAssembly's memory, rows one after the other. A kernel multiplies a few
 * rows of x by a few rows of W at a time, so that what it loads is used several times. Its
 * instructions are written below, by name; a browser without SIMD falls back to tensor.js.
 */

import { Matrix } from "./tensor.js";

const FLOAT = 4; // bytes
const LANES = 4; // numbers of a SIMD register
const ROWS = 4; // rows of x in a block, if there are as many
const SCRATCH = { x: 1 << 16, y: 1 << 18 }; // numbers
const PAGE = 1 << 16; // bytes

export class Kernels {
  /**
   * @param {number} length numbers that `allocate` will be asked for in all
   * @returns {Promise<Kernels | null>} null where the browser has no SIMD
   */
  static async create(length) {
    const floats = length + SCRATCH.x + SCRATCH.y;
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((floats * FLOAT) / PAGE) + 1 });
      const { instance } = await WebAssembly.instantiate(assemble(), { js: { memory } });
      return new Kernels(memory, instance.exports);
    } catch (error) {
      if (error instanceof WebAssembly.CompileError) return null;
      throw error;
    }
  }

  constructor(memory, exports) {
    this.memory = memory;
    this.exports = exports;
    this.used = 0;
    this.x = this.allocate(SCRATCH.x);
    this.y = this.allocate(SCRATCH.y);
  }

  /** @returns {Float32Array} zeros in WebAssembly's memory */
  allocate(length) {
    const array = new Float32Array(this.memory.buffer, this.used, length);
    this.used += Math.ceil(length / LANES) * LANES * FLOAT;
    return array;
  }

  /**
   * A matrix of weights that multiplies by a kernel, if its shape allows.
   *
   * @param {number} rows
   * @param {number} columns
   * @returns {Matrix} zeros
   */
  matrix(rows, columns) {
    const matrix = new Matrix(rows, columns, this.allocate(rows * columns));
    const fits = columns % LANES === 0 && rows % 4 === 0;
    if (fits && columns <= SCRATCH.x && rows <= SCRATCH.y) {
      matrix.kernel = { multiply: (x, y) => this.#multiply(x, matrix, y) };
    }
    return matrix;
  }

  /** The numbers that `matrix` takes, from which `create` computes its memory. */
  static length(rows, columns) {
    return Math.ceil((rows * columns) / LANES) * LANES;
  }

  #multiply(x, weight, y) {
    const [inner, outputs] = [weight.columns, weight.rows];
    const most = Math.min(SCRATCH.x / inner, SCRATCH.y / outputs);
    for (let row = 0; row < x.rows; ) {
      const rows = x.rows - row >= ROWS && most >= ROWS ? ROWS : 1;
      this.x.set(x.data.subarray(row * inner, (row + rows) * inner));
      const [kernel, width] =
        rows === ROWS ? [this.exports.multiply4, 2] : [this.exports.multiply1, 4];
      kernel(
        this.x.byteOffset,
        weight.data.byteOffset,
        this.y.byteOffset,
        inner * FLOAT,
        outputs * FLOAT,
        outputs / width,
      );
      y.data.set(this.y.subarray(0, rows * outputs), row * outputs);
      row += rows;
    }
  }
}

// --- The WebAssembly module -----------------------------------------------------------------

const I32 = 0x7f;
const V128 = 0x7b;

/** Unsigned LEB128, WebAssembly's encoding of numbers. */
function unsigned(value) {
  const low = value & 0x7f;
  return value > 0x7f ? [low | 0x80, ...unsigned(value >>> 7)] : [low];
}

const vector = (items) => [...unsigned(items.length), ...items.flat()];
const section = (id, body) => [id, ...unsigned(body.length), ...body];
const simd = (opcode, ...rest) => [0xfd, ...unsigned(opcode), ...rest];
const text = (name) => vector([...new TextEncoder().encode(name)]);

const get = (local) => [0x20, local];
const set = (local) => [0x21, local];
const constant = (value) => [0x41, ...unsigned(value)]; // below 64, where the sign does not matter
const [loop, end] = [[0x03, 0x40], [0x0b]];
const repeatIf = [0x0d, 0];
const [notEqual, plus, minus, times] = [[0x47], [0x6a], [0x6b], [0x6c]];
const load = simd(0x00, 2, 0);
const zero = simd(0x0c, ...Array(16).fill(0));
const [vectorPlus, vectorTimes] = [simd(0xe4), simd(0xe6)];
const lane = (index) => simd(0x1f, index);
const floatPlus = [0x92];
const storeFloat = (offset) => [0x38, 2, ...unsigned(offset)];
const increase = (local, by) => [...get(local), ...by, ...plus, ...set(local)];

/**
 * A function (x, w, y, innerBytes, outputBytes, blocks): `rows` rows of x by `width` × `blocks` rows
 * of w.
 */
function kernel(rows, width) {
  const [x, w, y, innerBytes, outputBytes, blocks] = [0, 1, 2, 3, 4, 5];
  let next = 6;
  const locals = (count) => Array.from({ length: count }, () => next++);
  const [xs, ws, [xEnd, target]] = [locals(rows), locals(width), locals(2)];
  const integers = next - 6;
  const [xValues, [wValue], sums] = [locals(rows), locals(1), locals(rows * width)];
  const vectors = next - 6 - integers;
  const horizontalSum = (sum) => [
    ...[0, 1, 2, 3].flatMap((index) => [...get(sum), ...lane(index)]),
    ...[...floatPlus, ...floatPlus, ...floatPlus],
  ];
  const body = [
    ...loop,
    ...xs.flatMap((pointer, row) => [
      ...(row ? [...get(xs[row - 1]), ...get(innerBytes), ...plus] : get(x)),
      ...set(pointer),
    ]),
    ...ws.flatMap((pointer, column) => [
      ...(column ? [...get(ws[column - 1]), ...get(innerBytes), ...plus] : get(w)),
      ...set(pointer),
    ]),
    ...[...get(x), ...get(innerBytes), ...plus, ...set(xEnd)],
    ...sums.flatMap((sum) => [...zero, ...set(sum)]),
    ...loop,
    ...xs.flatMap((pointer, row) => [...get(pointer), ...load, ...set(xValues[row])]),
    ...ws.flatMap((pointer, column) => [
      ...[...get(pointer), ...load, ...set(wValue)],
      ...xValues.flatMap((value, row) => {
        const sum = sums[row * width + column];
        const product = [...get(value), ...get(wValue), ...vectorTimes];
        return [...get(sum), ...product, ...vectorPlus, ...set(sum)];
      }),
    ]),
    ...[...xs, ...ws].flatMap((pointer) => increase(pointer, constant(FLOAT * LANES))),
    ...[...get(xs[0]), ...get(xEnd), ...notEqual, ...repeatIf],
    ...end,
    ...[...get(y), ...set(target)],
    ...xs.flatMap((_, row) => [
      ...ws.flatMap((_, column) => [
        ...get(target),
        ...horizontalSum(sums[row * width + column]),
        ...storeFloat(column * FLOAT),
      ]),
      ...increase(target, get(outputBytes)),
    ]),
    ...increase(w, [...get(innerBytes), ...constant(width), ...times]),
    ...increase(y, constant(width * FLOAT)),
    ...[...get(blocks), ...constant(1), ...minus, 0x22, blocks], // tee: sets and keeps
    ...repeatIf,
    ...end,
    ...end,
  ];
  const declarations = vector([
    [...unsigned(integers), I32],
    [...unsigned(vectors), V128],
  ]);
  return [...declarations, ...body];
}

/** @returns {Uint8Array} a module that exports multiply1 and multiply4 and imports its memory */
function assemble() {
  const code = [kernel(1, 4), kernel(ROWS, 2)];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic number, version
    ...section(1, vector([[0x60, ...vector(Array(6).fill([I32])), 0]])),
    ...section(2, vector([[...text("js"), ...text("memory"), 0x02, 0x00, 1]])),
    ...section(3, vector([[0], [0]])),
    ...section(7, vector(["multiply1", "multiply4"].map((name, i) => [...text(name), 0, i]))),
    ...section(10, vector(code.map((body) => [...unsigned(body.length), ...body]))),
  ]);
}
