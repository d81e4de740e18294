"""Repetition loops: translations that repeat themselves or are far longer than their source.

Models produce them on input unlike their training data. Detection compares the pieces of both
sides: a translation may repeat what its source repeats. The thresholds raise next to no alarm on
human references: see docs/decoding.md.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from transduce.search.config import UNCONSTRAINED, DecodingConstraints

NO_REPEAT: Final = 3
"""Size of the n-grams that a retry blocks. It still allows "very very very", but nothing that
`detect_repetition` flags as a loop."""

_MIN_RUNS = 3  # consecutive repeats of an n-gram that are a loop: two are a slip
_MIN_RUNS_OF_ONE = 4  # of a single piece: people write "no no no"
_MIN_RUNS_OF_MARKS = 9  # pieces without a letter: dots, rules of dashes, zeros of large numbers
_MIN_RUNS_OF_NOISE = 9  # of a source that is no sentence: "AAAAAAAA…"
_MAX_N = 12  # longest n-gram, in pieces, whose consecutive repeats are looked for
_SCATTERED_N = 6  # pieces of an n-gram that may recur anywhere: too long to be shared by lists
_SCATTERED_TIMES = 3
_MARGIN = 2  # repeats allowed beyond the source's own: translations repeat slightly more
_MAX_RATIO, _MAX_EXTRA = 3, 20  # maximum length in pieces: ratio x source + extra
_MAX_LOSS = 0.25  # nats per piece that a retry may be less probable: docs/decoding.md
_EOS = "</s>"


def detect_repetition(source: Sequence[str], target: Sequence[str]) -> str:
    """Describe why a translation looks like a repetition loop; "" if it does not.

    A loop is an n-gram of pieces repeated three times in a row (a single piece four times, marks
    and digits nine times), or one of six pieces occurring three times anywhere; each only if that
    is at least two more than the source repeats anything. A translation is too long with more than
    3 x source + 20 pieces.

    >>> detect_repetition(["▁a", "▁dog"], ["▁ein", *["▁Hund", "▁und"] * 3])
    'repetition ("Hund und" ×3)'
    """
    source, target = ([piece for piece in side if piece != _EOS] for side in (source, target))
    too_long = (
        f"too long ({len(target)} pieces for a source of {len(source)})"
        if len(target) > _MAX_RATIO * len(source) + _MAX_EXTRA
        else ""
    )
    if max(Counter(target).values(), default=0) < min(_MIN_RUNS, _SCATTERED_TIMES):
        return too_long  # no piece occurs as often as those of a loop do: the usual case
    for size in _sizes(target):
        times, start = _longest_run(target, size)
        n_gram = target[start : start + size]
        if times >= _min_runs(n_gram) and times >= _MARGIN + _most_in_a_row(source):
            return f'repetition ("{_text(n_gram)}" ×{times})'
    times, n_gram = _most_anywhere(target)
    if times >= max(_SCATTERED_TIMES, _MARGIN + _most_anywhere(source)[0]) and _has_letters(n_gram):
        return f'repetition ("{_text(n_gram)}" ×{times}, not in a row)'
    return too_long


def is_noise(source: Sequence[str]) -> bool:
    """Return whether a source repeats itself so often that no retry can mend its translation.

    >>> is_noise(["▁ha"] * 4), is_noise(["▁ha"] * 9), is_noise(["▁1", *["."] * 40])
    (False, True, False)
    """
    for size in _sizes(source):
        times, start = _longest_run(source, size)
        if times >= _MIN_RUNS_OF_NOISE and _has_letters(source[start : start + size]):
            return True
    return False


def retry_constraints(
    constraints: DecodingConstraints = UNCONSTRAINED,
) -> DecodingConstraints | None:
    """Return the constraints of a retry; None if the first search already blocked repetition.

    >>> retry_constraints()
    DecodingConstraints(no_repeat=3, min_length=0, max_length=None, sampling=None)
    """
    if 0 < constraints.no_repeat <= NO_REPEAT:
        return None
    return replace(constraints, no_repeat=NO_REPEAT)


def is_improvement(source: Sequence[str], retry: Sequence[str], *, loss: float) -> bool:
    """Return whether a retry should replace a flagged translation.

    It must be clean, not empty, and about as probable: where blocking repetition leaves a model
    only improbable pieces, the retry is noise, further from the reference than the loop. Otherwise
    the flagged one stays: it is the model's own best, and another loop is no better.

    Args:
        loss: by how much its `novel_log_prob` is below that of the first translation.
    """
    # NaN, where most of both repeats, is no reason to keep the first.
    return not loss > _MAX_LOSS and bool(_text(retry)) and not detect_repetition(source, retry)


def novel_log_prob(ids: Sequence[int], log_probs: Sequence[float]) -> float:
    """Return the mean log-probability of the pieces that do not repeat the n-gram before them.

    In a loop each repeat is more probable than the last, so that they would hide how improbable
    the rest is. If most pieces repeat, it is -inf: any other text is better.

    >>> novel_log_prob([7, 3, 5, 3, 5, 1], [-1.0, -2.0, -3.0, 0.0, 0.0, -2.0])
    -2.0
    """
    repeated = [False] * len(ids)
    for size in _sizes(ids):
        matches = 0
        for end in range(size, len(ids)):
            matches = matches + 1 if ids[end] == ids[end - size] else 0
            if matches >= size:
                repeated[end + 1 - size : end + 1] = [True] * size
    novel = [
        value for value, is_repeated in zip(log_probs, repeated, strict=True) if not is_repeated
    ]
    return math.fsum(novel) / len(novel) if 2 * len(novel) >= len(ids) else -math.inf


def _sizes(pieces: Sequence[object]) -> range:
    """The sizes of n-grams that can occur twice in a row."""
    return range(1, min(_MAX_N, len(pieces) // 2) + 1)


def _min_runs(n_gram: Sequence[str]) -> int:
    if not _has_letters(n_gram):
        return -(-_MIN_RUNS_OF_MARKS // len(n_gram))
    return _MIN_RUNS_OF_ONE if len(n_gram) == 1 else _MIN_RUNS


def _longest_run(pieces: Sequence[str], size: int) -> tuple[int, int]:
    """Most consecutive repeats of an n-gram of this size, and the start of its last occurrence."""
    times, start, matches = 1, 0, 0
    for end in range(size, len(pieces)):
        matches = matches + 1 if pieces[end] == pieces[end - size] else 0
        if matches // size + 1 > times:
            times, start = matches // size + 1, end + 1 - size
    return times, start


def _most_in_a_row(pieces: Sequence[str]) -> int:
    return max((_longest_run(pieces, size)[0] for size in _sizes(pieces)), default=1)


def _most_anywhere(pieces: Sequence[str]) -> tuple[int, Sequence[str]]:
    n_grams = Counter(zip(*(pieces[start:] for start in range(_SCATTERED_N)), strict=False))
    return max(((times, n_gram) for n_gram, times in n_grams.items()), default=(0, ()))


def _has_letters(pieces: Sequence[str]) -> bool:
    return any(letter.isalpha() for piece in pieces for letter in piece)


def _text(pieces: Sequence[str]) -> str:
    return "".join(piece for piece in pieces if piece != _EOS).replace("▁", " ").strip()
