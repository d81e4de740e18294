/**
 * Translates with an exported page in Node, to verify the export: what runs is the program and the
 * weights of the page itself. Usage: node node_runner.mjs PAGE < job.json
 *
 *   job     {sentences: string[], beam?: number, retry?: boolean, plain?: boolean, samples?: [source ids,
 *           target-in ids][], logits?: file with their float32 logits}
 *   output  {translations: {source, ids, text, score}[], gap?: number, seconds}
 */

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

const [file] = process.argv.slice(2);
const job = JSON.parse(readFileSync(0, "utf8"));
const page = readFileSync(file, "utf8");
const block = (id) => page.match(new RegExp(`<script[^>]* id="${id}">(.*?)</script>`, "s"))[1];

const self = { postMessage() {} }; // the worker's end of the script needs one
const { engine } = new Function(
  "self",
  `${block("engine")}; return { engine: { checkWeights, decodeBase64, loadTranslator } };`,
)(self);
const description = JSON.parse(block("description"));
const parts = description.weights.parts;
const bytes = parts
  ? new Uint8Array(Buffer.concat(parts.map((name) => readFileSync(join(dirname(file), name)))))
  : engine.decodeBase64(block("weights"));
await engine.checkWeights(bytes, description.weights);
const translator = await engine.loadTranslator(description, bytes, { fast: !job.plain });

const start = performance.now();
const translations = job.sentences.map((sentence) => {
  const search = translator.translateLine(sentence, { beam: job.beam, retry: job.retry });
  let step = search.next();
  while (!step.done) step = search.next();
  const { ids, text, score } = step.value;
  return { source: translator.tokenizer.encode(sentence), ids, text, score };
});
const seconds = (performance.now() - start) / 1000;

let gap;
if (job.samples) {
  const { buffer } = new Uint8Array(readFileSync(job.logits)); // a copy: small Buffers share theirs
  const logits = new Float32Array(buffer);
  let offset = 0;
  gap = 0;
  for (const [source, targetIn] of job.samples) {
    const { rows, columns, data } = translator.model.forward(source, targetIn);
    for (let i = 0; i < data.length; i++) {
      const pad = i % columns === columns - 1; // never output
      if (!pad) gap = Math.max(gap, Math.abs(data[i] - logits[offset + i]));
    }
    offset += rows * columns;
  }
}
process.stdout.write(JSON.stringify({ translations, gap, seconds }));
