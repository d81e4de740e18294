"""The paper's Adam; Muon, a named departure; the EMA of the weights; learning-rate schedules.

Muon (Jordan et al. 2024) replaces the momentum of a matrix by the nearest matrix with equal
singular values, so that an update moves all directions alike, and needs fewer tokens. Embeddings,
biases and gains are left to Adam.

Of the schedules one is the paper's (section 5.3); four are given a peak.
"""

import copy
import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.precision import choose_precision

Matrices = Float[Tensor, "matrices rows columns"]

QUINTICS = (
    (8.09337, -23.62043, 17.44615),
    (3.63659, -2.72193, 0.53655),
    (2.66130, -1.97716, 0.45262),
)
"""Coefficients of x, x³ and x⁵, one polynomial a step. Each is the one nearest to 1 on what the
steps before it map [0.01, 1] to (composed as by Amsel et al. 2025); the last maps to
[0.73, 1.27]."""

BOUND_MARGIN = 1.025
"""Margin between the bound and 1 for what rounding to bfloat16 adds to the singular value of a
rank-one matrix: beyond 1 the polynomials diverge, and a few parts in a thousand become hundreds of
per cent."""


class Muon(torch.optim.Optimizer):
    """Orthogonalised momentum; matrices of one shape are iterated as one batch.

    The step of an a x b matrix is scaled by 0.2 √max(a, b), which gives it the root mean square of
    Adam's (Liu et al. 2025), so that learning rate and weight decay of the two are comparable.
    Momenta have the precision of the weights; the iteration, which keeps no state, may have less
    (`iterate_in`).
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        *,
        rate: float,
        momentum: float,
        weight_decay: float,
        iterate_in: torch.dtype | None = None,
    ) -> None:
        super().__init__(params, {"lr": rate, "momentum": momentum, "weight_decay": weight_decay})
        self._iterate_in = iterate_in

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Update every matrix that has a gradient."""
        assert closure is None, "the loss is not evaluated again"
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = {}
            for matrix in cast(list[Tensor], group["params"]):
                if matrix.grad is not None:
                    shapes.setdefault(matrix.shape, []).append(matrix)
            rate, shrink = group["lr"], 1.0 - group["lr"] * group["weight_decay"]
            for shape, matrices in shapes.items():
                momenta = self._momenta(matrices, group["momentum"])
                moves = orthogonalise(momenta.to(self._iterate_in or momenta.dtype))
                # An orthogonal a x b matrix has the root mean square max(a, b)^-½.
                scale = rate * 0.2 * max(shape) ** 0.5
                # All matrices by one call each: their operations are small.
                if shrink != 1.0:
                    torch._foreach_mul_(matrices, shrink)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
                steps = moves.to(momenta.dtype).unbind()
                torch._foreach_sub_(matrices, steps, alpha=scale)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    def _momenta(self, matrices: Sequence[Tensor], momentum: float) -> Matrices:
        """Update every matrix's momentum; return it with Nesterov's look-ahead."""
        means: list[Tensor] = []
        for matrix in matrices:
            state = self.state[matrix]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            means.append(state["momentum"])
        grads = [cast(Tensor, matrix.grad) for matrix in matrices]
        torch._foreach_lerp_(means, grads, 1.0 - momentum)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return torch.stack(torch._foreach_lerp(grads, means, momentum))  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]


def orthogonalise(momenta: Matrices) -> Matrices:
    """Bring singular values near 1, if they are at least 1 % of the bound on the largest.

    Three matrix polynomials do what took Jordan et al. (2024) five: each has its own coefficients,
    and the bound on the largest singular value, (Σσ⁴)^¼, is tighter than the Frobenius norm.
    """
    if momenta.size(1) > momenta.size(2):  # x xᵀ is smaller than xᵀ x for wide matrices
        return orthogonalise(momenta.mT).mT
    # First to a norm of 1, or the squares of small gradients could underflow.
    x = momenta / (momenta.norm(dim=(1, 2), keepdim=True) + 1e-7)
    square = x @ x.mT  # its Frobenius norm is √Σσ⁴
    bound = BOUND_MARGIN * square.norm(dim=(1, 2), keepdim=True).sqrt() + 1e-7
    x, square = x / bound, square / bound**2
    for number, (a, b, c) in enumerate(QUINTICS):
        if number:  # the first is already there, from the bound
            square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x


