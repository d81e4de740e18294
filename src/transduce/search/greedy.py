"""Greedy search: what `beam_search` does with a beam of 1 and no rules, without the beams.

One candidate a sentence is looked at, the likeliest, so nothing is sorted or reordered. Every step
waits for its ids, by which sentences end; what they are worth is read at the end, all at once. Rows
whose sentences have ended are dropped some at a time.
"""

import math
from collections.abc import Sequence

import torch

from transduce.search.candidates import argmax
from transduce.search.hypothesis import Hypothesis, Steps

_IDLE = 0.1
"""Share of rows that may go on for nobody before they are dropped, which moves all the others."""


def greedy_search(
    steps: Steps,
    *,
    limits: Sequence[int],
    alpha: float,
    eos: int,
    pad: int,
    device: torch.device | str,
) -> list[list[Hypothesis]]:
    """Say the likeliest piece, again and again, until it is EOS or the limit is reached.

    Args:
        steps: the sentences before their first piece, one row each.
        limits: the most pieces of each sentence's translation, EOS among them.
        alpha: the length penalty's exponent.
        eos: the id that ends a translation.
        pad: the id that starts one; it is never generated.
        device: where the logits are.

    Returns:
        For each sentence one hypothesis; none where its logits were not numbers.
    """
    said: list[list[int]] = [[] for _ in limits]
    present: list[int | None] = list(range(len(limits)))  # whom each row speaks for
    log_probs: list[torch.Tensor] = []
    speakers: list[int | None] = []
    last = torch.full((len(limits),), pad, device=device)
    for length in range(1, max(limits, default=0) + 1):
        last, best = argmax(steps.step(last), pad=pad)
        log_probs.append(best)
        speakers += present
        for row, (sentence, one) in enumerate(zip(present, last.tolist(), strict=True)):
            if sentence is not None:
                said[sentence].append(one)
                if one == eos or limits[sentence] == length:
                    present[row] = None
        kept = [row for row, sentence in enumerate(present) if sentence is not None]
        if not kept:
            break
        if len(kept) <= (1.0 - _IDLE) * len(present):
            present = [present[row] for row in kept]
            rows = torch.tensor(kept, device=device)
            steps.select(rows)
            last = last[rows]
    worth: list[list[float]] = [[] for _ in limits]
    for sentence, log_prob in zip(speakers, torch.cat(log_probs).tolist(), strict=True):
        if sentence is not None:
            worth[sentence].append(log_prob)
    return [
        [Hypothesis.scored(ids, each, alpha=alpha, finished=ids[-1] == eos)]
        if all(map(math.isfinite, each))
        else []
        for ids, each in zip(said, worth, strict=True)
    ]
