/** Decoding one piece at a time: keys and values of earlier pieces are kept, not computed again. */

export class IncrementalDecoder {
  /**
   * @param {Transformer} model
   * @param {Matrix} memory the encoder's output for one source
   */
  constructor(model, memory) {
    this.model = model;
    this.memories = model.decoder.map((layer) => layer.crossAttention.projectKeyValue(memory));
    /** For each beam and layer the keys and values of the target so far. */
    this.caches = [model.decoder.map(() => ({ keys: [], values: [] }))];
  }

  /**
   * Append one id to each beam.
   *
   * @param {number[]} ids PAD at first
   * @returns {Matrix} the logits of the next piece, a row for each beam
   */
  step(ids) {
    const first = this.caches[0][0].keys.length;
    let x = this.model.embed(ids, { first, together: true });
    this.model.decoder.forEach((layer, index) => {
      const caches = this.caches.map((layers) => layers[index]);
      x = layer.step(x, this.memories[index], caches);
    });
    return this.model.logits(this.model.decoderNorm(x));
  }

  /** Make beam b a copy of the old beam `beams[b]`. A position's keys and values never change. */
  reorder(beams) {
    this.caches = beams.map((beam) =>
      this.caches[beam].map(({ keys, values }) => ({ keys: [...keys], values: [...values] })),
    );
  }
}
