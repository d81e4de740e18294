"""Words, for looking at text as people do. Models know pieces only.

One rule for every language: a run of letters, digits and underscores is a word, and so is any other
symbol. In scripts without blanks between words each character counts as one.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise

# Thai to Tibetan, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_MARKS_END = 0x1F000  # nothing that combines stands above, but for variation selectors
_LONGEST = 4  # words of a piece that is looked for
_TIMES = 3  # a repetition is so many times the same


def words(text: str) -> list[str]:
    """Split text into words: runs of letters, digits and underscores, or one other symbol.

    Accents and vowel signs belong to what stands before them. Chinese, Japanese, Thai, Lao, Khmer,
    Burmese and Tibetan have a word for each character.

    >>> words("Don't stop, 2 naïve cats! 我喜歡 C")
    ['Don', "'", 't', 'stop', ',', '2', 'naïve', 'cats', '!', '我', '喜', '歡', 'C']
    """
    return _word().findall(text)


def spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end.

    >>> spans("a dog.")
    [(0, 1), (2, 5), (5, 6)]
    """
    return [found.span() for found in _word().finditer(text)]


def has_unspaced(text: str) -> bool:
    """Whether some of a text is in a script that has no blanks between words."""
    return _unspaced().search(text) is not None


def count_words(lines: Iterable[str]) -> Counter[str]:
    """How often each word stands in some text."""
    return Counter(word for line in lines for word in words(line))


def repetition(line: Sequence[str], reference: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Find the first piece of text that a line says over and over, unless its reference does too.

    That is one to four words three times in a row, or the same four words three times anywhere; a
    mark alone is none, as three points are an ellipsis.

    Args:
        line: its words.
        reference: the words that it should have been.

    >>> repetition("a man and a man and a man and a dog".split())
    ('a', 'man', 'and')
    """
    if len(line) - len(set(line)) < _TIMES - 1:
        return None
    also = set(_repeated(reference))
    return next((piece for piece in _repeated(line) if piece not in also), None)


def _repeated(line: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for size in range(1, _LONGEST + 1):
        run = 0
        for end in range(size, len(line)):
            run = run + 1 if line[end] == line[end - size] else 0
            if run == size * (_TIMES - 1) and (size > 1 or line[end][0].isalnum()):
                start = end + 1 - size * _TIMES
                yield tuple(line[start : start + size])
    seen = Counter(zip(*(line[start:] for start in range(_LONGEST)), strict=False))
    yield from (piece for piece, times in seen.items() if times >= _TIMES)


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


@cache
def _word() -> re.Pattern[str]:
    """Put together at the first use: Python's patterns have no name for the combining marks."""
    codes = [code for code in range(_MARKS_END) if unicodedata.category(chr(code))[0] == "M"]
    starts = [codes[0], *(after for before, after in pairwise(codes) if after > before + 1)]
    ends = [*(before for before, after in pairwise(codes) if after > before + 1), codes[-1]]
    marks = "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))
    letter = f"[^\\W{_UNSPACED}]"
    return re.compile(f"{letter}(?:{letter}|[{marks}])*|[{_UNSPACED}][{marks}]*|[^\\w\\s]")
