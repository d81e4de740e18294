"""Figures computed without training: the scaling by 1/√d_k, the masks, the sinusoids, the rate."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transduce.config import load_recipe
from transduce.data.batch import collate
from transduce.model.attention import KeyValue
from transduce.model.kernels import scaled_dot_product_attention_cpu
from transduce.model.layers import sinusoids
from transduce.paper.plot import Ink, line_style, log_axis
from transduce.train.config import TrainConfig
from transduce.train.optimizer import learning_rates

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
    """The median; few queries with two nearly equal best keys dominate the mean."""
    one_key: float
    """Share of queries with more than 0.99 of their weight on one key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """The softmax for every width, with and without scaling."""

    keys: int
    queries: int
    rows: tuple[Saturation, ...]

    def of(self, *, scaled: bool) -> list[Saturation]:
        """Return the rows with scaling, or those without."""
        return [row for row in self.rows if row.scaled == scaled]


def jacobian_norm(shares: Float[Tensor, "query key"]) -> Float[Tensor, " query"]:
    """The Frobenius norm of the softmax's Jacobian diag(p) − p pᵀ, without making the matrix.

    Its square is Σ p² − 2 Σ p³ + (Σ p²)².

    >>> round(jacobian_norm(torch.tensor([[0.5, 0.5]])).item(), 6)
    0.5
    """
    squares = shares.square().sum(-1)
    return (squares - 2 * shares.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()


def measure_scaling(widths: tuple[int, ...] = WIDTHS, *, queries: int = 4096) -> Scaling:
    """Draw so many queries of every width, with 32 keys each, and measure the softmax."""
    keys, draws = 32, torch.Generator().manual_seed(1)
    rows: list[Saturation] = []
    for d_k in widths:
        chunks = [  # in chunks, to save memory
            torch.randn(64, keys, d_k, generator=draws) @ torch.randn(64, d_k, 1, generator=draws)
            for _ in range(0, queries, 64)
        ]
        products = torch.cat(chunks)[..., 0].double()
        rows += [_row(products, d_k=d_k), _row(products / d_k**0.5, d_k=d_k, scaled=True)]
    return Scaling(keys=keys, queries=queries, rows=tuple(rows))


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


def draw_scaling(result: Scaling, figure: "Figure", ink: Ink) -> None:
    """Plot variance and gradient against d_k."""
    left, right = figure.subplots(1, 2)
    widths = [row.d_k for row in result.of(scaled=True)]
    for number, scaled in enumerate((False, True)):
        rows = result.of(scaled=scaled)
        style = line_style(number, ink)
        name = "q · k / √d_k" if scaled else "q · k"
        left.plot(widths, [row.variance for row in rows], label=name, **style)
        right.plot(widths, [row.gradient for row in rows], label=f"{name}: mean", **style)
        medians = [row.median_gradient for row in rows]
        right.plot(widths, medians, label=f"{name}: median", linestyle="--", **style)
    left.plot(widths, widths, color=ink.text, marker="", linewidth=0.9, linestyle=":", label="d_k")
    left.set(title="variance of the scores", xlabel="d_k")
    right.set(title="size of the softmax's gradient", xlabel="d_k")
    for axes in (left, right):
        log_axis(axes, widths[::2])
        axes.set_yscale("log")
        axes.legend()


VisibleMatrix = tuple[tuple[bool, ...], ...]
"""For each query position, which memory positions are visible."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Masks:
    """Visibility for the shorter sentence of a batch of two."""

    source_pieces: int
    """EOS included; the rest of the row is padding."""
    target_pieces: int
    encoder: VisibleMatrix
    decoder: VisibleMatrix
    cross: VisibleMatrix


def measure_masks() -> Masks:
    """Collate two sentences of different lengths and recover each attention's mask."""
    sources, targets = [[3, 4, 5, 6], [7, 8, 9, 10, 11, 12, 13]], [[5, 3, 4], [8, 7, 9, 10, 11]]
    batch = collate(sources, targets, pad=18, eos=0)
    source, target, mask = batch.source.size(1), batch.target_in.size(1), batch.source_mask
    assert mask is not None, "one sentence is shorter"
    return Masks(
        source_pieces=len(sources[0]) + 1,
        target_pieces=len(targets[0]) + 1,
        encoder=_visible(source, source, mask=mask),
        decoder=_visible(target, target, mask=None),
        cross=_visible(target, source, mask=mask),
    )


def _visible(
    queries: int, memory: int, *, mask: Bool[Tensor, "batch 1 1 memory"] | None
) -> VisibleMatrix:
    """Return visibility for the first sentence; without `mask`, attention is causal.

    With the rows of an identity matrix as values, equation (1) returns its own weights; a position
    is visible where the weight is above zero.
    """
    rows = 1 if mask is None else mask.size(0)
    flat = torch.zeros(rows, 1, queries, 4)
    kv = KeyValue(
        torch.zeros(rows, 1, memory, 4), torch.eye(memory).expand(rows, 1, memory, memory)
    )
    weights = scaled_dot_product_attention_cpu(flat, *kv, mask=mask, causal=mask is None)[0, 0]
    return tuple(tuple(weight > 0 for weight in row) for row in weights.tolist())


def draw_masks(result: Masks, figure: "Figure", ink: Ink) -> None:
    """Plot the mask of each kind of attention."""
    from matplotlib.colors import ListedColormap

    panels = (
        ("encoder", result.encoder, "source", "source"),
        ("decoder: causal", result.decoder, "target", "target"),
        ("decoder to encoder", result.cross, "target", "source"),
    )
    colours = ListedColormap([ink.faint, ink.lines[0]])
    for axes, (title, mask, rows, columns) in zip(figure.subplots(1, 3), panels, strict=True):
        axes.imshow(mask, cmap=colours, vmin=0, vmax=1)
        axes.grid(visible=False)
        axes.set(title=title, xlabel=f"{columns} position", ylabel=f"{rows} position")
        for axis, positions in ((axes.xaxis, range(len(mask[0]))), (axes.yaxis, range(len(mask)))):
            axis.set_ticks(positions, [str(position) for position in positions])
            axis.set_ticks([position + 0.5 for position in positions[:-1]], minor=True)
        axes.grid(which="minor", color=ink.paper, linewidth=1.5)
        axes.tick_params(which="both", length=0)
        axes.spines[:].set_visible(False)
        for row, line in enumerate(mask):
            for column, visible in enumerate(line):
                if not visible:  # readable without colour
                    axes.text(column, row, "×", ha="center", va="center", fontsize=8)


SHIFTS = (1, 7, 31)


@dataclass(frozen=True, kw_only=True, slots=True)
class SinusoidProperties:
    """Measurements of one table of sinusoids."""

    length: int
    d_model: int
    products: tuple[tuple[float, ...], ...]
    """Row by row PE(pos) · PE(pos + distance) / (d_model / 2), for the positions in `places`."""
    places: tuple[int, ...]
    distances: tuple[int, ...]
    spread: float
    """Largest difference between products at one distance and different positions."""
    shift_errors: tuple[float, ...]
    """For each of SHIFTS the largest |PE(pos + k) − M_k PE(pos)| over positions and axes."""
    not_orthogonal: float
    """The largest entry of M_kᵀ M_k − I: a rotation changes no length."""


def shift_matrix(k: int, d_model: int) -> Float[Tensor, "d_model d_model"]:
    """Return M with M PE(pos) = PE(pos + k) for every pos: one rotation per wavelength.

    Source:
        Vaswani et al. 2017, section 3.5; it follows from sin and cos of a sum.
    """
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = k / 10_000 ** (i / d_model)
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[i : i + 2, i : i + 2] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    return matrix


def measure_waves(length: int = 256, *, d_model: int = 512) -> SinusoidProperties:
    """Measure products of encodings, and their shifts by `SHIFTS`.

    The paper: "for any fixed offset k, PE(pos + k) can be represented as a linear function of
    PE(pos)". It is a rotation of every (sine, cosine) pair, so the product of two encodings depends
    only on their distance.
    """
    table = sinusoids(length, d_model).double()
    positions = tuple(length * eighths // 8 for eighths in (2, 4, 6))
    reach = length // 4
    distances = tuple(range(-reach, reach))
    products = [
        [(table[position] @ table[position + far]).item() / (d_model / 2) for far in distances]
        for position in positions
    ]
    matrices = [shift_matrix(k, d_model) for k in SHIFTS]
    unit = torch.eye(d_model, dtype=torch.float64)
    return SinusoidProperties(
        length=length,
        d_model=d_model,
        products=tuple(map(tuple, products)),
        places=positions,
        distances=distances,
        spread=max(max(column) - min(column) for column in zip(*products, strict=True)),
        shift_errors=tuple(
            (table[:-k] @ matrix.T - table[k:]).abs().max().item()
            for k, matrix in zip(SHIFTS, matrices, strict=True)
        ),
        not_orthogonal=max((m.T @ m - unit).abs().max().item() for m in matrices),
    )


def draw_waves(result: SinusoidProperties, figure: "Figure", ink: Ink) -> None:
    """Plot the sinusoids and their products."""
    axes = figure.subplot_mosaic([["sine", "cosine"], ["near", "near"]], height_ratios=[1.25, 1])
    # Only the short wavelengths: the long ones hardly change over this length.
    table = sinusoids(result.length, result.d_model)[: result.length // 2, : result.d_model // 2]
    for odd, name in enumerate(("sine", "cosine")):
        axes[name].imshow(
            table[:, odd::2].numpy(),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-1,
            vmax=1,
            interpolation="nearest",
        )
        axes[name].grid(visible=False)
        axes[name].set(title=f"PE(pos, 2i{' + 1' * odd}), a {name}", xlabel="i")
    axes["sine"].set(ylabel="pos")
    figure.colorbar(axes["cosine"].images[0], ax=axes["cosine"], pad=0.02)
    below = axes["near"]
    for number, (position, line) in enumerate(zip(result.places, result.products, strict=True)):
        every, style = (number * 3, 12), line_style(number, ink)
        below.plot(result.distances, line, markevery=every, label=f"pos {position}", **style)
    title = "PE(pos) · PE(pos + k), as a share of the largest: three positions, one curve"
    below.set(title=title, xlabel="k")
    below.legend()


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRateCurve:
    """Learning rate of one model over its updates."""

    name: str
    d_model: int
    warmup: int
    updates: tuple[int, ...]
    rates: tuple[float, ...]
    peak: float
    peak_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LearningRateCurves:
    """Learning rate curves of several models."""

    curves: tuple[LearningRateCurve, ...]


def measure_curves(*, every: int = 100) -> LearningRateCurves:
    """Compute the curves of the paper's base and big models and of two other warmups."""
    base, big = (load_recipe(name).model.d_model for name in ("base", "big"))
    warmup = TrainConfig().warmup
    models = (
        ("base", base, warmup),
        ("big", big, warmup),
        ("base, half the warmup", base, warmup // 2),
        ("base, four times", base, 4 * warmup),
    )
    updates = (1, *range(every, 40_001, every))
    curves: list[LearningRateCurve] = []
    for name, d_model, warmup in models:
        config = TrainConfig(warmup=warmup)
        rates = [learning_rates(update, config=config, d_model=d_model)[0] for update in updates]
        peak = max(rates)
        curve = LearningRateCurve(
            name=name,
            d_model=d_model,
            warmup=warmup,
            updates=updates,
            rates=tuple(rates),
            peak=peak,
            peak_at=updates[rates.index(peak)],
        )
        curves.append(curve)
    return LearningRateCurves(curves=tuple(curves))


def draw_curves(result: LearningRateCurves, figure: "Figure", ink: Ink) -> None:
    """Plot learning rate against update."""
    axes = figure.subplots()
    dashes = ("-", "-", "--", ":")
    for number, curve in enumerate(result.curves):
        axes.plot(
            [update / 1000 for update in curve.updates],
            [1e4 * rate for rate in curve.rates],
            linestyle=dashes[number],
            markevery=[curve.updates.index(curve.peak_at)],
            label=f"{curve.name}: d_model {curve.d_model}, warmup {curve.warmup:,}",
            **line_style(number, ink),
        )
        axes.annotate(
            f"{curve.peak * 1e4:.2f}",
            (curve.peak_at / 1000, 1e4 * curve.peak),
            (7, 3),
            textcoords="offset points",
            fontsize=9,
        )
    axes.set(xlabel="thousand updates", ylabel="learning rate · 10⁴", ylim=(0, 11))
    axes.legend(loc="upper right")
