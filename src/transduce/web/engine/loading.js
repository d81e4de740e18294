/** From bytes to a translator, with every check before the first translation. */

import { loadTensors } from "./model_file.js";
import { sha256 } from "./sha256.js";
import { Translator } from "./translator.js";

/** @returns {Uint8Array} */
export function decodeBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/**
 * Fetch the files that hold the weights, and check them. Their names change with the content, but a
 * cache may have kept what it got while the folder was uploaded: then they are fetched anew.
 *
 * @param {{parts: string[], size: number, sha256: string}} weights file names, and what all are
 * @param {string} base address of the page
 * @param {(loaded: number, total: number) => void} progress called with bytes
 * @returns {Promise<Uint8Array>}
 * @throws {Error} if they are missing, or differ
 */
export async function fetchWeights(weights, base, progress) {
  const read = async (cache) => {
    const bytes = await fetchParts(weights, base, progress, cache);
    await checkWeights(bytes, weights);
    return bytes;
  };
  try {
    return await read("force-cache");
  } catch {
    return read("reload");
  }
}

async function fetchParts({ parts, size }, base, progress, cache) {
  const bytes = new Uint8Array(size);
  let loaded = 0;
  for (const part of parts) {
    for await (const chunk of chunks(new URL(part, base), cache)) {
      if (loaded + chunk.length > size) throw new Error(DAMAGED);
      bytes.set(chunk, loaded);
      progress((loaded += chunk.length), size);
    }
  }
  return bytes.subarray(0, loaded);
}

async function* chunks(address, cache) {
  let response;
  try {
    response = await fetch(address, { cache });
  } catch {
    throw new Error(
      `${address.pathname.split("/").pop()} could not be loaded. This model lies in a folder, ` +
        "which a web server has to serve; a browser does not read it from disk.",
    );
  }
  if (!response.ok) {
    throw new Error(`${address.pathname.split("/").pop()} is missing: copy the folder again.`);
  }
  const reader = response.body.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}

const DAMAGED = "The weights are damaged or incomplete: copy or export this page again.";

/**
 * Check the size of the weights and their SHA-256.
 *
 * @throws {Error} if they differ
 */
export async function checkWeights(bytes, { size, sha256: expected }) {
  if (bytes.length !== size) throw new Error(DAMAGED);
  const digest = await sha256(bytes);
  const hexadecimal = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (hexadecimal !== expected) throw new Error(DAMAGED);
}

/**
 * @param {object} description see `Translator`
 * @param {Uint8Array} bytes the weights
 * @param {{fast?: boolean}} [options]
 */
export async function loadTranslator(description, bytes, options) {
  return new Translator(description, await loadTensors(bytes, options));
}

/** The model of a page, and the same at the checkpoints of its training, each read when first used. */
export class Models {
  /**
   * @param {object} description
   * @param {Uint8Array} bytes the weights of the model, then those of its checkpoints
   */
  constructor(description, bytes) {
    this.description = description;
    this.bytes = bytes;
    this.sizes = description.history?.sizes ?? [bytes.length];
    this.translators = [];
  }

  /** The number of checkpoints. */
  get checkpoints() {
    return this.sizes.length - 1;
  }

  /**
   * @param {number} [checkpoint] from 0; the model itself by default
   * @returns {Promise<Translator>}
   */
  translator(checkpoint = -1) {
    const place = checkpoint + 1;
    const start = this.sizes.slice(0, place).reduce((sum, size) => sum + size, 0);
    const part = () => this.bytes.subarray(start, start + this.sizes[place]);
    return (this.translators[place] ??= loadTranslator(this.description, part()));
  }
}
