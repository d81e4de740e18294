"""The paper's Adam, and Muon as a named departure that needs fewer tokens.

Muon (Jordan et al. 2024) replaces the momentum of a matrix by the nearest matrix with equal
singular values, so that an update moves all directions alike. Embeddings, biases and gains
are left to Adam.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.precision import choose_precision

QUINTICS = (
    (8.09337, -23.62043, 17.44615),
    (3.63659, -2.72193, 0.53655),
    (2.66130, -1.97716, 0.45262),
)
"""Coefficients of x, x³ and x⁵, one polynomial a step. Each is the one that comes nearest to 1 on
all that the steps before it leave of [0.01, 1] (as Amsel et al. 2025 compose them); the last leaves
[0.73, 1.27]."""

BOUND_MARGIN = 1.025
"""Left between the bound and 1 for what rounding to bfloat16 adds to a singular value that is all
there is: beyond 1 the polynomials rise without end, and a few parts in a thousand become hundreds
of per cent."""


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised: matrices of one shape go through the iteration as one batch.

    The step of an a x b matrix is scaled by 0.2 √max(a, b), which gives it the root mean square
    that Adam's has (Liu et al. 2025), so that rates and weight decay of the two can be compared.
    Momenta have the precision of the weights; the iteration, which is begun anew in every update,
    may have less (`iterate_in`).
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
        """Make one update of every matrix that has a gradient."""
        assert closure is None, "no update here evaluates the loss again"
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for matrix in cast(list[nn.Parameter], group["params"]):
                if matrix.grad is not None:
                    shapes.setdefault(matrix.shape, []).append(matrix)
            rate, shrink = group["lr"], 1.0 - group["lr"] * group["weight_decay"]
            for shape, matrices in shapes.items():
                momenta = self._momenta(matrices, group["momentum"])
                moves = orthogonalise(momenta.to(self._iterate_in or momenta.dtype))
                reach = rate * 0.2 * max(shape) ** 0.5
                for matrix, move in zip(matrices, moves.to(momenta.dtype), strict=True):
                    matrix.mul_(shrink).sub_(move, alpha=reach)

    def _momenta(
        self, matrices: Sequence[nn.Parameter], momentum: float
    ) -> Float[Tensor, "matrices rows columns"]:
        """Move every matrix's running mean of gradients; return it with Nesterov's look ahead."""
        looks: list[Tensor] = []
        for matrix in matrices:
            state, grad = self.state[matrix], cast(Tensor, matrix.grad)
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(matrix)
            mean = cast(Tensor, state["momentum"]).lerp_(grad, 1.0 - momentum)
            looks.append(grad.lerp(mean, momentum))
        return torch.stack(looks)


def orthogonalise(
    momenta: Float[Tensor, "matrices rows columns"],
) -> Float[Tensor, "matrices rows columns"]:
    """Bring the singular values of each matrix near one: all from 1 % of the bound on the largest.

    Three matrix polynomials do what took Jordan et al. (2024) five: each has its own coefficients,
    and the bound, (Σσ⁴)^¼, is the closer the more singular values there are.
    """
    if momenta.size(1) > momenta.size(2):
        return orthogonalise(momenta.mT).mT
    x = momenta / (momenta.norm(dim=(1, 2), keepdim=True) + 1e-7)
    square = x @ x.mT
    bound = BOUND_MARGIN * square.norm(dim=(1, 2), keepdim=True).sqrt() + 1e-7
    x, square = x / bound, square / bound**2
    for number, (a, b, c) in enumerate(QUINTICS):
        if number:
            square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x


def make_optimizers(model: nn.Module, config: TrainConfig) -> list[torch.optim.Optimizer]:
    """Build the recipe's optimizers: Adam, or Muon for the layers' matrices and Adam for the rest.

    The first is Adam; a second, when there is one, is Muon. Rates are set before each update.
    """
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    matrices = [cast(nn.Parameter, module.weight) for module in linear]
    if config.optimizer == "adam":
        matrices = []
    taken = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in taken]
    decayed = [parameter for parameter in others if parameter.dim() > 1]
    plain = [parameter for parameter in others if parameter.dim() <= 1]
    adam = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": config.weight_decay},
            {"params": plain, "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        fused=True,
    )
    if not matrices:
        return [adam]
    short = choose_precision(config, matrices[0].device).name == "bfloat16"
    muon = Muon(
        matrices,
        rate=0.0,
        momentum=0.95,
        weight_decay=config.weight_decay,
        iterate_in=torch.bfloat16 if short else None,
    )
    return [adam, muon]


class WeightEMA:
    """The mean of a model's weights: each update moves it by 1 - `decay` of the way to them.

    Early on it moves faster, (1 + n) / (10 + n) being the largest decay after n updates, so that
    the initial weights are soon forgotten.
    """

    def __init__(self, model: Transformer, *, decay: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        """A model of its own, always ready to be validated."""
        self._decay = decay

    @torch.no_grad()
    def update(self, model: Transformer, *, update: int) -> None:
        """Take in the weights after `update`, counted from 1."""
        share = 1.0 - min(self._decay, (1 + update) / (10 + update))
        for mean, weight in zip(self.model.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight, share)
