"""Loops: a translation that says the same over and over, or far more than its source.

Models fall into them on input unlike what they have learned from. What stands out is told from the
pieces of both sides, and what the source repeats a translation may repeat. The numbers are those at
which references (what people wrote) give next to no alarm: see docs/decoding.md.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from transduce.search.config import UNCONSTRAINED, DecodingConstraints

NO_REPEAT: Final = 3
"""What a second try is forbidden: a run of so many pieces twice. It leaves room for "very very
very", and for nothing that `fault` calls a loop."""

_RUN = 3  # times in a row that a run of pieces is a loop: two are a slip, and three are no chance
_RUN_OF_ONE = 4  # of one piece; "no no no" is said by people
_RUN_OF_MARKS = 9  # of what has no letter: points, rules of dashes, the zeros of large numbers
_LONGEST = 12  # pieces of a run that is looked for in a row
_ANYWHERE = 6  # pieces of a run that may stand anywhere, so long that lists do not share it...
_TIMES = 3  # ...so often
_MORE = 2  # times more than the source says anything of its own: translations repeat a little more
_RATIO, _SPARE = (
    3,
    20,
)  # a translation may have so many pieces for one of the source, and so many more
_EOS = "</s>"


def fault(source: Sequence[str], target: Sequence[str]) -> str:
    """Say in a few words what makes a translation look like a loop; "" if nothing does.

    A loop is a run of pieces that is said three times in a row (one piece alone four times, marks
    and digits nine times), or a run of six pieces said three times anywhere; each only if that is
    at least twice more than the source says anything. A translation is too long with more than
    3 x source + 20 pieces.

    Args:
        source: its pieces.
        target: the translation's pieces. EOS may stand at the end of either.

    >>> fault(["▁a", "▁dog"], ["▁ein", *["▁Hund", "▁und"] * 3])
    'says "Hund und" 3 times in a row'
    """
    source, target = ([one for one in side if one != _EOS] for side in (source, target))
    for size in range(1, min(_LONGEST, len(target) // 2) + 1):
        times, start = _longest_run(target, size)
        run = target[start : start + size]
        if times >= _most(run) and times >= _MORE + _most_in_a_row(source):
            return f'says "{_text(run)}" {times} times in a row'
    times, run = _most_anywhere(target)
    if times >= max(_TIMES, _MORE + _most_anywhere(source)[0]) and _spelt(run):
        return f'says "{_text(run)}" {times} times'
    if len(target) > _RATIO * len(source) + _SPARE:
        return f"has {len(target)} pieces where the source has {len(source)}"
    return ""


def remedy(constraints: DecodingConstraints = UNCONSTRAINED) -> DecodingConstraints | None:
    """Return what to search with once more where there is a fault; None if it was asked for before.

    >>> remedy()
    DecodingConstraints(no_repeat=3, min_length=0, max_length=None, sampling=None)
    """
    if 0 < constraints.no_repeat <= NO_REPEAT:
        return None
    return replace(constraints, no_repeat=NO_REPEAT)


def better(source: Sequence[str], first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the second try should stand in place of a first one that has a fault.

    It should if it has none and is not empty: the first is what the model would say, and a penalty
    is no reason to prefer another loop.
    """
    return bool(_text(second)) and not fault(source, second)


def _most(run: Sequence[str]) -> int:
    if not _spelt(run):
        return -(-_RUN_OF_MARKS // len(run))
    return _RUN_OF_ONE if len(run) == 1 else _RUN


def _longest_run(pieces: Sequence[str], size: int) -> tuple[int, int]:
    """How often in a row a run of so many pieces is said at most, and where that begins."""
    times, where, same = 1, 0, 0
    for end in range(size, len(pieces)):
        same = same + 1 if pieces[end] == pieces[end - size] else 0
        if same // size + 1 > times:
            times, where = same // size + 1, end + 1 - size
    return times, where


def _most_in_a_row(pieces: Sequence[str]) -> int:
    sizes = range(1, min(_LONGEST, len(pieces) // 2) + 1)
    return max((_longest_run(pieces, size)[0] for size in sizes), default=1)


def _most_anywhere(pieces: Sequence[str]) -> tuple[int, Sequence[str]]:
    runs = Counter(zip(*(pieces[start:] for start in range(_ANYWHERE)), strict=False))
    return max(((times, run) for run, times in runs.items()), default=(0, ()))


def _spelt(run: Sequence[str]) -> bool:
    return any(letter.isalpha() for piece in run for letter in piece)


def _text(pieces: Sequence[str]) -> str:
    return "".join(piece for piece in pieces if piece != _EOS).replace("▁", " ").strip()
