/**
 * The worker: loads the model, then answers requests. It is the end of a script that begins with
 * the engine. Between the steps of its work it listens: a newer request replaces the one in
 * progress, and `cancel` ends it. `checkpoint` is a number of the training's checkpoints, from 0;
 * without one the model itself answers.
 *
 *   in   {load: {description, weights, base}}, {request: {number, text, beam, checkpoint}},
 *        {exploration: {number, text, switches, beam, checkpoint}}, {ablation: {number, text,
 *        switches, beam, checkpoint, attentions, query, position}},
 *        {comparison: {number, text, beam}}, {cancel}
 *   out  {progress, total}, {ready: {seconds}}, {partial: {number, text}},
 *        {answer: {number, text, alternatives, seconds}}, {exploration: {number, …}},
 *        {ablation: {number, total, heads, done, …}}, {comparison: {number, texts}}, {problem}
 */

const LISTEN_EVERY = 15; // milliseconds
let models = null; // by checkpoint: the promise of a translator
let newest = null; // what is in progress
let listened = 0; // when messages were last let in

self.onmessage = async ({ data: { load, request, exploration, ablation, comparison, cancel } }) => {
  try {
    if (load) await loadModel(load);
    if (request) await answer(request);
    if (exploration) await show(exploration);
    if (ablation) await ablate(ablation);
    if (comparison) await compare(comparison);
    if (cancel) newest = null;
  } catch (error) {
    self.postMessage({ problem: error.message });
  }
};

async function loadModel({ description, weights, base }) {
  const start = performance.now();
  const report = (progress, total) => self.postMessage({ progress, total });
  const bytes = weights
    ? decodeBase64(weights)
    : await fetchWeights(description.weights, base, report);
  if (weights) await checkWeights(bytes, description.weights);
  models = new Models(description, bytes);
  await models.translator();
  self.postMessage({ ready: { seconds: (performance.now() - start) / 1000 } });
}

async function answer({ number, text, beam, checkpoint }) {
  const start = performance.now();
  const retry = checkpoint === undefined; // a checkpoint shows what it finds itself
  const value = await finish(
    checkpoint,
    (translator) => translateText(translator, text, { beam, retry }),
    (partial) => self.postMessage({ partial: { number, text: partial() } }),
  );
  if (!value) return;
  self.postMessage({ answer: { number, ...value, seconds: (performance.now() - start) / 1000 } });
}

async function show({ number, text, switches, beam, checkpoint }) {
  const result = await finish(checkpoint, (translator) =>
    explore(translator, firstSentence(translator, text), { switches, beam }),
  );
  if (result) self.postMessage({ exploration: { number, checkpoint, ...result } });
}

async function ablate({ number, text, checkpoint, ...options }) {
  const report = (result, done = false) =>
    result && self.postMessage({ ablation: { number, ...result, done } });
  const work = (translator) => ablateHeads(translator, firstSentence(translator, text), options);
  report(await finish(checkpoint, work, report), true);
}

/** The translation at each checkpoint of the training, and at last that of the model. */
async function compare({ number, text, beam }) {
  const texts = [];
  for (let checkpoint = 0; checkpoint < models.checkpoints; checkpoint++) {
    const value = await finish(checkpoint, (translator) =>
      translateText(translator, firstSentence(translator, text), { beam }),
    );
    if (!value) return;
    texts.push(value.text);
    self.postMessage({ comparison: { number, texts } });
  }
}

function firstSentence({ segmentation }, text) {
  const sentences = splitSentences(text, segmentation);
  return sentences.find(({ sentence }) => sentence)?.sentence ?? "";
}

/**
 * Run a generator to its end.
 *
 * @param {number | undefined} checkpoint whose weights work
 * @param {(translator: Translator) => Generator} begin
 * @param {(value) => void} [report] called now and then with what was yielded last
 * @returns what it returns, or undefined once something newer is to be done
 */
async function finish(checkpoint, begin, report) {
  const turn = {};
  newest = turn;
  const work = begin(await models.translator(checkpoint));
  let latest;
  while (newest === turn) {
    const { done, value } = work.next();
    if (done) return value;
    latest = value ?? latest;
    if (performance.now() - listened < LISTEN_EVERY) continue;
    report?.(latest);
    await nextMessage();
    listened = performance.now();
  }
  return undefined;
}

/** Let the messages that wait be handled. */
function nextMessage() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
