/** The explorer's steps and its tour: what each shows, and where the paper has it. */

const isPreNorm = ({ norm }) => norm === "pre";
const isLearned = ({ positions }) => positions === "learned";
const EMBEDDING_NOTES = {
  all: "The same matrix serves source, target and output.",
  decoder: "One matrix serves target and output, another the source.",
  input: "One matrix serves source and target, another the output.",
  none: "Source, target and output have a matrix each.",
};
const ACTIVATION_BEGINNINGS = { relu: "max(0, ", gelu: "GELU(", silu: "SiLU(" };
const ACTIVATION_NOTES = {
  relu: "Zeros are inner units that do not respond.",
  gelu: "GELU(z) = z Φ(z), where the paper has max(0, z).",
  silu: "SiLU(z) = z / (1 + exp(−z)), where the paper has max(0, z).",
};
const withBias = (formula, name) => (model) =>
  model.attention_bias ? `${formula} + b^${name}` : formula;
const NORM = {
  id: "norm",
  title: "Layer normalisation",
  shape: "positions × d_model",
  note: "Mean 0 and variance 1 for each position, then a learned gain and offset.",
};

/**
 * The steps of Figure 1, in its order. `tensor` is its name in the trace; null: not in this part. Texts
 * that depend on the model are functions of its shape.
 */
