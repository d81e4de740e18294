"""Why the products are scaled by 1/√d_k: section 3.2.1 and its footnote 4, measured.

Queries and keys whose components are independent, with mean 0 and variance 1, have products with
variance d_k. The larger they are, the more of its weight the softmax gives to one key, and the
smaller its gradient: the Jacobian diag(p) − p pᵀ, whose size is taken by its Frobenius norm.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.paper.figures.shown import Shown, look_of
from transduce.paper.plot import Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class Saturation:
    """The softmax over products of one width."""

    d_k: int
    scaled: bool
    variance: float
    """Of the products, as they go into the softmax; footnote 4 says d_k without the scaling."""
    gradient: float
    """The mean Frobenius norm of the softmax's Jacobian."""
    median_gradient: float
    """Its median: the mean is that of the few queries whose best two keys are level."""
    one_key: float
    """The share of queries that give one key more than 0.99 of their weight."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """Products of all widths, each with and without the scaling."""

    keys: int
    queries: int
    rows: tuple[Saturation, ...]

    def of(self, *, scaled: bool) -> list[Saturation]:
        """The rows with the scaling, or those without."""
        return [row for row in self.rows if row.scaled == scaled]


def jacobian_norm(shares: Float[Tensor, "query key"]) -> Float[Tensor, " query"]:
    """The Frobenius norm of the softmax's Jacobian diag(p) − p pᵀ, without making the matrix.

    Its square is Σ p² − 2 Σ p³ + (Σ p²)².

    >>> round(jacobian_norm(torch.tensor([[0.5, 0.5]])).item(), 6)
    0.5
    """
    squares = shares.square().sum(-1)
    return (squares - 2 * shares.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def measure_scaling(
    widths: tuple[int, ...] = WIDTHS, *, keys: int = 32, queries: int = 1024, seed: int = 1
) -> Scaling:
    """Draw queries and keys of every width, and look at the softmax of their products.

    Args:
        widths: values of d_k.
        keys: that each query chooses from; every query has its own.
        queries: drawn for each width.
        seed: what is drawn.
    """
    draws = torch.Generator().manual_seed(seed)
    rows: list[Saturation] = []
    for d_k in widths:
        products = torch.cat(
            [
                (
                    torch.randn(64, keys, d_k, generator=draws)
                    @ torch.randn(64, d_k, 1, generator=draws)
                )[..., 0]
                for _ in range(0, queries, 64)  # piece by piece, for the memory
            ]
        ).double()
        rows += [_row(products, d_k=d_k), _row(products / d_k**0.5, d_k=d_k, scaled=True)]
    return Scaling(keys=keys, queries=queries, rows=tuple(rows))


def scaling_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw variance and gradient against d_k."""
    found = measure_scaling(WIDTHS[:5], queries=256) if quick else measure_scaling(queries=4096)
    raw, scaled = found.of(scaled=False), found.of(scaled=True)
    off = max(abs(row.variance / row.d_k - 1) for row in raw)
    return Shown(
        title="Softmax with and without 1/√d_k (3.2.1, footnote 4)",
        numbers=found,
        found=(
            f"The variance of q · k is d_k to within {100 * off:.0f} % from d_k {raw[0].d_k} to "
            f"{raw[-1].d_k}. At d_k {raw[-1].d_k} a softmax over {found.keys} keys has a gradient "
            f"of {_power(raw[-1].median_gradient)} in the median and {raw[-1].gradient:.2f} in the "
            f"mean without the scaling, {scaled[-1].median_gradient:.2f} and "
            f"{scaled[-1].gradient:.2f} with it; {100 * raw[-1].one_key:.0f} % of the queries then "
            f"give more than 0.99 of their weight to one key, against "
            f"{100 * scaled[-1].one_key:.0f} %."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
    )


def _row(scores: Float[Tensor, "query key"], *, d_k: int, scaled: bool = False) -> Saturation:
    shares = scores.softmax(-1)
    sizes = jacobian_norm(shares)
    return Saturation(
        d_k=d_k,
        scaled=scaled,
        variance=scores.square().mean().item(),
        gradient=sizes.mean().item(),
        median_gradient=sizes.median().item(),
        one_key=(shares.max(-1).values > 0.99).double().mean().item(),
    )


def _power(number: float) -> str:
    """A small number as people write it.

    >>> _power(0.031), _power(0.0000312)
    ('0.03', '3 · 10^-5')
    """
    if number >= 0.01:
        return f"{number:.2f}"
    digits, _, exponent = f"{number:.0e}".partition("e")
    return f"{digits} · 10^{int(exponent)}"


def _draw(found: Scaling, figure: "Figure", ink: Ink) -> None:
    left, right = figure.subplots(1, 2)
    widths = [row.d_k for row in found.of(scaled=True)]
    for number, scaled in enumerate((False, True)):
        rows = found.of(scaled=scaled)
        look = look_of(number, ink)
        name = "q · k / √d_k" if scaled else "q · k"
        left.plot(widths, [row.variance for row in rows], label=name, **look)
        right.plot(widths, [row.gradient for row in rows], label=f"{name}: mean", **look)
        medians = [row.median_gradient for row in rows]
        right.plot(widths, medians, label=f"{name}: median", linestyle="--", **look)
    left.plot(widths, widths, color=ink.text, marker="", linewidth=0.9, linestyle=":", label="d_k")
    left.set(title="variance of what is softmaxed", xlabel="d_k")
    right.set(title="size of the softmax's gradient", xlabel="d_k")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(widths[::2], [str(width) for width in widths[::2]])
        axes.legend()