def make_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Make the recipe's optimizers: Adam, and Muon for the layers' matrices if it asks for that.

    Learning rates are set before each update.
    """
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    matrices = [cast(nn.Parameter, module.weight) for module in linear]
    if config.optimizer == "adam":
        matrices = []
    in_muon = {id(matrix) for matrix in matrices}  # tensors compare by value
    others = [parameter for parameter in model.parameters() if id(parameter) not in in_muon]
    # Vectors are biases and gains: decay would pull the gains of normalisations to 0.
    decayed = [parameter for parameter in others if parameter.dim() > 1]
    undecayed = [parameter for parameter in others if parameter.dim() <= 1]
    adam = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": config.weight_decay},
            {"params": undecayed, "weight_decay": 0.0},
        ],
        lr=0.0,  # set before each update
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,  # one pass over memory for all of Adam's operations
    )
    if not matrices:
        return [adam]
    low_precision = choose_precision(config, matrices[0].device).name == "bfloat16"
    muon = Muon(
        matrices,
        rate=0.0,
        momentum=0.95,
        weight_decay=config.weight_decay,
        iterate_in=torch.bfloat16 if low_precision else None,
    )
    return [adam, muon]


class WeightEMA:
    """Exponential moving average (EMA) of a model's weights.

    Weights late in training circle around a good point, and their average lies nearer to it. It is
    what is validated and kept as the best; gradients are those of the weights themselves. The decay
    after n updates is at most (1 + n) / (10 + n), so that the initial weights are soon forgotten.
    """

    def __init__(self, model: Transformer, *, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        """A model with the averaged weights, in evaluation mode."""
        self._decay = decay

    @torch.no_grad()
    def update(self, model: Transformer, *, update: int) -> None:
        """Average in the weights after `update`, counted from 1."""
        share = 1.0 - min(self._decay, (1 + update) / (10 + update))
        # Parameters only: the one buffer, the table of sinusoids, never learns.
        for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, share)


def paper_rate(
    update: int | float, *, d_model: int, warmup: int = 4000, scale: float = 1.0
) -> float:
    """Return Adam's learning rate: linear for `warmup` updates, then falling as update^-0.5.

    Args:
        update: the update about to be made, counted from 1. Micro-batches are not updates.
        d_model: model width; a wider model gets a lower rate.
        warmup: updates until the peak.
        scale: multiplies the whole curve; 1.0 is the paper.

    Returns:
        The rate of every parameter. Its peak, at `warmup`, is scale / sqrt(d_model * warmup).

    Raises:
        ValueError: if `update` or `warmup` is below 1.

    Source:
        Vaswani et al. 2017, section 5.3, equation (3).

    >>> f"{paper_rate(4000, d_model=512):.2e}"
    '6.99e-04'
    """
    if update < 1 or warmup < 1:
        raise ValueError(f"update and warmup count from 1, not {update} and {warmup}")
    return scale * d_model**-0.5 * min(update**-0.5, update * warmup**-1.5)


def schedule_share(update: int | float, config: TrainConfig) -> float:
    """Return an update's share of the peak, under a schedule that is given one.

    All rise linearly for `warmup` updates. Then, where `left` falls linearly from 1 and would reach
    zero one update past the last, so that the last one still learns:

    ==========  ====================================================
    "linear"    `left`, falling from the end of warmup
    "cosine"    (1 - cos(π · left)) / 2, with the same `left`
    "constant"  1
    "wsd"       `left`, falling over the last `decay_updates` only
    ==========  ====================================================

    Source:
        Loshchilov and Hutter 2017, equation (5), without restarts; Hu et al. 2024, section 4.2
        (warmup, stable, decay), whose decay is linear here.

    >>> config = TrainConfig(schedule="cosine", updates=5, warmup=2, learning_rate=0.003)
    >>> [round(schedule_share(n, config), 2) for n in range(1, 6)]
    [0.5, 1.0, 0.85, 0.5, 0.15]
    """
    warmup = min(1.0, update / config.warmup)
    if config.schedule == "constant":
        return warmup
    end = config.updates + 1
    since = config.updates - config.decay_updates if config.schedule == "wsd" else config.warmup
    left = max(0.0, min(1.0, (end - update) / (end - since)))
    if config.schedule == "cosine":
        left = (1.0 - math.cos(math.pi * left)) / 2.0
    return min(warmup, left)


def learning_rates(
    update: int | float, *, config: TrainConfig, d_model: int
) -> tuple[float, float]:
    """Return Adam's learning rate for an update, and Muon's for the matrices.

    Args:
        update: counted from 1; a time plan gives positions between updates, too.
        config: names the schedule and its peaks.
        d_model: of the model; only the paper's schedule depends on it.
    """
    if config.schedule == "paper":
        position = max(1.0, update)  # a plan's first may be rounded below 1
        adam = paper_rate(
            position, d_model=d_model, warmup=config.warmup, scale=config.learning_rate
        )
        # Muon's rate has the shape of Adam's, brought to a peak of its own.
        muon = config.muon_learning_rate * adam * (d_model * config.warmup) ** 0.5
        return adam, muon / config.learning_rate
    share = schedule_share(update, config)
    return config.learning_rate * share, config.muon_learning_rate * share
