"""Greedy search: what `beam_search` does with a beam of 1 and no rules, without the beams.

One candidate a sentence is looked at, the likeliest, so nothing is sorted or reordered. Every step
waits for its ids, by which sentences end; what they are worth is read at the end, all at once.
"""

import math
from collections.abc import Sequence

import torch

from transduce.search.candidates import likeliest_one
from transduce.search.hypothesis import Hypothesis, Steps


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
    present = list(range(len(limits)))
    log_probs: list[torch.Tensor] = []
    speakers: list[int] = []
    last = torch.full((len(limits),), pad, device=device)
    for length in range(1, max(limits, default=0) + 1):
        ids, best = likeliest_one(steps.step(last), pad=pad)
        log_probs.append(best)
        speakers += present
        now = ids.tolist()
        for sentence, one in zip(present, now, strict=True):
            said[sentence].append(one)
        kept = [
            place
            for place, sentence in enumerate(present)
            if now[place] != eos and limits[sentence] > length
        ]
        if not kept:
            break
        last = ids
        if len(kept) < len(present):
            present = [present[place] for place in kept]
            places = torch.tensor(kept, device=device)
            steps.drop(places)
            last = ids[places]
    worth: list[list[float]] = [[] for _ in limits]
    for sentence, log_prob in zip(speakers, torch.cat(log_probs).tolist(), strict=True):
        worth[sentence].append(log_prob)
    return [
        [Hypothesis.scored(ids, each, alpha=alpha, finished=ids[-1] == eos)]
        if all(map(math.isfinite, each))
        else []
        for ids, each in zip(said, worth, strict=True)
    ]
