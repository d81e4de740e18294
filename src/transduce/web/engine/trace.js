/** Every intermediate result of one sentence pair, by name, and the same with parts switched off. */

import { Matrix } from "./tensor.js";

/**
 * Compute a sentence pair and keep what the hooks of attention.js see.
 *
 * @param {Transformer} model
 * @param {number[]} source ids with EOS
 * @param {number[]} targetIn target ids shifted right
 * @param {Switches} [switches]
 * @returns {Map<string, Matrix | Matrix[]>} by name, such as "encoder.0.self_attention.weights"; a
 *   matrix for each head where the heads differ in rows
 */
export function trace(model, source, targetIn, switches = {}) {
  const tensors = new Map();
  const change = switchHook(model, switches);
  const hook = (name, values, head, query) => {
    change(name, values, head, query);
    if (values instanceof Matrix) tensors.set(name, values.copy());
    else setRow(tensors, name, { values, head, query });
  };
  const memory = model.encode(source, hook);
  tensors.set("memory", memory);
  const hidden = model.decode(memory, targetIn, hook);
  tensors.set("logits", model.logits(hidden));
  return tensors;
}

function setRow(tensors, name, { values, head, query }) {
  if (!tensors.has(name)) tensors.set(name, []);
  const heads = tensors.get(name);
  heads[head] ??= new Matrix(0, values.length, []);
  const matrix = heads[head];
  if (matrix.rows <= query) {
    const data = new Float32Array((query + 1) * values.length);
    data.set(matrix.data);
    heads[head] = new Matrix(query + 1, values.length, data);
  }
  heads[head].row(query).set(values);
}

/**
 * What a reader can switch off or change.
 *
 * @typedef {object} Switches
 * @property {boolean} [noScaling] leave out the division by √d_k
 * @property {boolean} [noPositions] leave out the positional encodings
 * @property {boolean} [noMask] let the decoder see later target positions
 * @property {number} [temperature] divides the scores of every softmax of an attention
 * @property {{attention: string, head: number}} [head] a head without output
 * @property {string} [layer] a layer, such as "encoder.1", whose sub-layers add nothing
 * @property {string} [residual] a layer without its residual connections
 * @property {{attention: string, head: number, query: number, memory: number, value: number}}
 *   [weight] one attention weight; the others of its row are scaled so that the sum stays 1
 */

/**
 * @param {Transformer} model
 * @param {Switches} switches
 * @returns {Hook} changes what the switches name
 */
export function switchHook(model, switches) {
  const { d_k: dK, d_v: dV } = model.config;
  let unmasked = null;
  const changes = {
    positions: (positions) => switches.noPositions && positions.data.fill(0),
    scores: (scores) => {
      const factor = (switches.noScaling ? Math.sqrt(dK) : 1) / (switches.temperature ?? 1);
      for (let i = 0; i < scores.length; i++) scores[i] *= factor;
      unmasked = scores.slice();
    },
    masked_scores: (scores) => switches.noMask && scores.set(unmasked),
    weights: (weights, name, head, query) => {
      const edit = switches.weight;
      if (edit && name.startsWith(`${edit.attention}.`) && edit.head === head && edit.query === query) {
        setWeight(weights, edit);
      }
    },
    heads: (output, name) => {
      if (!switches.head || !name.startsWith(`${switches.head.attention}.`)) return;
      const first = switches.head.head * dV;
      for (let row = 0; row < output.rows; row++) output.row(row).fill(0, first, first + dV);
    },
    sublayer: (output, name) =>
      switches.layer && name.startsWith(`${switches.layer}.`) && output.data.fill(0),
    residual: (x, name) =>
      switches.residual && name.startsWith(`${switches.residual}.`) && x.data.fill(0),
  };
  return (name, values, head, query) => {
    changes[name.slice(name.lastIndexOf(".") + 1)]?.(values, name, head, query);
  };
}

function setWeight(weights, { memory, value }) {
  const rest = 1 - weights[memory];
  const factor = rest > 0 ? (1 - value) / rest : 0;
  for (let i = 0; i < weights.length; i++) weights[i] *= factor;
  weights[memory] = value;
}

/**
 * Translate greedily with parts switched off, each step over the whole target, since hooks see it
 * whole.
 *
 * @param {Transformer} model
 * @param {number[]} source ids with EOS
 * @param {object} options
 * @param {Switches} options.switches
 * @param {number} options.limit maximum length in pieces, EOS included
 * @param {number} options.eos
 * @returns {number[]} ids, EOS included unless the limit cut it
 */
export function translateSwitched(model, source, { switches, limit, eos }) {
  const hook = switchHook(model, switches);
  const memory = model.encode(source, hook);
  const ids = [];
  while (ids.length < limit && ids.at(-1) !== eos) {
    const hidden = model.decode(memory, [model.pad, ...ids], hook);
    const last = new Matrix(1, hidden.columns, hidden.row(hidden.rows - 1).slice());
    const logits = model.logits(last).row(0);
    logits[model.pad] = -Infinity;
    ids.push(logits.indexOf(Math.max(...logits)));
  }
  return ids;
}
