"""Beam search for one sentence without rules: what `beam_search` does, with lists for bookkeeping.

One sentence's candidates are a handful of numbers: Python moves them in less time than the many
small operations that a batch is worth. The sums are still taken in single precision, by torch, so
that candidates stand in the same order here and there.
"""

import math
from typing import NamedTuple

import torch

from transduce.search.candidates import topk_single
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis, Steps


class _Beam(NamedTuple):
    """What one beam has said so far. A dead one's total is -inf."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    total: float


def beam_search_single(
    steps: Steps,
    *,
    limit: int,
    config: SearchConfig,
    eos: int,
    pad: int,
    device: torch.device | str,
) -> list[Hypothesis]:
    """Search the likeliest translations of one sentence. See `beam_search`.

    Returns:
        What has finished, in the order in which it did.
    """
    found: list[Hypothesis] = []
    beams = [_Beam((), (), 0.0)] + [_Beam((), (), -math.inf)] * (config.beam - 1)
    last, stay = torch.full((config.beam,), pad, device=device), list(range(config.beam))
    for length in range(1, limit + 1):
        totals = torch.tensor([[beam.total] for beam in beams], device=device)
        drawn = topk_single(steps.step(last), totals, pad=pad)
        for beam, one, log_prob, total in drawn[: config.beam]:
            if (one == eos or length == limit) and math.isfinite(total):
                ids, log_probs = (*beams[beam].ids, one), (*beams[beam].log_probs, log_prob)
                found.append(
                    Hypothesis.scored(ids, log_probs, alpha=config.alpha, finished=one == eos)
                )
        going = [candidate for candidate in drawn if candidate.id != eos][: config.beam]
        if len(found) >= config.beam or length == limit or not math.isfinite(going[0].total):
            break
        parents = [candidate.beam for candidate in going]
        if parents != stay:
            steps.reorder(torch.tensor(parents, device=device))
        beams = [
            _Beam((*beams[beam].ids, one), (*beams[beam].log_probs, log_prob), total)
            for beam, one, log_prob, total in going
        ]
        last = torch.tensor([candidate.id for candidate in going], device=device)
    return found
