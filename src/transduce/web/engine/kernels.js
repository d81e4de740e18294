/**
 * The fast path of `linear`: matrix products in WebAssembly with 128-bit SIMD instructions.
 *
 * The weights live in WebAssembly's memory, rows one after the other. One row of x, a greedy step, takes
 * as long as reading the weights: its kernel goes through them from the first to the last, which the
 * processor fetches ahead, and keeps several sums of a row, since each addition waits for the one
 * before it in the same sum. Several rows of x are multiplied by two rows of W at a time, so that what
 * is loaded is used several times. int8 weights stay int8 in memory and are converted as they are
 * loaded. The instructions are written below, by name; a browser without SIMD falls back to tensor.js.
 */

import { Int8Matrix, Matrix } from "./tensor.js";

const FLOAT = 4; // bytes
const LANES = 4; // numbers of a SIMD register
const ROWS = 4; // rows of x in a block, if there are as many
const WIDTH = { 1: 1, [ROWS]: 2 }; // rows of W in a block, by those of x
const UNROLLED = 4; // SIMD registers of a row in a step of the innermost loop, for one row of x
const SCRATCH = { x: 1 << 16, y: 1 << 18 }; // numbers
const PAGE = 1 << 16; // bytes

export class Kernels {
  /**
   * @param {number} bytes of all matrices, as `bytes` computes them
   * @returns {Promise<Kernels | null>} null where the browser has no WebAssembly or no SIMD
   */
  static async create(bytes) {
    if (typeof WebAssembly === "undefined") return null;
    const scratch = (SCRATCH.x + SCRATCH.y) * FLOAT;
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((bytes + scratch) / PAGE) + 1 });
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

  /** @returns {Float32Array | Int8Array} zeros in WebAssembly's memory */
  allocate(length, Type = Float32Array) {
    const array = new Type(this.memory.buffer, this.used, length);
    this.used += aligned(array.byteLength);
    return array;
  }

  /**
   * Copy a matrix of weights to where a kernel multiplies by it, if its shape allows.
   *
   * @param {Matrix | Int8Matrix} weight
   * @returns {Matrix | Int8Matrix}
   */
  matrix(weight) {
    const { rows, columns, scales } = weight;
    const data = this.allocate(rows * columns, weight.data.constructor);
    data.set(weight.data);
    const matrix = scales
      ? new Int8Matrix(rows, columns, { data, scales })
      : new Matrix(rows, columns, data);
    if (Kernels.fits(weight)) matrix.kernel = { multiply: (x, y) => this.#multiply(x, matrix, y) };
    return matrix;
  }

  /** Whether a kernel can multiply by a matrix. */
  static fits({ rows, columns, scales }) {
    const whole = columns % (LANES * leastRegisters(scales)) === 0 && rows % WIDTH[ROWS] === 0;
    return whole && columns <= SCRATCH.x && rows <= SCRATCH.y;
  }

  /** The bytes that a matrix takes. */
  static bytes({ data }) {
    return aligned(data.byteLength);
  }

  #multiply(x, weight, y) {
    const [inner, outputs] = [weight.columns, weight.rows];
    const most = Math.min(SCRATCH.x / inner, SCRATCH.y / outputs);
    for (let row = 0; row < x.rows; ) {
      const rows = x.rows - row >= ROWS && most >= ROWS ? ROWS : 1;
      this.x.set(x.data.subarray(row * inner, (row + rows) * inner));
      const unrolled = rows === 1 && inner % (LANES * UNROLLED) === 0;
      const registers = unrolled ? UNROLLED : leastRegisters(weight.scales);
      const kernel = this.exports[kernelName({ rows, int8: weight.scales, registers })];
      kernel(
        this.x.byteOffset,
        weight.data.byteOffset,
        this.y.byteOffset,
        inner * FLOAT,
        inner * weight.data.BYTES_PER_ELEMENT,
        outputs * FLOAT,
        outputs / WIDTH[rows],
      );
      const product = this.y.subarray(0, rows * outputs);
      if (weight.scales) scaleColumns(product, weight.scales);
      y.data.set(product, row * outputs);
      row += rows;
    }
  }
}

/** The least registers of a row in a step: eight int8 numbers are loaded at once. */
const leastRegisters = (int8) => (int8 ? 2 : 1);

const kernelName = ({ rows, int8, registers }) => `multiply${rows}${int8 ? "Int8" : ""}By${registers}`;

/** Addresses of SIMD registers are multiples of 16. */
const aligned = (bytes) => Math.ceil(bytes / (LANES * FLOAT)) * LANES * FLOAT;

