/** The layers of Figure 1: feed-forward, add & norm, encoder and decoder layer; positions. */

import { Attention, linearLayer } from "./attention.js";
import { add, layerNorm } from "./tensor.js";

const ACTIVATIONS = {
  relu: (x) => Math.max(0, x),
  gelu: (x) => 0.5 * x * (1 + erf(x / Math.SQRT2)),
  silu: (x) => x / (1 + Math.exp(-x)),
};

/** FFN(x) = max(0, x W1 + b1) W2 + b2, the same at every position: section 3.3, equation (2). */
export class FeedForward {
  constructor(config, weights) {
    this.activation = ACTIVATIONS[config.activation];
    this.inner = linearLayer(weights, "inner");
    this.outer = linearLayer(weights, "outer");
  }

  forward(x, hook) {
    const hidden = this.inner(x);
    const { data } = hidden;
    for (let i = 0; i < data.length; i++) data[i] = this.activation(data[i]);
    hook?.("hidden", hidden);
    return this.outer(hidden);
  }
}

/**
 * The residual connection around one sub-layer and the normalisation. The paper (section 3.1) is
 * "post": LayerNorm(x + Sublayer(x)). "pre" is x + Sublayer(LayerNorm(x)).
 */
export class AddNorm {
  constructor(config, weights) {
    this.preNorm = config.norm === "pre";
    this.norm = layerNormLayer(weights, "norm");
  }

  forward(x, sublayer, hook) {
    const input = this.preNorm ? this.norm(x) : x;
    if (this.preNorm) hook?.("normalized", input);
    const output = sublayer(input);
    hook?.("sublayer", output);
    hook?.("residual", (x = x.copy()));
    const sum = add(x, output);
    hook?.("sum", sum);
    return this.preNorm ? sum : this.norm(sum);
  }
}

/** Self-attention, then feed-forward; every position attends to all positions. */
export class EncoderLayer {
  constructor(config, weights) {
    this.radius = config.radius;
    this.selfAttention = new Attention(config, within(weights, "self_attention"));
    this.selfAttentionNorm = new AddNorm(config, within(weights, "self_attention_norm"));
    this.feedForward = new FeedForward(config, within(weights, "feed_forward"));
    this.feedForwardNorm = new AddNorm(config, within(weights, "feed_forward_norm"));
  }

  /**
   * One layer of the left side of Figure 1.
   *
   * @param {Matrix} x
   * @param {Hook} [hook] see attention.js
   */
  forward(x, hook) {
    const { selfAttention, radius } = this;
    const allowed = radius ? (query, memory) => Math.abs(query - memory) <= radius : undefined;
    const attend = (y) => {
      const memory = selfAttention.projectKeyValue(y, scope(hook, "self_attention"));
      return selfAttention.forward(y, () => memory, allowed, scope(hook, "self_attention"));
    };
    x = this.selfAttentionNorm.forward(x, attend, scope(hook, "self_attention_norm"));
    hook?.("self_attention_output", x);
    return applyFeedForward(this, x, hook);
  }
}

/** Masked self-attention, attention to the encoder's output, then feed-forward. */
export class DecoderLayer {
  constructor(config, weights) {
    this.radius = config.radius;
    this.selfAttention = new Attention(config, within(weights, "self_attention"));
    this.selfAttentionNorm = new AddNorm(config, within(weights, "self_attention_norm"));
    this.crossAttention = new Attention(config, within(weights, "cross_attention"));
    this.crossAttentionNorm = new AddNorm(config, within(weights, "cross_attention_norm"));
    this.feedForward = new FeedForward(config, within(weights, "feed_forward"));
    this.feedForwardNorm = new AddNorm(config, within(weights, "feed_forward_norm"));
  }

  /**
   * The right side of Figure 1 for all positions of one target, each attending to itself and earlier
   * ones only.
   *
   * @param {Matrix} x the target
   * @param {{keys, values}} memory the encoder's output, projected by this layer
   * @param {Hook} [hook] see attention.js
   */
  forward(x, memory, hook) {
    const allowed = (query, position) => position <= query && this.#near(query, position);
    const attend = (y) => {
      const target = this.selfAttention.projectKeyValue(y, scope(hook, "self_attention"));
      return this.selfAttention.forward(y, () => target, allowed, scope(hook, "self_attention"));
    };
    x = this.selfAttentionNorm.forward(x, attend, scope(hook, "self_attention_norm"));
    hook?.("self_attention_output", x);
    return this.#attendToSource(x, memory, hook);
  }

  /**
   * The same for the last position of several targets of one source.
   *
   * @param {Matrix} x a row for each target
   * @param {{keys, values}} memory the encoder's output, projected by this layer
   * @param {{keys: Float32Array[], values: Float32Array[]}[]} caches the earlier positions of each
   *   target, to which those of `x` are added
   */
  step(x, memory, caches) {
    x = this.selfAttentionNorm.forward(x, (y) => {
      const { keys, values } = this.selfAttention.projectKeyValue(y);
      caches.forEach((cache, row) => {
        cache.keys.push(keys[row]);
        cache.values.push(values[row]);
      });
      const last = caches[0].keys.length - 1;
      const allowed = this.radius ? (_, position) => this.#near(last, position) : undefined;
      return this.selfAttention.forward(y, (row) => caches[row], allowed);
    });
    return this.#attendToSource(x, memory);
  }

  #near(query, position) {
    return !this.radius || Math.abs(query - position) <= this.radius;
  }

  #attendToSource(x, memory, hook) {
    const attend = (y) =>
      this.crossAttention.forward(y, () => memory, undefined, scope(hook, "cross_attention"));
    x = this.crossAttentionNorm.forward(x, attend, scope(hook, "cross_attention_norm"));
    hook?.("cross_attention_output", x);
    return applyFeedForward(this, x, hook);
  }
}

function applyFeedForward({ feedForward, feedForwardNorm }, x, hook) {
  const sublayer = (y) => feedForward.forward(y, scope(hook, "feed_forward"));
  x = feedForwardNorm.forward(x, sublayer, scope(hook, "feed_forward_norm"));
  hook?.("output", x);
  return x;
}

/** @returns {Hook | undefined} a hook that sees the names of a part, under the part's own name */
export function scope(hook, prefix) {
  return hook && ((name, ...rest) => hook(`${prefix}.${name}`, ...rest));
}

/** @returns {(x: Matrix) => Matrix} a normalisation of the model */
export function layerNormLayer(weights, name) {
  const gain = weights(`${name}.weight`).data;
  const offset = weights(`${name}.bias`).data;
  return (x) => layerNorm(x, gain, offset);
}

/** @returns the weights whose names begin with `prefix`, under the rest of their names */
export function within(weights, prefix) {
  return (name) => weights(`${prefix}.${name}`);
}

/**
 * The positional encoding of one position (section 3.5), sine and cosine interleaved:
 * PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle).
 */
export function sinusoid(position, dModel) {
  const encoding = new Float32Array(dModel);
  for (let i = 0; i < dModel; i += 2) {
    const angle = position * Math.exp(i * (-Math.log(10_000) / dModel));
    encoding[i] = Math.sin(angle);
    encoding[i + 1] = Math.cos(angle);
  }
  return encoding;
}

/** The error function; Abramowitz and Stegun 1964, formula 7.1.26, absolute error below 1.5e-7. */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const coefficients = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
  const polynomial = coefficients.reduce((sum, coefficient) => (sum + coefficient) * t, 0);
  return Math.sign(x) * (1 - polynomial * Math.exp(-x * x));
}
