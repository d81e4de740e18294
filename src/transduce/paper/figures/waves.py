"""The sinusoids of section 3.5: as a map, as a measure of distance, and as clock hands that turn.

"We hypothesized it would allow the model to easily learn to attend by relative positions, since for
any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)": the function is
a rotation of every pair (sine, cosine), and so the product of two encodings depends on nothing but
the distance between them.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.model.positions import sinusoids
from transduce.paper.figures.shown import Shown
from transduce.paper.plot import MARKERS, Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

SHIFTS = (1, 7, 31)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waves:
    """What was measured of one table of sinusoids."""

    length: int
    d_model: int
    products: tuple[tuple[float, ...], ...]
    """Row by row PE(pos) · PE(pos + distance) / (d_model / 2), for the places below."""
    places: tuple[int, ...]
    distances: tuple[int, ...]
    spread: float
    """The most by which a product at one distance differs from place to place."""
    shift_errors: tuple[float, ...]
    """For each of SHIFTS the largest |PE(pos + k) − M_k PE(pos)| of all places and axes."""
    not_orthogonal: float
    """The largest entry of M_kᵀ M_k − I: a rotation changes no length."""


def shift(k: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """The matrix M with M PE(pos) = PE(pos + k) for every pos: one rotation a wavelength.

    Sources:
        Vaswani et al. 2017, section 3.5, says that it exists; sin and cos of a sum give it.
    """
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = k / 10_000 ** (i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[i : i + 2, i : i + 2] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    return matrix


def measure_waves(length: int = 256, *, d_model: int = 512) -> Waves:
    """Multiply encodings with each other, and shift them by `SHIFTS`."""
    table = sinusoids(length, d_model).double()
    places = tuple(length * eighths // 8 for eighths in (2, 4, 6))
    reach = length // 4
    distances = tuple(range(-reach, reach))
    products = [
        [(table[place] @ table[place + far]).item() / (d_model / 2) for far in distances]
        for place in places
    ]
    matrices = [shift(k, d_model) for k in SHIFTS]
    unit = torch.eye(d_model, dtype=torch.float64)
    return Waves(
        length=length,
        d_model=d_model,
        products=tuple(map(tuple, products)),
        places=places,
        distances=distances,
        spread=max(max(column) - min(column) for column in zip(*products, strict=True)),
        shift_errors=tuple(
            (table[:-k] @ matrix.T - table[k:]).abs().max().item()
            for k, matrix in zip(SHIFTS, matrices, strict=True)
        ),
        not_orthogonal=max((m.T @ m - unit).abs().max().item() for m in matrices),
    )


def waves_figure(*, quick: bool = False) -> Shown:
    """Measure the base model's sinusoids, and draw them."""
    found = measure_waves(64, d_model=64) if quick else measure_waves()
    shifts = ", ".join(map(str, SHIFTS))
    return Shown(
        title="The sinusoids, their products, their shifts (3.5)",
        numbers=found,
        found=(
            f"PE(pos + k) is M_k PE(pos) with an M_k of rotations, the same at every place: of "
            f"{found.length} places and k {shifts} the largest error is "
            f"{max(found.shift_errors):.0e}, single precision's own. The product of two encodings "
            f"depends on their distance alone (to {found.spread:.0e} of its largest)."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
        height=5.6,
    )


def _draw(found: Waves, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplot_mosaic([["sine", "cosine"], ["near", "near"]], height_ratios=[1.25, 1])
    # The fast waves are where there is something to see: the slow ones hardly move.
    table = sinusoids(found.length, found.d_model)[: found.length // 2, : found.d_model // 2]
    pictures: list[AxesImage] = []
    for odd, name in enumerate(("sine", "cosine")):
        picture = axes[name].imshow(
            table[:, odd::2].numpy(),
            aspect="auto",
            cmap=ink.around_zero,
            vmin=-1,
            vmax=1,
            interpolation="nearest",
        )
        pictures.append(picture)
        axes[name].grid(visible=False)
        axes[name].set(title=f"PE(pos, 2i{' + 1' * odd}), a {name}", xlabel="i")
    axes["sine"].set(ylabel="pos")
    figure.colorbar(pictures[-1], ax=axes["cosine"], pad=0.02)
    below = axes["near"]
    for number, (place, line) in enumerate(zip(found.places, found.products, strict=True)):
        below.plot(
            found.distances,
            line,
            color=ink.lines[number],
            marker=MARKERS[number],
            markevery=(number * 3, 12),
            label=f"pos {place}",
        )
    below.set(
        title="PE(pos) · PE(pos + k), as a share of the largest: three places, one curve",
        xlabel="k",
    )
    below.legend()
