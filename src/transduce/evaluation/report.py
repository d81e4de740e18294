"""A report on translations: scores, a paired test, and a breakdown.

The numbers are a `Report`, for programs; `page` makes a page of it, for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import Pair
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.data.words import count_words
from transduce.evaluation.breakdown import Breakdown, break_down, check_lines
from transduce.evaluation.metrics import Score, bleu_metric, chrf_metric
from transduce.evaluation.scoring import Metric, score_lines, score_model, texts, translate_pairs
from transduce.evaluation.significance import Comparison, System, compare_systems

MOST_TESTED: Final = 10_000
"""Lines of a test set up to which the paired test is made; its memory grows by 50 kB a line."""


class Scoring(NamedTuple):
    """How translations are scored."""

    language: str = ""
    """Code of the target language."""
    tokenize: str = ""
    """BLEU's tokeniser, over the language's."""
    metrics: Sequence[Metric] = ("bleu", "chrf", "ter", "perplexity")


USUAL: Final = Scoring()
"""By every metric, for no language in particular."""


class Training(NamedTuple):
    """What is known of the text that a system learned from."""

    name: str
    """Such as "the 29,000 training pairs of runs/mine"."""
    words: Mapping[str, int]
    """How often each word stands in its target side."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A system and what its translations are worth."""

    name: str
    scores: tuple[Score, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """All that there is to say."""

    systems: tuple[Scored, ...]
    """The one in question, and the one it is held against if there is one."""
    comparison: Comparison | None
    """A paired bootstrap by BLEU in which the other one is the baseline; None for a single system
    and for test sets above `MOST_TESTED`."""
    training: str
    """Where the frequencies of words are from."""
    breakdown: Breakdown


class Made(NamedTuple):
    """Translations, and what is known of how they were made."""

    system: System
    language: str = ""
    """Code of the target language."""
    training: Training | None = None
    perplexity: tuple[Score, ...] = ()


def translate_with(
    model: Path,
    name: str,
    *,
    sources: Sequence[str],
    references: Sequence[str],
    perplexity: bool = True,
) -> Made:
    """Translate with a model, and find the text that it was trained on.

    Args:
        model: the folder of a model, or of its run.
        name: what to call it.
        sources: what to translate.
        references: what that should become.
        perplexity: whether to measure how well the model foresees the references.

    Raises:
        ValueError: for a folder that holds no model.
    """
    bundle = Bundle.load(model)
    pairs = [Pair(*sides) for sides in zip(sources, references, strict=True)]
    lines = texts(
        translate_pairs(bundle.model, bundle.tokenizer, pairs=pairs, search=bundle.search)
    )
    surprise: tuple[Score, ...] = ()
    if perplexity:
        surprise = score_model(bundle, sources, references=references, metrics=("perplexity",))
    training = _training_of(model, bundle)
    return Made(System(name, lines), bundle.languages.target, training, surprise)


def report_on(
    made: Made,
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    against: System | None = None,
    scoring: Scoring = USUAL,
) -> Report:
    """Report on the translations of a system.

    Args:
        made: its lines; where its training is not known, the references stand in for that.
        references: what the lines should be.
        sources: what was translated, where known.
        against: translations by another system, to set beside.
        scoring: language, tokeniser and metrics.

    Raises:
        ValueError: for unequal numbers of lines or none, or a tokeniser that is not there.
    """
    system, language, training, perplexity = made
    language, tokenize, metrics = scoring.language or language, scoring.tokenize, scoring.metrics
    systems = [system, against] if against else [system]
    check_lines(systems, references, sources=sources)
    scored = [
        score_lines(lines, references, language=language, tokenize=tokenize, metrics=metrics)
        for _, lines in systems
    ]
    scored[0] += perplexity
    comparison = None
    if against and len(references) <= MOST_TESTED:
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
        systems=tuple(Scored(name=s.name, scores=f) for s, f in zip(systems, scored, strict=True)),
        comparison=comparison,
        training=training.name if training else "the references themselves",
        breakdown=breakdown,
    )


def _training_of(model: Path, bundle: Bundle) -> Training | None:
    """The training text of a model that lies in its run's folder still."""
    for run in (model, model.resolve().parent):
        try:
            store = Store.open(
                run / PREPARED_FOLDER / "train",
                tokenizer_checksum=bundle.tokenizer.checksum,
                verify=False,
            )
        except ValueError:  # none, or not this model's
            continue
        counts = count_words(store.pair(index).target for index in range(len(store)))
        return Training(f"the {len(store):,} training pairs of {run.name}", counts)
    return None
