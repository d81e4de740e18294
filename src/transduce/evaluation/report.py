"""Evaluation reports: scores, a paired significance test and a breakdown, also as an HTML page."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from html import escape
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
from transduce.data.languages import same_language
from transduce.data.segmentation import count_words, word_spans, words
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.evaluation.breakdown import Breakdown, ScoredSentence, break_down, check_line_counts
from transduce.evaluation.comet import find_checkpoint
from transduce.evaluation.metrics import Score, bleu_metric, check_lines, scoring_language
from transduce.evaluation.scoring import (
    DEFAULT_SCORING,
    MAX_TESTED_LINES,
    ScoringOptions,
    describe_decoding,
    perplexity_score,
    score_lines,
    translate_with,
    translation_texts,
    with_tags,
)
from transduce.evaluation.significance import (
    MAX_COMPARED_LINES,
    Comparison,
    System,
    compare_systems,
)
from transduce.io.machine import VERSION
from transduce.visualization.page import BarSeries, Section, bar_chart, page
from transduce.visualization.template import open_template

_FEW: Final = 10  # lines; buckets with fewer get no bar, since their BLEU is noise
_LONG: Final = 1200  # characters shown of a sentence

_SENTENCES: Final = ("worst", "median", "random", "gains", "losses")
"""Sections that list sentences."""
_OPTIONAL: Final = ("copies", "origins")
"""Sections that are left out when they have no content."""


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

    title: str
    details: tuple[tuple[str, str], ...]
    """Names and values: what was evaluated, from which files, how and when."""
    systems: tuple[SystemScores, ...]
    """The evaluated system and, if given, the one it is compared with."""
    comparison: Comparison | None
    """Paired bootstrap on BLEU with the other system as baseline; None for a single system and
    for test sets above `MAX_TESTED_LINES`."""
    training: str
    """The text in which word frequencies were counted."""
    breakdown: Breakdown

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own, as it has a style of its own."""
        return f'<iframe srcdoc="{escape(to_html(self))}" width="100%" height="640"></iframe>'


class SystemOutput(NamedTuple):
    """A system's translations, target language, training text and perplexity, as far as known."""

    system: System
    language: str = ""
    """Code of the target language."""
    training: TrainingText | None = None
    perplexity: tuple[Score, ...] = ()
    decoding: str = ""
    """How a model's text was decoded."""
    direction: str = ""
    """Such as "English → German"."""
    details: tuple[tuple[str, str], ...] = ()
    """Names and values of a model."""
    lower_case: bool = False
    """Whether the model lower-cases: case does not count then, in any system's lines."""


def translate_test_set(
    model: Path,
    name: str,
    *,
    sources: Sequence[str],
    references: Sequence[str],
    scoring: ScoringOptions = DEFAULT_SCORING,
    as_is: bool = False,
    scores_only: bool = False,
    fallback_language: str = "",
) -> SystemOutput:
    """Translate with a model and find its training text.

    Args:
        model: folder of a bundle or a run.
        name: the system's name in the report.
        sources: source lines.
        references: reference translations.
        scoring: target language, the model's if empty and it has one, and whether perplexity is a
            metric.
        as_is: translate with `--as-is`, without a retry of repetitive lines.
        scores_only: neither find the training text nor translate for the perplexity alone.
        fallback_language: target language of a model of several, where `scoring` has none.

    Raises:
        ValueError: for a folder without a model, unequal numbers of lines or none, a target
            language that is missing or not the model's, or an unavailable tokeniser or COMET.
    """
    check_lines(sources, references, name="the source")
    bundle = Bundle.load(model)
    if "bleu" in scoring.metrics or not scores_only:
        bleu_metric(tokenize=scoring.tokenize)  # refused before the translation
    if scoring.comet_model:
        find_checkpoint(scoring.comet_model)
    languages = bundle.languages
    targets = sorted({pair.target for pair in bundle.directions})
    language = scoring.language or ("" if targets else languages.target)
    if not language and len(targets) == 1:
        language = targets[0]
    elif not language:
        language = fallback_language
        if not any(same_language(language, target) for target in targets):
            raise ValueError(
                f"the model translates into {', '.join(targets)}: name one with --language"
            )
    sources = with_tags(bundle, sources, language)
    perplexity = "perplexity" in scoring.metrics  # first, as it refuses pairs that are too long
    measured = (perplexity_score(bundle, sources, references),) if perplexity else ()
    idle = scores_only and set(scoring.metrics) == {"perplexity"}
    translations = () if idle else translate_with(bundle, sources, as_is=as_is)
    training = None if scores_only else _training_of(model, bundle)
    system = System(name, translation_texts(translations))
    decoding = "" if idle else describe_decoding(bundle.search, translations, as_is=as_is)
    source = languages.source_name or languages.source
    named = languages != Languages() and not bundle.directions[1:]
    details = (
        ("Model", f"{model}, {bundle.weights.size:,} parameters"),
        ("Made", bundle.provenance.created),
        ("Decoding", decoding),
    )
    return SystemOutput(
        system,
        language,
        training,
        measured,
        decoding,
        direction=f"{source} → {languages.target_name or languages.target}" if named else "",
        details=tuple(detail for detail in details if detail[1]),
        lower_case=bundle.tokenizer.lower_case,
    )


