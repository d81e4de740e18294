"""Quicker equivalents of `beam_search` where there is little bookkeeping.

Both return the hypotheses that `beam_search` returns; tests/parity/test_quick_search.py holds them
to it. Neither supports constraints.
"""

import math
from typing import NamedTuple

import torch

from transduce.search.beam import beam_search
from transduce.search.candidates import argmax, topk_single
from transduce.search.hypothesis import Hypothesis, rank
from transduce.search.interruption import interruption_point
from transduce.search.steps import SearchTask, Steps

_MAX_FINISHED = 0.1
"""Compact the batch once this fraction of rows has finished; compaction copies the KV cache."""


@torch.no_grad()
def fast_search(steps: Steps, task: SearchTask) -> list[list[Hypothesis]]:
    """Run `beam_search` or its fastest equivalent. Args: those of `beam_search`, as are results."""
    if task.constraint_mask is None and task.config.beam == 1:
        results = greedy_search(steps, task)
    elif task.constraint_mask is None and len(task.limits) == 1:
        results = [beam_search_single(steps, task)]
    else:
        return beam_search(steps, task)
    return [rank(hypotheses, beam=task.config.beam, constrained=False) for hypotheses in results]


def greedy_search(steps: Steps, task: SearchTask) -> list[list[Hypothesis]]:
    """Take the most probable piece at every step: nothing is sorted or reordered.

    A sentence has one hypothesis; none where its logits were NaN or infinite.
    """
    limits, eos, device = task.limits, task.eos, task.device
    ids: list[list[int]] = [[] for _ in limits]
    active: list[int | None] = list(range(len(limits)))  # a row's sentence; None: finished
    log_probs: list[torch.Tensor] = []
    owners: list[int | None] = []  # the sentence of each entry of the concatenated log_probs
    last = torch.full((len(limits),), task.pad, device=device)
    for length in range(1, max(limits, default=0) + 1):
        interruption_point()
        last, best = argmax(steps.step(last), pad=task.pad)
        # Log-probabilities stay on the device until the end: the loop waits for ids only.
        log_probs.append(best)
        owners += active
        for row, (sentence, piece) in enumerate(zip(active, last.tolist(), strict=True)):
            if sentence is not None:
                ids[sentence].append(piece)
                if piece == eos or limits[sentence] == length:
                    active[row] = None
        remaining = [row for row, sentence in enumerate(active) if sentence is not None]
        if not remaining:
            break
        # A finished row is computed in vain until there are enough of them to be worth the copy.
        if len(remaining) <= (1.0 - _MAX_FINISHED) * len(active):
            active = [active[row] for row in remaining]
            rows = torch.tensor(remaining, device=device)
            steps.select(rows)
            last = last[rows]
    by_sentence: list[list[float]] = [[] for _ in limits]  # read from the device all at once
    for sentence, log_prob in zip(owners, torch.cat(log_probs).tolist(), strict=True):
        if sentence is not None:
            by_sentence[sentence].append(log_prob)
    return [
        [Hypothesis.scored(pieces, values, alpha=task.config.alpha, eos=eos)]
        if all(map(math.isfinite, values))
        else []
        for pieces, values in zip(ids, by_sentence, strict=True)
    ]


class _Beam(NamedTuple):
    """One beam of one sentence. A dead beam has a total of -inf."""

    ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    total: float


def beam_search_single(steps: Steps, task: SearchTask) -> list[Hypothesis]:
    """Search one sentence with Python lists for bookkeeping.

    Its candidates are a handful of numbers, which Python moves in less time than the many small
    tensor operations that a batch is worth. Hypotheses come in the order in which they finished.
    """
    (limit,), config, eos, device = task.limits, task.config, task.eos, task.device
    finished: list[Hypothesis] = []
    # Beams start alike: all but the first are dead, or step 1 would take copies.
    beams = [_Beam((), (), 0.0)] + [_Beam((), (), -math.inf)] * (config.beam - 1)
    last, identity = torch.full((config.beam,), task.pad, device=device), list(range(config.beam))
    for length in range(1, limit + 1):
        interruption_point()
        # torch adds in single precision, so candidates rank exactly as in `beam_search`.
        totals = torch.tensor([[beam.total] for beam in beams], device=device)
        candidates = topk_single(steps.step(last), totals, pad=task.pad)
        for beam, piece, log_prob, total in candidates[: config.beam]:
            if (piece == eos or length == limit) and math.isfinite(total):
                ids, log_probs = (*beams[beam].ids, piece), (*beams[beam].log_probs, log_prob)
                finished.append(Hypothesis.scored(ids, log_probs, alpha=config.alpha, eos=eos))
        # A beam can end in one way only, so `beam` candidates without EOS remain.
        unfinished = [candidate for candidate in candidates if candidate.id != eos][: config.beam]
        if len(finished) >= config.beam or length == limit:
            break
        if not math.isfinite(unfinished[0].total):  # no beam is alive
            break
        parents = [candidate.beam for candidate in unfinished]
        if parents != identity:  # else the KV cache is in order already
            steps.reorder(torch.tensor(parents, device=device))
        beams = [
            _Beam((*beams[beam].ids, piece), (*beams[beam].log_probs, log_prob), total)
            for beam, piece, log_prob, total in unfinished
        ]
        last = torch.tensor([candidate.id for candidate in unfinished], device=device)
    return finished
