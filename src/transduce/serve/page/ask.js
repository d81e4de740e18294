// Asking the server: a newer question of a kind gives up the one before; one that finds the server
// busy or gone waits and asks again.
const FIRST = 1; // seconds to wait where the server does not say
const LONGEST = 30;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let key = "";
export const useKey = (text) => { key = text; };

const pause = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

const send = async (path, body, signal) => {
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  const asked = body === undefined ? { headers, signal } : {
    method: "POST", body: JSON.stringify(body), signal,
    headers: { ...headers, "Content-Type": "application/json" },
  };
  const answer = await fetch(new URL(path, document.baseURI), asked);
  const text = await answer.text();
  let said = null;
  try { said = JSON.parse(text); } catch { /* no JSON: a proxy's page, say */ }
  return { answer, said };
};

// An asker: ask(path, body) gives what the server says, or null if a newer question came.
// `tell` hears why it waits and for how many seconds yet, and "" once it waits no more.
export const asker = (tell = () => {}) => {
  let last = null;

  const wait = async (reason, seconds, signal) => {
    for (let left = Math.ceil(seconds); left > 0 && !signal.aborted; left -= 1) {
      tell(`${reason} Trying again in ${left} s.`);
      await pause(1, signal);
    }
    if (!signal.aborted) tell("");
  };

  const ask = async (path, body) => {
    last?.abort();
    const mine = last = new AbortController();
    const { signal } = mine;
    for (let tries = 0; !signal.aborted; tries += 1) {
      const usual = Math.min(FIRST * 2 ** tries, LONGEST);
      let found = null;
      try {
        found = await send(path, body, signal);
      } catch (error) {
        if (signal.aborted) return null;
        await wait("The server cannot be reached.", usual, signal);
        continue;
      }
      if (signal.aborted) return null;
      const { answer, said } = found;
      if (answer.ok && said !== null) return said;
      if (answer.status !== 429 && answer.status !== 503) {
        throw new Refused(answer.status, said?.error ?? `The server answers ${answer.status}.`);
      }
      const told = Number.parseFloat(answer.headers.get("Retry-After"));
      await wait(answer.status === 429 ? "The server is busy." : "The server is not ready.",
        Number.isFinite(told) ? Math.max(told, 1) : usual, signal);
    }
    return null;
  };
  ask.stop = () => { last?.abort(); tell(""); };
  return ask;
};
