"""Checkpoint averaging: the mean of several models' weights (section 6.1)."""

from collections.abc import Mapping, Sequence

from torch import Tensor


def average_weights(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several state dicts (section 6.1 averages the last checkpoints).

    Sums are taken in double precision; the mean has the dtype of the first state dict.

    Raises:
        ValueError: if `states` is empty, or shapes differ.
    """
    if not states:
        raise ValueError("there are no checkpoints to average: train for at least one validation")
    first = {name: tensor.shape for name, tensor in states[0].items()}
    sums = {name: tensor.double() for name, tensor in states[0].items()}
    for number, state in enumerate(states[1:], start=2):
        if {name: tensor.shape for name, tensor in state.items()} != first:
            raise ValueError(
                f"checkpoint {number} of {len(states)} has other tensors than the first: "
                f"average checkpoints of one model only"
            )
        for name, tensor in state.items():
            sums[name] = sums[name] + tensor.double()
    return {name: (total / len(states)).to(states[0][name].dtype) for name, total in sums.items()}
