/**
 * The fast path of `linear`: matrix products in WebAssembly with 128-bit SIMD instructions.
 *
 * The weights live in WebAssembly's memory, rows one after the other. A kernel multiplies a few
 * rows of x by a few rows of W at a time, so that what it loads is used several times. int8 weights
 * stay int8 there and are converted as they are loaded: a greedy step of a large model takes as long
 * as reading its weights. The instructions are written below, by name; a browser without SIMD falls
 * back to tensor.js.
 */

import { Int8Matrix, Matrix } from "./tensor.js";

const FLOAT = 4; // bytes
const LANES = 4; // numbers of a SIMD register
const ROWS = 4; // rows of x in a block, if there are as many
const WIDTH = { 1: 4, [ROWS]: 2 }; // rows of W in a block, by those of x
const SCRATCH = { x: 1 << 16, y: 1 << 18 }; // numbers
const PAGE = 1 << 16; // bytes

export class Kernels {
  /**
   * @param {number} bytes of all matrices, as `bytes` computes them
   * @returns {Promise<Kernels | null>} null where the browser has no SIMD
   */
  static async create(bytes) {
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
    const step = scales ? 2 * LANES : LANES;
    const whole = columns % step === 0 && rows % 4 === 0;
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
      const kernel = this.exports[`multiply${rows}${weight.scales ? "Int8" : ""}`];
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
const constant = (value) => [0x41, ...unsigned(value)]; // below 64, where the sign does not matter
const [loop, end] = [[0x03, 0x40], [0x0b]];
const repeatIf = [0x0d, 0];
const [notEqual, plus, minus, times] = [[0x47], [0x6a], [0x6b], [0x6c]];
const load = (offset) => simd(0x00, 2, offset);
const loadInt8 = simd(0x01, 0, 0); // eight numbers, as 16 bits each
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
 * `blocks` rows of w, whose numbers are int8 if there are two `registers` of them in a step.
 */
function kernel(rows, width, registers) {
  const [x, w, y, innerBytes, weightBytes, outputBytes, blocks] = [0, 1, 2, 3, 4, 5, 6];
  let next = 7;
  const locals = (count) => Array.from({ length: count }, () => next++);
  const [xs, ws, [xEnd, target]] = [locals(rows), locals(width), locals(2)];
  const integers = next - 7;
  const xValues = Array.from({ length: registers }, () => locals(rows));
  const [loaded, wValue, ...sums] = locals(2 + rows * width);
  const vectors = next - 7 - integers;
  const horizontalSum = (sum) => [
    ...[0, 1, 2, 3].flatMap((index) => [...get(sum), ...lane(index)]),
    ...[...floatPlus, ...floatPlus, ...floatPlus],
  ];
  const pointers = (locals, first, stride) =>
    locals.flatMap((pointer, index) => [
      ...(index ? [...get(locals[index - 1]), ...get(stride), ...plus] : get(first)),
      ...set(pointer),
    ]);
  const int8 = registers === 2;
  const multiplyAdd = (column) =>
    xValues.flatMap((values, register) => [
      ...(int8 ? [...get(loaded), ...widen[register], ...toFloat, ...set(wValue)] : []),
      ...values.flatMap((value, row) => {
        const sum = sums[row * width + column];
        const product = [...get(value), ...get(wValue), ...vectorTimes];
        return [...get(sum), ...product, ...vectorPlus, ...set(sum)];
      }),
    ]);
  const body = [
    ...loop,
    ...pointers(xs, x, innerBytes),
    ...pointers(ws, w, weightBytes),
    ...[...get(x), ...get(innerBytes), ...plus, ...set(xEnd)],
    ...sums.flatMap((sum) => [...zero, ...set(sum)]),
    ...loop,
    ...xValues.flatMap((values, register) =>
      values.flatMap((value, row) => [
        ...[...get(xs[row]), ...load(register * FLOAT * LANES), ...set(value)],
      ]),
    ),
    ...ws.flatMap((pointer, column) => [
      ...[...get(pointer), ...(int8 ? loadInt8 : load(0)), ...set(int8 ? loaded : wValue)],
      ...multiplyAdd(column),
    ]),
    ...xs.flatMap((pointer) => increase(pointer, constant(registers * FLOAT * LANES))),
    ...ws.flatMap((pointer) => increase(pointer, constant(int8 ? 2 * LANES : FLOAT * LANES))),
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
  const kernels = {
    multiply1: kernel(1, WIDTH[1], 1),
    multiply4: kernel(ROWS, WIDTH[ROWS], 1),
    multiply1Int8: kernel(1, WIDTH[1], 2),
    multiply4Int8: kernel(ROWS, WIDTH[ROWS], 2),
  };
  const names = Object.keys(kernels);
  const bodies = Object.values(kernels);
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0], // magic number, version
    ...section(1, vector([[0x60, ...vector(Array(7).fill([I32])), 0]])),
    ...section(2, vector([[...text("js"), ...text("memory"), 0x02, 0x00, 1]])),
    ...section(3, vector(names.map(() => [0]))),
    ...section(7, vector(names.map((name, i) => [...text(name), 0, i]))),
    ...section(10, vector(bodies.map((body) => [...unsigned(body.length), ...body]))),
  ]);
}
