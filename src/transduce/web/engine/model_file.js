/**
 * Reads weights in the safetensors format: the length of a JSON header in 8 bytes, the header, then
 * the tensors. Matrices may be float32, float16, or int8 with a scale for each row in the tensor
 * NAME.scale; all become float32.
 */

import { Kernels } from "./kernels.js";
import { Matrix } from "./tensor.js";

/**
 * @param {Uint8Array} bytes
 * @returns {Map<string, Matrix>} by name; a vector is a matrix of one row
 */
export function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerEnd = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, headerEnd)));
  delete header.__metadata__;
  const raw = ({ dtype, data_offsets: [start, end] }) => {
    const data = bytes.slice(headerEnd + start, headerEnd + end); // aligned
    return toFloat32(dtype, data.buffer);
  };
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name.endsWith(".scale")) continue;
    const [rows, columns] = entry.shape.length === 2 ? entry.shape : [1, entry.shape[0]];
    const matrix = new Matrix(rows, columns, raw(entry));
    if (header[`${name}.scale`]) scaleRows(matrix, raw(header[`${name}.scale`]));
    tensors.set(name, matrix);
  }
  return tensors;
}

/**
 * Read weights, into the memory of the kernels where the browser has them.
 *
 * @param {Uint8Array} bytes
 * @param {{fast?: boolean}} [options] whether to use the kernels
 * @returns {Promise<Map<string, Matrix>>}
 */
export async function loadTensors(bytes, { fast = true } = {}) {
  const tensors = readTensors(bytes);
  let length = 0;
  for (const { rows, columns } of tensors.values()) length += Kernels.length(rows, columns);
  const kernels = fast ? await Kernels.create(length) : null;
  for (const [name, tensor] of kernels ? tensors : []) {
    const matrix = kernels.matrix(tensor.rows, tensor.columns);
    matrix.data.set(tensor.data);
    tensors.set(name, matrix);
  }
  return tensors;
}

function toFloat32(dtype, buffer) {
  if (dtype === "F32") return new Float32Array(buffer);
  if (dtype === "F16") return Float32Array.from(new Uint16Array(buffer), halfToFloat);
  if (dtype === "I8") return Float32Array.from(new Int8Array(buffer));
  throw new Error(`The weights have the type ${dtype}, which this page cannot read.`);
}

/** The number of a half-precision bit pattern (IEEE 754). */
export function halfToFloat(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function scaleRows(matrix, scales) {
  for (let row = 0; row < matrix.rows; row++) {
    const values = matrix.row(row);
    for (let i = 0; i < values.length; i++) values[i] *= scales[row];
  }
}
