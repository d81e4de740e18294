"""OUT/report.html: curves, translations, attention and cost of a run, rewritten at validations."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from transduce.config import Recipe
from transduce.data.corpus import Pair, tidy
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.scoring import RunResult
from transduce.io.atomic_folder import atomic_file
from transduce.model.trace import trace
from transduce.model.transformer import Transformer
from transduce.pipeline.prepared import Prepared
from transduce.train.events import Event, EventHandler, Validated, describe_duration
from transduce.visualization.attention_view import heatmap_svg
from transduce.visualization.page import Section, Series, line_chart, page
from transduce.visualization.template import open_template

REPORT: Final = "report.html"
METRICS: Final = "metrics.jsonl"

_SENTENCES = 5  # validation pairs whose translations are shown
_MAPS = 6  # attention maps, evenly spaced over the validations
_PIECES = range(6, 17)  # of each side of the pair whose attention is shown, where there is such
_REFRESH = 10  # seconds between two loads of the page in a browser, while the run trains

Line = Mapping[str, Any]
"""A line of metrics.jsonl: JSON, whose values have several types."""


class _TracedPair(NamedTuple):
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPage:
    """Writes the page of a run; its event handler does so at every validation."""

    out: Path
    recipe: Recipe
    prepared: Prepared
    parameters: int
    device: str

    def handler(self, on_event: EventHandler) -> EventHandler:
        """Return an event handler that writes the page after each validation, and passes all on."""

        def handle(event: Event) -> None:
            on_event(event)
            if isinstance(event, Validated):
                self.write()

        return handle

    def write(self, result: RunResult | None = None) -> None:
        """Write the page; it reloads itself in a browser until there is a result."""
        with atomic_file(self.out / REPORT) as stream:
            stream.write(self.render(result).encode())

    def render(self, result: RunResult | None) -> str:
        """Return the page of what metrics.jsonl holds so far, and of the result if there is one."""
        lines = read_metrics(self.out / METRICS)
        validations = [line for line in lines if "bleu" in line]
        template = open_template(Path(__file__).with_suffix(".html"))
        macros: Any = template.make_module({"duration": describe_duration})
        sections = [Section("Curves", curves(lines))]
        if result:
            scores = Section("Scores", macros.scores(result), result.chosen)
            sections.insert(0, scores)
        if sentences := self._sentences(validations):
            lead = "Greedy search at each validation at which the translation changed."
            sections.append(Section("Translations", macros.sentences(sentences), lead))
        if maps := self._attention(validations):
            lead = "Cross-attention of the last layer, mean of the heads; rows: the reference."
            sections.append(Section("Attention", macros.attention(maps), lead))
        sections.append(
            Section("Run", macros.facts(self, lines[-1] if lines else {}, result is None))
        )
        title = f"{self.out.name}: {self.recipe.languages.source} → {self.recipe.languages.target}"
        state = "Finished." if result else "In training; this page reloads itself."
        return page(title, sections, lead=state, refresh=0 if result else _REFRESH)

    @property
    def shown_pairs(self) -> tuple[int, ...]:
        """Indices of the validation pairs whose translations are shown, evenly spaced."""
        pairs = len(self.prepared.validation)
        return tuple(range(0, pairs, -(-pairs // _SENTENCES)))

    def trace(self, model: Transformer) -> tuple[tuple[float, ...], ...]:
        """Return the cross-attention for a fixed validation pair, a row per target piece."""
        pair = self._traced_pair()
        cross = trace(model, pair.source, pair.target).cross[-1]
        return tuple(tuple(round(w, 3) for w in row) for row in cross.mean(0).tolist())

    def _traced_pair(self) -> _TracedPair:
        """The first validation pair of a suitable length, or the shortest."""
        tokenizer, eos = self.prepared.tokenizer, Tokenizer.EOS

        def encode(pair: Pair) -> _TracedPair:
            target = tokenizer.target.encode(tidy(pair.target))
            return _TracedPair((*tokenizer.encode(tidy(pair.source)), eos), (*target, eos))

        encoded = list(map(encode, self.prepared.validation[:50]))
        suitable = (pair for pair in encoded if all(len(side) in _PIECES for side in pair))
        return next(suitable, min(encoded, key=lambda pair: len(pair.source) + len(pair.target)))

    def _sentences(self, validations: Sequence[Line]) -> list[dict[str, object]]:
        histories: dict[int, list[tuple[int, str]]] = {}
        for line in validations:
            for index, text in zip(self.shown_pairs, line.get("translations", ()), strict=False):
                history = histories.setdefault(index, [])
                if not history or history[-1][1] != text:
                    history.append((line["update"], text))
        pairs = self.prepared.validation
        return [
            {
                "source": pairs[index].source,
                "reference": pairs[index].target,
                "translations": history,
            }
            for index, history in histories.items()
        ]

    def _attention(self, validations: Sequence[Line]) -> list[tuple[int, str]]:
        traced = [line for line in validations if line.get("attention")]
        if not traced:
            return []
        pair, tokenizer = self._traced_pair(), self.prepared.tokenizer
        rows, columns = tokenizer.target.pieces(pair.target), tokenizer.pieces(pair.source)
        count = min(_MAPS, len(traced))
        spaced = [traced[index * (len(traced) - 1) // max(1, count - 1)] for index in range(count)]
        return [
            (
                line["update"],
                heatmap_svg(rows, columns, line["attention"], title=f"update {line['update']}"),
            )
            for line in spaced
        ]


def read_metrics(file: Path) -> list[Line]:
    """Read the lines of metrics.jsonl; none if there is no file, without any that is damaged."""
    lines: list[Line] = []
    if file.exists():
        for text in file.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                lines.append(json.loads(text))
    return lines


def curves(lines: Sequence[Line]) -> str:
    """Draw loss, BLEU, learning rate and speed over the updates."""

    def series(name: str, key: str) -> Series:
        values = [line for line in lines if key in line]
        return Series(name, [line["update"] for line in values], [line[key] for line in values])

    charts = [
        ("Loss", "nats per piece", [("training", "loss"), ("validation", "validation_loss")]),
        ("BLEU of greedy search", "BLEU", [("validation", "bleu")]),
        ("Token accuracy", "%", [("validation", "validation_accuracy")]),
        ("Learning rate", "rate", [("Adam", "rate")]),
        ("Speed", "target tokens a second", [("training", "tokens_per_second")]),
    ]
    drawn: list[str] = []
    for title, label, names in charts:
        lines_drawn = [s for s in (series(*name) for name in names) if s.x]
        if lines_drawn:
            drawn.append(line_chart(lines_drawn, x_label="update", y_label=label, title=title))
    return "".join(drawn) or "<p>No values yet.</p>\n"
