"""The sinusoids of section 3.5: as a map, as a measure of distance, and as clock hands that turn.

"We hypothesized it would allow the model to easily learn to attend by relative positions, since for
any fixed offset k, PE(pos + k) can be represented as a linear function of PE(pos)": the function is
a rotation of every pair (sine, cosine), and so the product of two encodings depends on nothing but
the distance between them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean
from typing import TYPE_CHECKING, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.model.positions import sinusoids
from transduce.model.transformer import Transformer
from transduce.paper.figures.common import Shown, learn, unseen_draws
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
        draw=lambda figure, ink: _draw_waves(found, figure, ink),
        height=5.6,
    )


def _draw_waves(found: Waves, figure: "Figure", ink: Ink) -> None:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Equivariance:
    """How far a stack is from not seeing the order."""

    name: str
    error: float
    """‖f(πx) − π f(x)‖ / ‖f(x)‖, the largest of the permutations tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Both stacks, with and without what tells them the order."""

    length: int
    permutations: int
    stacks: tuple[Equivariance, ...]


class _None(nn.Module):
    """Positions that add nothing."""

    def forward(self, x: Tensor, *, first: int = 0) -> Tensor:
        del first
        return x


def measure_order(
    config: ModelConfig, *, length: int = 24, permutations: int = 20, seed: int = 1
) -> Order:
    """Exchange positions of random sentences in front of untrained stacks.

    Args:
        config: the shape of the model; its weights are as they start.
        length: positions.
        permutations: tried; the worst one counts.
        seed: what is drawn.
    """
    config = replace(config, dropout=0.0)
    sinusoid = _model(config, seed=seed)
    learned = _model(replace(config, positions="learned"), seed=seed)
    without = _model(config, seed=seed)
    without.positions = _None()  # pyright: ignore[reportAttributeAccessIssue]

    def worst(read: Callable[[Tensor], Tensor]) -> float:
        draws, errors = torch.Generator().manual_seed(seed), list[float]()
        for _ in range(permutations):
            ids = torch.randint(1, config.pad, (1, length), generator=draws)
            order = torch.randperm(length, generator=draws)
            there = read(ids)
            errors.append(((read(ids[:, order]) - there[:, order]).norm() / there.norm()).item())
        return max(errors)

    source = torch.arange(1, 6)[None]
    with torch.inference_mode():
        stacks = (
            ("encoder, no positions", worst(lambda ids: without.encode(ids, None))),
            ("encoder, sinusoids", worst(lambda ids: sinusoid.encode(ids, None))),
            ("encoder, learned", worst(lambda ids: learned.encode(ids, None))),
            ("decoder, no positions", worst(lambda ids: without.hidden_states(source, None, ids))),
        )
    return Order(
        length=length,
        permutations=permutations,
        stacks=tuple(Equivariance(name=name, error=error) for name, error in stacks),
    )


def order_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw the errors."""
    shape = replace(load_recipe("tiny").model, vocab_size=97)
    found = measure_order(shape, permutations=2 if quick else 50)
    plain, sinusoid, learned, decoder = (stack.error for stack in found.stacks)
    return Shown(
        title="Order without positions (3.5)",
        numbers=found,
        found=(
            f"Without positions an encoder whose input is permuted gives its output permuted, to "
            f"{plain:.0e}: it cannot know the order. With sinusoids the two differ by "
            f"{sinusoid:.2f} of their size, with learned positions by {learned:.2f}. The decoder's "
            f"mask tells it an order even without positions ({decoder:.2f})."
        ),
        draw=lambda figure, ink: _draw_order(found, figure, ink),
        height=2.4,
    )


def _model(config: ModelConfig, *, seed: int) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Transformer(config).eval()


