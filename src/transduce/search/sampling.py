"""Sampling: translations drawn piece by piece from what the model finds probable.

Each draw of a sentence has random numbers of its own: a hash of the seed, the sentence's ids and
which draw it is, drawn out as long as need be (SHAKE-256). So a draw depends on these alone: not on
the batch around it, its order, the device or what was drawn before. One number a piece is enough:
it says how far to go along the cumulated probabilities of the pieces, in the order of their ids,
which rounding does not upset.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transduce.search.beam import ranked
from transduce.search.candidates import masked_log_softmax
from transduce.search.config import SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.hypothesis import Hypothesis, Steps
from transduce.search.request import SamplingConfig


class TokenSampler:
    """The random numbers of a batch, and how a piece is drawn with them."""

    def __init__(
        self,
        draw: SamplingConfig,
        sources: Sequence[Sequence[int]],
        *,
        limits: Sequence[int],
        beam: int,
        device: torch.device | str,
    ) -> None:
        """Make the numbers of `beam` draws of each source, one for each piece up to its limit."""
        self._draw = draw
        numbers = np.ones((len(sources), beam, max(limits, default=0)))
        for sentence, (source, limit) in enumerate(zip(sources, limits, strict=True)):
            for one in range(beam):
                numbers[sentence, one, :limit] = _stream(draw.seed, source, one, count=limit)
        self._numbers: Float[Tensor, "batch beam length"] = torch.from_numpy(numbers).to(device)

    def sample(self, log_probs: Float[Tensor, "rows vocab"], place: int) -> Int[Tensor, " rows"]:
        """Draw the piece at `place` of each row's translation, 0 for the first.

        A row in which no piece can be drawn gets some piece whose ln p says so.
        """
        exact = log_probs.double()
        chances = ((exact - exact.amax(1, keepdim=True)) / self._draw.temperature).softmax(1)
        if self._draw.top_k or self._draw.top_p < 1.0:
            chances = chances * _allowed(chances, self._draw)
        reached = chances.cumsum(1)
        goal = self._numbers[:, :, place].reshape(-1, 1) * reached[:, -1:]
        return torch.searchsorted(reached, goal)[:, 0].clamp(max=log_probs.size(1) - 1)

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences; forget the rest."""
        self._numbers = self._numbers[batch_indices]


@torch.no_grad()
def sample(
    steps: Steps,
    *,
    sampler: TokenSampler,
    limits: Sequence[int],
    config: SearchConfig,
    eos: int,
    pad: int,
    device: torch.device | str,
    constraint_mask: ConstraintMask | None = None,
) -> list[list[Hypothesis]]:
    """Draw `config.beam` translations of each sentence. The same one may be drawn more than once.

    Args:
        steps: the sentences before their first piece, `config.beam` rows each.
        chance: the random numbers of these sentences.
        limits: the most pieces of each sentence's translation, EOS among them.
        config: beam and alpha are read here.
        eos: the id that ends a translation.
        pad: the id that starts one; it is never generated.
        device: where the logits are.
        constraint_mask: forbids next tokens; None allows all. Phrases cannot be sampled.

    Returns:
        For each sentence what was drawn, ranked by score, with the model's own ln p: not those of
        the temperature and the cut-offs by which it was drawn.

    Raises:
        ValueError: if the logits are not numbers, or a sentence can say nothing by the rules.
    """
    assert constraint_mask is None or constraint_mask.phrases is None, (
        "phrases are searched, not drawn"
    )
    found: list[list[Hypothesis]] = [[] for _ in limits]
    present = list(range(len(limits)))
    said = _Said(limits, config.beam, device)
    last = torch.full((len(limits) * config.beam,), pad, device=device)
    for length in range(max(limits, default=0)):
        logits = steps.step(last)
        log_probs = (
            masked_log_softmax(logits, pad=pad)
            if constraint_mask is None
            else constraint_mask.log_probs(logits, said.ids)
        )
        last = sampler.sample(log_probs, length)
        over = said.add(last, log_probs.gather(1, last[:, None])[:, 0], eos=eos).tolist()
        for place, sentence in enumerate(present):
            if over[place]:
                found[sentence] = said.read(place, eos=eos, alpha=config.alpha)
        kept = [place for place in range(len(present)) if not over[place]]
        if not kept:
            break
        if len(kept) < len(present):
            present = [present[place] for place in kept]
            places = torch.tensor(kept, device=device)
            for one in (steps, sampler, said):
                one.select(places)
            if constraint_mask is not None:
                constraint_mask.select(places)
            last = last.view(-1, config.beam)[places].flatten()
    return [ranked(hypotheses, config.beam, free=constraint_mask is None) for hypotheses in found]