const EXPLORER_STEPS = [
  {
    id: "embedding",
    title: "Embedding",
    formula: "x = √d_model · E[piece]",
    source: "section 3.4",
    shape: "positions × d_model",
    note: ({ tie }) => `Each piece has a learned vector. ${EMBEDDING_NOTES[tie]}`,
    tensor: ({ side }) => `${side}.embedded`,
  },
  {
    id: "positions",
    title: "Positional encoding",
    formula: (model) => (isLearned(model) ? "P[pos]" : "PE(pos, 2i) = sin(pos / 10000^(2i/d_model))"),
    source: (model) => (isLearned(model) ? "section 3.5 and Table 3, row E" : "section 3.5"),
    shape: "positions × d_model",
    note: (model) =>
      `Attention has no order of its own. What is added here${isLearned(model) ? ", a learned vector for each position," : ""} says where a piece stands.`,
    tensor: ({ side }) => `${side}.positions`,
  },
  {
    ...NORM,
    formula: "X = LayerNorm(x)",
    source: "section 3.1, but before the sub-layer",
    tensor: ({ model, attention }) => (isPreNorm(model) ? `${attention}_norm.normalized` : null),
  },
  {
    id: "queries",
    title: "Queries",
    formula: withBias("Q = X W^Q", "Q"),
    source: "section 3.2.2",
    shape: "positions × d_k, of this head",
    note: "What each position looks for.",
    tensor: ({ attention }) => `${attention}.queries`,
    perHead: true,
  },
  {
    id: "keys",
    title: "Keys",
    formula: withBias("K = X W^K", "K"),
    source: "section 3.2.2",
    shape: "positions × d_k, of this head",
    note: "What each position offers to be found by.",
    tensor: ({ attention }) => `${attention}.keys`,
    perHead: true,
    memory: true,
  },
  {
    id: "values",
    title: "Values",
    formula: withBias("V = X W^V", "V"),
    source: "section 3.2.2",
    shape: "positions × d_v, of this head",
    note: "What a position passes on where it is attended to.",
    tensor: ({ attention }) => `${attention}.values`,
    perHead: true,
    memory: true,
  },
  {
    id: "scores",
    title: "Scores",
    formula: "Q Kᵀ / √d_k",
    source: "equation (1)",
    shape: "queries × keys",
    note: "The product of a query and a key is large where they agree; √d_k keeps its variance at 1.",
    tensor: ({ attention }) => `${attention}.scores`,
    matrixOfHead: true,
  },
  {
    id: "mask",
    title: "Mask",
    formula: "−∞ where a query may not look",
    source: "section 3.2.3",
    shape: "queries × keys",
    note: ({ radius }) =>
      `A target position must not see later ones: they are what it has to predict.${radius ? ` No position sees one more than ${radius} away.` : ""}`,
    tensor: ({ model, part, attention }) =>
      part === "decoder" || (model.radius && part === "encoder") ? `${attention}.masked_scores` : null,
    matrixOfHead: true,
  },
  {
    id: "weights",
    title: "Attention weights",
    formula: "softmax(Q Kᵀ / √d_k)",
    source: "equation (1)",
    shape: "queries × keys",
    note: "Each row sums to 1: how a position divides its attention.",
    tensor: ({ attention }) => `${attention}.weights`,
    matrixOfHead: true,
  },
  {
    id: "heads",
    title: "Weighted sums, head beside head",
    formula: "Concat(head_1, …, head_h)",
    source: "section 3.2.2",
    shape: "positions × h·d_v",
    note: "Each head sums the values by its weights; the heads are set side by side.",
    tensor: ({ attention }) => `${attention}.heads`,
  },
  {
    id: "output",
    title: "Output projection",
    formula: withBias("Concat(head_1, …, head_h) W^O", "O"),
    source: "section 3.2.2",
    shape: "positions × d_model",
    note: "One matrix mixes what the heads gathered.",
    tensor: ({ attention }) => `${attention}_norm.sublayer`,
  },
  {
    id: "residual",
    title: "Residual connection",
    formula: (model) => (isPreNorm(model) ? "x + Sublayer(LayerNorm(x))" : "x + Sublayer(x)"),
    source: "section 3.1",
    shape: "positions × d_model",
    note: "The sub-layer adds to what was there; it need not repeat it.",
    tensor: ({ attention }) => `${attention}_norm.sum`,
  },
  {
    ...NORM,
    formula: "LayerNorm(x + Sublayer(x))",
    source: "section 3.1",
    tensor: ({ model, attention }) => (isPreNorm(model) ? null : `${attention}_output`),
  },
  {
    id: "feed-forward",
    title: "Feed-forward, inner layer",
    formula: (model) =>
      `${ACTIVATION_BEGINNINGS[model.activation]}${isPreNorm(model) ? "LayerNorm(x)" : "x"} W_1 + b_1)`,
    source: ({ activation }) => (activation === "relu" ? "equation (2)" : "section 3.3"),
    shape: "positions × d_ff",
    note: ({ activation }) => `The same two layers at every position. ${ACTIVATION_NOTES[activation]}`,
    tensor: ({ layer }) => `${layer}.feed_forward.hidden`,
  },
  {
    id: "layer",
    title: "Output of the layer",
    formula: "the next layer's x",
    source: "Figure 1",
    shape: "positions × d_model",
    note: (model) =>
      isPreNorm(model)
        ? "After the feed-forward's residual connection. The last layer's output is normalised."
        : "After the feed-forward's residual connection and normalisation.",
    tensor: ({ layer }) => `${layer}.output`,
  },
];

const EXPLORER_TOUR = [
  ["embedding", "encoder", "A sentence becomes vectors, all at once: nothing waits for the word before it, as in a recurrent network."],
  ["positions", "encoder", "Positions are added, since all at once means without order."],
  ["scores", "encoder", "A query meets every key: the path between any two words is one step long."],
  ["weights", "encoder", "The softmax turns scores into attention."],
  ["heads", "encoder", "Several heads look for different things at the same time."],
  ["residual", "encoder", "Residual connection and layer normalisation keep deep stacks trainable."],
  ["feed-forward", "encoder", "Each position is then worked on by itself."],
  ["mask", "decoder", "The decoder must not peek: the mask hides later positions."],
  ["weights", "cross", "Decoder meets encoder: where each target word looks in the source."],
  ["search", "cross", "Beam search keeps several translations, and the length penalty chooses."],
];