function scaleColumns(product, scales) {
  for (let start = 0; start < product.length; start += scales.length) {
    for (let i = 0; i < scales.length; i++) product[start + i] *= scales[i];
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
/** Signed LEB128 has the sign in bit 6 of the last byte. */
const constant = (value) => [0x41, ...(value < 64 ? [value] : [(value & 0x7f) | 0x80, value >>> 7])];
const [loop, end] = [[0x03, 0x40], [0x0b]];
const repeatIf = [0x0d, 0];
const [notEqual, plus, minus, times] = [[0x47], [0x6a], [0x6b], [0x6c]];
const load = (offset) => simd(0x00, 2, ...unsigned(offset));
const loadInt8 = (offset) => simd(0x01, 0, ...unsigned(offset)); // eight numbers, as 16 bits each
const widen = [simd(0xa7), simd(0xa8)]; // the first and the last four, to 32 bits
const toFloat = simd(0xfa);
const zero = simd(0x0c, ...Array(16).fill(0));
const [vectorPlus, vectorTimes] = [simd(0xe4), simd(0xe6)];
const lane = (index) => simd(0x1f, index);
const floatPlus = [0x92];
const storeFloat = (offset) => [0x38, 2, ...unsigned(offset)];
const increase = (local, by) => [...get(local), ...by, ...plus, ...set(local)];

/**
 * A function (x, w, y, innerBytes, weightBytes, outputBytes, blocks): `rows` rows of x by `width` ×
 * `blocks` rows of w.
 *
 * @param {number} rows
 * @param {number} width
 * @param {{int8: boolean, registers: number}} options `registers` of a row in each step
 */
function kernel(rows, width, { int8, registers }) {
  const [x, w, y, innerBytes, weightBytes, outputBytes, blocks] = [0, 1, 2, 3, 4, 5, 6];
  let next = 7;
  const locals = (count) => Array.from({ length: count }, () => next++);
  const [xs, ws, [xEnd, target]] = [locals(rows), locals(width), locals(2)];
  const integers = next - 7;
  const [xValues, loaded, [wValue]] = [locals(rows), locals(width), locals(1)];
  // A single sum would wait for itself: as many as registers, added at the end.
  const chains = rows * width === 1 ? registers : 1;
  const sums = Array.from({ length: rows * width }, () => locals(chains));
  const vectors = next - 7 - integers;
  const pointers = (locals, first, stride) =>
    locals.flatMap((pointer, index) => [
      ...(index ? [...get(locals[index - 1]), ...get(stride), ...plus] : get(first)),
      ...set(pointer),
    ]);
  const loadWeights = (column, register) => {
    if (!int8) return [...get(ws[column]), ...load(register * LANES * FLOAT)];
    const eight = [...get(ws[column]), ...loadInt8(register * LANES), ...set(loaded[column])];
    return [...(register % 2 ? [] : eight), ...get(loaded[column]), ...widen[register % 2], ...toFloat];
  };
  const multiplyAdd = (column, register) =>
    xValues.flatMap((value, row) => {
      const sum = sums[row * width + column][register % chains];
      const product = [...get(value), ...get(wValue), ...vectorTimes];
      return [...get(sum), ...product, ...vectorPlus, ...set(sum)];
    });
  const horizontalSum = ([sum, ...others]) => [
    ...get(sum),
    ...others.flatMap((other) => [...get(other), ...vectorPlus]),
    ...set(sum),
    ...[0, 1, 2, 3].flatMap((index) => [...get(sum), ...lane(index)]),
    ...[...floatPlus, ...floatPlus, ...floatPlus],
  ];
  const step = (register) => [
    ...xs.flatMap((pointer, row) => [
      ...[...get(pointer), ...load(register * LANES * FLOAT), ...set(xValues[row])],
    ]),
    ...ws.flatMap((_, column) => [
      ...[...loadWeights(column, register), ...set(wValue)],
      ...multiplyAdd(column, register),
    ]),
  ];
  const body = [
    ...loop,
    ...pointers(xs, x, innerBytes),
    ...pointers(ws, w, weightBytes),
    ...[...get(x), ...get(innerBytes), ...plus, ...set(xEnd)],
    ...sums.flat().flatMap((sum) => [...zero, ...set(sum)]),
    ...loop,
    ...Array.from({ length: registers }, (_, register) => step(register)).flat(),
    ...xs.flatMap((pointer) => increase(pointer, constant(registers * LANES * FLOAT))),
    ...ws.flatMap((pointer) => increase(pointer, constant(registers * LANES * (int8 ? 1 : FLOAT)))),
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
    ...increase(w, [...get(weightBytes), ...constant(width), ...times]),
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

/** @returns {Uint8Array} a module that exports the kernels and imports its memory */
function assemble() {
  const names = [];
  const bodies = [];
  for (const int8 of [false, true]) {
    const least = leastRegisters(int8);
    for (const [rows, registers] of [[1, least], [1, UNROLLED], [ROWS, least]]) {
      names.push(kernelName({ rows, int8, registers }));
      bodies.push(kernel(rows, WIDTH[rows], { int8, registers }));
    }
  }
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic number, version
    ...section(1, vector([[0x60, ...vector(Array(7).fill([I32])), 0]])),
    ...section(2, vector([[...text("js"), ...text("memory"), 0x02, 0x00, 1]])),
    ...section(3, vector(names.map(() => [0]))),
    ...section(7, vector(names.map((name, i) => [...text(name), 0, i]))),
    ...section(10, vector(bodies.map((body) => [...unsigned(body.length), ...body]))),
  ]);
}