class _Said:
    """What the present sentences have said. Rows that are over go along until their sentence is."""

    def __init__(self, limits: Sequence[int], beam: int, device: torch.device | str) -> None:
        empty = torch.empty((len(limits), beam, 0), device=device)
        self.ids: Int[Tensor, "batch beam said"] = empty.long()
        self._log_probs: Float[Tensor, "batch beam said"] = empty
        self._limits = torch.tensor(limits, device=device)[:, None]
        self._lengths = torch.zeros((len(limits), beam), dtype=torch.long, device=device)
        """0 while a row goes on; -1 if it came to where nothing may be said."""

    def add(
        self, ids: Int[Tensor, " rows"], log_probs: Float[Tensor, " rows"], *, eos: int
    ) -> Bool[Tensor, " batch"]:
        """Append an id to each row; return which sentences are over."""
        last, worth = ids.view_as(self._lengths), log_probs.view_as(self._lengths)
        self.ids = torch.cat([self.ids, last[:, :, None]], dim=2)
        self._log_probs = torch.cat([self._log_probs, worth[:, :, None]], dim=2)
        length = self.ids.size(2)
        ending = torch.zeros_like(self._lengths)
        ending = ending.masked_fill((last == eos) | (self._limits == length), length)
        ending = ending.masked_fill(~worth.isfinite(), -1)
        self._lengths = ending.where(self._lengths == 0, self._lengths)
        return (self._lengths != 0).all(1)

    def read(self, place: int, *, eos: int, alpha: float) -> list[Hypothesis]:
        """Return what the rows of a sentence have said, but of those that came to nothing."""
        rows = zip(
            self._lengths[place].tolist(),
            self.ids[place].tolist(),
            self._log_probs[place].tolist(),
            strict=True,
        )
        return [
            Hypothesis.scored(
                ids[:length], worth[:length], alpha=alpha, finished=ids[length - 1] == eos
            )
            for length, ids, worth in rows
            if length > 0
        ]

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        self.ids, self._log_probs = self.ids[batch_indices], self._log_probs[batch_indices]
        self._limits, self._lengths = self._limits[batch_indices], self._lengths[batch_indices]


def _stream(
    seed: int, source: Sequence[int], one: int, *, count: int
) -> Float[np.ndarray, " count"]:
    """Return the numbers of one draw, above 0 and at most 1."""
    said = f"{seed} {one} {' '.join(map(str, source))}".encode()
    words = np.frombuffer(hashlib.shake_256(said).digest(8 * count), dtype="<u8")
    return 1.0 - (words >> np.uint64(11)) * 2.0**-53


def _allowed(
    chances: Float[Tensor, "rows vocab"], draw: SamplingConfig
) -> Bool[Tensor, "rows vocab"]:
    """Say which pieces are left by top-k, and of those by top-p."""
    if draw.top_k:
        best, ids = chances.topk(min(draw.top_k, chances.size(1)))
    else:
        best, ids = chances.sort(dim=1, descending=True, stable=True)
    left = best.cumsum(1) - best < draw.top_p * best.sum(1, keepdim=True)
    return torch.zeros_like(chances, dtype=torch.bool).scatter(1, ids, left)
