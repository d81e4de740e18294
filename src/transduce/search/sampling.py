"""Sampling: translations drawn piece by piece from the model's distribution.

Each sample has random numbers of its own: SHAKE-256 of the seed, the sentence's ids and the
sample's number, as long as needed. So a sample depends on these alone: not on the batch around it,
its order, the device or earlier samples. One number a piece suffices: the piece is where it falls
in the cumulative distribution over ids, which rounding does not upset.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.config import SamplingConfig
from transduce.search.constraints import next_log_probs
from transduce.search.hypothesis import Hypothesis, rank
from transduce.search.interruption import interruption_point
from transduce.search.steps import SearchTask, Steps

_LEAST_NUMBERS = 64
"""Random numbers of a sample that are made at a time, at least."""


class TokenSampler:
    """Draws next pieces for a batch with its own random numbers."""

    def __init__(
        self,
        config: SamplingConfig,
        sources: Sequence[Sequence[int]],
        *,
        beam: int,
        device: torch.device | str,
    ) -> None:
        """Take the sentences; random numbers are made as pieces are drawn.

        Args:
            config: seed, temperature and cut-offs.
            sources: ids of each source sentence.
            beam: samples a sentence.
            device: device of the logits.
        """
        self._config, self._sources, self._beam, self._device = config, sources, beam, device
        self._numbers: Float[Tensor, "batch beam length"] = self._make_numbers(0)

    def sample(self, log_probs: Float[Tensor, "rows vocab"], position: int) -> Int[Tensor, " rows"]:
        """Draw the piece at `position` of each row's translation, 0 for the first.

        A row in which no piece can be drawn gets one whose log-probability is not finite.
        """
        if position >= self._numbers.size(2):
            self._numbers = self._make_numbers(max(2 * position, _LEAST_NUMBERS))
        exact = log_probs.double()
        # Subtracting the maximum keeps a low temperature from overflowing.
        probs = ((exact - exact.amax(1, keepdim=True)) / self._config.temperature).softmax(1)
        if self._config.top_k or self._config.top_p < 1.0:
            probs = probs * _nucleus(probs, self._config)
        cumulative = probs.cumsum(1)
        # Scaling the number, not the distribution: its end is below 1 after a cut-off.
        target = self._numbers[:, :, position].reshape(-1, 1) * cumulative[:, -1:]
        return torch.searchsorted(cumulative, target)[:, 0].clamp(max=log_probs.size(1) - 1)

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences of the batch."""
        self._sources = [self._sources[index] for index in batch_indices.tolist()]
        self._numbers = self._numbers[batch_indices]

    def _make_numbers(self, count: int) -> Float[Tensor, "batch beam count"]:
        """Return the first random numbers of every sample: more begin with the same."""
        numbers = np.empty((len(self._sources), self._beam, count))
        for sentence, source in enumerate(self._sources):
            for number in range(self._beam):
                numbers[sentence, number] = _uniform(self._config.seed, source, number, count=count)
        return torch.from_numpy(numbers).to(self._device)


@torch.no_grad()
def sample(steps: Steps, task: SearchTask, *, sampler: TokenSampler) -> list[list[Hypothesis]]:
    """Draw `beam` translations of each sentence, which may repeat.

    Args:
        steps: decoder state before the first target piece, `beam` rows a sentence.
        task: limits, beam and constraints.
        sampler: draws the pieces of these sentences.

    Returns:
        For each sentence its samples, ranked by score. Log-probabilities are the model's own, not
        those of the temperature and cut-offs by which the pieces were drawn.

    Raises:
        ValueError: if logits are NaN or infinite, or the constraints leave no translation.
    """
    beam, limits, device, mask = task.config.beam, task.limits, task.device, task.constraint_mask
    finished: list[list[Hypothesis]] = [[] for _ in limits]
    active = list(range(len(limits)))  # the sentence of each row of `samples`
    samples = _Samples(limits, beam, device)
    last = torch.full((len(limits) * beam,), task.pad, device=device)
    for position in range(max(limits, default=0)):
        interruption_point()
        log_probs = next_log_probs(steps.step(last), samples.ids, mask, pad=task.pad)
        last = sampler.sample(log_probs, position)
        # The score counts the model's own log-probability of what was drawn.
        finished_rows = samples.append(
            last, log_probs.gather(1, last[:, None])[:, 0], eos=task.eos
        ).tolist()
        for index, sentence in enumerate(active):
            if finished_rows[index]:
                finished[sentence] = samples.hypotheses(index, task)
        remaining = [index for index in range(len(active)) if not finished_rows[index]]
        if not remaining:
            break
        if len(remaining) < len(active):
            active = [active[index] for index in remaining]
            batch_indices = torch.tensor(remaining, device=device)
            # All have one entry a sentence.
            for part in (steps, sampler, samples, mask) if mask else (steps, sampler, samples):
                part.select(batch_indices)
            last = last.view(-1, beam)[batch_indices].flatten()
    return [rank(hypotheses, beam=beam, constrained=mask is not None) for hypotheses in finished]


