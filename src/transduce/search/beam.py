"""Beam search for a batch of sentences, by the one rule that all engines share.

Each step draws 2 x beam candidates a sentence: every beam can end at once, and as many are still
left to go on with. A candidate that ends in EOS is a finished hypothesis if it is among the first
`beam`, else it is forgotten. A sentence is over when `beam` of its hypotheses have finished or its
limit is reached, where whatever stands among the first `beam` candidates becomes a hypothesis.
The winner is chosen at the end, by the length penalty; the beams compete by bare sums.

What is wished of a translation (`search.rules`) bars candidates before they are drawn and changes
nothing else: a sum is of the model's own ln p. Where phrases must occur, candidates are drawn in
the order of their turns (`search.phrases`) in place of that of their sums.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.candidates import Candidates, masked_log_softmax, topk_candidates
from transduce.search.config import SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.greedy import greedy_search
from transduce.search.hypothesis import Hypothesis, Steps
from transduce.search.single_sentence import beam_search_single


class _Beams(NamedTuple):
    """What the beams of the present sentences have said so far. A dead beam's total is -inf."""

    ids: Int[Tensor, "batch beam said"]
    log_probs: Float[Tensor, "batch beam said"]
    totals: Float[Tensor, "batch beam"]
    limits: Int[Tensor, " batch"]


@torch.no_grad()
def beam_search(
    steps: Steps,
    *,
    limits: Sequence[int],
    config: SearchConfig,
    eos: int,
    pad: int,
    device: torch.device | str,
    constraint_mask: ConstraintMask | None = None,
) -> list[list[Hypothesis]]:
    """Search the likeliest translations of a batch of sentences. A beam of 1 is greedy search.

    Candidates of equal worth stand in the order of their beams, then of their ids.

    Args:
        steps: the sentences before their first piece, `config.beam` rows each.
        limits: the most pieces of each sentence's translation, EOS among them.
        config: beam and alpha are read here.
        eos: the id that ends a translation.
        pad: the id that starts one; it is never generated.
        device: where the logits are.
        constraint_mask: what the sentences may say; None lets them say all.

    Returns:
        For each sentence at most `config.beam` hypotheses, best first, and at least one.

    Raises:
        ValueError: if the logits are not numbers, or a sentence can say nothing by the rules.
    """
    assert all(limit >= 1 for limit in limits), "a translation holds at least its EOS"
    if constraint_mask is None and config.beam == 1:
        found = greedy_search(
            steps, limits=limits, alpha=config.alpha, eos=eos, pad=pad, device=device
        )
    elif constraint_mask is None and len(limits) == 1:
        found = [
            beam_search_single(
                steps, limit=limits[0], config=config, eos=eos, pad=pad, device=device
            )
        ]
    else:
        found = _search_together(
            steps,
            limits=limits,
            config=config,
            eos=eos,
            pad=pad,
            device=device,
            constraint_mask=constraint_mask,
        )
    return [ranked(hypotheses, config.beam, free=constraint_mask is None) for hypotheses in found]


def _search_together(
    steps: Steps,
    *,
    limits: Sequence[int],
    config: SearchConfig,
    eos: int,
    pad: int,
    device: torch.device | str,
    constraint_mask: ConstraintMask | None,
) -> list[list[Hypothesis]]:
    """The search that serves all: any number of sentences and beams, and rules."""
    found: list[list[Hypothesis]] = [[] for _ in limits]
    present = list(range(len(limits)))
    beams = _start(limits, config.beam, device)
    last = torch.full((len(limits) * config.beam,), pad, device=device)
    for length in range(1, max(limits, default=0) + 1):
        drawn = _draw(steps.step(last), beams, pad=pad, constraint_mask=constraint_mask)
        going = _going(drawn, eos, config.beam)
        flags = _flags(drawn, going, ended=(drawn.ids == eos) | (beams.limits == length)[:, None])
        for place, hypothesis in _read(beams, drawn, flags, eos=eos, alpha=config.alpha):
            found[present[place]].append(hypothesis)
        kept = [
            place
            for place, sentence in enumerate(present)
            if flags[place][-1] and len(found[sentence]) < config.beam and limits[sentence] > length
        ]
        if not kept:
            break
        if len(kept) < len(present):
            present = [present[place] for place in kept]
            places = torch.tensor(kept, device=device)
            steps.select(places)
            if constraint_mask is not None:
                constraint_mask.select(places)
            beams = _Beams(*(part[places] for part in beams))
            going = Candidates(*(part[places] for part in going))
        if config.beam > 1:
            first_rows = torch.arange(len(present), device=device)[:, None] * config.beam
            steps.reorder((first_rows + going.beams).flatten())
        if constraint_mask is not None:
            constraint_mask.keep(going)
        beams = _extend(beams, going)
        last = going.ids.flatten()
    return found


