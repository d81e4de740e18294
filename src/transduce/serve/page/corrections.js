// Corrections: a user edits a translation, and the server stores it in its translation memory.
import { createRequester, RequestError } from "./api_client.js";

const $ = (id) => document.getElementById(id);

// Enables the button. `current()` returns the text and translation on display, as
// { q, s, source, target }, or null; `onStored` is called once the server has a correction.
export const offerCorrections = (current, onStored) => {
  const request = createRequester((text) => { $("state").textContent = text; });
  const form = $("correction");
  let pair = null;

  const close = () => {
    form.hidden = true;
    $("output").hidden = false;
    $("correct").focus();
  };

  $("correct").addEventListener("click", () => {
    const shown = current();
    if (!shown) return;
    pair = shown;
    form.hidden = false;
    $("output").hidden = true;
    const editor = $("correction-text");
    editor.value = pair.s;
    editor.lang = pair.target;
    editor.focus();
  });
  $("correction-cancel").addEventListener("click", close);
  form.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const response = await request("suggest", { ...pair, s: $("correction-text").value });
      if (!response) return;
      close();
      onStored();
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      $("state").textContent = error.message;
    }
  });
};
