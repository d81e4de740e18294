"""Evaluation reports: scores, a paired significance test and a breakdown, also as an HTML page."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import SequenceMatcher
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages
from transduce.data.segmentation import count_words, word_spans, words
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.evaluation.breakdown import (
    Breakdown,
    ErrorCounts,
    ScoredSentence,
    break_down,
    check_line_counts,
)
from transduce.evaluation.metrics import Score, bleu_metric, scoring_language
from transduce.evaluation.scoring import (
    TEXT_METRICS,
    Metric,
    describe_decoding,
    perplexity_score,
    score_lines,
    translate_with,
    translation_texts,
)
from transduce.evaluation.significance import Comparison, System, bootstrap_margins, compare_systems
from transduce.io.machine import VERSION
from transduce.visualization.page import BarSeries, Section, bar_chart, escape, page, table

MAX_TESTED_LINES: Final = 10_000
"""Largest test set, in lines, for the paired test, which needs 50 kB of memory per line."""


_FEW: Final = 10  # lines; buckets with fewer get no bar, since their BLEU is noise
_LONG: Final = 1200  # characters shown of a sentence

_MARKED: Final = (
    "Shaded: words not in the reference at this position. "
    "Dotted: reference words missing from every translation."
)

_STYLE: Final = """<style>
.case h3 { font-variant-numeric: tabular-nums; }
.case dl { display: grid; grid-template-columns: 9rem minmax(0, 1fr); gap: 0.2rem 1rem;
  margin: 0.4rem 0; max-width: none; }
.case dt { color: var(--soft); overflow-wrap: anywhere; }
.case dd { margin: 0; overflow-wrap: anywhere; }
mark { color: inherit; background: color-mix(in srgb, var(--series-1) 28%, transparent);
  border-radius: 2px; padding: 0 0.1em; }
mark.missing { background: none; padding: 0; border-bottom: 2px dotted var(--series-0);
  border-radius: 0; }
@media (max-width: 40rem) {
  .case dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .case dt { font-size: 0.875rem; margin-top: 0.35rem; }
}
</style>
"""


class ScoringOptions(NamedTuple):
    """Language, tokeniser and metrics of an evaluation."""

    language: str = ""
    """Code of the target language."""
    tokenize: str = ""
    """BLEU's tokeniser, overriding the language's."""
    metrics: Sequence[Metric] = (*TEXT_METRICS, "perplexity")


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

    title: str
    details: tuple[tuple[str, str], ...]
    """Names and values: what was evaluated, from which files, how and when."""
    margins: Mapping[str, float]
    """Half-width of the 95 % confidence interval by name of score, for the evaluated system; empty
    for test sets above `MAX_TESTED_LINES`."""
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
    decoding: str = ""
    """How a model's text was decoded."""
    direction: str = ""
    """Such as "English → German"."""
    details: tuple[tuple[str, str], ...] = ()
    """Names and values of a model."""


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
    translations = translate_with(bundle, sources)
    measured = (perplexity_score(bundle, sources, references),) if perplexity else ()
    training = _training_of(model, bundle)
    system = System(name, translation_texts(translations))
    decoding = describe_decoding(bundle.search, translations)
    languages = bundle.languages
    source = languages.source_name or languages.source
    named = languages != Languages()
    details = (
        ("Model", f"{model}, {bundle.weights.size:,} parameters"),
        ("Made", bundle.provenance.created),
        ("Decoding", decoding),
    )
    return SystemOutput(
        system,
        languages.target,
        training,
        measured,
        decoding,
        direction=f"{source} → {languages.target_name or languages.target}" if named else "",
        details=tuple(detail for detail in details if detail[1]),
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
    tokenize = scoring.tokenize
    system, training = output.system, output.training
    systems = [system, against] if against else [system]
    check_line_counts(systems, references, sources=sources)
    scored = [
        score_lines(
            lines,
            references,
            sources=sources,
            language=language,
            tokenize=tokenize,
            metrics=scoring.metrics,
        )
        for _, lines in systems
    ]
    scored[0] += output.perplexity
    comparison = None
    if against and len(references) <= MAX_TESTED_LINES:
        comparison = compare_systems(
            [against, system], references, metrics=["bleu"], language=language, tokenize=tokenize
        )
    margins: Mapping[str, float] = {}
    if len(references) <= MAX_TESTED_LINES:
        margins = bootstrap_margins(system.lines, references, language=language, tokenize=tokenize)
    return Report(
        title=f"Evaluation{f', {output.direction}' if output.direction else ''}",
        details=_details(output, files),
        margins=margins,
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
        ),
    )


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
    sections = [_scores(report), _errors(report), *_copies(report)]
    sections += [_lengths(report), *_origins(report), _frequencies(report)]
    lead = f"The {len(parts.worst)} translations of {names[0]} with the lowest sentence chrF2. "
    lead = lead + _MARKED if parts.worst else "Every translation is identical to its reference."
    listed = [
        ("Worst sentences", parts.worst, lead),
        ("Median sentences", parts.median, "From the middle of the ranking by sentence chrF2."),
        ("Random sentences", parts.random, "Drawn from all lines; the same for every system."),
    ]
    if len(names) == 2:
        for title, sentences, side in (
            ("Largest gains", parts.gains, "above"),
            ("Largest losses", parts.losses, "below"),
        ):
            lead = f"Where {names[0]} is furthest {side} {names[1]} in sentence chrF2."
            listed.append((title, sentences, lead if sentences else "None."))
    for title, sentences, lead in listed:
        html = "".join(_sentence(sentence, names) for sentence in sentences)
        sections.append(Section(title, html, lead))
    lines = "1 line" if parts.lines == 1 else f"{parts.lines:,} lines"
    lead = f"{' against '.join(names)}: {lines}, scored against one reference each."
    return page(report.title, sections, lead=lead)


