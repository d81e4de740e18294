// The translation as selectable words, and the menu of alternative continuations at a word.
const { make } = window.Drawing;

// The range of each sentence's translation in the text; null where markup has changed it.
export const sentenceRanges = (text, sentences) => {
  let from = 0;
  return sentences.map((sentence) => {
    const start = sentence.text ? text.indexOf(sentence.text, from) : -1;
    if (start < 0) return null;
    from = start + sentence.text.length;
    return { start, end: from };
  });
};

// The words of a text with their start positions.
export const wordsOf = (text) =>
  [...text.matchAll(/\S+/g)].map((match) => ({ start: match.index, text: match[0] }));

// The words of a sentence with their confidence; null if unknown or if the words differ.
export const wordConfidences = (sentence) => {
  const words = wordsOf(sentence.text);
  const scored = sentence.words ?? [];
  const matches = scored.length === words.length;
  return words.map((word, index) => ({ ...word, confidence: matches ? scored[index].confidence : null }));
};

// Text in capitals is translated in its usual case: the source and its translation in that case.
export const sourceAsRead = ({ recased, source }) => recased || source;
export const textAsWritten = (sentence) => {
  if (!sentence.recased) return sentence.text;
  if (sentence.usual) return sentence.usual;
  const pieces = sentence.pieces.map(({ piece }) => piece).filter((piece) => piece !== "</s>");
  if (pieces.some((piece) => /^<(0x[0-9A-F]{2}|unk)>$/.test(piece))) return sentence.text;
  const text = pieces.join("").replaceAll("▁", " ").trim();
  return wordsOf(text).length === wordsOf(sentence.text).length ? text : sentence.text;
};

// Another translation of a sentence in capitals or title case, in that case.
const titled = (text) => text.replace(/\p{L}[\p{L}\p{M}'’-]{3,}/gu, (word) => word[0].toUpperCase() + word.slice(1));
export const inItsCase = ({ recased, text }, other) => {
  if (!recased) return other;
  if (text === text.toUpperCase()) return other.toUpperCase();
  return text === titled(text) ? titled(other) : other;
};

const wordElement = (word, sentence, index, selected) => {
  const span = make("span", { class: selected ? "word selected" : "word", role: "button", tabindex: "-1",
    "aria-haspopup": "dialog", "data-sentence": sentence, "data-word": index }, word.text);
  if (word.confidence !== null) {
    span.style.setProperty("--doubt", (1 - word.confidence).toFixed(3));
    span.title = `confidence ${word.confidence.toFixed(2)}`;
    if (word.confidence < 0.5) span.classList.add("unsure");
  }
  return span;
};

// Draws the text; words that belong to a sentence can be selected.
export const showWords = (output, text, sentences, selectedSentence) => {
  const parts = [];
  let from = 0;
  sentenceRanges(text, sentences).forEach((range, number) => {
    if (!range) return;
    parts.push(text.slice(from, range.start));
    from = range.end;
    let done = 0;
    wordConfidences(sentences[number]).forEach((word, index) => {
      parts.push(sentences[number].text.slice(done, word.start));
      done = word.start + word.text.length;
      parts.push(wordElement(word, number, index, number === selectedSentence));
    });
  });
  parts.push(text.slice(from));
  output.replaceChildren(...parts.filter((part) => part !== ""));
  output.querySelector(".word")?.setAttribute("tabindex", "0");
};

// Groups continuations with the same next word: that word, and the prefix to translate with.
export const continuations = (alternatives, after) => {
  const before = wordsOf(after).map((word) => word.text);
  const byPrefix = new Map();
  for (const { piece, probability, text } of alternatives) {
    const words = wordsOf(text).map((word) => word.text);
    // A piece may extend the previous word; then that word is the one that changes.
    const extendsWord = before.some((word, index) => word !== words[index]);
    const kept = before.length - (extendsWord ? 1 : 0);
    const ends = piece === "</s>" || words.length <= kept;
    const prefix = ends ? text : words.slice(0, kept + 1).join(" ");
    const next = ends ? "(end of sentence)" : words[kept];
    const rest = ends ? "" : words.slice(kept + 1).join(" ");
    const same = byPrefix.get(prefix);
    if (same) same.probability += probability;
    else byPrefix.set(prefix, { next, rest, prefix, ends, probability, text });
  }
  return [...byPrefix.values()];
};

const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);

// The menu: opened at a word, filled when the response arrives, closed by Esc or a click outside.
export const createPopover = (box, onSelect) => {
  let anchor = null;

  const close = (restoreFocus = false) => {
    if (box.hidden) return;
    box.hidden = true;
    anchor?.setAttribute("aria-expanded", "false");
    if (restoreFocus) anchor?.focus();
    anchor = null;
  };

  const open = (word) => {
    close();
    anchor = word;
    word.setAttribute("aria-expanded", "true");
    box.replaceChildren(make("p", { class: "note" }, "Loading alternatives…"));
    box.hidden = false;
    const parent = box.offsetParent.getBoundingClientRect();
    const position = word.getBoundingClientRect();
    box.style.top = `${position.bottom - parent.top + 6}px`;
    const maxLeft = parent.width - box.offsetWidth - 8;
    box.style.left = `${Math.max(8, Math.min(position.left - parent.left, maxLeft))}px`;
  };

  const fill = (options, current) => {
    if (box.hidden) return;
    const items = options.map((option) => {
      const button = make("button", { type: "button", role: "menuitem", title: `${option.prefix} …` },
        make("span", { class: "share" }, percent(option.probability)),
        make("span", { class: "next" }, option.next),
        make("span", { class: "rest" }, option.rest));
      if (option.next === current) button.classList.add("current");
      button.style.setProperty("--share", option.probability);
      button.addEventListener("click", () => { close(true); onSelect(option); });
      return make("li", { role: "none" }, button);
    });
    box.replaceChildren(make("p", { class: "note" }, "Most probable continuations"),
      make("ul", { role: "menu", "aria-label": "Alternative continuations" }, ...items));
    box.querySelector("button")?.focus();
  };

  const showMessage = (text) => {
    if (!box.hidden) box.replaceChildren(make("p", { class: "note" }, text));
  };

  box.addEventListener("keydown", (event) => {
    const buttons = [...box.querySelectorAll("button")];
    const index = buttons.indexOf(document.activeElement);
    const next = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      buttons[(next + buttons.length) % buttons.length]?.focus();
    }
  });
  addEventListener("keydown", (event) => { if (event.key === "Escape") close(true); });
  addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target) && event.target !== anchor) close();
  });
  return { open, fill, showMessage, close };
};
