// Corrections: a user edits a translation, and the server stores it in its translation memory.
import { createRequester, RequestError } from "./api_client.js";

const $ = (id) => document.getElementById(id);

// Enables the button. `current()` returns the text and translation on display, as
// { q, s, source, target }, or null; `onStored` is called once the server has a correction. Returns what closes the form.
export const offerCorrections = (current, onStored) => {
  const request = createRequester((text) => { $("state").textContent = text; });
  const form = $("correction");
  let pair = null;

  const close = () => {
    form.hidden = true;
    $("output").hidden = false;
  };
  const leave = () => {
    close();
    $("correct").focus();
  };

  $("correct").addEventListener("click", () => {
    const shown = current();
    if (!shown || !form.hidden) return; // an edit under way stays
    pair = shown;
    form.hidden = false;
    $("output").hidden = true;
    const editor = $("correction-text");
    editor.value = pair.s;
    editor.lang = pair.target;
    editor.focus();
  });
  $("correction-cancel").addEventListener("click", leave);
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") leave();
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere it translates
    form.requestSubmit();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const response = await request("suggest", { ...pair, s: $("correction-text").value });
      if (!response) return;
      leave();
      onStored();
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      $("state").textContent = error.message;
    }
  });
  return close;
};
