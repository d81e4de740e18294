// Translation of files: chosen with the button or dropped on the text.
import { createRequester, RequestError } from "./api_client.js";

const $ = (id) => document.getElementById(id);
const { make } = window.Drawing;

const showState = (...content) => {
  $("file-state").replaceChildren(...content);
  $("file-state").hidden = false;
};

// Enables the button. `formats` are file name endings; `languages()` returns { source, target }.
export const offerFiles = (formats, languages) => {
  let progress = ""; // what is shown again when the countdown to another attempt is over
  const request = createRequester((text) => showState(text || progress));

  const translateFile = async (file) => {
    if (!formats.some((format) => file.name.toLowerCase().endsWith(format))) {
      showState(`${file.name} cannot be translated. Supported formats: ${formats.join(", ")}.`);
      return;
    }
    const body = new FormData();
    for (const [name, value] of Object.entries(languages())) body.set(name, value);
    body.set("file", file);
    progress = `Translating ${file.name}…`;
    showState(progress);
    try {
      const response = await request("translate_file", body);
      if (!response) return; // another file was chosen
      // The server may not know the address that this page was loaded from.
      const name = new URL(response.translatedFileUrl).pathname.split("/").at(-1);
      const fileName = decodeURIComponent(name).replace(/^[^.]*\./, "");
      showState(`${file.name} is translated: `,
        make("a", { href: `download_file/${name}`, download: fileName }, `download ${fileName}`));
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      showState(`${file.name}: ${error.message}`);
    }
  };

  const choose = $("file-input");
  choose.accept = formats.join(",");
  $("file").hidden = false;
  $("file").addEventListener("click", () => choose.click());
  choose.addEventListener("change", () => {
    if (choose.files[0]) translateFile(choose.files[0]);
    choose.value = ""; // the same file can be chosen again
  });
  $("q").addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) event.preventDefault();
  });
  $("q").addEventListener("drop", (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    translateFile(file);
  });
};
