// The translation as words that can be asked for other ways to go on, and the list of those ways.
const { make } = window.Draw;

// Where each sentence's translation stands in the whole; null where markup has changed it.
export const places = (text, sentences) => {
  let from = 0;
  return sentences.map((one) => {
    const start = one.text ? text.indexOf(one.text, from) : -1;
    if (start < 0) return null;
    from = start + one.text.length;
    return { start, end: from };
  });
};

// The words of a text: where they start and what they are.
export const wordsOf = (text) =>
  [...text.matchAll(/\S+/g)].map((found) => ({ start: found.index, text: found[0] }));

// What confidence each word of a sentence has; nulls where nothing was learned or words differ.
export const confidences = (sentence) => {
  const words = wordsOf(sentence.text);
  const known = sentence.words ?? [];
  const fit = known.length === words.length;
  return words.map((word, at) => ({ ...word, confidence: fit ? known[at].confidence : null }));
};

// Draws the text; a word that belongs to a sentence can be selected.
export const showWords = (output, text, sentences, chosen) => {
  const parts = [];
  let from = 0;
  places(text, sentences).forEach((place, number) => {
    if (!place) return;
    parts.push(text.slice(from, place.start));
    from = place.end;
    let within = 0;
    confidences(sentences[number]).forEach((word, at) => {
      parts.push(sentences[number].text.slice(within, word.start));
      within = word.start + word.text.length;
      parts.push(one(word, number, at, number === chosen));
    });
  });
  parts.push(text.slice(from));
  output.replaceChildren(...parts.filter((part) => part !== ""));
  output.querySelector(".said")?.setAttribute("tabindex", "0");
};

const one = (word, number, at, chosen) => {
  const span = make("span", { class: chosen ? "said chosen" : "said", role: "button", tabindex: "-1",
    "aria-haspopup": "dialog", "data-sentence": number, "data-word": at }, word.text);
  if (word.confidence !== null) {
    span.style.setProperty("--doubt", (1 - word.confidence).toFixed(3));
    span.title = `confidence ${word.confidence.toFixed(2)}`;
    if (word.confidence < 0.5) span.classList.add("unsure");
  }
  return span;
};

// Ways to go on, put together where they say the same. Each: what comes next, and what to begin with.
export const ways = (alternatives, after) => {
  const before = wordsOf(after).map((word) => word.text);
  const found = new Map();
  for (const { piece, probability, text } of alternatives) {
    const all = wordsOf(text).map((word) => word.text);
    // A piece may go on with the word before: then that word is what changes.
    const kept = before.every((word, at) => word === all[at]) ? before.length : before.length - 1;
    const ends = piece === "</s>" || all.length <= kept;
    const begin = ends ? text : all.slice(0, kept + 1).join(" ");
    const next = ends ? "ends here" : all[kept];
    const rest = ends ? "" : all.slice(kept + 1).join(" ");
    const same = found.get(begin);
    if (same) same.probability += probability;
    else found.set(begin, { next, rest, begin, ends, probability, text });
  }
  return [...found.values()];
};

const percent = (share) => (share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`);

// The list itself: opened at a word, filled when the ways are known, closed by Esc or a click elsewhere.
export const popover = (box, choose) => {
  let anchor = null;

  const close = (back = false) => {
    if (box.hidden) return;
    box.hidden = true;
    anchor?.setAttribute("aria-expanded", "false");
    if (back) anchor?.focus();
    anchor = null;
  };

  const open = (word) => {
    close();
    anchor = word;
    word.setAttribute("aria-expanded", "true");
    box.replaceChildren(make("p", { class: "note" }, "Looking for other ways…"));
    box.hidden = false;
    const [inside, at] = [box.offsetParent.getBoundingClientRect(), word.getBoundingClientRect()];
    box.style.top = `${at.bottom - inside.top + 6}px`;
    const most = inside.width - box.offsetWidth - 8;
    box.style.left = `${Math.max(8, Math.min(at.left - inside.left, most))}px`;
  };

  const fill = (found, current) => {
    if (box.hidden) return;
    const items = found.map((way) => {
      const button = make("button", { type: "button", role: "menuitem", title: `${way.begin} …` },
        make("span", { class: "share" }, percent(way.probability)),
        make("span", { class: "next" }, way.next),
        make("span", { class: "rest" }, way.rest));
      if (way.next === current) button.classList.add("current");
      button.style.setProperty("--share", way.probability);
      button.addEventListener("click", () => { close(true); choose(way); });
      return make("li", { role: "none" }, button);
    });
    box.replaceChildren(make("p", { class: "note" }, "The model could go on with"),
      make("ul", { role: "menu", "aria-label": "Other ways to go on" }, ...items));
    box.querySelector("button")?.focus();
  };

  const say = (text) => {
    if (!box.hidden) box.replaceChildren(make("p", { class: "note" }, text));
  };

  box.addEventListener("keydown", (event) => {
    const all = [...box.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (next !== undefined) {
      event.preventDefault();
      all[(next + all.length) % all.length]?.focus();
    }
  });
  addEventListener("keydown", (event) => { if (event.key === "Escape") close(true); });
  addEventListener("pointerdown", (event) => {
    if (!box.contains(event.target) && event.target !== anchor) close();
  });
  return { open, fill, say, close };
};