def _scores(report: Report) -> Section:
    names = [system.name for system in report.systems]
    others = {s.name: s.value for s in report.systems[1].scores} if len(names) == 2 else {}
    rows: list[list[str]] = []
    for score in report.systems[0].scores:
        row = [score.name, f"{score.value:.2f}{_margin(report.margins.get(score.name))}"]
        if len(names) == 2:
            other = others.get(score.name)
            row += ["–"] * 2 if other is None else [f"{other:.2f}", _signed(score.value - other)]
        rows.append([*row, f"{score.signature}{score.note and f' ({score.note})'}"])
    if report.comparison:
        bootstrap = report.comparison.metrics[0]
        baseline, system = bootstrap.systems
        means = [f"{result.mean:.2f} ± {result.margin:.2f}" for result in (system, baseline)]
        rows.append(["BLEU, bootstrap", *means, "", bootstrap.signature])
    headers = ["Metric", *names, *(["Difference"] if len(names) == 2 else []), "Signature"]
    scores = table(headers, rows, numbers=range(1, len(headers) - 1))
    return Section(
        "Scores",
        _STYLE + scores + _paragraph(_verdict(report)) + table(["Evaluation", ""], report.details),
        "BLEU, chrF2 and exact match: higher is better. TER and perplexity: lower is better."
        + (" ±: 95 % confidence interval, by bootstrap over the lines." if report.margins else ""),
    )


def _verdict(report: Report) -> str:
    if len(report.systems) == 1:
        return ""
    if report.comparison is None:
        return (
            f"No significance test: the test set has more than {MAX_TESTED_LINES:,} lines. "
            f"Run `transduce compare` for one."
        )
    name, other = (system.name for system in report.systems)
    baseline, system = report.comparison.metrics[0].systems
    by = f"{abs(system.value - baseline.value):.2f} BLEU"
    samples = f"{report.comparison.samples:,} samples"
    test = f"p\u00a0=\u00a0{system.p:.4f} in a paired bootstrap of {samples}."
    if system.verdict == "unclear":
        return f"The difference of {by} is not significant: {test}"
    return f"{name} is {system.verdict} than {other} by {by}, significantly: {test}"


