/**
 * SHA-256 (FIPS 180-4) for pages from plain HTTP, where browsers do not offer their own, which is faster.
 */

const BLOCK = 64; // bytes
const primes = [];
for (let number = 2; primes.length < 64; number++) {
  if (primes.every((prime) => number % prime)) primes.push(number);
}
/** The first 32 bits of the fractional part of a root. */
const fraction = (root) => (root % 1) * 2 ** 32;
const ROUND_CONSTANTS = Uint32Array.from(primes, (prime) => fraction(Math.cbrt(prime)));
const INITIAL_HASH = Uint32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));

/**
 * @param {Uint8Array} bytes
 * @returns {Promise<Uint8Array>} 32 bytes
 */
export async function sha256(bytes) {
  if (globalThis.crypto?.subtle) return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return computeSha256(bytes);
}

/** The same in JavaScript. */
export function computeSha256(bytes) {
  const hash = INITIAL_HASH.slice();
  const full = bytes.length - (bytes.length % BLOCK);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let start = 0; start < full; start += BLOCK) addBlock(hash, view, start);
  // The end: a bit 1, zeros, and the number of bits in the last eight bytes.
  const rest = bytes.length - full;
  const end = new DataView(new ArrayBuffer(rest + 9 > BLOCK ? 2 * BLOCK : BLOCK));
  new Uint8Array(end.buffer).set(bytes.subarray(full));
  end.setUint8(rest, 0x80);
  end.setBigUint64(end.byteLength - 8, BigInt(bytes.length) * 8n);
  for (let start = 0; start < end.byteLength; start += BLOCK) addBlock(hash, end, start);
  const digest = new DataView(new ArrayBuffer(32));
  hash.forEach((word, index) => digest.setUint32(4 * index, word));
  return new Uint8Array(digest.buffer);
}

const schedule = new Uint32Array(64);
const rotate = (word, bits) => (word >>> bits) | (word << (32 - bits));

function addBlock(hash, view, start) {
  for (let i = 0; i < 16; i++) schedule[i] = view.getUint32(start + 4 * i);
  for (let i = 16; i < 64; i++) {
    const [early, late] = [schedule[i - 15], schedule[i - 2]];
    const s0 = rotate(early, 7) ^ rotate(early, 18) ^ (early >>> 3);
    const s1 = rotate(late, 17) ^ rotate(late, 19) ^ (late >>> 10);
    schedule[i] = schedule[i - 16] + s0 + schedule[i - 7] + s1;
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const choice = (e & f) ^ (~e & g);
    const first = (h + s1 + choice + ROUND_CONSTANTS[i] + schedule[i]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const majority = (a & b) ^ (a & c) ^ (b & c);
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + s0 + majority) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => (hash[index] += word));
}
