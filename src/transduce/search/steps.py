"""What search works on: the decoder interface, several decoders as one, and a batch's task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.candidates import masked_log_softmax, mean_log_probs
from transduce.search.config import SearchConfig
from transduce.search.constraints import ConstraintMask


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchTask:
    """What a search of a batch needs besides its decoder."""

    limits: Sequence[int]
    """Maximum length of each sentence's translation in pieces, EOS included."""
    config: SearchConfig
    """Supplies beam and alpha."""
    eos: int
    """Id that ends a translation."""
    pad: int
    """Id that starts a translation; it is never generated."""
    device: torch.device | str
    """Device of the logits."""
    constraint_mask: ConstraintMask | None = None
    """Forbids next pieces; None allows all."""

    def __post_init__(self) -> None:
        assert all(limit >= 1 for limit in self.limits), "a translation holds at least its EOS"


@runtime_checkable  # the shape checks of the tests use isinstance
class Steps(Protocol):
    """Decoder state for a batch of partly translated sentences, `beam` rows each.

    Rows are sentence-major: row = sentence * beam + b. The first `step` reads PAD in every row.
    """

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Append one id to each row; return next-token logits, which search may overwrite."""
        ...

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Make new row r a copy of old row `beam_indices[r]`, a row of the same sentence."""
        ...

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Keep only these sentences of the batch (ascending indices) with all their rows."""
        ...


class Ensemble:
    """Several models as one `Steps`: averages their next-token probabilities.

    The members share one vocabulary and hold the same sentences and rows.
    """

    def __init__(self, members: Sequence[Steps], *, pad: int) -> None:
        assert members, "an ensemble has at least one member"
        self._members = members
        self._pad = pad

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Advance every member; return the log of their mean probabilities."""
        return mean_log_probs(
            [masked_log_softmax(member.step(ids), pad=self._pad) for member in self._members]
        )

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Reorder the rows of every member."""
        for member in self._members:
            member.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " remaining"]) -> None:
        """Select the sentences of every member."""
        for member in self._members:
            member.select(batch_indices)
