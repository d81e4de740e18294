"""Protected spans: text that a translation repeats unchanged, encoded as placeholder symbols.

A pattern marks identifiers, addresses, numbers and the like. In a training pair, spans that both
sides have are replaced by the symbols of `PLACEHOLDERS`, which the vocabulary reserves, so that the
model learns to place them, not to spell them. In a sentence to translate all spans are replaced,
and put back into the translation. Symbols are numbered within a sentence, starting at one that
depends on the source, so that training reaches all of them.

Patterns of users may take exponential time: a search is stopped after `TIME_LIMIT`.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple
from zlib import crc32

import regex

from transduce.data.corpus import Pair
from transduce.data.segmentation import UNSPACED_SCRIPTS

PLACEHOLDERS: Final = tuple(map(chr, range(0xF0000, 0xF0010)))
"""Symbols of the vocabulary (private use, which no text has); a sentence has at most so many."""

TIME_LIMIT: Final = 0.2
"""Seconds that patterns of users may search one sentence."""

_MAX_PATTERNS, _MAX_LENGTH = 50, 1000  # characters
_UNMASKED_SHARE: Final = 8  # one pair in 8 stays as it is: the model also translates plain text
_SYMBOL = re.compile(f"[{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}]")
# Scripts without spaces, and their punctuation: text after an address, not its end.
_UNSPACED = f"{UNSPACED_SCRIPTS}\u3000-\u303f\uff00-\uffef"
_URL = rf"""[^\s<>"“”„«»{_UNSPACED}]*[^\s<>"“”„«».,;:!?)\]}}'…{_UNSPACED}]"""
_WORD = r"0-9A-Za-z_\xc0-\u052f\u1e00-\u1fff"  # Latin, Greek, Cyrillic

ADDRESS: Final = (
    rf"(?:https?|ftp)://{_URL}|(?<![{_WORD}])www\.{_URL}"
    rf"|(?<![{_WORD}.+-])[{_WORD}.+-]{{1,64}}@[{_WORD}-]{{1,63}}(?:\.[{_WORD}-]{{1,63}}){{1,8}}"
)
"""Pattern of URLs and e-mail addresses."""

VARIABLE: Final = rf"\$[A-Za-z_][{_WORD}]+"
"""Pattern of a variable such as `$HOME`."""

_UNIT = r"[kMGT]i?B|[kMGT]?Hz|[kcmµn]?m|[kmµ]?g|[kMG]?Wh?|[mk]?V|mA|[mµn]s|dpi|px"
_BUILT_IN: Final[Mapping[str, str]] = {
    "url": ADDRESS,
    "code": "|".join(
        [
            r"`[^`\n]{1,80}`",
            VARIABLE,
            r"\$\{\w+\}|\{\w*\}|%\(\w+\)[sdif]|(?<![\w%])%[sdif]\b",  # {x}, %s
            r"(?<![\w-])(?:--[A-Za-z][\w-]*\w|-[A-Za-z](?!\w))",  # --option, -o
            r"(?<![\w/.~])(?:~|\.{1,2})?(?:/[\w.-]*\w)+/?",  # /a/path
            r"(?<!\w)[A-Za-z_]\w+(?:\.[A-Za-z_]\w+)+(?!\w)(?:\(\))?",  # module.name
            r"(?<![\w.])\d++(?:\.\d++){2,}+(?![\w.]*\d)",  # 1.2.3
            # snake_case, camelCase, x86, utf-8, name()
            r"\b(?=[A-Za-z_])(?=\w*(?:_|[a-z][A-Z]|\d)|\w+(?:-\d|\(\)))\w+(?:-\d\w*)*(?:\(\))?",
        ]
    ),
    # Decimals and thousands are left to the model: languages write them differently.
    "number": rf"(?<![\w.,:/'’-])\d+(?:[ \u00a0]?(?:{_UNIT}))?(?!\w|[.,:/'’-]\d)",
    "capitals": r"(?<!\w)[A-Z][A-Z0-9]+(?!\w)",
}

BUILT_IN: Final = tuple(_BUILT_IN)
"""Names of the built-in patterns; "capitals" matches only in text with lower case."""


class MaskedText(NamedTuple):
    """A text whose protected spans are placeholders."""

    text: str
    spans: Mapping[str, str]
    """The span of each placeholder."""

    def is_intact(self, translation: str) -> bool:
        """Return whether a translation has the same placeholders, each as often."""
        return Counter(_SYMBOL.findall(translation)) == Counter(_SYMBOL.findall(self.text))

    def restore(self, translation: str) -> str:
        """Put the spans back; placeholders that the text does not have are deleted."""
        return _SYMBOL.sub(lambda symbol: self.spans.get(symbol[0], ""), translation)


