"""Teacher and student of a distillation compared: quality, speed, and the page that shows both."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final

from transduce.config import Recipe
from transduce.data.corpus import Pair
from transduce.evaluation.metrics import Score
from transduce.evaluation.scoring import RunResult, translation_texts
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import atomic_file
from transduce.pipeline.run_folder import write_text
from transduce.pipeline.selection import compare_texts, recipe_bleu, recipe_chrf
from transduce.visualization.page import Section, Series, line_chart, page, table

RECORD: Final = "distilled.json"
PAGE: Final = "distilled.html"

TIMED = 300
"""Sentences that all models translate in turn, timed."""

_ROUNDS = 3  # timing rounds; the fastest counts, since noise only slows down
_HEADERS = ("difference", f"{'p':>6}", "parameters", "sentences/s", "speed-up")


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationScore:
    """Quality and speed of a model with a compute type and a beam size."""

    model: str
    """"teacher" or "student", and the compute type unless it is float32."""
    beam: int
    score: Score
    """BLEU, or chrF2 where the references are too short for BLEU."""
    difference: float
    """Score minus that of the first row, the teacher."""
    p: float | None
    """p-value of the difference, by paired bootstrap; None in the first row."""
    parameters: int
    """Of all models, for teachers that are an ensemble."""
    sentences_per_second: float
    engine: str

    @property
    def name(self) -> str:
        """Model and beam size.

        >>> row = dict(difference=0.0, p=None, parameters=1, sentences_per_second=9.0, engine="")
        >>> score = Score(name="BLEU", value=41.0, signature="")
        >>> DistillationScore(model="student, int8", beam=1, score=score, **row).name
        'student, int8, greedy'
        """
        return f"{self.model}, beam {self.beam}" if self.beam > 1 else f"{self.model}, greedy"


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationResult:
    """The outcome of a distillation: the content of distilled.json."""

    finished: RunResult
    """The student's run."""
    part: str
    """The part scored: "test", or "validation" if there is no test set."""
    sentences: int
    """All are scored; the first `TIMED` are timed."""
    rows: tuple[DistillationScore, ...]
    """The teacher with its beam first, which the others are compared with."""

    def __str__(self) -> str:
        """A table, the engines, and the metric's signature."""
        title, metric = f"{self.part}, {self.sentences:,} sentences", self.rows[0].score
        names = (f"{title:30}", f"{metric.name:>6}", *_HEADERS)
        widths = [len(name) for name in names]
        lines = ["  ".join(names)]
        for row in self.rows:
            cells = zip(self._cells(row), widths[1:], strict=True)
            lines.append("  ".join([f"{row.name:30}", *(f"{c:>{width}}" for c, width in cells)]))
        for engine in dict.fromkeys(row.engine for row in self.rows):
            models = dict.fromkeys(row.model for row in self.rows if row.engine == engine)
            lines.append(f"{engine} ({'; '.join(models)})")
        return "\n".join([*lines, f"{metric.name}: {metric.signature}"])

    def write(self, out: Path) -> None:
        """Write distilled.json and distilled.html."""
        rows = [{"name": row.name, **asdict(row)} for row in self.rows]
        text = json.dumps({**asdict(self), "rows": rows}, indent=2, ensure_ascii=False)
        write_text(out / RECORD, f"{text}\n")
        with atomic_file(out / PAGE) as stream:
            stream.write(self._page(out.resolve().name).encode())

    def _cells(self, row: DistillationScore) -> tuple[str, ...]:
        """Format a row's numbers; the first row, the baseline, has no difference."""
        speed_up = row.sentences_per_second / self.rows[0].sentences_per_second
        compared = row.p is not None
        return (
            f"{row.score.value:.2f}",
            f"{row.difference:+.2f}" if compared else "",
            f"{row.p:.4f}" if compared else "",
            f"{row.parameters:,}",
            f"{row.sentences_per_second:,.1f}",
            f"{speed_up:.2f}" if compared else "",
        )

    def _page(self, name: str) -> str:
        metric = self.rows[0].score
        points: dict[str, list[DistillationScore]] = {}
        for row in self.rows:
            points.setdefault(row.model, []).append(row)
        series = [
            Series(
                model, [row.sentences_per_second for row in rows], [row.score.value for row in rows]
            )
            for model, rows in points.items()
        ]
        chart = line_chart(
            series,
            x_label="sentences per second",
            y_label=metric.name,
            title="Quality and speed, with beam search and with greedy search",
        )
        headers = ("", metric.name, *map(str.strip, _HEADERS))
        rows = [(row.name, *self._cells(row)) for row in self.rows]
        lead = (
            f"{self.sentences:,} sentences of the {self.part} set; the first "
            f"{min(TIMED, self.sentences):,} timed on this machine's CPU. Difference, p (paired "
            f"bootstrap) and speed-up are relative to the first row."
        )
        numbers = table(headers, rows, numbers=range(1, len(headers)))
        return page(
            f"Distillation: {name}",
            [Section("Quality and speed", chart + numbers, lead)],
            lead=f"{metric.name}: {metric.signature}",
        )


