"""Several models that decide together: the probability of a piece is the mean of theirs."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.candidates import masked_log_softmax
from transduce.search.hypothesis import Steps


class Ensemble:
    """The steps of several models as one: search does not see that there are more.

    All have the same vocabulary, and the same sentences and rows.
    """

    def __init__(self, steps: Sequence[Steps], *, pad: int) -> None:
        assert steps, "an ensemble has at least one member"
        self._members = steps
        self._pad = pad

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Let each read the ids; return ln of the mean of their probabilities."""
        return mean_log_probs(
            [masked_log_softmax(member.step(ids), pad=self._pad) for member in self._members]
        )

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        """Let new row r go on from old row `rows[r]`, in each member."""
        for member in self._members:
            member.reorder(beam_indices)

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        """Go on with these sentences in each member."""
        for member in self._members:
            member.select(batch_indices)


def mean_log_probs(
    members: Sequence[Float[Tensor, "*rows vocab"]],
) -> Float[Tensor, "*rows vocab"]:
    """Return ln of the mean of what are logarithms of probabilities."""
    return torch.stack(list(members)).logsumexp(0) - math.log(len(members))