def build_report(
    output: SystemOutput,
    references: Sequence[str],
    *,
    sources: Sequence[str] | None = None,
    against: System | None = None,
    scoring: ScoringOptions = DEFAULT_SCORING,
    origins: Sequence[str] | None = None,
    files: Mapping[str, Path | None] = MappingProxyType({}),
) -> Report:
    """Build the report on a system's translations.

    Args:
        output: translations; without a training text, frequencies are counted in the references.
        references: reference translations.
        sources: source lines, if known.
        against: translations of another system to compare with.
        scoring: language, tokeniser and metrics.
        origins: where each line is from, such as its document or domain.
        files: that the lines were read from, by purpose, to be shown.

    Raises:
        ValueError: for unequal numbers of lines or none, or an unavailable tokeniser.
    """
    language = scoring_language(scoring.language or output.language, references)
    tokenize, lower_case = scoring.tokenize, output.lower_case
    system, training = output.system, output.training
    systems = [system, against] if against else [system]
    check_line_counts(systems, references, sources=sources)
    scored = [
        score_lines(
            lines,
            references,
            sources=sources,
            options=scoring._replace(
                language=language, lower_case=lower_case, intervals=index == 0
            ),
        )
        for index, (_, lines) in enumerate(systems)
    ]
    scored[0] += output.perplexity
    comparison = None
    if against and len(references) <= MAX_TESTED_LINES:
        comparison = compare_systems(
            [against, system],
            references,
            metrics=["bleu"],
            language=language,
            tokenize=tokenize,
            lower_case=lower_case,
        )
    return Report(
        title=_title(output, files),
        details=_details(output, files),
        systems=tuple(
            SystemScores(name=system.name, scores=scores)
            for system, scores in zip(systems, scored, strict=True)
        ),
        comparison=comparison,
        training=training.name if training else "the references themselves",
        breakdown=break_down(
            systems,
            references,
            bleu=bleu_metric(language=language, tokenize=tokenize),
            sources=sources,
            training=training.words if training else None,
            origins=origins,
            lower_case=lower_case,
        ),
    )


def _title(output: SystemOutput, files: Mapping[str, Path | None]) -> str:
    """System, test set, direction and date, as far as known."""
    test_set = files.get("Source") or files.get("References")
    parts = [
        f"Evaluation of {output.system.name}{f' on {test_set.name}' if test_set else ''}",
        output.direction,
        str(date.today()),
    ]
    return ", ".join(filter(None, parts))


def _details(output: SystemOutput, files: Mapping[str, Path | None]) -> tuple[tuple[str, str], ...]:
    direction = (("Direction", output.direction),) if output.direction else ()
    named = ((purpose, str(file)) for purpose, file in files.items() if file)
    return (*direction, *output.details, *named, ("Date", f"{date.today()}, transduce {VERSION}"))


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