def _errors(report: Report) -> Section:
    parts = report.breakdown

    def row(label: str, cell: Callable[[ErrorCounts], str]) -> list[str]:
        return [label, *map(cell, parts.faults)]

    rows = [
        row("Empty lines", lambda counts: _share(counts.empty, parts.lines)),
        row("Lines with repetitions", lambda counts: _share(counts.repeated, parts.lines)),
        row("Length ratio (words / reference words)", lambda counts: f"{counts.ratio:.3f}"),
        row("BLEU brevity penalty (1 = none)", lambda counts: f"{counts.brevity:.3f}"),
        row(
            "Lines copied from the source", lambda counts: _share(counts.copied_lines, parts.lines)
        ),
        row(
            "Copied words not in the reference",
            lambda counts: _share(counts.copied_words, counts.words),
        ),
    ]
    if parts.measured == "reference":  # copies are unknown without the source
        del rows[-2:]
    names, numbers = parts.systems, range(1, len(parts.systems) + 1)
    ratios = [
        [label, *(_share(counts, parts.lines) for counts in line_counts)]
        for label, *line_counts in zip(
            parts.ratios, *(errors.ratios for errors in parts.faults), strict=True
        )
    ]
    examples = "".join(map(_examples, names, parts.faults))
    return Section(
        "Errors",
        table(["", *names], rows, numbers=numbers)
        + examples
        + "<h3>Lines by length ratio</h3>\n"
        + table(["Ratio", *names], ratios, numbers=numbers),
        "Repetition: one to four words three times in a row, or the same four words three times, "
        "unless the reference has it too.",
    )


def _examples(name: str, faults: ErrorCounts) -> str:
    """Examples of one system's copied words and repetitions."""
    html = ""
    if faults.most_copied:
        most = ", ".join(f"{word.word} ({word.times:,})" for word in faults.most_copied)
        html += _paragraph(f"Most copied by {name}: {most}.")
    if faults.repetitions:
        rows = [[f"{r.line:,}", r.piece, _cropped(r.hypothesis)] for r in faults.repetitions]
        html += f"<h3>Repetitions by {escape(name)}</h3>\n"
        html += table(["Line", "Repeated", "Translation"], rows, numbers=[0])
    return html


def _copies(report: Report) -> Iterator[Section]:
    parts = report.breakdown
    if not parts.copies:
        return
    headers = ["Kind", "In source and reference", *_system_headers(("Lost",), parts.systems)]
    rows = [
        [copies.kind, f"{copies.times:,}", *(_share(n, copies.times) for n in copies.lost)]
        for copies in parts.copies
    ]
    html = table(headers, rows, numbers=range(1, len(headers)))
    for name, faults in zip(parts.systems, parts.faults, strict=True):
        if faults.lost:
            lost = [[f"{x.line:,}", x.text, _cropped(x.hypothesis)] for x in faults.lost]
            html += f"<h3>Lost by {escape(name)}</h3>\n"
            html += table(["Line", "Lost", "Translation"], lost, numbers=[0])
    yield Section(
        "Copied text",
        html,
        "Addresses, identifiers and placeholders (code), numbers and capitals that "
        + ("the reference has" if parts.measured == "reference" else "source and reference share")
        + ", and the translation of the same line lacks.",
    )


def _origins(report: Report) -> Iterator[Section]:
    parts = report.breakdown
    if parts.origins:
        headers = ["Origin", "Lines", *_system_headers(("BLEU", "chrF2"), parts.systems)]
        rows = [
            [o.origin, f"{o.lines:,}", *(f"{value:.1f}" for value in (*o.bleu, *o.chrf))]
            for o in parts.origins
        ]
        yield Section(
            "By origin",
            table(headers, rows, numbers=range(1, len(headers))),
            "Corpus BLEU and mean sentence chrF2 of the lines of each origin.",
        )


