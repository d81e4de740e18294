"""Is one system better than another, or is it chance? Paired tests over the same test set.

The tests and their chance are sacreBLEU's. The first system is the baseline of all others.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest, Result

from transduce.evaluation.metrics import bleu_metric, chrf_metric, ter_metric

Test = Literal["bootstrap", "randomization"]
Verdict = Literal["baseline", "better", "worse", "unclear"]

LEVEL: Final = 0.05
"""A difference is one when p is below this."""

_SAMPLES: Final = {"bootstrap": 1000, "randomization": 10_000}
_METRICS: Final = ("bleu", "chrf", "ter")
_SEED: Final = "SACREBLEU_SEED"


class System(NamedTuple):
    """Translations of a test set, and what to call whoever made them."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """A system's score, and how it stands to the baseline's."""

    system: str
    value: float
    """Of the whole test set, as `evaluate` says it."""
    mean: float
    """Over the test sets drawn from this one."""
    margin: float
    """Half the width of the 95 % confidence interval around the mean."""
    p: float | None
    """How often chance alone makes such a difference to the baseline; the baseline has none."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """All systems by one metric, the baseline first."""

    metric: str
    """As sacreBLEU calls it: "BLEU", "chrF2", "TER"."""
    signature: str
    """sacreBLEU's, with the test, its samples and its seed."""
    systems: tuple[Standing, ...]

    def __str__(self) -> str:
        """Align the systems below the signature."""
        width = max(len("system"), *(len(one.system) for one in self.systems))
        lines = [
            f"{self.metric}  {self.signature}",
            f"  {'system':<{width}}   value    mean ± 95 %        p",
        ]
        for one in self.systems:
            p = "" if one.p is None else f"{one.p:.4f}"
            lines.append(
                f"  {one.system:<{width}}  {one.value:6.2f}  {one.mean:6.2f} ± {one.margin:5.2f}"
                f"  {p:>7}  {one.verdict}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """What a paired test says of some systems."""

    test: Test
    samples: int
    seed: int
    metrics: tuple[Table, ...]

    def __str__(self) -> str:
        """Put one block a metric, an empty line between them."""
        return "\n\n".join(map(str, self.metrics))


def compare_systems(
    systems: Sequence[System],
    references: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    language: str = "",
    tokenize: str = "",
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = 12345,
) -> Comparison:
    """Test whether systems differ from the first of them by more than chance.

    Args:
        systems: two or more; the first is the baseline.
        references: what their lines should be.
        metrics: "bleu", "chrf", "ter"; all where none is named.
        language: code of the target language.
        tokenize: BLEU's tokeniser, over the language's.
        test: paired bootstrap resampling, or paired approximate randomization.
        samples: resamples or trials; 1000 or 10,000 where none is given, as sacreBLEU has it.
        seed: above 0; the same seed gives the same p.

    Raises:
        ValueError: for fewer than two systems, unequal numbers of lines or none, an unknown metric
            or tokeniser, samples below 20 and a seed below 1.

    Source: Koehn 2004 (bootstrap), Riezler and Maxwell 2005 (randomization).
    """
    _check(systems, references, metrics=metrics)
    count = _SAMPLES[test] if samples is None else samples
    _check_chance(samples=count, seed=seed)
    chosen = [name for name in _METRICS if not metrics or name in metrics]
    with _seeded(seed):
        paired = PairedTest(
            [(system.name, system.lines) for system in systems],
            {name: _metric(name, language=language, tokenize=tokenize) for name in chosen},
            [references],
            test_type="bs" if test == "bootstrap" else "ar",
            n_samples=count,
            n_ar_confidence=-1 if test == "bootstrap" else min(count, _SAMPLES["bootstrap"]),
            n_jobs=1,
        )
    signatures, results = paired()
    tables = tuple(
        Table(
            metric=name,
            signature=str(signature),
            systems=_standings(systems, results[name], lower_is_better=name == "TER"),
        )
        for name, signature in signatures.items()
    )
    return Comparison(test=test, samples=count, seed=seed, metrics=tables)


def names_of(files: Sequence[Path]) -> tuple[str, ...]:
    """What to call the systems of these files: as much of each path's end as tells them apart.

    >>> names_of([Path("a/run/out.de"), Path("b/run/out.de"), Path("b/other.de")])
    ('a/run/out.de', 'b/run/out.de', 'other.de')
    """

    def end(file: Path, parts: int) -> str:
        return "/".join(file.parts[-parts:])

    def name(file: Path) -> str:
        others = [other for other in files if other != file]
        enough = (
            parts
            for parts in range(1, len(file.parts) + 1)
            if all(end(other, parts) != end(file, parts) for other in others)
        )
        return end(file, next(enough, len(file.parts)))

    return tuple(map(name, files))


def _standings(
    systems: Sequence[System], found: Sequence[str | Result], *, lower_is_better: bool
) -> tuple[Standing, ...]:
    results = [result for result in found if isinstance(result, Result)]
    baseline = results[0].score
    standings: list[Standing] = []
    for system, result in zip(systems, results, strict=True):
        assert result.mean is not None
        assert result.ci is not None
        gain = (result.score - baseline) * (-1 if lower_is_better else 1)
        p: float | None = None
        verdict: Verdict = "baseline"
        if result.p_value is not None:
            p = _p_value(result.p_value, systems[0].lines, system.lines) if gain else 1.0
            verdict = "unclear" if p >= LEVEL else "better" if gain > 0 else "worse"
        standing = Standing(
            system=system.name,
            value=float(result.score),
            mean=float(result.mean),
            margin=float(result.ci),
            p=p,
            verdict=verdict,
        )
        standings.append(standing)
    return tuple(standings)


def _p_value(p: float, baseline: Sequence[str], system: Sequence[str]) -> float:
    """sacreBLEU's p, but no surer than a coin tossed for each line that differs.

    sacreBLEU counts the samples whose difference is larger, not those where it is as large; for
    systems that differ in one line there is none, and p would say that this cannot be chance.
    """
    changed = sum(ours != theirs for ours, theirs in zip(system, baseline, strict=True))
    return min(1.0, max(p, 2.0 ** (1 - changed)))


def _metric(name: str, *, language: str, tokenize: str) -> Metric:
    """The metric as `evaluate` sets it up."""
    if name == "bleu":
        return bleu_metric(language=language, tokenize=tokenize)
    return chrf_metric() if name == "chrf" else ter_metric(language=language)


@contextmanager
def _seeded(seed: int) -> Generator[None]:
    """Lend sacreBLEU a seed in the only place where it looks for one."""
    before = os.environ.get(_SEED)
    os.environ[_SEED] = str(seed)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SEED, None)
        else:
            os.environ[_SEED] = before


def _check(systems: Sequence[System], references: Sequence[str], *, metrics: Sequence[str]) -> None:
    for name in metrics:
        if name not in _METRICS:
            raise ValueError(f"a metric is one of {', '.join(_METRICS)}, not {name!r}")
    if len(systems) < 2:
        raise ValueError(
            "there is nothing to compare: name two systems or more, the baseline first"
        )
    if not references:
        raise ValueError("there is nothing to compare: no line in the references")
    for system in systems:
        if len(system.lines) != len(references):
            raise ValueError(
                f"{system.name} has {len(system.lines)} lines but there are {len(references)} "
                f"references: line n must translate line n"
            )


def _check_chance(*, samples: int, seed: int) -> None:
    if samples * LEVEL < 1:  # sacreBLEU's p is 1 / (samples + 1) or more
        raise ValueError(
            f"samples must be 20 or more, not {samples}: fewer never reach p < {LEVEL}"
        )
    if seed < 1:  # sacreBLEU takes 0 for none
        raise ValueError(f"seed must be 1 or more, not {seed}")