def to_html(report: Report) -> str:
    """Render a report as a self-contained HTML file."""
    names = [system.name for system in report.systems]
    parts = report.breakdown
    template: Any = open_template(Path(__file__).with_suffix(".html")).make_module(
        {
            "max_tested_lines": MAX_TESTED_LINES,
            "max_compared_lines": MAX_COMPARED_LINES,
            "few": _FEW,
            "cropped": _cropped,
            "lengths_chart": Markup(_lengths_chart(report)),
            "frequencies_chart": Markup(_frequencies_chart(parts)),
        }
    )
    kept: list[Section] = []
    for name, title in template.titles.items():
        if len(names) < 2 and name in ("gains", "losses"):
            continue
        if name in _SENTENCES:
            listed: tuple[ScoredSentence, ...] = getattr(parts, name)
            content = template.sentences([(case, _marked_lines(case, names)) for case in listed])
        else:
            content = getattr(template, name)(report)
        if content.strip() or name not in _OPTIONAL:
            kept.append(Section(title, content, str(template.note(name, report)).strip()))
    lines = "1 line" if parts.lines == 1 else f"{parts.lines:,} lines"
    lead = f"{' against '.join(names)}: {lines}, scored against one reference each."
    return page(report.title, kept, lead=lead)


def _lengths_chart(report: Report) -> str:
    """Bars of BLEU, or of chrF2 where BLEU says nothing, by length."""
    parts = report.breakdown
    charted = [bucket for bucket in parts.lengths if bucket.lines >= _FEW]
    if not charted:
        return ""
    metric, value = "BLEU", attrgetter("bleu")
    if any(score.note for score in report.systems[0].scores):
        metric, value = "chrF2", attrgetter("chrf")
    return bar_chart(
        [bucket.words for bucket in charted],
        [
            BarSeries(name, [round(value, 1) for value in values])
            for name, *values in zip(parts.systems, *map(value, charted), strict=True)
        ],
        y_label=metric,
        title=f"{metric} by words of the {parts.measured}",
    )


def _frequencies_chart(parts: Breakdown) -> str:
    buckets = [bucket for bucket in parts.frequencies if bucket.words]
    series = [
        BarSeries(name, [math.nan if share is None else round(100 * share, 1) for share in recall])
        for name, *recall in zip(parts.systems, *(b.recall for b in buckets), strict=True)
    ]
    labels = [bucket.times for bucket in buckets]
    return bar_chart(labels, series, y_label="recall, %", title="Recall of reference words")


def _marked_lines(sentence: ScoredSentence, names: Sequence[str]) -> list[tuple[str, Markup]]:
    """Source, reference and translations, with the words marked that they do not share."""
    reference, hypotheses = _cropped(sentence.reference), [*map(_cropped, sentence.hypotheses)]
    matched = frozenset[int]().union(*(_matched_words(reference, line) for line in hypotheses))
    rows = [("Reference", _mark_words(reference, matched, attributes=' class="missing"'))]
    if sentence.source is not None:
        rows.insert(0, ("Source", escape(_cropped(sentence.source))))
    for name, line in zip(names, hypotheses, strict=True):
        rows.append((name, _mark_words(line, _matched_words(line, reference)) or "(empty)"))
    return [(term, Markup(text)) for term, text in rows]


def _matched_words(text: str, other: str) -> frozenset[int]:
    """Indices of the words of `text` that also occur in `other`, in the same order."""
    blocks = SequenceMatcher(None, words(text), words(other), autojunk=False).get_matching_blocks()
    return frozenset(index for block in blocks for index in range(block.a, block.a + block.size))


def _mark_words(text: str, unmarked: Collection[int], *, attributes: str = "") -> str:
    """Mark all words but `unmarked`; adjacent marked words share one element."""
    parts: list[str] = []
    end, open_mark = 0, False
    for index, (start, after) in enumerate(word_spans(text)):
        between, mark = escape(text[end:start]), index not in unmarked
        if open_mark and not mark:
            between = f"</mark>{between}"
        elif mark and not open_mark:
            between = f"{between}<mark{attributes}>"
        parts += [between, escape(text[start:after])]
        end, open_mark = after, mark
    return "".join([*parts, "</mark>" if open_mark else "", escape(text[end:])])


def _cropped(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
