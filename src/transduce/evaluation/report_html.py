"""Render a report as one HTML page, the most important figures first."""

import math
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import Final

from transduce.data.segmentation import word_spans, words
from transduce.evaluation.breakdown import RATIO_LABELS, ErrorCounts, ScoredSentence
from transduce.evaluation.report import MAX_TESTED_LINES, Report
from transduce.visualization.chart import BarSeries, bar_chart
from transduce.visualization.page import Section, escape, page, table

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


def to_html(report: Report) -> str:
    """Render a report as a self-contained HTML file."""
    names = [system.name for system in report.systems]
    parts = report.breakdown
    sections = [_scores(report), _errors(report), _lengths(report), _frequencies(report)]
    lead = f"The {len(parts.worst)} translations of {names[0]} with the lowest sentence chrF2. "
    lead = lead + _MARKED if parts.worst else "Every translation is identical to its reference."
    sections.append(Section("Worst sentences", _sentences(parts.worst, names), lead))
    if len(names) == 2:
        for title, sentences, way in (
            ("Largest gains", parts.gains, "above"),
            ("Largest losses", parts.losses, "below"),
        ):
            lead = f"Where {names[0]} is furthest {way} {names[1]} in sentence chrF2."
            sections.append(
                Section(title, _sentences(sentences, names), lead if sentences else "None.")
            )
    return page(
        " against ".join(names),
        sections,
        lead=f"{_plural(parts.lines, 'line')}, scored against one reference each.",
    )


def _scores(report: Report) -> Section:
    names = [system.name for system in report.systems]
    others = {s.name: s.value for s in report.systems[1].scores} if len(names) == 2 else {}
    rows: list[list[str]] = []
    for score in report.systems[0].scores:
        row = [score.name, f"{score.value:.2f}"]
        if len(names) == 2:
            other = others.get(score.name)
            row += ["–"] * 2 if other is None else [f"{other:.2f}", _signed(score.value - other)]
        rows.append([*row, score.signature])
    if report.comparison:
        bootstrap = report.comparison.metrics[0]
        baseline, system = bootstrap.systems
        means = [f"{result.mean:.2f} ± {result.margin:.2f}" for result in (system, baseline)]
        rows.append(["BLEU, bootstrap", *means, "", bootstrap.signature])
    headers = ["Metric", *names, *(["Difference"] if len(names) == 2 else []), "Signature"]
    scores = table(headers, rows, numbers=range(1, len(headers) - 1))
    return Section(
        "Scores",
        _STYLE + scores + _paragraph(_verdict(report)),
        "BLEU and chrF2: higher is better. TER and perplexity: lower is better.",
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
    rows = [
        ["Empty lines", *(_share(errors.empty, parts.lines) for errors in parts.faults)],
        [
            "Lines with repetitions",
            *(_share(errors.repeated, parts.lines) for errors in parts.faults),
        ],
        [
            "Length ratio (words / reference words)",
            *(f"{errors.ratio:.3f}" for errors in parts.faults),
        ],
        ["BLEU brevity penalty (1 = none)", *(f"{errors.brevity:.3f}" for errors in parts.faults)],
        [
            "Lines copied from the source",
            *(_share(errors.copied_lines, parts.lines) for errors in parts.faults),
        ],
        [
            "Copied words not in the reference",
            *(_share(errors.copied_words, errors.words) for errors in parts.faults),
        ],
    ]
    if parts.measured == "reference":  # copies are unknown without the source
        del rows[-2:]
    names = parts.systems
    numbers = range(1, len(names) + 1)
    ratios = [
        [name, *(_share(errors.ratios[index], parts.lines) for errors in parts.faults)]
        for index, name in enumerate(RATIO_LABELS)
    ]
    listed = "".join(
        _examples(name, errors) for name, errors in zip(names, parts.faults, strict=True)
    )
    return Section(
        "Errors",
        table(["", *names], rows, numbers=numbers)
        + listed
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


def _lengths(report: Report) -> Section:
    parts = report.breakdown
    headers = [f"Words of the {parts.measured}", "Lines"]
    headers += _system_headers(("BLEU", "chrF2"), parts.systems)
    rows = [
        [
            bucket.words,
            f"{bucket.lines:,}",
            *(f"{value:.1f}" for value in (*bucket.bleu, *bucket.chrf)),
        ]
        for bucket in parts.lengths
    ]
    charted = [bucket for bucket in parts.lengths if bucket.lines >= _FEW]
    chart = bar_chart(
        [bucket.words for bucket in charted],
        [
            BarSeries(name, [round(bucket.bleu[index], 1) for bucket in charted])
            for index, name in enumerate(parts.systems)
        ],
        y_label="BLEU",
        title=f"BLEU by words of the {parts.measured}",
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
        [
            bucket.times,
            f"{bucket.words:,}",
            *(_percent(value) for value in (*bucket.recall, *bucket.f1)),
        ]
        for bucket in buckets
    ]
    groups = [
        BarSeries(
            name,
            [
                math.nan if (share := bucket.recall[index]) is None else round(100 * share, 1)
                for bucket in buckets
            ],
        )
        for index, name in enumerate(parts.systems)
    ]
    chart = bar_chart(
        [bucket.times for bucket in buckets],
        groups,
        y_label="recall, %",
        title="Recall of reference words",
    )
    note = (
        " Pass the training text with --train FILE to see words unseen in training."
        if parts.own_frequencies
        else ""
    )
    return Section(
        "Rare words",
        chart + table(headers, rows, numbers=range(1, len(headers))),
        f"Reference words by their frequency in {report.training}, and the share of them found in "
        f"the translation of the same line.{note}",
    )


def _system_headers(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Column headers per system; a single system is not named."""
    return (
        [*columns]
        if len(names) == 1
        else [f"{column}, {name}" for column in columns for name in names]
    )


def _sentences(sentences: Sequence[ScoredSentence], names: Sequence[str]) -> str:
    return "".join(_sentence(sentence, names) for sentence in sentences)


def _sentence(sentence: ScoredSentence, names: Sequence[str]) -> str:
    scores = " against ".join(f"{score:.1f}" for score in sentence.chrf)
    reference, hypotheses = _cropped(sentence.reference), [*map(_cropped, sentence.hypotheses)]
    rows = [] if sentence.source is None else [("Source", escape(_cropped(sentence.source)))]
    matched = frozenset[int]().union(*(_matched_words(reference, line) for line in hypotheses))
    rows.append(("Reference", _mark_words(reference, matched, attributes=' class="missing"')))
    for name, line in zip(names, hypotheses, strict=True):
        rows.append((name, _mark_words(line, _matched_words(line, reference)) or "(empty)"))
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{text}</dd>\n" for term, text in rows)
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


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
