"""A sentence with marks: placeholders, code, tags. How it is asked for, and how it is put back.

It is asked for whole, and also as the runs between its marks. The whole is the better translation;
it is taken only if every placeholder came out as it was, as often as it was, and every tag has a
place. Else the runs are joined with the marks between them, which are then whole whatever was said.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from transduce.data.corpus import one_line
from transduce.data.sentence_splitting import has_words
from transduce.documents import placeholders
from transduce.documents.html_tokens import escaped
from transduce.documents.tag_projection import Insert, Tag, placed

Markup = Literal["none", "placeholders", "html"]
"""What of a text is to come out as it was: its white space alone, its placeholders too, its tags
too."""

_CORE = re.compile(r"[^\W_](?:.*[^\W_])?[^\w\s!-/:-@\[-`{-~]*[.!?…。！？]*", re.DOTALL)


_MOST_FIXED = 100  # looked for in one translation


class Ask(NamedTuple):
    """What is to be translated."""

    text: str
    align: bool
    """Whether an alignment is wanted with the translation."""
    run: bool = False
    """Whether it is no sentence but a run between marks of the one before."""


class Said(NamedTuple):
    """A translation."""

    text: str
    alignment: str = ""
    """Which words come from which, as "0-0 1-2" (`Translator.alignment`)."""


class Together(NamedTuple):
    """A text again."""

    text: str
    lost: tuple[str, ...]
    """Placeholders that do not stand there as often as they did; () is the rule."""


class Fixed(NamedTuple):
    """A stretch of a sentence that stands for something else: what `<code>` shows, for its raw."""

    start: int
    end: int
    raw: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Marked:
    """A sentence, and what of it must not change."""

    raw: str
    """As it stands in the text."""

    text: str
    """As it is asked for: without tags, entities decoded."""

    markup: Markup

    fixed: tuple[Fixed, ...] = ()
    tags: tuple[Tag, ...] = ()

    edges: tuple[str, str] = ("", "")
    """White space at the ends of `raw`."""

    def asks(self) -> tuple[Ask, ...]:
        """What is to be translated: the whole first, then the runs. Nothing, if nothing is said."""
        if self.markup == "none":
            return (Ask(self.text, align=False),) if has_words(self.text) else ()
        cores = [_core(text)[1] for text, _, _ in self._stretches()]
        runs = [Ask(core, align=False, run=True) for core in cores if core]
        if not runs:
            return ()
        return (Ask(self.text, align=bool(self.tags)), *(runs if len(cores) > 1 else ()))

    def put(self, said: Sequence[Said]) -> Together:
        """Put the sentence back from what was said to `asks`."""
        if not said or said[0].text == self.text:
            return Together(self.raw, ())
        text = _tidied(said[0].text)
        if self.markup == "none":
            return Together(text, ())
        found = self._whole(text, said[0].alignment)
        lost: tuple[str, ...] = ()
        if found is None and len(said) == 1:
            found = self._written(text)
            lost = placeholders.changed(placeholders.count(self.text), placeholders.count(text))
        elif found is None:
            found, lost = self._joined(said[1:])
        return Together(f"{self.edges[0]}{found}{self.edges[1]}", lost)

    def _whole(self, text: str, alignment: str) -> str | None:
        """The translation of the whole with all marks in it; None if one was lost."""
        if placeholders.count(text) != placeholders.count(self.text):
            return None
        fixed = self._found_again(text)
        tags = placed(self.tags, self.text, text, alignment=alignment) if self.tags else ()
        if fixed is None or tags is None:
            return None
        if any(start < tag.place < end for tag in tags for start, end, _ in fixed):
            return None
        return self._written(text, fixed=fixed, tags=tags)

    def _found_again(self, text: str) -> list[Fixed] | None:
        """The fixed stretches in the translation; None where they are not as many as they were."""
        found: list[Fixed] = []
        shown = [self.text[start:end] for start, end, _ in self.fixed]
        if len(shown) > _MOST_FIXED:
            return None
        for one, times in Counter(shown).items():
            alone = re.compile(rf"(?<!\w){re.escape(one)}(?!\w)")
            there = list(alone.finditer(text))
            if not len(there) == len(alone.findall(self.text)) == times:
                return None
            raws = [fixed.raw for fixed, text in zip(self.fixed, shown, strict=True) if text == one]
            found += [Fixed(*at.span(), raw) for at, raw in zip(there, raws, strict=True)]
        found.sort()
        overlap = any(one.end > other.start for one, other in pairwise(found))
        return None if overlap else found

    def _joined(self, said: Sequence[Said]) -> tuple[str, tuple[str, ...]]:
        """The runs with the marks between them; and what the runs have that is no longer right."""
        raw: list[str] = []
        shown: list[str] = []
        answers = iter(said)
        for text, mark, shows in self._stretches():
            lead, core, trail = _core(text)
            run = f"{lead}{_tidied(next(answers).text) if core else ''}{trail}"
            raw += [self._written(run), mark]
            shown += [run, shows]
        before, after = placeholders.count(self.text), placeholders.count("".join(shown))
        return "".join(raw), placeholders.changed(before, after)

    def _stretches(self) -> Iterator[tuple[str, str, str]]:
        """What is between the marks: a text, the mark behind it as it stands, and as it shows."""
        marks = [(tag.place, tag.place, tag.raw) for tag in self.tags]
        for start, end in placeholders.find(self._without_fixed()):
            marks.append((start, end, self._escaped(self.text[start:end])))
        # A tag in the midst of a placeholder comes behind it.
        done = 0
        for start, end, raw in sorted([*marks, *self.fixed], key=lambda mark: mark[:2]):
            yield self.text[done:start], raw, self.text[start:end]
            done = max(done, end)
        yield self.text[done:], "", ""

    def _without_fixed(self) -> str:
        """The text at its length, with blanks where something is fixed."""
        found: list[str] = []
        done = 0
        for start, end, _ in self.fixed:
            found += [self.text[done:start], " " * (end - start)]
            done = end
        return "".join([*found, self.text[done:]])

    def _written(
        self, text: str, *, fixed: Sequence[Fixed] = (), tags: Sequence[Insert] = ()
    ) -> str:
        """The text with the marks in it, as the whole text has to write it."""
        marks = [*((tag.place, tag.place, tag.raw) for tag in tags), *fixed]
        found: list[str] = []
        done = 0
        for start, end, raw in sorted(marks, key=lambda mark: mark[:2]):
            found += [self._escaped(text[done:start]), raw]
            done = end
        return "".join([*found, self._escaped(text[done:])])

    def _escaped(self, text: str) -> str:
        return escaped(text) if self.markup == "html" else text


def _core(run: str) -> tuple[str, str, str]:
    """A run's words with the stop behind them, and what stands around; it is kept as it is."""
    found = _CORE.search(run)
    if found is None:
        return run, "", ""
    return run[: found.start()], found[0], run[found.end() :]


def _tidied(said: str) -> str:
    """A translation as one line, whatever it is: line ends are the document's alone."""
    return one_line(said).strip()
