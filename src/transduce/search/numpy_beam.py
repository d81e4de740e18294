"""Beam search for one sentence in NumPy, by the rule of `search.beam`, without torch."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from transduce.search.config import DecodingConstraints, Request, SearchConfig, check_request
from transduce.search.hypothesis import Hypothesis, rank
from transduce.search.interruption import interruption_point


@runtime_checkable  # the shape checks of the tests use isinstance
class NumpySteps(Protocol):
    """Decoder state of one partly translated sentence, in one row before the first step."""

    def step(self, ids: Sequence[int]) -> Float[np.ndarray, "rows vocab"]:
        """Append one id to each row; return log-probabilities of the next, -inf for PAD."""
        ...

    def reorder(self, rows: Sequence[int]) -> None:
        """Make new row r a copy of old row `rows[r]`; there may be more or fewer rows."""
        ...


class _Beam(NamedTuple):
    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    total: float
    parent: int
    """The row that it continues."""


def numpy_beam_search(
    steps: NumpySteps,
    request: Request,
    *,
    limit: int,
    config: SearchConfig,
    constraints: DecodingConstraints,
    eos: int,
    pad: int,
) -> list[Hypothesis]:
    """Find the most probable translations of a sentence. A beam of 1 is greedy search.

    Args:
        steps: decoder state before the first target piece.
        request: the sentence, whose prefix every translation begins with.
        limit: maximum length of the translation in pieces, EOS included.
        config: supplies beam and alpha.
        constraints: minimum length and repetition; sampling is not supported.
        eos: id that ends a translation.
        pad: id that starts a translation.

    Returns:
        At most `config.beam` hypotheses, best first, and at least one.

    Raises:
        ValueError: if logits are NaN or infinite, or the constraints leave no translation.
    """
    check_request(request, constraints, limit=limit, eos=eos, pad=pad)
    beams = [_Beam((), (), 0.0, 0)]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        interruption_point()
        log_probs = steps.step([beam.ids[-1] if beam.ids else pad for beam in beams])
        for beam, row in zip(beams, log_probs, strict=True):
            _mask(row, beam.ids, request.prefix, constraints, eos=eos)
        candidates = _best(log_probs, beams, 2 * config.beam)
        finished += [
            Hypothesis.scored(ids, scores, alpha=config.alpha, eos=eos)
            for ids, scores, *_ in candidates[: config.beam]
            if ids[-1] == eos or length == limit
        ]
        beams = [beam for beam in candidates if beam.ids[-1] != eos][: config.beam]
        if not beams or len(finished) >= config.beam:
            break
        steps.reorder([beam.parent for beam in beams])
    constrained = bool(request.prefix or constraints.no_repeat or constraints.min_length)
    return rank(finished, beam=config.beam, constrained=constrained)


def _mask(
    row: Float[np.ndarray, " vocab"],
    ids: tuple[int, ...],
    prefix: tuple[int, ...],
    constraints: DecodingConstraints,
    *,
    eos: int,
) -> None:
    """Set the log-probabilities of forbidden next pieces to -inf, as `search.constraints` does."""
    if len(ids) < len(prefix):
        forced, log_prob = prefix[len(ids)], row[prefix[len(ids)]]
        row[:] = -np.inf
        row[forced] = log_prob
        return
    if len(ids) < constraints.min_length:
        row[eos] = -np.inf
    if size := constraints.no_repeat:
        tail = ids[len(ids) - size + 1 :]
        ends = range(size - 1, len(ids))
        row[[ids[end] for end in ends if ids[end - size + 1 : end] == tail]] = -np.inf


def _best(
    log_probs: Float[np.ndarray, "rows vocab"], beams: Sequence[_Beam], count: int
) -> list[_Beam]:
    """Return the best continuations of all beams, best first; equals by beam, then by id."""
    totals = (log_probs + np.array([[beam.total] for beam in beams], np.float32)).ravel()
    count = min(count, totals.size)
    threshold = np.partition(totals, -count)[-count]
    positions = np.flatnonzero((totals >= threshold) & np.isfinite(totals))
    order = positions[np.argsort(-totals[positions], kind="stable")][:count]
    best: list[_Beam] = []
    for position in order.tolist():
        row, id = divmod(position, log_probs.shape[1])
        ids, scores = (*beams[row].ids, id), (*beams[row].log_probs, float(log_probs[row, id]))
        best.append(_Beam(ids, scores, float(totals[position]), row))
    return best