def _lengths(report: Report) -> Section:
    parts = report.breakdown
    headers = [f"Words of the {parts.measured}", "Lines"]
    headers += _system_headers(("BLEU", "chrF2"), parts.systems)
    rows = [
        [b.words, f"{b.lines:,}", *(f"{value:.1f}" for value in (*b.bleu, *b.chrf))]
        for b in parts.lengths
    ]
    charted = [bucket for bucket in parts.lengths if bucket.lines >= _FEW]
    metric, value = "BLEU", attrgetter("bleu")
    if any(score.note for score in report.systems[0].scores):  # BLEU says nothing
        metric, value = "chrF2", attrgetter("chrf")
    chart = bar_chart(
        [bucket.words for bucket in charted],
        [
            BarSeries(name, [round(value, 1) for value in values])
            for name, *values in zip(parts.systems, *(value(b) for b in charted), strict=True)
        ],
        y_label=metric,
        title=f"{metric} by words of the {parts.measured}",
    )
    return Section(
        "By length",
        (chart if charted else "") + table(headers, rows, numbers=range(1, len(headers))),
        "Corpus BLEU and mean sentence chrF2 of the lines in each length bucket. Buckets of fewer "
        f"than {_FEW} lines have no bar: their scores are not reliable.",
    )


def _frequencies(report: Report) -> Section:
    parts = report.breakdown
    buckets = [bucket for bucket in parts.frequencies if bucket.words]
    headers = ["Times seen", "Words"]
    headers += _system_headers(("Recall", "F1"), parts.systems)
    rows = [
        [b.times, f"{b.words:,}", *(_percent(share) for share in (*b.recall, *b.f1))]
        for b in buckets
    ]
    series = [
        BarSeries(name, [math.nan if share is None else round(100 * share, 1) for share in recall])
        for name, *recall in zip(parts.systems, *(b.recall for b in buckets), strict=True)
    ]
    chart = bar_chart(
        [bucket.times for bucket in buckets],
        series,
        y_label="recall, %",
        title="Recall of reference words",
    )
    note = ""
    if parts.own_frequencies:
        note = " Pass the training text with --train FILE to see words unseen in training."
    return Section(
        "Rare words",
        chart + table(headers, rows, numbers=range(1, len(headers))),
        f"Reference words by their frequency in {report.training}, and the share of them found in "
        f"the translation of the same line.{note}",
    )


def _system_headers(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Column headers per system; a single system is not named."""
    if len(names) == 1:
        return list(columns)
    return [f"{column}, {name}" for column in columns for name in names]


def _sentence(sentence: ScoredSentence, names: Sequence[str]) -> str:
    scores = " against ".join(f"{score:.1f}" for score in sentence.chrf)
    reference, hypotheses = _cropped(sentence.reference), [*map(_cropped, sentence.hypotheses)]
    rows = [] if sentence.source is None else [("Source", escape(_cropped(sentence.source)))]
    matched = frozenset[int]().union(*(_matched_words(reference, line) for line in hypotheses))
    rows.append(("Reference", _mark_words(reference, matched, attributes=' class="missing"')))
    for name, line in zip(names, hypotheses, strict=True):
        rows.append((name, _mark_words(line, _matched_words(line, reference)) or "(empty)"))
    listed = "".join(f'<dt>{escape(term)}</dt><dd dir="auto">{text}</dd>\n' for term, text in rows)
    return (
        f'<article class="case">\n<h3>Line {sentence.line:,}: chrF2 {scores}</h3>\n'
        f"<dl>\n{listed}</dl>\n</article>\n"
    )


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


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n" if text else ""


def _share(count: int | None, total: int) -> str:
    return "–" if count is None else f"{count:,} ({count / max(total, 1):.1%})"


def _margin(half_width: float | None) -> str:
    return "" if half_width is None else f" ± {half_width:.2f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
