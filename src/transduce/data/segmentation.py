"""Segmentation of text into words and sentences, without a model.

Words: a run of letters, digits and underscores, or one other symbol; in scripts without spaces
between words, each character.

Sentences: a line end is always a boundary, so headings, lists, verses and addresses keep their
lines; a sentence that was wrapped by hand is translated in parts. Within a line a sentence ends at
. ! ? … (and closing quotes or brackets) before white space and a plausible start, unless the period
belongs to an abbreviation, an initial or an ordinal; and at the full stops of Chinese, Japanese,
Amharic and Burmese, which need no white space. The rules are the same for every language, as the
language is unknown here; they prefer missing a boundary to splitting a sentence. Only what is too
long for a sentence is split regardless, at a space if it has one, which bounds the input of a
model.
"""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

Span = tuple[int, int]
"""Start and end of a stretch of text, in characters."""

MASK = "\ufffc"
"""Replaces each character of text that must not be split."""

MAX_SENTENCE_LENGTH = 5000
"""Maximum characters of a sentence."""

UNSPACED_SCRIPTS: Final = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces between words, for a pattern's set: Thai to Tibetan, Burmese,
Khmer, kana, Han."""

_MARKS_END = 0x1F000  # above are no combining marks but variation selectors

_CLOSE = "(?:[\"'”’»«“)\\]}*_]|[ \u00a0\u202f]»|\\[\\d{1,3}])*"
_END = re.compile(
    f"(?<![.!?…\\[])(?<![.…][ \u00a0])(?P<stop>(?>[.!?…]+(?:[ \u00a0]\\.(?!\\.))*)|[؟।॥۔։។])"
    f"{_CLOSE}(?P<gap>\\s+)"
    '|(?<![。！？｡።፧။])[。！？｡።፧။]+[」』）】〉》”’"]*\\s*'
)
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_BULLET = re.compile(r"(?:[-*•·▪‣–—>#|+]+|\d{1,3}\))\s+")
_OPENS = re.compile("[\"'“”„«»‚‘’(\\[{¿¡*_–—-]*[ \u00a0\u202f]?")
_BEFORE_WORD = re.compile(r"[\s\"'“„«»‚‘(\[{/–—]")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")
_CONTEXT = 40  # characters examined before and after a period


_TABLE: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_WORDS = {name: frozenset(text.split()) for name, text in _TABLE.items()}


def words(text: str) -> list[str]:
    """Split text into words: runs of letters, digits and underscores, or one other symbol.

    Combining marks belong to the preceding character. In Chinese, Japanese, Thai, Lao, Khmer,
    Burmese and Tibetan each character is a word.

    >>> words("Don't stop, 2 naïve cats! 我喜歡 C")
    ['Don', "'", 't', 'stop', ',', '2', 'naïve', 'cats', '!', '我', '喜', '歡', 'C']
    """
    return _word().findall(text)


def word_spans(text: str) -> list[Span]:
    """Return the spans of the words of a text.

    >>> word_spans("a dog.")
    [(0, 1), (2, 5), (5, 6)]
    """
    return [match.span() for match in _word().finditer(text)]


def has_unspaced_script(text: str) -> bool:
    """Whether a text has characters of a script without spaces between words."""
    return re.search(f"[{UNSPACED_SCRIPTS}]", text) is not None


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of some lines."""
    return Counter(word for line in lines for word in words(line))


