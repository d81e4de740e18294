"""A running mean of the weights (an exponential moving average, EMA), kept beside the model.

Weights late in training circle around a good place, and their mean lies nearer to it. Validation
and the best model are of the mean; gradients are of the weights themselves.
"""

import copy

import torch

from transduce.model.transformer import Transformer


class RunningMean:
    """The mean of a model's weights: each update moves it by 1 - `decay` of the way to them.

    Early on it moves faster, (1 + n) / (10 + n) being the largest decay after n updates, so that
    the initial weights are soon forgotten.
    """

    def __init__(self, model: Transformer, *, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        """A model of its own, always ready to be validated."""
        self._decay = decay

    @torch.no_grad()
    def follow(self, model: Transformer, *, update: int) -> None:
        """Take in the weights after `update`, counted from 1."""
        share = 1.0 - min(self._decay, (1 + update) / (10 + update))
        for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, share)
