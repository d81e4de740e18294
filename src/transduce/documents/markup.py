"""Texts with markup: split into units to translate, and restored from the translations.

    >>> segmented = segment_text("Hello {name}!  How are you?", "placeholders")
    >>> [unit.text for unit in segmented.units]
    ['Hello {name}!', 'Hello', 'How are you?']
    >>> translations = ["Hallo Name!", "Hallo", "Wie geht's?"]
    >>> restore_text(segmented, [UnitTranslation(text) for text in translations]).text
    "Hallo {name}!  Wie geht's?"

A sentence with inline markup (placeholders, code, tags) is translated as a whole and also as the
runs between its markup, all in one request. The whole is the better translation; it is used only if
every placeholder occurs as often as in the source and every tag can be projected. Otherwise the
translated runs are joined by the markup, which is then intact whatever the model generates.

White space between sentences is kept, and added if only the script of the translation has any. Text
without letters or digits is not translated. In HTML, tags, comments and attributes (`title` and
`alt` too) are kept, and so is the text of `script`, `style`, `pre`, `code`, `textarea` and
`translate="no"`. Translations are escaped, so model output never becomes markup.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from transduce.data.corpus import one_line
from transduce.data.segmentation import has_unspaced_script, has_words, sentence_spans
from transduce.documents import placeholders
from transduce.documents.html import (
    HTML_RULES,
    TagRules,
    Token,
    collapse_spaces,
    segment_html,
    tokenize_html,
)
from transduce.documents.tag_projection import ProjectedTag, Tag, project_tags

Markup = Literal["none", "placeholders", "html"]
"""What a translation must preserve besides white space: nothing, placeholders, or also HTML."""

_CORE = re.compile(r"[^\W_](?:.*[^\W_])?[^\w\s!-/:-@\[-`{-~]*[.!?…。！？]*", re.DOTALL)
_MAX_PROTECTED = 100  # protected spans looked up in a translation


class TranslationUnit(NamedTuple):
    """A text to translate."""

    text: str
    align: bool
    """Whether its translation needs a word alignment."""
    run: bool = False
    """Whether it is a run between markup of the preceding sentence."""


class UnitTranslation(NamedTuple):
    """The translation of a unit."""

    text: str
    alignment: str = ""
    """Word alignment as "0-0 1-2" (`Translator.alignment`)."""


class RestoredText(NamedTuple):
    """A translated text with its markup."""

    text: str
    lost: tuple[str, ...]
    """Placeholders that do not occur as often as in the source; normally ()."""


class ProtectedSpan(NamedTuple):
    """A stretch of a sentence that displays other markup, such as the text of `<code>`."""

    start: int
    end: int
    raw: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedSentence:
    """A sentence with inline markup."""

    raw: str
    """Its characters in the text."""

    text: str
    """Its text to translate: without tags, entities decoded."""

    markup: Markup

    protected: tuple[ProtectedSpan, ...] = ()
    tags: tuple[Tag, ...] = ()

    edges: tuple[str, str] = ("", "")
    """White space at the ends of `raw`."""

    def units(self) -> tuple[TranslationUnit, ...]:
        """Return what to translate: the whole, then the runs. Empty if there are no words."""
        if self.markup == "none":
            return (TranslationUnit(self.text, align=False),) if has_words(self.text) else ()
        cores = [_split_core(text)[1] for text, _, _ in self._runs()]
        runs = [TranslationUnit(core, align=False, run=True) for core in cores if core]
        if not runs:
            return ()
        whole_sentence = TranslationUnit(self.text, align=bool(self.tags))
        return (whole_sentence, *(runs if len(cores) > 1 else ()))

    def restore(self, translations: Sequence[UnitTranslation]) -> RestoredText:
        """Restore the markup, given the translations of `units`."""
        if not translations or translations[0].text == self.text:
            return RestoredText(self.raw, ())
        text = _single_line(translations[0].text)
        if self.markup == "none":
            return RestoredText(text, ())
        restored = self._restore_sentence(text, translations[0].alignment)
        lost: tuple[str, ...] = ()
        if restored is None and len(translations) == 1:
            restored = self._insert_markup(text)
            lost = placeholders.mismatched(placeholders.count(self.text), placeholders.count(text))
        elif restored is None:
            restored, lost = self._join_runs(translations[1:])
        return RestoredText(f"{self.edges[0]}{restored}{self.edges[1]}", lost)

    def _restore_sentence(self, text: str, alignment: str) -> str | None:
        """The whole translation with all markup; None if any of it has no place."""
        if placeholders.count(text) != placeholders.count(self.text):
            return None
        protected = self._find_protected(text)
        tags = project_tags(self.tags, self.text, text, alignment=alignment) if self.tags else ()
        if protected is None or tags is None:
            return None
        if any(start < tag.position < end for tag in tags for start, end, _ in protected):
            return None
        return self._insert_markup(text, protected=protected, tags=tags)

    def _find_protected(self, text: str) -> list[ProtectedSpan] | None:
        """The protected spans in the translation; None if their counts differ or they overlap."""
        spans: list[ProtectedSpan] = []
        shown = [self.text[start:end] for start, end, _ in self.protected]
        if len(shown) > _MAX_PROTECTED:
            return None
        for content, count in Counter(shown).items():
            pattern = re.compile(rf"(?<!\w){re.escape(content)}(?!\w)")
            matches = list(pattern.finditer(text))
            if not len(matches) == len(pattern.findall(self.text)) == count:
                return None
            raws = [
                span.raw
                for span, other in zip(self.protected, shown, strict=True)
                if other == content
            ]
            spans += [
                ProtectedSpan(*match.span(), raw) for match, raw in zip(matches, raws, strict=True)
            ]
        spans.sort()
        overlap = any(span.end > following.start for span, following in pairwise(spans))
        return None if overlap else spans

    def _join_runs(self, translations: Sequence[UnitTranslation]) -> tuple[str, tuple[str, ...]]:
        """The translated runs joined by the markup, and the placeholders whose counts differ."""
        raw: list[str] = []
        shown: list[str] = []
        spaced = not any(has_unspaced_script(text) for text, _ in translations)
        place, edge, source = 0, "", ""  # of a space; the last character and the run before it
        for run, item, item_raw in self._translated_runs(translations):
            if not run and item[:1] in "<":  # a tag
                place += place == len(raw) and item_raw.startswith("</")
            else:
                # A placeholder counts as a word, an entity and %% do not.
                word = item if run else "" if item[0] == "&" or item == "%%" else "x"
                if spaced and has_unspaced_script(source + run) and _are_words(edge, word[:1]):
                    raw.insert(place, " ")
                    shown.insert(place, " ")
                place, edge, source = len(raw) + 1, word[-1:], run
            raw.append(item_raw)
            shown.append(item)
        before, after = placeholders.count(self.text), placeholders.count("".join(shown))
        return "".join(raw), placeholders.mismatched(before, after)

    def _translated_runs(
        self, translations: Sequence[UnitTranslation]
    ) -> Iterator[tuple[str, str, str]]:
        """The runs, and "" for markup, each with what takes its place: as displayed, as written."""
        following = iter(translations)
        for text, mark, mark_shown in self._runs():
            lead, core, trail = _split_core(text)
            run = f"{lead}{_single_line(next(following).text) if core else ''}{trail}"
            if run:
                yield text, run, self._escape(run)
            if mark:
                yield "", mark_shown, mark

    def _runs(self) -> Iterator[tuple[str, str, str]]:
        """The runs between markup, each with the markup after it: as written, as displayed."""
        marks = [(tag.position, tag.position, tag.raw) for tag in self.tags]
        for start, end in placeholders.find(self._blank_protected()):
            marks.append((start, end, self._escape(self.text[start:end])))
        # `max` moves a tag inside a placeholder behind it.
        offset = 0
        for start, end, raw in sorted([*marks, *self.protected], key=lambda mark: mark[:2]):
            yield self.text[offset:start], raw, self.text[start:end]
            offset = max(offset, end)
        yield self.text[offset:], "", ""

    def _blank_protected(self) -> str:
        """The text with protected spans replaced by as many spaces."""
        parts: list[str] = []
        offset = 0
        for start, end, _ in self.protected:
            parts += [self.text[offset:start], " " * (end - start)]
            offset = end
        return "".join([*parts, self.text[offset:]])

    def _insert_markup(
        self,
        text: str,
        *,
        protected: Sequence[ProtectedSpan] = (),
        tags: Sequence[ProjectedTag] = (),
    ) -> str:
        marks = [*((tag.position, tag.position, tag.raw) for tag in tags), *protected]
        parts: list[str] = []
        offset = 0
        for start, end, raw in sorted(marks, key=lambda mark: mark[:2]):
            parts += [self._escape(text[offset:start]), raw]
            offset = end
        return "".join([*parts, self._escape(text[offset:])])

    def _escape(self, text: str) -> str:
        return html.escape(text, quote=False) if self.markup == "html" else text


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentedText:
    """A text split by `segment_text`."""

    units: tuple[TranslationUnit, ...]
    """What to translate, in order: each sentence as a whole, then its runs, if it has markup."""

    parts: tuple[str | MarkedSentence, ...]
    """The sentences, and the text between them."""


def segment_text(
    text: str,
    markup: Markup = "none",
    *,
    rules: TagRules = HTML_RULES,
    on_unit: Callable[[TranslationUnit], None] = lambda unit: None,
) -> SegmentedText:
    """Split a text into translation units.

    Args:
        text: of any length.
        markup: "none" preserves white space only, "placeholders" also `{name}`, `%s`, URLs and the
            like, "html" also the markup of a page or fragment.
        rules: what tags mean, if the markup is "html".
        on_unit: called with each unit; it may raise to stop.
    """
    parts: list[str | MarkedSentence] = []
    units: list[TranslationUnit] = []
    for part in _html_parts(text, rules) if markup == "html" else _text_parts(text, markup):
        parts.append(part)
        for unit in part.units() if isinstance(part, MarkedSentence) else ():
            on_unit(unit)
            units.append(unit)
    return SegmentedText(units=tuple(units), parts=tuple(parts))


def restore_text(segmented: SegmentedText, translations: Sequence[UnitTranslation]) -> RestoredText:
    """Restore a text from the translations of its units, one each.

    Without an alignment, tags inside a sentence cannot be projected, and its runs are used.
    """
    count = len(segmented.units)
    assert len(translations) == count, f"{len(translations)} translations for {count} units"
    texts: list[str] = []
    lost: list[str] = []
    offset = 0
    last, source, translation = 0, "", ""  # a sentence: its index, text and translation
    for index, part in enumerate(segmented.parts):
        if isinstance(part, str):
            texts.append(part)
            continue
        end = offset + len(part.units())
        sentence = part.restore(translations[offset:end])
        if end > offset:
            text = translations[offset].text
            if index == last + 2 and translation and text and not part.edges[0]:
                texts[-1] = _spaced(texts[-1], source + part.text, translation + text)
            last, source, translation = index, part.text, "" if part.edges[1] else text
        texts.append(sentence.text)
        lost += sentence.lost
        offset = end
    return RestoredText("".join(texts), tuple(lost))


def _html_parts(text: str, rules: TagRules) -> Iterator[str | MarkedSentence]:
    for part in segment_html(text, rules):
        yield part if isinstance(part, str) else _html_sentence(part)


def _text_parts(text: str, markup: Markup) -> Iterator[str | MarkedSentence]:
    offset = 0
    masked = text if markup == "none" else placeholders.mask_placeholders(text)
    for start, end in sentence_spans(masked):
        sentence = text[start:end]
        yield text[offset:start]
        yield MarkedSentence(raw=sentence, text=sentence, markup=markup)
        offset = end
    yield text[offset:]


def _html_sentence(tokens: Sequence[Token]) -> MarkedSentence:
    text = ""
    protected: list[ProtectedSpan] = []
    tags: list[Tag] = []
    for token in tokens:
        shown = collapse_spaces(token.shown)
        if shown.startswith(" ") and (not text or text.endswith(" ")):
            shown = shown[1:]
            last = tags[-1] if tags else None
            if text and last and last.kind == "void" and last.position == len(text):
                # The void tag has a space on either side; it keeps the second one.
                tags[-1] = last._replace(raw=f"{last.raw} ")
        if token.protected:
            protected.append(ProtectedSpan(len(text), len(text) + len(shown), token.raw))
        elif token.kind != "text":
            kind = token.kind if token.kind in ("open", "close") else "void"
            tags.append(Tag(len(text), kind, token.raw, token.name))
        text += shown
    length = len(text.rstrip())
    return MarkedSentence(
        raw="".join(token.raw for token in tokens),
        text=text[:length],
        markup="html",
        protected=tuple(protected),
        tags=tuple(tag._replace(position=min(tag.position, length)) for tag in tags),
        edges=(_edge_space(tokens), _edge_space(tokens[::-1])),
    )


def _edge_space(tokens: Sequence[Token]) -> str:
    """White space before the first word, which stays outside of all tags."""
    first = next((token for token in tokens if token.shown), None)
    return first.raw if first and first.shown.isspace() else ""


def _split_core(run: str) -> tuple[str, str, str]:
    """Split a run into its words with the final punctuation, and what surrounds them."""
    match = _CORE.search(run)
    if match is None:
        return run, "", ""
    return run[: match.start()], match[0], run[match.end() :]


def _spaced(gap: str, source: str, translation: str) -> str:
    """What is between two sentences, with a space if only their source needs none."""
    if has_unspaced_script(translation) or not has_unspaced_script(source):
        return gap
    if any(token.shown for token in tokenize_html(gap)):
        return gap
    return f"{gap} " if gap.startswith("</") else f" {gap}"


def _are_words(before: str, after: str) -> bool:
    """Whether two characters end and begin words, so that a space belongs between them."""
    ends = before in ".,;:!?)" or unicodedata.category(before)[0] in "LMN" if before else False
    return ends and after.isalnum()


def _single_line(translation: str) -> str:
    """A translation without line ends, which only the document has."""
    return one_line(translation).strip()