def sentence_spans(text: str) -> list[Span]:
    """Return the spans of the sentences of a text."""
    cased = any(character.isupper() for character in text)
    spans: list[Span] = []
    start = 0
    for line_end in _LINE_END.finditer(text):
        spans += _line_spans(text[start : line_end.start()], start, cased=cased)
        start = line_end.end()
    return [*spans, *_line_spans(text[start:], start, cased=cased)]


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit, so anything to translate."""
    return any(character.isalnum() for character in text)


def _line_spans(line: str, offset: int, *, cased: bool) -> Iterator[Span]:
    """Sentence spans of one line that starts at `offset`; a leading bullet is excluded."""
    begin = len(line) - len(line.lstrip())
    bullet = _BULLET.match(line, begin)
    first = start = checked = bullet.end() if bullet else begin
    for stop in _END.finditer(line, start):
        if stop.end() == len(line):
            break
        if stop["stop"] and not _is_boundary(line, first, stop, cased=cased):
            continue
        unchecked, checked = line[checked : stop.end()], stop.end()
        if has_words(unchecked):  # ". . ." and "?!" are no sentences
            yield from _bounded(line, start, checked, offset)
            start = checked
    yield from _bounded(line, start, len(line), offset)


def _bounded(line: str, start: int, end: int, offset: int) -> Iterator[Span]:
    """Span of a sentence without trailing white space; several if it is too long."""
    end = start + len(line[start:end].rstrip())
    while end - start > MAX_SENTENCE_LENGTH:
        cut = line.rfind(" ", start, start + MAX_SENTENCE_LENGTH)
        if cut < 0:
            cut = start + MAX_SENTENCE_LENGTH
            while cut < end and line[cut - 1] == line[cut] == MASK:  # not inside a masked span
                cut += 1
        yield offset + start, offset + start + len(line[start:cut].rstrip())
        gap = _SPACE.match(line, cut)
        start = gap.end() if gap else cut
    if start < end:
        yield offset + start, offset + end


def _is_boundary(line: str, first: int, stop: re.Match[str], *, cased: bool) -> bool:
    """Whether a sentence ends at a stop followed by white space."""
    opened = _OPENS.match(line, stop.end())
    begins = opened.end() if opened else stop.end()
    after = line[begins : begins + _CONTEXT]
    if not after or (cased and after[0].islower()):
        return False
    if stop["stop"] != ".":
        return True
    period = stop.start()
    before = line[max(first, period - _CONTEXT) : period]
    return _is_last(before, after, starts_line=period - len(before) == first)


def _is_last(before: str, after: str, *, starts_line: bool) -> bool:
    """Whether the word before a period can end its sentence, which `after` follows."""
    word = _BEFORE_WORD.split(before)[-1]
    bare = word.casefold()
    following = _WORD.match(after)
    next_word = following[0].casefold() if following else ""
    if not word:
        return True
    if bare in _WORDS["never_last"]:
        return False
    if after[0].isdigit() and (bare in _WORDS["before_numbers"] or bare.endswith("str")):
        return False
    if word.isdigit():
        earlier = before.removesuffix(word).split()
        if starts_line and not earlier:
            return False  # a list item's number
        ordinal = next_word in _WORDS["after_ordinals"] or (
            bool(earlier) and earlier[-1].casefold() in _WORDS["before_ordinals"]
        )
        return len(word) > 2 or not ordinal
    if _is_letter(word) or _DOTTED.fullmatch(word):
        return next_word in _WORDS["starts"] and after[0].isupper()
    return True


def _is_letter(word: str) -> bool:
    """Whether a word is a single letter, with or without a combining accent."""
    return len(unicodedata.normalize("NFC", word)) == 1 and word[0].isalpha()


@cache
def _word() -> re.Pattern[str]:
    """Built at first use, because Python's `re` has no class for combining marks."""
    codes = [code for code in range(_MARKS_END) if unicodedata.category(chr(code))[0] == "M"]
    starts = [codes[0], *(after for before, after in pairwise(codes) if after > before + 1)]
    ends = [*(before for before, after in pairwise(codes) if after > before + 1), codes[-1]]
    marks = "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))
    letter = f"[^\\W{UNSPACED_SCRIPTS}]"
    return re.compile(f"{letter}(?:{letter}|[{marks}])*|[{UNSPACED_SCRIPTS}][{marks}]*|[^\\w\\s]")
