"""Equation (3), the learning rate, drawn: section 5.3."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from transduce.config import load_recipe
from transduce.paper.figures.common import PaperFigure
from transduce.paper.plot import MARKERS, Ink
from transduce.train.config import TrainConfig
from transduce.train.optimizer import learning_rates

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def measure_curves(*, last: int = 40_000, every: int = 100) -> LearningRateCurves:
    """Compute the curves of the paper's base and big models and of two other warmups."""
    base, big = load_recipe("base").model, load_recipe("big").model
    warmup = TrainConfig().warmup
    return LearningRateCurves(
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


def curves_figure(*, quick: bool = False) -> PaperFigure:
    """Plot learning rate against update."""
    result = measure_curves(every=1000 if quick else 100)
    base, big = result.curves[:2]
    return PaperFigure(
        title="The learning rate, equation (3) (5.3)",
        numbers=result,
        finding=(
            f"The learning rate rises linearly, then falls as 1/√step; it peaks at update "
            f"{base.peak_at:,} with {base.peak * 1e4:.2f}e-4 for base and {big.peak * 1e4:.2f}e-4 "
            f"for big: 1/√(d_model · warmup)."
        ),
        draw=lambda figure, ink: _draw(result, figure, ink),
    )


def _curve(name: str, *, d_model: int, warmup: int, last: int, every: int) -> LearningRateCurve:
    config = TrainConfig(warmup=warmup)
    updates = (1, *range(every, last + 1, every))
    rates = [learning_rates(update, config=config, d_model=d_model)[0] for update in updates]
    peak = max(rates)
    return LearningRateCurve(
        name=name,
        d_model=d_model,
        warmup=warmup,
        updates=updates,
        rates=tuple(rates),
        peak=peak,
        peak_at=updates[rates.index(peak)],
    )


def _draw(result: LearningRateCurves, figure: "Figure", ink: Ink) -> None:
    axes = figure.subplots()
    dashes = ("-", "-", "--", ":")
    for number, curve in enumerate(result.curves):
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
    axes.set(xlabel="thousand updates", ylabel="learning rate · 10⁴", ylim=(0, 11))
    axes.legend(loc="upper right")
