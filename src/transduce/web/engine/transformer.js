/** The Transformer: Figure 1 of the paper, put together. */

import { DecoderLayer, EncoderLayer, layerNormLayer, scope, sinusoid, within } from "./layers.js";
import { add, linear, Matrix } from "./tensor.js";

export class Transformer {
  /**
   * @param {object} config the model's shape, as in a bundle's config.json
   * @param {Map<string, Matrix>} tensors the weights by name
   */
  constructor(config, tensors) {
    this.config = config;
    const weights = (name) => tensors.get(name);
    this.embedding = weights("embedding.weight");
    // Other matrices only where `tie` separates them.
    this.sourceEmbedding = weights("source_embedding.weight") ?? this.embedding;
    this.outputEmbedding = weights("output_embedding.weight") ?? this.embedding;
    this.outputBias = weights("output_bias")?.data;
    this.positionTable = weights("positions.weight"); // learned; undefined: sinusoids
    const stack = (side, Layer) =>
      Array.from(
        { length: config[`${side}_layers`] },
        (_, index) => new Layer(config, within(weights, `${side}.${index}`)),
      );
    this.encoder = stack("encoder", EncoderLayer);
    this.decoder = stack("decoder", DecoderLayer);
    const identity = (x) => x;
    // Post-norm layers end in a normalisation; a pre-norm stack needs one more at its top.
    const preNorm = config.norm === "pre";
    this.encoderNorm = preNorm ? layerNormLayer(weights, "encoder_norm") : identity;
    this.decoderNorm = preNorm ? layerNormLayer(weights, "decoder_norm") : identity;
  }

  /** The id that starts the decoder: the last one; its embedding is zero. */
  get pad() {
    return this.config.vocab_size - 1;
  }

  /** Maximum positions of a source or target, EOS included; sinusoids have no end. */
  get longest() {
    return this.positionTable?.rows ?? Infinity;
  }

  /**
   * The logits of each target piece, given the source and the target before it.
   *
   * @param {number[]} source ids with EOS
   * @param {number[]} targetIn target ids shifted right: PAD first, without EOS
   * @param {Hook} [hook] see attention.js
   * @returns {Matrix} a row for each target position
   */
  forward(source, targetIn, hook) {
    return this.logits(this.decode(this.encode(source, hook), targetIn, hook));
  }

  /**
   * The encoder's output: the memory that the decoder attends to.
   *
   * @param {number[]} source ids with EOS
   * @param {Hook} [hook]
   */
  encode(source, hook) {
    const table = this.sourceEmbedding;
    let x = this.embed(source, { table, hook: scope(hook, "source") });
    this.encoder.forEach((layer, index) => {
      x = layer.forward(x, scope(hook, `encoder.${index}`));
    });
    return this.encoderNorm(x);
  }

  /**
   * The decoder's output, which `logits` projects.
   *
   * @param {Matrix} memory the encoder's output
   * @param {number[]} targetIn target ids shifted right
   * @param {Hook} [hook]
   */
  decode(memory, targetIn, hook) {
    let x = this.embed(targetIn, { hook: scope(hook, "target") });
    this.decoder.forEach((layer, index) => {
      const inLayer = scope(hook, `decoder.${index}`);
      const { crossAttention } = layer;
      const keyValue = crossAttention.projectKeyValue(memory, scope(inLayer, "cross_attention"));
      x = layer.forward(x, keyValue, inLayer);
    });
    return this.decoderNorm(x);
  }

  /**
   * Embed ids, scaled by √d_model (section 3.4), and add the encodings of their positions.
   *
   * @param {number[]} ids
   * @param {object} [options]
   * @param {Matrix} [options.table] the embedding; the target's if left out
   * @param {number} [options.first] the position of the first id
   * @param {boolean} [options.together] whether all ids are at that position
   * @param {Hook} [options.hook]
   */
  embed(ids, { table = this.embedding, first = 0, together = false, hook } = {}) {
    const { d_model: dModel } = this.config;
    const scale = Math.fround(Math.sqrt(dModel));
    const embedded = new Matrix(ids.length, dModel);
    const positions = new Matrix(ids.length, dModel);
    ids.forEach((id, index) => {
      embedded.row(index).set(table.row(id).map((value) => value * scale));
      positions.row(index).set(this.#position(together ? first : first + index));
    });
    hook?.("embedded", embedded);
    hook?.("positions", positions);
    return add(embedded, positions);
  }

  #position(position) {
    if (!this.positionTable) return sinusoid(position, this.config.d_model);
    if (position >= this.positionTable.rows) {
      throw new RangeError(
        `A sentence is longer than the ${this.positionTable.rows} positions of the model.`,
      );
    }
    return this.positionTable.row(position);
  }

  /** Multiply by the output matrix, which all share unless `tie` separates them (section 3.4). */
  logits(hidden) {
    return linear(hidden, this.outputEmbedding, this.outputBias);
  }
}
