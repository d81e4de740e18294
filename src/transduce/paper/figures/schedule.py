"""Equation (3), the learning rate, drawn: section 5.3."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.config import load_recipe
from transduce.paper.figures.common import Shown
from transduce.paper.plot import MARKERS, Ink
from transduce.train.config import TrainConfig
from transduce.train.schedule import learning_rates

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The rate of one model over its updates."""

    name: str
    d_model: int
    warmup: int
    updates: tuple[int, ...]
    rates: tuple[float, ...]
    peak: float
    peak_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves:
    """Some models' rates."""

    curves: tuple[Curve, ...]


def measure_curves(*, last: int = 40_000, every: int = 100) -> Curves:
    """The rates that training would have: base and big as in the paper, and two other warmups."""
    base, big = load_recipe("base").model, load_recipe("big").model
    warmup = TrainConfig().warmup
    return Curves(
        curves=tuple(
            _curve(name, d_model=model.d_model, warmup=warmup, last=last, every=every)
            for name, model, warmup in (
                ("base", base, warmup),
                ("big", big, warmup),
                ("base, half the warmup", base, warmup // 2),
                ("base, four times", base, 4 * warmup),
            )
        )
    )


def curves_figure(*, quick: bool = False) -> Shown:
    """Draw the rates against the updates."""
    found = measure_curves(every=1000 if quick else 100)
    base, big = found.curves[:2]
    return Shown(
        title="The learning rate, equation (3) (5.3)",
        numbers=found,
        found=(
            f"The rate rises linearly and falls as the inverse square root; it peaks at update "
            f"{base.peak_at:,} with {base.peak * 1e4:.2f}e-4 for base and {big.peak * 1e4:.2f}e-4 "
            f"for big: 1/√(d_model · warmup)."
        ),
        draw=lambda figure, ink: _draw(found, figure, ink),
    )


def _curve(name: str, *, d_model: int, warmup: int, last: int, every: int) -> Curve:
    config = TrainConfig(warmup=warmup)
    updates = (1, *range(every, last + 1, every))
    made = [learning_rates(update, config=config, d_model=d_model)[0] for update in updates]
    peak = max(made)
    return Curve(
        name=name,
        d_model=d_model,
        warmup=warmup,
        updates=updates,
        rates=tuple(made),
        peak=peak,
        peak_at=updates[made.index(peak)],
    )


def _draw(found: Curves, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots()
    dashes = ("-", "-", "--", ":")
    for number, curve in enumerate(found.curves):
        axes.plot(
            [update / 1000 for update in curve.updates],
            [1e4 * rate for rate in curve.rates],
            color=ink.lines[number],
            linestyle=dashes[number],
            marker=MARKERS[number],
            markevery=[curve.updates.index(curve.peak_at)],
            label=f"{curve.name}: d_model {curve.d_model}, warmup {curve.warmup:,}",
        )
        axes.annotate(
            f"{curve.peak * 1e4:.2f}",
            (curve.peak_at / 1000, 1e4 * curve.peak),
            textcoords="offset points",
            xytext=(7, 3),
            fontsize=9,
        )
    axes.set(xlabel="thousand updates", ylabel="rate · 10⁴", ylim=(0, 11))
    axes.legend(loc="upper right")
