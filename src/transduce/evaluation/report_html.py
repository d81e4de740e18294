"""The page of a report: what it says first is what a person asks first."""

import math
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import Final

from transduce.data.words import spans, words
from transduce.evaluation.breakdown import Sentence
from transduce.evaluation.report import MOST_TESTED, Report
from transduce.evaluation.tally import RATIOS, Faults
from transduce.visualization.chart import Group, bar_chart
from transduce.visualization.page import Section, escape, page, table

_FEW: Final = 10  # lines; the score of fewer is no bar worth drawing
_LONG: Final = 1200  # characters of a sentence that are shown

_MARKED: Final = (
    "Shaded: words that the reference does not have there. "
    "Dotted: words of the reference that no translation has there."
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
    """Make one HTML file of a report."""
    names = [system.name for system in report.systems]
    parts = report.breakdown
    sections = [_scores(report), _faults(report), _lengths(report), _frequencies(report)]
    lead = f"The {len(parts.worst)} translations of {names[0]} with the lowest sentence chrF2. "
    lead = lead + _MARKED if parts.worst else "Every translation is its reference."
    sections.append(Section("Worst sentences", _sentences(parts.worst, names), lead))
    if len(names) == 2:
        for title, some, way in (
            ("Largest gains", parts.gains, "above"),
            ("Largest losses", parts.losses, "below"),
        ):
            lead = f"Where {names[0]} is furthest {way} {names[1]} in sentence chrF2."
            sections.append(Section(title, _sentences(some, names), lead if some else "None."))
    return page(
        " against ".join(names),
        sections,
        lead=f"{_counted(parts.lines, 'line')}, each held against one reference.",
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
        baseline, ours = bootstrap.systems
        means = [f"{one.mean:.2f} ± {one.margin:.2f}" for one in (ours, baseline)]
        rows.append(["BLEU, bootstrap", *means, "", bootstrap.signature])
    headers = ["Metric", *names, *(["Difference"] if len(names) == 2 else []), "Signature"]
    found = table(headers, rows, numbers=range(1, len(headers) - 1))
    return Section(
        "Scores",
        _STYLE + found + _paragraph(_verdict(report)),
        "BLEU and chrF2: higher is better. TER and perplexity: lower is better.",
    )


def _verdict(report: Report) -> str:
    if len(report.systems) == 1:
        return ""
    if report.comparison is None:
        return (
            f"No paired test was made: there are more than {MOST_TESTED:,} lines. "
            f"`transduce compare` makes one."
        )
    name, other = (system.name for system in report.systems)
    baseline, ours = report.comparison.metrics[0].systems
    by = f"{abs(ours.value - baseline.value):.2f} BLEU"
    samples = f"{report.comparison.samples:,} samples"
    test = f"p\u00a0=\u00a0{ours.p:.4f} in a paired bootstrap of {samples}."
    if ours.verdict == "unclear":
        return f"The difference of {by} may be chance: {test}"
    return f"{name} is {ours.verdict} than {other} by {by}, and hardly by chance: {test}"


def _faults(report: Report) -> Section:
    parts = report.breakdown
    rows = [
        ["Lines left empty", *(_share(one.empty, parts.lines) for one in parts.faults)],
        ["Lines that repeat a piece", *(_share(one.repeated, parts.lines) for one in parts.faults)],
        ["Words for each reference word", *(f"{one.ratio:.3f}" for one in parts.faults)],
        ["BLEU's brevity penalty (1 is none)", *(f"{one.brevity:.3f}" for one in parts.faults)],
        [
            "Lines copied from the source",
            *(_share(one.copied_lines, parts.lines) for one in parts.faults),
        ],
        [
            "Words copied, not in the reference",
            *(_share(one.copied_words, one.words) for one in parts.faults),
        ],
    ]
    if parts.measured == "reference":  # no source, so nothing is known of copies
        del rows[-2:]
    names = parts.systems
    numbers = range(1, len(names) + 1)
    ratios = [
        [name, *(_share(one.ratios[place], parts.lines) for one in parts.faults)]
        for place, name in enumerate(RATIOS)
    ]
    listed = "".join(_examples(name, one) for name, one in zip(names, parts.faults, strict=True))
    return Section(
        "What goes wrong",
        table(["", *names], rows, numbers=numbers)
        + listed
        + "<h3>Lines by length, as words for each reference word</h3>\n"
        + table(["Ratio", *names], ratios, numbers=numbers),
        "Repeated: one to four words three times in a row, or the same four words three times, "
        "where the reference does not.",
    )


def _examples(name: str, faults: Faults) -> str:
    """Words copied and pieces repeated by one system."""
    found = ""
    if faults.most_copied:
        most = ", ".join(f"{one.word} ({one.times:,})" for one in faults.most_copied)
        found += _paragraph(f"{name} copies most often: {most}.")
    if faults.repetitions:
        rows = [[f"{r.line:,}", r.piece, _cropped(r.hypothesis)] for r in faults.repetitions]
        found += f"<h3>{escape(name)} repeats</h3>\n"
        found += table(["Line", "Piece", "Translation"], rows, numbers=[0])
    return found


def _lengths(report: Report) -> Section:
    parts = report.breakdown
    headers = [f"Words of the {parts.measured}", "Lines"]
    headers += _beside(("BLEU", "chrF2"), parts.systems)
    rows = [
        [one.words, f"{one.lines:,}", *(f"{value:.1f}" for value in (*one.bleu, *one.chrf))]
        for one in parts.lengths
    ]
    drawn = [one for one in parts.lengths if one.lines >= _FEW]
    chart = bar_chart(
        [one.words for one in drawn],
        [
            Group(name, [round(one.bleu[at], 1) for one in drawn])
            for at, name in enumerate(parts.systems)
        ],
        y_label="BLEU",
        title=f"BLEU by words of the {parts.measured}",
    )
    return Section(
        "By length",
        (chart if drawn else "") + table(headers, rows, numbers=range(1, len(headers))),
        f"BLEU of the lines of about one length, and the mean of their sentence chrF2. Fewer than "
        f"{_FEW} lines make no bar: their score says little.",
    )


def _frequencies(report: Report) -> Section:
    parts = report.breakdown
    held = [one for one in parts.frequencies if one.words]
    headers = ["Times seen", "Words"]
    headers += _beside(("Recall", "F1"), parts.systems)
    rows = [
        [one.times, f"{one.words:,}", *(_percent(value) for value in (*one.recall, *one.f1))]
        for one in held
    ]
    groups = [
        Group(
            name,
            [
                math.nan if (share := one.recall[at]) is None else round(100 * share, 1)
                for one in held
            ],
        )
        for at, name in enumerate(parts.systems)
    ]
    chart = bar_chart(
        [one.times for one in held],
        groups,
        y_label="recall, %",
        title="Words of the references that the translations have",
    )
    note = (
        " Name the training text by --train FILE to see words that it does not have."
        if parts.own_frequencies
        else ""
    )
    return Section(
        "Rare words",
        chart + table(headers, rows, numbers=range(1, len(headers))),
        f"Words of the references by how often they stand in {report.training}, and how many of "
        f"them are in the translation of the same line.{note}",
    )


def _beside(what: Sequence[str], names: Sequence[str]) -> list[str]:
    """Headers of a few columns for every system; a single one need not be named."""
    return [*what] if len(names) == 1 else [f"{one}, {name}" for one in what for name in names]


def _sentences(some: Sequence[Sentence], names: Sequence[str]) -> str:
    return "".join(_sentence(one, names) for one in some)


def _sentence(one: Sentence, names: Sequence[str]) -> str:
    scores = " against ".join(f"{score:.1f}" for score in one.chrf)
    reference, hypotheses = _cropped(one.reference), [*map(_cropped, one.hypotheses)]
    rows = [] if one.source is None else [("Source", escape(_cropped(one.source)))]
    found = frozenset[int]().union(*(_matched(reference, line) for line in hypotheses))
    rows.append(("Reference", _marked(reference, found, kind=' class="missing"')))
    for name, line in zip(names, hypotheses, strict=True):
        rows.append((name, _marked(line, _matched(line, reference)) or "(empty)"))
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{text}</dd>\n" for term, text in rows)
    return (
        f'<article class="case">\n<h3>Line {one.line:,}: chrF2 {scores}</h3>\n'
        f"<dl>\n{listed}</dl>\n</article>\n"
    )


def _matched(text: str, other: str) -> frozenset[int]:
    """The places of the words of `text` that `other` has too, in the same order."""
    blocks = SequenceMatcher(None, words(text), words(other), autojunk=False).get_matching_blocks()
    return frozenset(at for block in blocks for at in range(block.a, block.a + block.size))


def _marked(text: str, known: Collection[int], *, kind: str = "") -> str:
    """Mark the words of a text that are not known; neighbours share a mark."""
    parts: list[str] = []
    end, open_mark = 0, False
    for at, (start, after) in enumerate(spans(text)):
        between, mark = escape(text[end:start]), at not in known
        if open_mark and not mark:
            between = f"</mark>{between}"
        elif mark and not open_mark:
            between = f"{between}<mark{kind}>"
        parts += [between, escape(text[start:after])]
        end, open_mark = after, mark
    return "".join([*parts, "</mark>" if open_mark else "", escape(text[end:])])


def _cropped(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n" if text else ""


def _share(count: int | None, whole: int) -> str:
    return "–" if count is None else f"{count:,} ({count / max(whole, 1):.1%})"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
