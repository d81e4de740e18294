"""Evaluation reports: scores, a paired significance test and a breakdown.

`Report` holds the numbers; `report_html` renders them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.data.segmentation import count_words
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.evaluation.breakdown import Breakdown, break_down, check_line_counts
from transduce.evaluation.metrics import Score, bleu_metric, chrf_metric
from transduce.evaluation.scoring import (
    Metric,
    score_lines,
    score_model,
    translate_pairs,
    translation_texts,
)
from transduce.evaluation.significance import Comparison, System, compare_systems

MAX_TESTED_LINES: Final = 10_000
"""Largest test set, in lines, for the paired test, which needs 50 kB of memory per line."""


class ScoringOptions(NamedTuple):
    """Language, tokeniser and metrics of an evaluation."""

    language: str = ""
    """Code of the target language."""
    tokenize: str = ""
    """BLEU's tokeniser, overriding the language's."""
    metrics: Sequence[Metric] = ("bleu", "chrf", "ter", "perplexity")


DEFAULT_SCORING: Final = ScoringOptions()
"""All metrics, no particular language."""


class TrainingText(NamedTuple):
    """Word counts of the text that a system was trained on."""

    name: str
    """Such as "the 29,000 training pairs of runs/mine"."""
    words: Mapping[str, int]
    """Occurrences of each word in its target side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SystemScores:
    """A system's name and scores."""

    name: str
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Scores, significance test and breakdown of one or two systems."""

    systems: tuple[SystemScores, ...]
    """The evaluated system and, if given, the one it is compared with."""
    comparison: Comparison | None
    """Paired bootstrap on BLEU with the other system as baseline; None for a single system and
    for test sets above `MAX_TESTED_LINES`."""
    training: str
    """The text in which word frequencies were counted."""
    breakdown: Breakdown


class SystemOutput(NamedTuple):
    """A system's translations, target language, training text and perplexity, as far as known."""

    system: System
    language: str = ""
    """Code of the target language."""
    training: TrainingText | None = None
    perplexity: tuple[Score, ...] = ()


def translate_test_set(
    model: Path,
    name: str,
    *,
    sources: Sequence[str],
    references: Sequence[str],
    perplexity: bool = True,
) -> SystemOutput:
    """Translate with a model and find its training text.

    Args:
        model: folder of a bundle or a run.
        name: the system's name in the report.
        sources: source lines.
        references: reference translations.
        perplexity: whether to compute the perplexity of the references.

    Raises:
        ValueError: for a folder without a model.
    """
    bundle = Bundle.load(model)
    pairs = [Pair(*sides) for sides in zip(sources, references, strict=True)]
    lines = translation_texts(
        translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=bundle.search)
    )
    measured: tuple[Score, ...] = ()
    if perplexity:
        measured = score_model(bundle, sources, references=references, metrics=("perplexity",))
    training = _training_of(model, bundle)
    return SystemOutput(System(name, lines), bundle.languages.target, training, measured)


def build_report(
    output: SystemOutput,
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    against: System | None = None,
    scoring: ScoringOptions = DEFAULT_SCORING,
) -> Report:
    """Build the report on a system's translations.

    Args:
        output: translations; without a training text, frequencies are counted in the references.
        references: reference translations.
        sources: source lines, if known.
        against: translations of another system to compare with.
        scoring: language, tokeniser and metrics.

    Raises:
        ValueError: for unequal numbers of lines or none, or an unavailable tokeniser.
    """
    system, language, training, perplexity = output
    language, tokenize, metrics = scoring.language or language, scoring.tokenize, scoring.metrics
    systems = [system, against] if against else [system]
    check_line_counts(systems, references, sources=sources)
    scored = [
        score_lines(lines, references, language=language, tokenize=tokenize, metrics=metrics)
        for _, lines in systems
    ]
    scored[0] += perplexity
    comparison = None
    if against and len(references) <= MAX_TESTED_LINES:
        comparison = compare_systems(
            [against, system], references, metrics=["bleu"], language=language, tokenize=tokenize
        )
    breakdown = break_down(
        systems,
        references,
        bleu=bleu_metric(language=language, tokenize=tokenize),
        chrf=chrf_metric(),
        sources=sources,
        training=training.words if training else None,
    )
    return Report(
        systems=tuple(
            SystemScores(name=s.name, scores=f) for s, f in zip(systems, scored, strict=True)
        ),
        comparison=comparison,
        training=training.name if training else "the references themselves",
        breakdown=breakdown,
    )


def _training_of(model: Path, bundle: Bundle) -> TrainingText | None:
    """The training text of a model, if its run's folder still has it."""
    for run in (model, model.resolve().parent):
        try:
            store = Store.open(
                run / PREPARED_FOLDER / "train",
                tokenizer_checksum=bundle.tokenizer.checksum,
                verify=False,
            )
        except ValueError:  # missing, or encoded with another tokenizer
            continue
        counts = count_words(store.pair(index).target for index in range(len(store)))
        return TrainingText(f"the {len(store):,} training pairs of {run.name}", counts)
    return None
