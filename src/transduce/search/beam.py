"""Beam search for a batch of sentences (section 6.1), under one stopping rule for all engines.

Each step scores all continuations of a sentence's beams and takes the best 2 x beam candidates:
every beam can end at once, and `beam` candidates are still left to continue. A candidate that ends
in EOS is a finished hypothesis if it is among the first `beam`, else it is discarded. A sentence is
done once `beam` hypotheses have finished, or at its length limit, where each of the first `beam`
candidates becomes a hypothesis. The length penalty only ranks the hypotheses at the end; beams
compete by the sum of their log-probabilities.

`fast_paths` has quicker equivalents for greedy search and for one sentence.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.candidates import Candidates, topk_candidates
from transduce.search.constraints import next_log_probs
from transduce.search.hypothesis import Hypothesis, rank
from transduce.search.interruption import interruption_point
from transduce.search.steps import SearchTask, Steps


class _Beams(NamedTuple):
    """The active sentences' beams. A dead beam has a total of -inf."""

    ids: Int[Tensor, "batch beam length"]
    log_probs: Float[Tensor, "batch beam length"]
    totals: Float[Tensor, "batch beam"]
    limits: Int[Tensor, " batch"]


@torch.no_grad()
def beam_search(steps: Steps, task: SearchTask) -> list[list[Hypothesis]]:
    """Find the most probable translations of each sentence. A beam of 1 is greedy search.

    Args:
        steps: decoder state before the first target piece, `beam` rows a sentence.
        task: limits, beam and constraints.

    Returns:
        For each sentence at most `beam` hypotheses, best first, and at least one.

    Raises:
        ValueError: if logits are NaN or infinite, or the constraints leave no translation.
    """
    beam, limits, device, mask = task.config.beam, task.limits, task.device, task.constraint_mask
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    active = list(range(len(limits)))  # the sentence of each row of `beams`
    beams = _initial_beams(limits, beam, device)
    last = torch.full((len(limits) * beam,), task.pad, device=device)
    for length in range(1, max(limits, default=0) + 1):
        interruption_point()
        # Score every continuation of every beam: log-probability of the piece, given the beam.
        log_probs = next_log_probs(steps.step(last), beams.ids, mask, pad=task.pad)
        # Top 2k: even if `beam` of them end in EOS, as many are left to continue.
        candidates = topk_candidates(log_probs, beams.totals)
        unfinished = _select_unfinished(candidates, task.eos, beam)
        # Finish: EOS or the length limit makes hypotheses of the first `beam` candidates only.
        ended = (candidates.ids == task.eos) | (beams.limits == length)[:, None]
        flags = _finished_mask(candidates, unfinished, ended=ended)
        for index, hypothesis in _collect_finished(beams, candidates, flags, task):
            finished[active[index]].append(hypothesis)
        # Prune sentences that are done, so that later steps compute fewer rows.
        remaining = [
            index
            for index, sentence in enumerate(active)
            if flags[index][-1] and len(finished[sentence]) < beam and limits[sentence] > length
        ]
        if not remaining:
            break
        if len(remaining) < len(active):
            active = [active[index] for index in remaining]
            batch_indices = torch.tensor(remaining, device=device)
            for state in (steps, mask) if mask else (steps,):
                state.select(batch_indices)
            beams = _Beams(*(part[batch_indices] for part in beams))
            unfinished = Candidates(*(part[batch_indices] for part in unfinished))
        # Reorder: each surviving candidate continues from the cache of the beam it extends.
        if beam > 1:
            first_rows = torch.arange(len(active), device=device)[:, None] * beam
            steps.reorder((first_rows + unfinished.beams).flatten())
        beams = _extend(beams, unfinished)
        last = unfinished.ids.flatten()
    return [rank(results, beam=beam, constrained=mask is not None) for results in finished]


def _initial_beams(limits: Sequence[int], beam: int, device: torch.device | str) -> _Beams:
    """All beams start alike: all but the first are dead, or step 1 would take copies."""
    totals = torch.full((len(limits), beam), -math.inf, device=device)
    totals[:, 0] = 0.0
    empty = torch.empty((len(limits), beam, 0), device=device)
    return _Beams(empty.long(), empty, totals, torch.tensor(limits, device=device))


def _select_unfinished(candidates: Candidates, eos: int, beam: int) -> Candidates:
    """Return the first `beam` candidates without EOS; a beam can end in one way only."""
    # A stable sort by "is EOS" keeps the order of the rest.
    order = (candidates.ids == eos).byte().argsort(dim=1, stable=True)[:, :beam]
    return Candidates(*(part.gather(1, order) for part in candidates))


def _finished_mask(
    candidates: Candidates, unfinished: Candidates, *, ended: Bool[Tensor, "batch candidates"]
) -> list[list[bool]]:
    """For each sentence: which of the first `beam` candidates ended; last, if a beam is alive."""
    beam = unfinished.ids.size(1)
    ended = (ended & candidates.totals.isfinite())[:, :beam]
    # One tensor for both: reading it is the only device-to-host sync of a step.
    return torch.cat([ended, unfinished.totals[:, :1].isfinite()], dim=1).tolist()


def _extend(beams: _Beams, candidates: Candidates) -> _Beams:
    """Append each candidate's id to the ids of the beam it extends."""
    parents = candidates.beams[:, :, None].expand(-1, -1, beams.ids.size(2))
    ids, log_probs = beams.ids.gather(1, parents), beams.log_probs.gather(1, parents)
    return _Beams(
        ids=torch.cat([ids, candidates.ids[:, :, None]], dim=2),
        log_probs=torch.cat([log_probs, candidates.log_probs[:, :, None]], dim=2),
        totals=candidates.totals,
        limits=beams.limits,
    )


def _collect_finished(
    beams: _Beams, candidates: Candidates, flags: list[list[bool]], task: SearchTask
) -> Iterator[tuple[int, Hypothesis]]:
    """Yield the batch index and hypothesis of every candidate that ended in this step."""
    indices = [index for index, row in enumerate(flags) if any(row[:-1])]
    if not indices:
        return
    # Copy only the sentences concerned to the host: most steps finish few.
    selected = torch.tensor(indices, device=candidates.ids.device)
    extended = _extend(
        _Beams(*(part[selected] for part in beams)),
        Candidates(*(part[selected, : beams.totals.size(1)] for part in candidates)),
    )
    all_ids, all_log_probs = extended.ids.tolist(), extended.log_probs.tolist()
    for row, index in enumerate(indices):
        for position, ended in enumerate(flags[index][:-1]):
            if ended:
                ids, log_probs = all_ids[row][position], all_log_probs[row][position]
                alpha, eos = task.config.alpha, task.eos
                yield index, Hypothesis.scored(ids, log_probs, alpha=alpha, eos=eos)