def _draw_order(found: Order, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots()
    rows = range(len(found.stacks))
    errors = [stack.error for stack in found.stacks]
    floor = 1e-8
    axes.hlines(rows, floor, errors, color=ink.faint, linewidth=3)
    axes.plot(errors, rows, "o", color=ink.lines[0], markersize=7)
    for row, error in zip(rows, errors, strict=True):
        axes.annotate(
            f"{error:.1e}" if error < 0.01 else f"{error:.2f}",
            (error, row),
            textcoords="offset points",
            xytext=(8, -3),
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.set_yticks(rows, [stack.name for stack in found.stacks])
    axes.set(xlim=(floor, 30), ylim=(3.5, -0.5), xlabel="‖f(πx) − π f(x)‖ / ‖f(x)‖")
    axes.grid(visible=False, axis="y")


Encoding = Literal["sinusoid", "learned"]
ENCODINGS: tuple[Encoding, ...] = ("sinusoid", "learned")
IDS, SHORTEST = 24, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Tested:
    """One trained encoder on long sentences."""

    positions: Encoding
    seed: int
    by_place: tuple[float, ...]
    """Share of right answers at each place."""
    within: float
    """The mean of the places that training had."""
    beyond: float
    """The mean of those it did not have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lengths:
    """Both encodings, some seeds each."""

    trained: int
    """The longest sentence of training."""
    tested: int
    updates: int
    tests: tuple[Tested, ...]

    def of(self, positions: Encoding) -> list[Tested]:
        """The tests of one encoding."""
        return [test for test in self.tests if test.positions == positions]


def measure_lengths(*, trained: int = 24, seeds: int = 5, updates: int = 1000) -> Lengths:
    """Train encoders on sentences of 4 to `trained` ids, and test them on twice as many."""
    tests = [
        _tested(positions, trained=trained, updates=updates, seed=seed)
        for positions in ENCODINGS
        for seed in range(seeds)
    ]
    return Lengths(trained=trained, tested=2 * trained, updates=updates, tests=tuple(tests))


def lengths_figure(*, quick: bool = False) -> Shown:
    """Measure, and draw what is right at which place."""
    found = measure_lengths(trained=8, seeds=1, updates=9) if quick else measure_lengths()
    said = {
        positions: (
            f"{_mean([test.within for test in found.of(positions)])} within and "
            f"{_mean([test.beyond for test in found.of(positions)])} beyond"
        )
        for positions in ENCODINGS
    }
    return Shown(
        title="Longer than in training: sinusoids and learned positions (3.5)",
        numbers=found,
        found=(
            f"The id before each place, learned up to length {found.trained} and asked up to "
            f"{found.tested}: sinusoids have {said['sinusoid']} the trained length right, learned "
            f"positions {said['learned']} (mean and range of {len(found.of('learned'))} seeds)."
        ),
        draw=lambda figure, ink: _draw_lengths(found, figure, ink),
    )


def _tested(positions: Encoding, *, trained: int, updates: int, seed: int) -> Tested:
    config = ModelConfig(
        vocab_size=IDS, encoder_layers=2, decoder_layers=1, d_model=64, d_ff=128, heads=4, d_k=16,
        d_v=16, dropout=0.0, positions=positions, max_positions=2 * trained,
    )  # fmt: skip

    def loss(module: nn.Module, draws: torch.Generator) -> Tensor:
        length = int(torch.randint(SHORTEST, trained + 1, (1,), generator=draws))
        ids, before = _sentences(length, draws)
        return F.cross_entropy(_logits(module, ids).flatten(0, 1), before.flatten())

    model = learn(lambda: Transformer(config), loss, updates=updates, rate=3e-3, seed=seed)
    with torch.inference_mode():
        ids, before = _sentences(2 * trained, unseen_draws(seed), batch=256)
        right = (_logits(model, ids).argmax(-1) == before).double().mean(0).tolist()
    return Tested(
        positions=positions,
        seed=seed,
        by_place=tuple(right),
        within=mean(right[:trained]),
        beyond=mean(right[trained:]),
    )


def _sentences(length: int, draws: torch.Generator, *, batch: int = 32) -> tuple[Tensor, Tensor]:
    """Random ids, and at every place the id before it; 0 begins."""
    ids = torch.randint(1, IDS - 1, (batch, length), generator=draws)
    return ids, F.pad(ids, (1, 0))[:, :-1]


def _logits(module: nn.Module, ids: Tensor) -> Tensor:
    model = cast(Transformer, module)  # what `learn` was given to build
    return model.logits(model.encode(ids, None))


def _mean(shares: list[float]) -> str:
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{100 * mean(shares):.0f} % ({low:.0f} to {high:.0f})"


def _draw_lengths(found: Lengths, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots()
    places = range(1, found.tested + 1)
    axes.axvspan(found.trained + 0.5, found.tested + 0.5, color=ink.faint, alpha=0.45, linewidth=0)
    axes.text(found.trained + 1, 97, "never seen in training", fontsize=9)
    for number, positions in enumerate(ENCODINGS):
        colour = ink.lines[number]
        tests = found.of(positions)
        for test in tests:
            shares = [100 * share for share in test.by_place]
            axes.plot(places, shares, linewidth=0.8, alpha=0.4, color=colour, marker="")
        means = [100 * mean(each) for each in zip(*(t.by_place for t in tests), strict=True)]
        name = "sinusoids" if positions == "sinusoid" else "learned positions"
        axes.plot(places, means, label=name, color=colour, marker=MARKERS[number], markevery=4)
    axes.set(xlabel="place in the sentence", ylabel="right, %", ylim=(0, 105))
    axes.set_xlim(0.5, found.tested + 0.5)
    axes.legend(loc="center left")
