/**
 * The worker: loads the model, then answers requests. It is the end of a script that begins with
 * the engine. Between the steps of its work it listens: a newer request replaces the one in
 * progress, and `cancel` ends it.
 *
 *   in   {load: {description, weights, base}}, {request: {number, text, beam}},
 *        {exploration: {number, text, switches, beam}}, {ablation: {number, text, switches, beam,
 *        attentions, query, position}}, {cancel}
 *   out  {progress, total}, {ready: {seconds}}, {partial: {number, text}},
 *        {answer: {number, text, alternatives, seconds}}, {exploration: {number, …}},
 *        {ablation: {number, total, heads, done, …}}, {problem}
 */

const LISTEN_EVERY = 15; // milliseconds
let translator = null;
let newest = null; // what is in progress

self.onmessage = async ({ data: { load, request, exploration, ablation, cancel } }) => {
  try {
    if (load) await loadModel(load);
    if (request) await answer(request);
    if (exploration) await show(exploration);
    if (ablation) await ablate(ablation);
    if (cancel) newest = null;
  } catch (error) {
    self.postMessage({ problem: error.message });
  }
};

async function loadModel({ description, weights, base }) {
  const start = performance.now();
  const bytes = weights
    ? decodeBase64(weights)
    : await fetchParts(description.weights, base, (progress, total) =>
        self.postMessage({ progress, total }),
      );
  await checkWeights(bytes, description.weights);
  translator = await loadTranslator(description, bytes);
  self.postMessage({ ready: { seconds: (performance.now() - start) / 1000 } });
}

async function answer({ number, text, beam }) {
  const start = performance.now();
  const value = await finish(translateText(translator, text, { beam }), (partial) =>
    self.postMessage({ partial: { number, text: partial() } }),
  );
  if (!value) return;
  self.postMessage({ answer: { number, ...value, seconds: (performance.now() - start) / 1000 } });
}

async function show({ number, text, switches, beam }) {
  const result = await finish(explore(translator, firstSentence(text), { switches, beam }));
  if (result) self.postMessage({ exploration: { number, ...result } });
}

async function ablate({ number, text, ...options }) {
  const report = (result, done = false) =>
    result && self.postMessage({ ablation: { number, ...result, done } });
  report(await finish(ablateHeads(translator, firstSentence(text), options), report), true);
}

function firstSentence(text) {
  const sentences = splitSentences(text, translator.languages.source);
  return sentences.find(({ sentence }) => sentence)?.sentence ?? "";
}

/** Run a generator to its end; what it returns, or undefined once something newer is to be done. */
async function finish(work, report) {
  newest = work;
  let listened = performance.now();
  let latest;
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    latest = value ?? latest;
    if (performance.now() - listened < LISTEN_EVERY) continue;
    report?.(latest);
    await nextMessage();
    if (newest !== work) return undefined;
    listened = performance.now();
  }
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
