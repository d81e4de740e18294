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
 * @property {[number, number]} [swap] two words of the sentence, by number, exchange their places
 * @property {{attention: string, head: number}[]} [heads] heads without output
 * @property {string} [layer] a layer, such as "encoder.1", whose sub-layers add nothing
 * @property {string} [residual] a layer without its residual connections
 * @property {{attention: string, head: number, query: number, memory: number, value: number}[]}
 *   [weights] attention weights; the others of their rows are scaled so that the sum stays 1
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
      const edits = (switches.weights ?? []).filter(
        (edit) =>
          name.startsWith(`${edit.attention}.`) &&
          edit.head === head &&
          edit.query === query &&
          edit.memory < weights.length,
      );
      if (edits.length) setWeights(weights, edits);
    },
    heads: (output, name) => {
      for (const { attention, head } of switches.heads ?? []) {
        if (!name.startsWith(`${attention}.`)) continue;
        const first = head * dV;
        for (let row = 0; row < output.rows; row++) output.row(row).fill(0, first, first + dV);
      }
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

/** Set weights of a row, and scale the others so that the sum stays 1; without others it stays. */
function setWeights(weights, edits) {
  const edited = new Map(edits.map(({ memory, value }) => [memory, value]));
  let rest = 0;
  weights.forEach((weight, memory) => (rest += edited.has(memory) ? 0 : weight));
  if (rest === 0) return;
  let left = 1;
  for (const value of edited.values()) left -= value;
  for (let i = 0; i < weights.length; i++) weights[i] = edited.get(i) ?? (weights[i] * left) / rest;
}

/**
 * A decoder for `beamSearch` with parts switched off. Each step computes the targets from their
 * beginnings, since hooks see all positions and a decoder without mask changes the earlier ones.
 */
export class SwitchedDecoder {
  /**
   * @param {Transformer} model
   * @param {number[]} source ids with EOS
   * @param {Switches} switches
   */
  constructor(model, source, switches) {
    this.model = model;
    this.hook = switchHook(model, switches);
    this.memory = model.encode(source, this.hook);
    this.targets = [[]];
  }

  /**
   * @param {number[]} ids the next of each beam
   * @returns {Matrix} the logits of the piece after it, a row for each beam
   */
  step(ids) {
    this.targets = this.targets.map((target, beam) => [...target, ids[beam]]);
    const last = new Matrix(ids.length, this.memory.columns);
    this.targets.forEach((target, beam) => {
      const hidden = this.model.decode(this.memory, target, this.hook);
      last.row(beam).set(hidden.row(hidden.rows - 1));
    });
    return this.model.logits(last);
  }

  /** Make beam b a copy of the old beam `beams[b]`. */
  reorder(beams) {
    this.targets = beams.map((beam) => this.targets[beam]);
  }
}