class _Samples:
    """The active sentences' samples. A finished row is computed until its sentence is done."""

    def __init__(self, limits: Sequence[int], beam: int, device: torch.device | str) -> None:
        empty = torch.empty((len(limits), beam, 0), device=device)
        self.ids: Int[Tensor, "batch beam length"] = empty.long()
        self._log_probs: Float[Tensor, "batch beam length"] = empty
        self._limits = torch.tensor(limits, device=device)[:, None]
        self._lengths = torch.zeros((len(limits), beam), dtype=torch.long, device=device)
        """0 while a row is unfinished; -1 if no piece could be drawn."""

    def append(
        self, ids: Int[Tensor, " rows"], log_probs: Float[Tensor, " rows"], *, eos: int
    ) -> Bool[Tensor, " batch"]:
        """Append an id to each row; return which sentences are done."""
        last, last_log_probs = ids.view_as(self._lengths), log_probs.view_as(self._lengths)
        self.ids = torch.cat([self.ids, last[:, :, None]], dim=2)
        self._log_probs = torch.cat([self._log_probs, last_log_probs[:, :, None]], dim=2)
        length = self.ids.size(2)
        lengths = torch.zeros_like(self._lengths)
        lengths = lengths.masked_fill((last == eos) | (self._limits == length), length)
        lengths = lengths.masked_fill(~last_log_probs.isfinite(), -1)
        # A row's length is set once: what it generates after its EOS does not count.
        self._lengths = lengths.where(self._lengths == 0, self._lengths)
        return (self._lengths != 0).all(1)

    def hypotheses(self, index: int, task: SearchTask) -> list[Hypothesis]:
        """Return a sentence's samples without those that failed."""
        rows = zip(
            self._lengths[index].tolist(),
            self.ids[index].tolist(),
            self._log_probs[index].tolist(),
            strict=True,
        )
        alpha, eos = task.config.alpha, task.eos
        return [
            Hypothesis.scored(ids[:length], log_probs[:length], alpha=alpha, eos=eos)
            for length, ids, log_probs in rows
            if length > 0  # -1: no piece could be drawn
        ]

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        self.ids, self._log_probs = self.ids[batch_indices], self._log_probs[batch_indices]
        self._limits, self._lengths = self._limits[batch_indices], self._lengths[batch_indices]


def _uniform(
    seed: int, source: Sequence[int], number: int, *, count: int
) -> Float[np.ndarray, " count"]:
    """Return the random numbers of one sample: uniform in (0, 1]."""
    key = f"{seed} {number} {' '.join(map(str, source))}".encode()
    words = np.frombuffer(hashlib.shake_256(key).digest(8 * count), dtype="<u8")
    return 1.0 - (words >> np.uint64(11)) * 2.0**-53  # 53 bits are what a double holds exactly


def _nucleus(
    probs: Float[Tensor, "rows vocab"], config: SamplingConfig
) -> Bool[Tensor, "rows vocab"]:
    """Return which pieces top-k leaves, and top-p of those."""
    if config.top_k:
        best, ids = probs.topk(min(config.top_k, probs.size(1)))
    else:
        best, ids = probs.sort(dim=1, descending=True, stable=True)  # of equals the first id
    # The probability before a piece decides, so that the piece that reaches top_p is included.
    kept = best.cumsum(1) - best < config.top_p * best.sum(1, keepdim=True)
    return torch.zeros_like(probs, dtype=torch.bool).scatter(1, ids, kept)
