"""Positional encodings (section 3.5): order without them, longer sequences."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import mean
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.model.layers import Positions
from transduce.model.transformer import Transformer
from transduce.paper.figures.lookups import test_generator, train_module
from transduce.paper.plot import Ink, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Equivariance:
    """Deviation of a stack from permutation equivariance."""

    name: str
    error: float
    """‖f(πx) − π f(x)‖ / ‖f(x)‖, maximum over the permutations."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OrderSensitivity:
    """Both stacks, with and without positional encodings."""

    length: int
    permutations: int
    stacks: tuple[Equivariance, ...]


def measure_order(*, permutations: int = 50) -> OrderSensitivity:
    """Permute random inputs of untrained stacks and compare the outputs; the worst counts."""
    length, config = 24, replace(load_recipe("tiny").model, vocab_size=97, dropout=0.0)
    sinusoid = _model(config)
    learned = _model(replace(config, positions="learned"))
    without = _model(config)
    assert isinstance(without.positions, Positions)
    without.positions.table.zero_()

    def worst(read: Callable[[Tensor], Tensor]) -> float:
        draws, errors = torch.Generator().manual_seed(1), list[float]()
        for _ in range(permutations):
            ids = torch.randint(1, config.pad, (1, length), generator=draws)
            order = torch.randperm(length, generator=draws)
            output = read(ids)
            difference = read(ids[:, order]) - output[:, order]
            errors.append((difference.norm() / output.norm()).item())
        return max(errors)

    source = torch.arange(1, 6)[None]
    stacks: dict[str, Callable[[Tensor], Tensor]] = {
        "encoder, no positions": lambda ids: without.encode(ids, None),
        "encoder, sinusoids": lambda ids: sinusoid.encode(ids, None),
        "encoder, learned": lambda ids: learned.encode(ids, None),
        "decoder, no positions": lambda ids: without.hidden_states(source, None, ids),
    }
    with torch.inference_mode():
        errors = [Equivariance(name=name, error=worst(read)) for name, read in stacks.items()]
    return OrderSensitivity(length=length, permutations=permutations, stacks=tuple(errors))


def _model(config: ModelConfig) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return Transformer(config).eval()


def draw_order(result: OrderSensitivity, figure: "Figure", ink: Ink) -> None:
    """Plot the errors."""
    axes = figure.subplots()
    rows = range(len(result.stacks))
    errors = [stack.error for stack in result.stacks]
    floor = 1e-8
    axes.hlines(rows, floor, errors, color=ink.faint, linewidth=3)
    axes.plot(errors, rows, "o", color=ink.lines[0], markersize=7)
    for row, error in zip(rows, errors, strict=True):
        axes.annotate(
            f"{error:.1e}" if error < 0.01 else f"{error:.2f}",
            (error, row),
            (8, -3),
            textcoords="offset points",
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.set_yticks(rows, [stack.name for stack in result.stacks])
    axes.set(xlim=(floor, 30), ylim=(3.5, -0.5), xlabel="‖f(πx) − π f(x)‖ / ‖f(x)‖")
    axes.grid(visible=False, axis="y")


Encoding = Literal["sinusoid", "learned"]
ENCODINGS: tuple[Encoding, ...] = ("sinusoid", "learned")
IDS, SHORTEST = 24, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderTest:
    """Accuracy of one trained encoder on long sequences."""

    positions: Encoding
    seed: int
    by_place: tuple[float, ...]
    """Accuracy at each position."""
    within: float
    """Mean over positions seen in training."""
    beyond: float
    """Mean over positions beyond training."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthGeneralization:
    """Both encodings, several seeds each."""

    trained: int
    """Longest training sequence."""
    tested: int
    updates: int
    tests: tuple[EncoderTest, ...]

    def of(self, positions: Encoding) -> list[EncoderTest]:
        """Return the tests of one encoding."""
        return [test for test in self.tests if test.positions == positions]


def measure_lengths(
    *, trained: int = 24, seeds: int = 5, updates: int = 1000
) -> LengthGeneralization:
    """Train encoders on short sequences and test them on twice the length.

    Args:
        trained: longest training sequence; the shortest is 4.
        seeds: training runs per encoding.
        updates: optimizer steps per run.
    """
    tests = [
        _test_encoder(positions, trained=trained, updates=updates, seed=seed)
        for positions in ENCODINGS
        for seed in range(seeds)
    ]
    return LengthGeneralization(
        trained=trained, tested=2 * trained, updates=updates, tests=tuple(tests)
    )


def _test_encoder(positions: Encoding, *, trained: int, updates: int, seed: int) -> EncoderTest:
    config = ModelConfig(
        vocab_size=IDS, encoder_layers=2, decoder_layers=1, d_model=64, d_ff=128, heads=4, d_k=16,
        d_v=16, dropout=0.0, positions=positions, max_positions=2 * trained,
    )  # fmt: skip

    def loss(module: nn.Module, draws: torch.Generator) -> Tensor:
        length = int(torch.randint(SHORTEST, trained + 1, (1,), generator=draws))
        ids, before = _sentences(length, draws)
        return F.cross_entropy(_logits(module, ids).flatten(0, 1), before.flatten())

    model = train_module(lambda: Transformer(config), loss, updates=updates, seed=seed)
    with torch.inference_mode():
        ids, before = _sentences(2 * trained, test_generator(seed), batch=256)
        right = (_logits(model, ids).argmax(-1) == before).double().mean(0).tolist()
    return EncoderTest(
        positions=positions,
        seed=seed,
        by_place=tuple(right),
        within=mean(right[:trained]),
        beyond=mean(right[trained:]),
    )


def _sentences(length: int, draws: torch.Generator, *, batch: int = 32) -> tuple[Tensor, Tensor]:
    """Return random ids and, for every position, the preceding id; 0 at the start."""
    ids = torch.randint(1, IDS - 1, (batch, length), generator=draws)
    return ids, F.pad(ids, (1, 0))[:, :-1]


def _logits(module: nn.Module, ids: Tensor) -> Tensor:
    model = cast(Transformer, module)  # built by `_test_encoder`
    return model.logits(model.encode(ids, None))


def draw_lengths(result: LengthGeneralization, figure: "Figure", ink: Ink) -> None:
    """Plot accuracy by position."""
    axes = figure.subplots()
    lengths = range(1, result.tested + 1)
    begin, end = result.trained + 0.5, result.tested + 0.5
    axes.axvspan(begin, end, color=ink.faint, alpha=0.45, linewidth=0)
    axes.text(result.trained + 1, 97, "beyond training", fontsize=9)
    for number, positions in enumerate(ENCODINGS):
        style = line_style(number, ink)
        by_seed = [test.by_place for test in result.of(positions)]
        for shares in by_seed:
            percents = [100 * share for share in shares]
            axes.plot(lengths, percents, linewidth=0.8, alpha=0.4, color=style["color"], marker="")
        means = [100 * mean(shares) for shares in zip(*by_seed, strict=True)]
        name = "sinusoids" if positions == "sinusoid" else "learned positions"
        axes.plot(lengths, means, label=name, markevery=4, **style)
    axes.set(xlabel="position", ylabel="right, %", ylim=(0, 105), xlim=(0.5, end))
    axes.legend(loc="center left")