class Protection:
    """Patterns of spans to protect; searching a text too long for the limit is a ValueError.

    >>> Protection(["code"]).find("Set row_count to 5.")
    ['row_count']
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile names of `BUILT_IN` and regular expressions.

        Raises:
            ValueError: for an invalid expression, or too many.
        """
        if len(patterns) > _MAX_PATTERNS:
            raise ValueError(f"at most {_MAX_PATTERNS} patterns can be protected")
        self.patterns = tuple(patterns)
        self._compiled = [(name, _compile(name)) for name in patterns]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def find(self, text: str) -> list[str]:
        """Return the protected spans of a text, in order."""
        return [text[start:end] for start, end in self.spans(text)]

    def mask(self, text: str) -> MaskedText:
        """Replace the protected spans of a source by placeholders."""
        spans = self.spans(text)
        if not spans or _SYMBOL.search(text):
            return MaskedText(text, {})
        symbols = _assign_symbols(text, (text[start:end] for start, end in spans))
        masked, last = "", 0
        for start, end in spans:
            if text[start:end] in symbols:
                masked, last = masked + text[last:start] + symbols[text[start:end]], end
        return MaskedText(masked + text[last:], {symbols[span]: span for span in symbols})

    def mask_pair(self, pair: Pair, *, every: bool = False) -> Pair:
        """Replace the spans that occur equally often on both sides of a pair.

        Args:
            pair: a normalised training pair.
            every: mask each pair; else one in eight stays as it is.
        """
        if not self or (not every and crc32(pair.target.encode()) % _UNMASKED_SHARE == 0):
            return pair
        source = self.mask(pair.source)
        if not source.spans or _SYMBOL.search(pair.target):
            return pair
        symbols = {span: symbol for symbol, span in source.spans.items()}
        target = _literal(symbols).sub(lambda span: symbols[span[0]], pair.target)
        different = {
            s: source.spans[s] for s in source.spans if source.text.count(s) != target.count(s)
        }

        def restored(text: str) -> str:
            return _SYMBOL.sub(lambda symbol: different.get(symbol[0], symbol[0]), text)

        return Pair(restored(source.text), restored(target))

    def spans(self, text: str, *, time_limit: float | None = TIME_LIMIT) -> list[tuple[int, int]]:
        """Return where the protected spans of a text start and end, in order.

        The time limit, in seconds, is for patterns of users: built-in ones take linear time.
        """
        matches: list[tuple[int, int]] = []
        deadline = None if time_limit is None else time.monotonic() + time_limit
        for name, pattern in self._compiled:
            left = None
            if deadline is not None and name not in _BUILT_IN:
                left = max(0.001, deadline - time.monotonic())
            if name == "capitals" and text.isupper():  # a heading
                continue
            try:
                results = pattern.finditer(text, timeout=left, concurrent=True)
                matches += [match.span() for match in results]
            except TimeoutError:
                raise ValueError(
                    f"patterns of protected text take more than {TIME_LIMIT} s for one sentence, "
                    f"the last of them {name!r}: simplify it"
                ) from None
        kept: list[tuple[int, int]] = []
        for start, end in sorted(matches, key=lambda span: (span[0], -span[1])):
            if end > start >= (kept[-1][1] if kept else 0):
                kept.append((start, end))
        return kept


class CopyCounts(NamedTuple):
    """Spans that references copy from their sources, and those that translations lack."""

    times: Counter[str]
    """By built-in pattern, in their order."""
    lost: Counter[str]
    """Likewise those that the translations lack."""
    missing: tuple[tuple[int, str], ...]
    """The index of a line, and a span that its translation lacks."""


def count_copies(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str]
) -> CopyCounts:
    """Count the spans of built-in patterns that references copy and translations lack, by line."""
    times, lost = Counter(dict.fromkeys(BUILT_IN, 0)), Counter[str]()
    examples: list[tuple[int, str]] = []
    lines = zip(sources, hypotheses, references, strict=True)
    for index, (source, hypothesis, reference) in enumerate(lines):
        for kind in BUILT_IN:
            spans = Counter(protection_of((kind,)).find(source))
            if not spans:
                continue
            literal = _literal(spans)
            expected = spans & Counter(literal.findall(reference))
            missing = expected - Counter(literal.findall(hypothesis))
            times[kind] += expected.total()
            lost[kind] += missing.total()
            examples += [(index, text) for text in missing]
    return CopyCounts(times, lost, tuple(examples))


@lru_cache(maxsize=64)
def protection_of(patterns: tuple[str, ...]) -> Protection:
    """Return `Protection(patterns)`, compiled once."""
    return Protection(patterns)


def _compile(name: str) -> "regex.Pattern[str]":
    expression = _BUILT_IN.get(name, name)
    if not expression or len(expression) > _MAX_LENGTH:
        raise ValueError(
            f"a pattern must have 1 to {_MAX_LENGTH:,} characters, not {len(expression):,}"
        )
    try:
        return regex.compile(expression)
    except regex.error as error:
        names = ", ".join(BUILT_IN)
        raise ValueError(
            f"{name!r} is neither a built-in pattern ({names}) nor a regular expression: {error}"
        ) from None


def _assign_symbols(text: str, spans: Iterable[str]) -> dict[str, str]:
    """A symbol for each distinct span, in order from a first one that depends on the text."""
    first, count = crc32(text.encode()), len(PLACEHOLDERS)
    distinct = islice(dict.fromkeys(spans), count)
    return {span: PLACEHOLDERS[(first + index) % count] for index, span in enumerate(distinct)}


def _literal(spans: Iterable[str]) -> re.Pattern[str]:
    """Match any of these texts as a unit: not inside a word or a number such as 3.50."""
    texts = "|".join(map(re.escape, sorted(spans, key=len, reverse=True)))
    return re.compile(rf"(?<!\w)(?<!\d[.,:/])(?:{texts})(?!\w|[.,:/]\d)")