def compare_models(
    teachers: Sequence[Path],
    student: Path,
    recipe: Recipe,
    pairs: Sequence[Pair],
    *,
    parameters: int,
    beam: int,
) -> tuple[DistillationScore, ...]:
    """Score teacher and student on pairs and time them in turn, with the beam and greedily.

    Both run in float32, and in int8 if an engine supports the model; an ensemble does not.

    Args:
        teachers: model folders; the probabilities of several are averaged.
        student: model folder.
        recipe: says how BLEU is computed.
        pairs: sentences with references; the first `TIMED` are timed.
        parameters: of all teachers.
        beam: beam size.
    """
    teacher, *ensemble = teachers
    translators = {"teacher": Translator.load(teacher, ensemble=ensemble)}
    if not ensemble:
        translators |= _in_int8("teacher", teacher, translators["teacher"])
    translators["student"] = Translator.load(student)
    translators |= _in_int8("student", student, translators["student"])
    runs = list(product(translators, dict.fromkeys((beam, 1))))
    sources = [pair.source for pair in pairs]
    texts = [
        translation_texts(_translate(translators[name], sources, width)) for name, width in runs
    ]
    fastest = [float("inf")] * len(runs)
    for _ in range(_ROUNDS):
        for index, (name, width) in enumerate(runs):
            started = time.perf_counter()
            _translate(translators[name], sources[:TIMED], width)
            fastest[index] = min(fastest[index], time.perf_counter() - started)
    scores = [_score(recipe, hypotheses, pairs) for hypotheses in texts]
    metric = "bleu" if scores[0].name == "BLEU" else "chrf"
    p_values = [row.p for row in compare_texts(recipe, texts, pairs, metric=metric)]
    return tuple(
        DistillationScore(
            model=name,
            beam=width,
            score=score,
            difference=score.value - scores[0].value,
            p=p,
            parameters=translators[name].model.size if name.startswith("student") else parameters,
            sentences_per_second=len(sources[:TIMED]) / seconds,
            engine=translators[name].engine_description,
        )
        for (name, width), score, p, seconds in zip(runs, scores, p_values, fastest, strict=True)
    )


def _in_int8(name: str, path: Path, translator: Translator) -> Mapping[str, Translator]:
    """Load a model in int8 if an engine runs it so here."""
    if not any(engine in translator.engine_description for engine in ("native", "ctranslate2")):
        return {}
    try:
        return {f"{name}, int8": Translator.load(path, compute_type="int8")}
    except ValueError:  # this processor has no int8 for it
        return {}


def _score(recipe: Recipe, hypotheses: Sequence[str], pairs: Sequence[Pair]) -> Score:
    """BLEU, or chrF2 where the references are too short for BLEU."""
    score = recipe_bleu(recipe, hypotheses, pairs)
    return recipe_chrf(recipe, hypotheses, pairs) if score.note else score


def _translate(translator: Translator, sources: Sequence[str], beam: int) -> list[Translation]:
    return translator.translate(sources, num_beams=beam, token_scores=False)
