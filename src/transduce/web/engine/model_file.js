/**
 * Reads weights in the safetensors format: the length of a JSON header in 8 bytes, the header, then
 * the tensors. Matrices may be float32, float16, which becomes float32, or int8 with a scale for each
 * row in the tensor NAME.scale.
 */

import { Kernels } from "./kernels.js";
import { Int8Matrix, Matrix } from "./tensor.js";

/**
 * @param {Uint8Array} bytes
 * @returns {Map<string, Matrix | Int8Matrix>} by name; a vector is a matrix of one row
 */
export function readTensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerEnd = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, headerEnd)));
  delete header.__metadata__;
  const raw = ({ dtype, data_offsets: [start, end] }) => {
    const data = bytes.slice(headerEnd + start, headerEnd + end); // aligned
    return numbers(dtype, data.buffer);
  };
  const tensors = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name.endsWith(".scale")) continue;
    const [rows, columns] = entry.shape.length === 2 ? entry.shape : [1, entry.shape[0]];
    const scale = header[`${name}.scale`];
    const matrix = scale
      ? new Int8Matrix(rows, columns, { data: raw(entry), scales: raw(scale) })
      : new Matrix(rows, columns, raw(entry));
    tensors.set(name, matrix);
  }
  return tensors;
}

/**
 * Read weights, into the memory of the kernels where the browser has them.
 *
 * @param {Uint8Array} bytes
 * @param {{fast?: boolean}} [options] whether to use the kernels
 * @returns {Promise<Map<string, Matrix | Int8Matrix>>}
 */
export async function loadTensors(bytes, { fast = true } = {}) {
  const tensors = readTensors(bytes);
  const size = () => [...tensors.values()].reduce((sum, tensor) => sum + Kernels.bytes(tensor), 0);
  const toFloat32 = (condition) => {
    for (const [name, tensor] of tensors) {
      if (tensor.scales && condition(tensor)) tensors.set(name, tensor.toFloat32());
    }
  };
  toFloat32((tensor) => !fast || !Kernels.fits(tensor));
  const kernels = fast ? await Kernels.create(size()) : null;
  if (!kernels) toFloat32(() => true);
  for (const [name, tensor] of kernels ? tensors : []) tensors.set(name, kernels.matrix(tensor));
  return tensors;
}

function numbers(dtype, buffer) {
  if (dtype === "F32") return new Float32Array(buffer);
  if (dtype === "F16") return Float32Array.from(new Uint16Array(buffer), halfToFloat);
  if (dtype === "I8") return new Int8Array(buffer);
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
