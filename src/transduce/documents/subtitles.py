"""Subtitles (.srt, .vtt): numbers, times and notes are kept; each cue is a text of its own.

A cue's lines are one text, since they are wrapped for the screen; what it becomes is wrapped again,
at about the same shares. Where every line begins with a dash somebody else speaks in each: then
lines stay lines. A sentence over two cues is asked for in two halves: nobody says where it would
have to be cut again.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise

from transduce.data.words import has_unspaced
from transduce.documents.holes import Hole, Line, lines_kept
from transduce.documents.html import covered

_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d{2}[,.]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_NEARLY_TIMES = re.compile(r"\s*\d{1,3}:\d\d.*-+>|.*-->")
_KEPT = re.compile(r"WEBVTT|NOTE\b|STYLE\s*$|REGION\s*$")
_DASH = re.compile(r"\s*[-–—]")


def subtitle_holes(text: str, *, name: str) -> Iterator[str | Hole]:
    """Read subtitles.

    Raises:
        ValueError: if times are missing or broken; it names the line.
    """
    seen = False  # a cue
    for blank, group in groupby(lines_kept(text), key=lambda line: not line.text.strip()):
        block = list(group)
        if blank or _KEPT.match(block[0].text):
            yield "".join(line.raw for line in block)
            continue
        timed = next((at for at, line in enumerate(block[:2]) if _TIMES.fullmatch(line.text)), None)
        if timed is None:
            _check_text(block, name=name, seen=seen)
        seen = True
        head = 0 if timed is None else timed + 1
        yield "".join(line.raw for line in block[:head])
        if block[head:]:
            yield from _cue(block[head:])


def _check_text(block: Sequence[Line], *, name: str, seen: bool) -> None:
    """A block without times is more text of the cue before it, if that can be."""
    first = block[0]
    numbered = first.text.strip().isdecimal()
    for line in block[:2]:
        if not seen or (numbered and len(block) > 1) or _NEARLY_TIMES.match(line.text):
            at = block[1] if numbered and len(block) > 1 else line
            raise ValueError(
                f"{name}, line {at.number}: times are expected here, such as "
                f"00:00:01,000 --> 00:00:02,500, not {at.text.strip()[:40]!r}"
            )


def _cue(lines: Sequence[Line]) -> Iterator[str | Hole]:
    """The text of a cue; its last line end is not of it."""
    spoken = all(_DASH.match(line.text) for line in lines)
    shown = [line.text if spoken else line.text.strip() for line in lines]
    same = ("\n" if spoken else " ").join(shown)
    raw = "".join(line.raw for line in lines).removesuffix(lines[-1].end)

    def written(text: str) -> str:
        if text == same:
            return raw
        cut = text.split("\n") if spoken else wrapped(text, [len(one) for one in shown])
        return lines[0].end.join(one for one in cut if one.strip())

    yield Hole(same, "placeholders", written)
    yield lines[-1].end


def wrapped(text: str, shares: Sequence[int]) -> list[str]:
    """Cut a text into lines of about the given shares, at blanks where it has some.

    Returns:
        At most as many lines as there are shares; fewer where there are too few places to cut.

    >>> wrapped("one two three four", [3, 1])
    ['one two three', 'four']
    """
    if len(shares) < 2:
        return [text]
    open_text = covered(text)  # a tag with a blank in it is not cut
    places = [found.start() for found in re.finditer(r"(?<=\S)\s+(?=\S)", open_text)]
    if not places and has_unspaced(text):
        places = [at for at in range(1, len(text)) if open_text[at - 1 : at + 1].isalnum()]
    cuts: list[int] = []
    whole = max(1, sum(shares))
    free = 0  # the first place behind the last cut
    for share in list(accumulate(shares))[:-1]:
        wanted = len(text) * share / whole
        at = bisect_left(places, wanted, lo=free)
        near = places[max(free, at - 1) : at + 1]
        if near:
            cuts.append(min(near, key=lambda place: abs(place - wanted)))
            free = bisect_right(places, cuts[-1])
    edges = [0, *cuts, len(text)]
    return [text[start:end].strip() for start, end in pairwise(edges)]
