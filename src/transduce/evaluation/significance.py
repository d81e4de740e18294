"""Paired significance tests of systems on the same test set, by sacreBLEU.

The first system is the baseline of all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest, Result

from transduce.evaluation.breakdown import check_line_counts
from transduce.evaluation.metrics import bleu_metric, scoring_language, ter_metric
from transduce.io.machine import environment_variable

TestMethod = Literal["bootstrap", "randomization"]
Verdict = Literal["baseline", "better", "worse", "unclear"]

SIGNIFICANCE_LEVEL: Final = 0.05
"""A difference is significant if p is below this."""

MAX_COMPARED_LINES: Final = 50_000
"""Largest test set of the usual number of samples, which needs 80 to 110 kB of memory per line."""

_SAMPLES: Final = {"bootstrap": 1000, "randomization": 10_000}
_METRICS: Final = ("bleu", "chrf", "ter")
_SEED: Final = "SACREBLEU_SEED"


class System(NamedTuple):
    """The name of a system and its translations of a test set."""

    name: str
    lines: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemComparison:
    """A system's score, its confidence interval and its difference from the baseline."""

    system: str
    value: float
    """Score on the full test set."""
    mean: float
    """Mean over the resampled test sets."""
    margin: float
    """Half-width of the 95 % confidence interval around the mean."""
    p: float | None
    """p-value of the difference from the baseline; None for the baseline."""
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricComparison:
    """All systems under one metric, the baseline first."""

    metric: str
    """sacreBLEU's name: "BLEU", "chrF2" or "TER"."""
    signature: str
    """sacreBLEU's signature, with test, samples and seed."""
    systems: tuple[SystemComparison, ...]

    def __str__(self) -> str:
        """Format as a table below the signature."""
        width = max(len("system"), *(len(result.system) for result in self.systems))
        lines = [
            f"{self.metric}  {self.signature}",
            f"  {'system':<{width}}   value    mean ± 95 %        p",
        ]
        for result in self.systems:
            p = "" if result.p is None else f"{result.p:.4f}"
            lines.append(
                f"  {result.system:<{width}}  {result.value:6.2f}"
                f"  {result.mean:6.2f} ± {result.margin:5.2f}  {p:>7}  {result.verdict}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The outcome of a paired test: one table per metric."""

    test: TestMethod
    samples: int
    seed: int
    metrics: tuple[MetricComparison, ...]

    def __str__(self) -> str:
        """Format one block per metric, separated by empty lines."""
        return "\n\n".join(map(str, self.metrics))


def compare_systems(
    systems: Sequence[System],
    references: Sequence[str],
    *,
    metrics: Sequence[str] = (),
    language: str = "",
    tokenize: str = "",
    lower_case: bool = False,
    test: TestMethod = "bootstrap",
    samples: int | None = None,
    seed: int = 12345,
) -> Comparison:
    """Test whether systems differ significantly from the first one.

    Args:
        systems: two or more; the first is the baseline.
        references: reference translations.
        metrics: "bleu", "chrf", "ter"; empty means all.
        language: code of the target language.
        tokenize: BLEU's tokeniser, overriding the language's.
        lower_case: compare lower-cased text by BLEU and chrF2, as for a model that lower-cases; TER
            ignores case anyway.
        test: paired bootstrap resampling or paired approximate randomization.
        samples: resamples (default 1000) or trials (default 10,000), sacreBLEU's defaults.
        seed: random seed, 1 or more.

    Raises:
        ValueError: for fewer than two systems, unequal numbers of lines or none, an unknown metric
            or tokeniser, samples below 20 or a seed below 1, or more lines than
            `MAX_COMPARED_LINES`; of more samples than usual fewer lines.

    Source: Koehn 2004 (bootstrap), Riezler and Maxwell 2005 (randomization).
    """
    count = _SAMPLES[test] if samples is None else samples
    _check(systems, references, metrics=metrics, test=test, samples=count, seed=seed)
    language = scoring_language(language, references)
    selected = [name for name in _METRICS if not metrics or name in metrics]
    with environment_variable(_SEED, str(seed)):  # sacreBLEU reads it from there alone
        paired = PairedTest(
            [(system.name, system.lines) for system in systems],
            {
                name: _metric(name, language=language, tokenize=tokenize, lower_case=lower_case)
                for name in selected
            },
            [references],
            test_type="bs" if test == "bootstrap" else "ar",
            n_samples=count,
            n_ar_confidence=-1 if test == "bootstrap" else min(count, _SAMPLES["bootstrap"]),
            n_jobs=1,
        )
    signatures, results = paired()
    tables = [
        MetricComparison(
            metric=name,
            signature=str(signature),
            systems=_compare_to_baseline(systems, results[name], lower_is_better=name == "TER"),
        )
        for name, signature in signatures.items()
    ]
    return Comparison(test=test, samples=count, seed=seed, metrics=tuple(tables))


def distinct_names(files: Sequence[Path]) -> tuple[str, ...]:
    """Name systems after their files: the shortest suffix of each path that is unique.

    >>> distinct_names([Path("a/run/out.de"), Path("b/run/out.de"), Path("b/other.de")])
    ('a/run/out.de', 'b/run/out.de', 'other.de')
    """
    names: list[str] = []
    for file in files:
        others, length = [other.parts for other in files if other != file], 1
        while length < len(file.parts) and any(o[-length:] == file.parts[-length:] for o in others):
            length += 1
        names.append("/".join(file.parts[-length:]))
    return tuple(names)


def _compare_to_baseline(
    systems: Sequence[System], cells: Sequence[str | Result], *, lower_is_better: bool
) -> tuple[SystemComparison, ...]:
    results = [result for result in cells if isinstance(result, Result)]
    compared: list[SystemComparison] = []
    for system, result in zip(systems, results, strict=True):
        assert result.mean is not None
        assert result.ci is not None
        gain = (result.score - results[0].score) * (-1 if lower_is_better else 1)
        p: float | None = None
        verdict: Verdict = "baseline"
        if result.p_value is not None:
            p = _p_value(result.p_value, systems[0].lines, system.lines) if gain else 1.0
            verdict = "unclear" if p >= SIGNIFICANCE_LEVEL else "better" if gain > 0 else "worse"
        compared.append(
            SystemComparison(
                system=system.name,
                value=float(result.score),
                mean=float(result.mean),
                margin=float(result.ci),
                p=p,
                verdict=verdict,
            )
        )
    return tuple(compared)


def _p_value(p: float, baseline: Sequence[str], system: Sequence[str]) -> float:
    """sacreBLEU's p-value, bounded below by a sign test over the lines that differ.

    sacreBLEU counts samples with a larger difference, not those with an equal one; for systems
    that differ in one line there are none, and p would wrongly be significant. White space at line
    ends does not count, as no metric sees it.
    """
    lines = zip(system, baseline, strict=True)
    changed = sum(line.rstrip() != other.rstrip() for line, other in lines)
    return min(1.0, max(p, 2.0 ** (1 - changed)))


def _metric(name: str, *, language: str, tokenize: str, lower_case: bool) -> Metric:
    """Create the metric as for `transduce evaluate`."""
    if name == "bleu":
        return bleu_metric(language=language, tokenize=tokenize, lower_case=lower_case)
    return CHRF(lowercase=lower_case) if name == "chrf" else ter_metric(language=language)


def _check(
    systems: Sequence[System],
    references: Sequence[str],
    *,
    metrics: Sequence[str],
    test: TestMethod,
    samples: int,
    seed: int,
) -> None:
    for name in metrics:
        if name not in _METRICS:
            raise ValueError(f"unknown metric {name!r}: use {', '.join(_METRICS)}")
    if len(systems) < 2:
        raise ValueError("comparing needs two systems or more: name the baseline first")
    check_line_counts(systems, references)
    if samples * SIGNIFICANCE_LEVEL < 1:  # the smallest p-value is 1 / (samples + 1)
        raise ValueError(
            f"samples must be 20 or more, not {samples}: "
            f"fewer cannot reach p < {SIGNIFICANCE_LEVEL}"
        )
    if seed < 1:  # sacreBLEU treats 0 as unseeded
        raise ValueError(f"seed must be 1 or more, not {seed}")
    most = MAX_COMPARED_LINES * _SAMPLES[test] // max(samples, _SAMPLES[test])
    if len(references) > most:
        raise ValueError(
            f"a test of {samples:,} samples has memory for {most:,} lines, not for "
            f"{len(references):,}: take a random sample of the lines"
        )
