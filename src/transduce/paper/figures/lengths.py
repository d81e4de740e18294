"""Longer than anything in training: sinusoids against learned positions, section 3.5.

"We chose the sinusoidal version because it may allow the model to extrapolate to sequence lengths
longer than the ones encountered during training." A small encoder learns to say, at every place,
the id that stood before it, in sentences up to some length; then it is asked in sentences twice as
long. The rows of a learned table that no sentence reached stay as they were drawn.
"""

from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.paper.figures.shown import Shown
from transduce.paper.figures.toy import learn, unseen_draws
from transduce.paper.plot import MARKERS, Ink

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        draw=lambda figure, ink: _draw(found, figure, ink),
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


def _draw(found: Lengths, figure: "Figure", ink: Ink) -> None:
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
