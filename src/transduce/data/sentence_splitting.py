"""Sentences: a text cut where one ends, and nothing of it lost.

A line end is always a boundary. Text that people paste is often wrapped by hand, and a sentence
over two lines is then asked for in two halves; but line ends come back where they were, headings,
lists, verses and addresses stay what they are, and nobody has to guess which line end was meant.

Within a line a sentence ends at . ! ? … (and closing quotes or brackets) before white space and a
plausible start, unless the point belongs to an abbreviation, an initial or an ordinal; and at
the full stops of Chinese and Japanese, which need no white space. One rule for all languages, as
nobody says which it is: where it errs, two sentences rather stay together than one is torn. Only
what is far too long for a sentence is cut all the same, at a blank if it has one: nothing that is
asked for is without bounds.
"""

import re
import unicodedata
from collections.abc import Iterator

Span = tuple[int, int]
"""Where something begins and ends in a text, in characters."""

COVER = "\ufffc"
"""Stands for a character of what must not be cut."""

LONGEST = 5000
"""Characters of a sentence at most."""

_CLOSE = "(?:[\"'”’»«“)\\]}*_]|[ \u00a0\u202f]»|\\[\\d{1,3}])*"
_END = re.compile(
    f"(?<![.!?…])(?P<stop>[.!?…]+|[؟।॥۔։።។။]){_CLOSE}(?P<gap>\\s+)"
    '|(?<![。！？｡])[。！？｡]+[」』）】〉》”’"]*\\s*'
)
_LINE_END = re.compile("\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_BULLET = re.compile(r"(?:[-*•·▪‣–—>#|+]+|\d{1,3}\))\s+")
_OPENS = re.compile("[\"'“”„«»‚‘’(\\[{¿¡*_–—-]*[ \u00a0\u202f]?")
_BEFORE_WORD = re.compile(r"[\s\"'“„«»‚‘(\[{/–—]")
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_DOTTED = re.compile(r"(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}")
_LONGEST_WORD = 40  # characters before a point that are looked at


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER_LAST = _words(
    """
    mr mrs ms mx messrs dr prof st ste rev hon gen col lt sgt capt cpl maj gov sen rep pres mt
    hr fr frl mme mlle mgr me sr sra srta dra dña ud uds sig dott avv ing dipl mag med phil jur rer
    dhr mevr vs cf eg ie viz al approx incl excl bzw ggf evtl vgl sog inkl exkl zzgl zzt
    mio mrd tsd geb gest verh ehem engl dt frz lat bes insb insbes allg hrsg univ tel
    bijv resp av env ee np tzv např tj
    """
)
"""Abbreviations that something always follows, in English, German, French and their neighbours."""

_BEFORE_NUMBERS = _words(
    """
    no nos nr nrn num núm nº fig figs abb p pp s pag pág vol vols bd ch chap kap cap abs art sec
    sect tab eq gl anm ref rn ziff str jan feb mar apr jun jul aug sep sept oct okt nov dec dez
    """
)
"""Abbreviations before numbers; where something else follows, their point ends the sentence."""

_BEFORE_ORDINALS = _words(
    "am im der die das den dem des vom zum zur beim ab bis seit ein eine einen einem eines"
)
_MONTHS = _words(
    """
    januar jänner februar märz april mai juni juli august september oktober november dezember
    jahrhundert jahrhunderts jh klasse stock platz lebensjahr
    """
)
_STARTS = _words(
    """
    the he she it they we you this that these those there then but and so in on at as after before
    when while if for with from what who why how not no yes his her its their our my
    er sie es wir ihr das dies diese dann aber und doch nach vor wenn weil auch nicht
    le la les il elle ils elles on nous mais et puis el los las pero y
    """
)
"""Words that begin sentences: before them a point after a single letter, too, ends one."""


def split(text: str) -> list[str]:
    """Cut a text into sentences and what stands between them; joined, they are the text again.

    Returns:
        What stands before the first sentence, the first sentence, what stands behind it, and so
        on: an odd number of strings of which every second is a sentence. A sentence has no white
        space at its ends.

    >>> split("  Dr. Ho came. Why?\\n- No idea")
    ['  ', 'Dr. Ho came.', ' ', 'Why?', '\\n- ', 'No idea', '']
    """
    found: list[str] = []
    done = 0
    for start, end in spans(text):
        found += [text[done:start], text[start:end]]
        done = end
    return [*found, text[done:]]


def spans(text: str) -> list[Span]:
    """Where the sentences of a text begin and end."""
    cased = any(character.isupper() for character in text)
    found: list[Span] = []
    start = 0
    for line_end in _LINE_END.finditer(text):
        found += _of_line(text[start : line_end.start()], start, cased=cased)
        start = line_end.end()
    return [*found, *_of_line(text[start:], start, cased=cased)]


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit: anything to translate."""
    return any(character.isalnum() for character in text)


def _of_line(line: str, offset: int, *, cased: bool) -> Iterator[Span]:
    """The sentences of one line, counted from `offset`; a bullet at its beginning is not of one."""
    begin = len(line) - len(line.lstrip())
    bullet = _BULLET.match(line, begin)
    first = start = bullet.end() if bullet else begin
    for found in _END.finditer(line, start):
        if found.end() == len(line):
            break
        if found["stop"] and not _ends(line, first, found, cased=cased):
            continue
        yield from _bounded(line, start, found.end(), offset)
        start = found.end()
    yield from _bounded(line, start, len(line), offset)


def _bounded(line: str, start: int, end: int, offset: int) -> Iterator[Span]:
    """A sentence without the white space behind it, in parts if it is too long for one."""
    end = start + len(line[start:end].rstrip())
    while end - start > LONGEST:
        cut = line.rfind(" ", start, start + LONGEST)
        if cut < 0:
            cut = start + LONGEST
            while cut < end and line[cut - 1] == line[cut] == COVER:
                cut += 1
        yield offset + start, offset + start + len(line[start:cut].rstrip())
        gap = _SPACE.match(line, cut)
        start = gap.end() if gap else cut
    if start < end:
        yield offset + start, offset + end


def _ends(line: str, first: int, found: re.Match[str], *, cased: bool) -> bool:
    """Whether a sentence ends at a stop that white space follows."""
    opened = _OPENS.match(line, found.end())
    begins = opened.end() if opened else found.end()
    after = line[begins : begins + _LONGEST_WORD]
    if not after or (cased and after[0].islower()):
        return False
    if found["stop"] != ".":
        return True
    point = found.start()
    before = line[max(first, point - _LONGEST_WORD) : point]
    return _is_last(before, after, begins=point - len(before) == first)


def _is_last(before: str, after: str, *, begins: bool) -> bool:
    """Whether the word before a point can be the last of its sentence.

    Args:
        before: up to the point.
        after: the next sentence, if it is one.
        begins: whether `before` is all that the line has there.
    """
    word = _BEFORE_WORD.split(before)[-1]
    bare = word.casefold()
    following = _WORD.match(after)
    next_word = following[0].casefold() if following else ""
    if not word:
        return True
    if bare in _NEVER_LAST:
        return False
    if after[0].isdigit() and (bare in _BEFORE_NUMBERS or bare.endswith("str")):
        return False
    if word.isdigit():
        earlier = before.removesuffix(word).split()
        if begins and not earlier:
            return False  # the number of an item
        ordinal = next_word in _MONTHS or (
            bool(earlier) and earlier[-1].casefold() in _BEFORE_ORDINALS
        )
        return len(word) > 2 or not ordinal
    if _is_letter(word) or _DOTTED.fullmatch(word):
        return next_word in _STARTS and after[0].isupper()
    return True


def _is_letter(word: str) -> bool:
    """Whether a word is a single letter, with or without an accent of its own."""
    return len(unicodedata.normalize("NFC", word)) == 1 and word[0].isalpha()
