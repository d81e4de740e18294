/**
 * The worker: loads the model, then answers requests. It is the end of a script that begins with
 * the engine. Between the steps of a search it listens, so that a newer request, or one without
 * text, replaces the one in progress.
 *
 *   in   {load: {description, weights, base}}, {request: {number, text, beam}},
 *        {exploration: {number, text, switches, beam}}
 *   out  {progress, total}, {ready: {seconds}}, {partial: {number, text}},
 *        {answer: {number, text, alternatives, seconds}}, {exploration: {number, …}}, {problem}
 */

const LISTEN_EVERY = 15; // milliseconds
let translator = null;
let newest = 0;

self.onmessage = async ({ data: { load, request, exploration } }) => {
  try {
    if (load) await loadModel(load);
    if (request) await answer(request);
    if (exploration) show(exploration);
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
  newest = number;
  const start = performance.now();
  const translation = translateText(translator, text, { beam });
  let listened = start;
  for (;;) {
    const { done, value } = translation.next();
    if (done) {
      self.postMessage({ answer: { number, ...value, seconds: (performance.now() - start) / 1000 } });
      return;
    }
    if (performance.now() - listened < LISTEN_EVERY) continue;
    self.postMessage({ partial: { number, text: value } });
    await nextMessage();
    if (newest !== number) return;
    listened = performance.now();
  }
}

function show({ number, text, switches, beam }) {
  const [first] = splitSentences(text, translator.languages.source).filter((part) => part.sentence);
  const result = explore(translator, first?.sentence ?? "", { switches, beam });
  self.postMessage({ exploration: { number, ...result } });
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
