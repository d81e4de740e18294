// Client of the server's API: a newer request of a kind aborts the previous one; if the server is
// busy or unreachable, the request is retried after a pause.
const INITIAL_DELAY_S = 1; // where the server sends no Retry-After; doubled on each attempt
const MAX_DELAY_S = 30;
const MAX_WAIT_S = 120; // of Retry-After; above it the server's message is shown instead

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let apiKey = "";
export const setApiKey = (key) => { apiKey = key; };

const pause = (seconds, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

const send = async (path, body, signal) => {
  const headers = apiKey ? { Authorization: `Bearer ${apiKey}` } : {};
  const options = { headers, signal };
  if (body instanceof FormData) {
    Object.assign(options, { method: "POST", body });
  } else if (body !== undefined) {
    Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    headers["Content-Type"] = "application/json";
  }
  const response = await fetch(new URL(path, document.baseURI), options);
  const text = await response.text();
  let content = null;
  try { content = JSON.parse(text); } catch { /* not JSON: an error page of a proxy, for example */ }
  return { response, content };
};

// Returns request(path, body), which resolves to the response, or to null if a newer request was
// made. `onStatus` gets the reason for a retry with a countdown, and "" when it is over.
export const createRequester = (onStatus = () => {}) => {
  let controller = null;

  const countDown = async (reason, seconds, signal) => {
    for (let left = Math.ceil(seconds); left > 0 && !signal.aborted; left -= 1) {
      onStatus(`${reason} Retrying in ${left} s.`);
      await pause(1, signal);
    }
    if (!signal.aborted) onStatus("");
  };

  const request = async (path, body) => {
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      const delay = Math.min(INITIAL_DELAY_S * 2 ** attempt, MAX_DELAY_S);
      let result = null;
      try {
        result = await send(path, body, signal);
      } catch (error) {
        if (signal.aborted) return null;
        await countDown("The server cannot be reached.", delay, signal);
        continue;
      }
      if (signal.aborted) return null;
      const { response, content } = result;
      if (response.ok && content !== null) return content;
      const retryAfter = Number.parseFloat(response.headers.get("Retry-After"));
      if ((response.status !== 429 && response.status !== 503) || retryAfter > MAX_WAIT_S) {
        throw new RequestError(response.status,
          content?.error ?? `The server responded with status ${response.status}.`);
      }
      await countDown(response.status === 429 ? "The server is busy." : "The server is not ready.",
        Number.isFinite(retryAfter) ? Math.max(retryAfter, 1) : delay, signal);
    }
    return null;
  };
  request.cancel = () => { controller?.abort(); onStatus(""); };
  return request;
};