def _start(limits: Sequence[int], beam: int, device: torch.device | str) -> _Beams:
    """All beams start alike, so all but the first are dead, or the first step would draw copies."""
    totals = torch.full((len(limits), beam), -math.inf, device=device)
    totals[:, 0] = 0.0
    empty = torch.empty((len(limits), beam, 0), device=device)
    return _Beams(empty.long(), empty, totals, torch.tensor(limits, device=device))


def _draw(
    logits: Float[Tensor, "rows vocab"],
    beams: _Beams,
    *,
    pad: int,
    constraint_mask: ConstraintMask | None,
) -> Candidates:
    """Return the 2 x beam best continuations a sentence."""
    if constraint_mask is not None:
        return constraint_mask.draw(logits, beams.ids, beams.totals)
    return topk_candidates(masked_log_softmax(logits, pad=pad), beams.totals)


def _going(drawn: Candidates, eos: int, beam: int) -> Candidates:
    """Return the first `beam` candidates that go on: enough, as a beam ends in one way only."""
    order = (drawn.ids == eos).byte().argsort(dim=1, stable=True)[:, :beam]
    return Candidates(*(part.gather(1, order) for part in drawn))


def _flags(
    drawn: Candidates, going: Candidates, *, ended: Bool[Tensor, "batch drawn"]
) -> list[list[bool]]:
    """Say of each sentence which of the first candidates ended, and last whether a beam is alive.

    This is the one thing that every step has to wait for.
    """
    beam = going.ids.size(1)
    ended = (ended & drawn.totals.isfinite())[:, :beam]
    return torch.cat([ended, going.totals[:, :1].isfinite()], dim=1).tolist()


def _extend(beams: _Beams, going: Candidates) -> _Beams:
    """Append to what each candidate's beam has said the piece that the candidate adds."""
    parents = going.beams[:, :, None].expand(-1, -1, beams.ids.size(2))
    ids, log_probs = beams.ids.gather(1, parents), beams.log_probs.gather(1, parents)
    return _Beams(
        ids=torch.cat([ids, going.ids[:, :, None]], dim=2),
        log_probs=torch.cat([log_probs, going.log_probs[:, :, None]], dim=2),
        totals=going.totals,
        limits=beams.limits,
    )


def _read(
    beams: _Beams, drawn: Candidates, flags: list[list[bool]], *, eos: int, alpha: float
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield the place of a sentence and a hypothesis of it, for all that ended in this step."""
    places = [place for place, row in enumerate(flags) if any(row[:-1])]
    if not places:
        return
    chosen = torch.tensor(places, device=drawn.ids.device)
    said = _extend(
        _Beams(*(part[chosen] for part in beams)),
        Candidates(*(part[chosen, : beams.totals.size(1)] for part in drawn)),
    )
    all_ids, all_log_probs = said.ids.tolist(), said.log_probs.tolist()
    for row, place in enumerate(places):
        for rank, ended in enumerate(flags[place][:-1]):
            if ended:
                ids, log_probs = all_ids[row][rank], all_log_probs[row][rank]
                finished = ids[-1] == eos
                yield place, Hypothesis.scored(ids, log_probs, alpha=alpha, finished=finished)


def ranked(hypotheses: list[Hypothesis], beam: int, *, free: bool) -> list[Hypothesis]:
    """Return the best of what a sentence has found, best first; `free` if no rule barred any.

    Raises:
        ValueError: if nothing was found.
    """
    if not hypotheses and free:
        raise ValueError(
            "the model's logits are not numbers: its weights or precision are at fault"
        )
    if not hypotheses:
        raise ValueError(
            "a sentence has no translation that satisfies all constraints: lower no-repeat or "
            "min-length, or ask for other phrases or another prefix"
        )
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:beam]
