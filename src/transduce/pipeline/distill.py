"""Sequence-level knowledge distillation: a small, fast student trained on a teacher's translations.

A teacher's translations are more regular than human ones, so that a decoder of one layer can learn
them. The decoder runs once per piece; the encoder runs once per sentence and may stay deep. The
student's folder has, besides the files of a run:

    original/          the recipe's corpus, prepared with the teacher's vocabulary
    distilled/         the student's corpus: original sources, the teacher's translations as
                       targets; validation and test text unchanged
    distilled.json     teacher and student compared

Each is written atomically, so the same command resumes an interrupted distillation, also in the
middle of the translation.

Source:
    Kim, Rush 2016, "Sequence-Level Knowledge Distillation"; Kasai, Pappas, Peng, Cross, Smith 2021,
    "Deep Encoder, Shallow Decoder".
"""

import json
import shutil
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.bundle.bundle import Bundle
from transduce.cluster.engines import ClusterConfig, check_installed
from transduce.cluster.translate import translate_corpus
from transduce.config import Recipe, conflicts, load_recipe
from transduce.data.config import Languages
from transduce.data.corpus import Pair
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.evaluation.metrics import Score, chrf
from transduce.evaluation.scoring import RunResult, translation_texts
from transduce.inference.translator import Translation, Translator
from transduce.io.atomic_folder import MANIFEST, atomic_folder, check_folder, sha256
from transduce.io.lock import LOCK_FILE, exclusive_lock
from transduce.io.resumable import partial_file, resumable_output
from transduce.io.streams import open_output, read_lines
from transduce.pipeline.defaults import EpochPlan
from transduce.pipeline.finetune import StartModel, tokenizer_settings
from transduce.pipeline.prepare import write_pairs
from transduce.pipeline.prepared import Prepared
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import (
    check_output_folder,
    describe_fault,
    has_begun,
    prepare_run,
    write_text,
)
from transduce.pipeline.selection import recipe_bleu
from transduce.pipeline.synthetic_pairs import translate_lines
from transduce.train.distributed import find_device
from transduce.train.events import EventHandler, LogMessage

ORIGINAL, FOLDER, RECORD = "original", "distilled", "distilled.json"

TIMED = 300
"""Sentences that teacher and student translate in turn, timed."""

_ROUNDS = 3  # timing rounds; the fastest counts, since noise only slows down
_MADE = "made.json"
_TARGETS = "distilled.txt"  # the translations, until the distilled corpus is written
_SHARDS = ".distilled.shards"  # those of workers


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationScore:
    """Quality and speed of one model with one beam size."""

    name: str
    """Model and beam size."""
    bleu: Score
    """chrF2 where the references are too short for BLEU."""
    parameters: int
    sentences_per_second: float
    engine: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationResult:
    """How a distillation ended: the content of distilled.json."""

    finished: RunResult
    """The student's run."""
    part: str
    """What was measured on: "test", or "validation" where there is no test."""
    sentences: int
    """All of them are scored; the first `TIMED` are timed."""
    rows: tuple[DistillationScore, ...]

    def __str__(self) -> str:
        """A table, and how BLEU was measured."""
        metric = self.rows[0].bleu
        lines = [
            f"{f'{self.part}, {self.sentences:,} sentences':30}{metric.name:>6}  "
            "parameters  sentences/s",
            *(
                f"{row.name:30} {row.bleu.value:5.2f} {row.parameters:11,} "
                f"{row.sentences_per_second:12,.1f}"
                for row in self.rows
            ),
        ]
        for engine in dict.fromkeys(row.engine for row in self.rows):
            who = "; ".join(row.name for row in self.rows if row.engine == engine)
            lines.append(f"{engine} ({who})")
        return "\n".join([*lines, f"{metric.name}: {metric.signature}"])


def distill(
    path: Path,
    recipe: Recipe,
    out: Path,
    *,
    beam: int = 4,
    plan: EpochPlan | None = None,
    cluster: ClusterConfig | None = None,
    on_event: EventHandler,
) -> DistillationResult:
    """Translate a corpus with a teacher, train a student on that, and measure both.

    Args:
        path: the teacher, a model of the same languages. The student gets its vocabulary.
        recipe: the corpus, the student's shape, and how to train it.
        out: the student's run. What an earlier call left there is gone on with.
        plan: sets the student's updates once the corpus is prepared.
        cluster: where workers translate; None: in this process.

    Raises:
        ValueError: if corpus, teacher and folder do not go together; one line that says what to
            change.
        FloatingPointError: if the loss becomes NaN or infinite.
    """
    if cluster:
        check_installed(cluster)
    distillation = _Distillation(path, StartModel.load(path), out, beam, cluster, on_event)
    with exclusive_lock(out):
        return distillation.run(recipe, plan)


class _Distillation(NamedTuple):
    """A teacher, and the folder of its student."""

    path: Path
    teacher: StartModel
    out: Path
    beam: int
    cluster: ClusterConfig | None
    on_event: EventHandler

    def run(self, recipe: Recipe, plan: EpochPlan | None) -> DistillationResult:
        """Translate, train and measure, whatever of it is not done."""
        out, on_event = self.out, self.on_event
        begun = self._check(recipe)
        original = _with_vocabulary(recipe, self.teacher.bundle)
        tokenizer = self.teacher.bundle.tokenizer
        given = prepare_run(original, out / ORIGINAL, vocabulary=tokenizer, on_event=on_event)
        self._translate(given, original)
        student = _of_the_student(original, out, test=bool(given.test))
        if (out / "recipe.toml").is_file():
            if plan and begun:
                student = plan.resume(student, begun=load_recipe(out / "recipe.toml"))
            check_output_folder(student, out, resume=begun)
        if not begun:
            prepare_run(student, out, vocabulary=tokenizer, plan=plan, on_event=on_event)
        finished = run_recipe(student, out, resume=begun, plan=plan, on_event=on_event)
        part, pairs = ("test", given.test) if given.test else ("validation", given.validation)
        on_event(LogMessage(f"measuring both on {len(pairs):,} sentences"))
        result = DistillationResult(
            finished=finished, part=part, sentences=len(pairs), rows=self._measured(student, pairs)
        )
        text = json.dumps(asdict(result), indent=2, ensure_ascii=False)
        write_text(out / RECORD, f"{text}\n")
        return result

    def _check(self, recipe: Recipe) -> bool:
        """Refuse an impossible distillation; return whether the student's training has begun."""
        teacher, out = self.teacher, self.out
        if self.beam < 1:
            raise ValueError(f"the teacher's beam must be 1 or more, not {self.beam}")
        if recipe.data.directions or teacher.bundle.directions:
            raise ValueError("distillation is for models of one direction")
        if recipe.data.also:
            raise ValueError("a student is trained on one corpus: leave out data.also (--also)")
        if recipe.tokenizer.extend:
            raise ValueError("a student has its teacher's vocabulary: leave out tokenizer.extend")
        languages, unset = teacher.bundle.languages, Languages()
        for side in ("source", "target"):
            wanted, known = getattr(recipe.languages, side), getattr(languages, side)
            if wanted != known and getattr(unset, side) not in (wanted, known):
                raise ValueError(
                    f"languages.{side} is {wanted!r}, but {teacher.name} translates "
                    f"{languages.source!r} to {languages.target!r}"
                )
        find_device(recipe.train.device)  # a wrong name should not have to wait for the corpus
        if any(path.name != LOCK_FILE for path in out.iterdir()) and not (out / ORIGINAL).is_dir():
            raise ValueError(f"{out} holds other files: name another folder by --out")
        return has_begun(out)

    def _translate(self, given: Prepared, recipe: Recipe) -> None:
        """Write the distilled corpus unless it exists; refuse one of another teacher or corpus."""
        out, folder = self.out, self.out / FOLDER
        made = {
            "teacher": self.teacher.sha256,
            "beam": self.beam,
            "original": sha256(out / ORIGINAL / PREPARED_FOLDER / MANIFEST),
        }
        try:
            check_folder(folder, expected="a distilled corpus")
        except ValueError as error:
            if folder.exists():
                self.on_event(LogMessage(f"{describe_fault(error)}: translating it again"))
        else:
            if json.loads((folder / _MADE).read_text(encoding="utf-8")) != made:
                raise ValueError(
                    f"{folder} was made by another teacher, with another beam or of another "
                    f"corpus: name another folder by --out"
                )
            (out / _TARGETS).unlink(missing_ok=True)  # of a run killed just before it did
            shutil.rmtree(out / _SHARDS, ignore_errors=True)
            self.on_event(LogMessage(f"the corpus is translated already, in {folder}"))
            return
        text = f"translating {len(given.store):,} sources with {self.teacher.name}"
        self.on_event(LogMessage(text))
        settings = {key: str(value) for key, value in made.items()}
        device = find_device(recipe.train.device)
        with (
            self._translated(given.store, settings=settings, device=device) as targets,
            atomic_folder(folder) as fresh,
        ):
            rows = zip(range(len(given.store)), targets, strict=True)
            pairs = (Pair(given.store.pair(row).source, target) for row, target in rows)
            write_pairs(fresh, _names("train", recipe.languages), pairs)
            write_pairs(fresh, _names("validation", recipe.languages), given.validation)
            if given.test:
                write_pairs(fresh, _names("test", recipe.languages), given.test)
            (fresh / _MADE).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")

    @contextmanager
    def _translated(
        self, store: Store, *, settings: Mapping[str, str], device: torch.device
    ) -> Generator[list[str]]:
        """Yield the teacher's translations; what resumes them goes when the block succeeds."""
        sources = (store.pair(row).source for row in range(len(store)))
        shards, file = self.out / _SHARDS, self.out / _TARGETS
        if self.cluster:
            shards.mkdir(exist_ok=True)
            with open_output(shards / "in.txt") as stream:
                stream.writelines(f"{source}\n".encode() for source in sources)
            result = translate_corpus(
                *(self.path, str(shards / "in.txt"), str(shards / "out")),
                config=replace(self.cluster, device=device.type),
                on_event=self.on_event,
                num_beams=self.beam,
            )
            yield [line for name in result.files for line in read_lines(shards / "out" / name)]
            shutil.rmtree(shards)
            return
        translator = Translator.load(self.path, device=device)
        self.on_event(LogMessage(translator.engine_description))
        with resumable_output([file], sources, settings=settings) as output:
            translate_lines(
                sources,
                output,
                translate=lambda chunk, progress: translator.translate(
                    chunk, num_beams=self.beam, token_scores=False, progress=progress
                ),
                write=lambda translation: output.write(f"{translation.text}\n"),
                on_event=self.on_event,
            )
            yield partial_file(file).read_bytes().decode().split("\n")[:-1]
        file.unlink()

    def _measured(self, recipe: Recipe, pairs: Sequence[Pair]) -> tuple[DistillationScore, ...]:
        """Score both on all pairs; time them in turn on the first ones, beam and greedy."""
        # On the CPU.
        translators = {"teacher": Translator.load(self.path), "student": Translator.load(self.out)}
        ways = list(product(translators, dict.fromkeys((self.beam, 1))))
        sources = [pair.source for pair in pairs]
        texts = [
            translation_texts(_translate_fast(translators[name], sources, width))
            for name, width in ways
        ]
        least = [float("inf")] * len(ways)
        for _ in range(_ROUNDS):
            for place, (name, width) in enumerate(ways):
                begun = time.perf_counter()
                _translate_fast(translators[name], sources[:TIMED], width)
                least[place] = min(least[place], time.perf_counter() - begun)
        return tuple(
            DistillationScore(
                name=f"{name}, beam {width}" if width > 1 else f"{name}, greedy",
                bleu=_headline(recipe, hypotheses, pairs),
                parameters=translators[name].model.size,
                sentences_per_second=len(sources[:TIMED]) / seconds,
                engine=translators[name].engine_description,
            )
            for (name, width), hypotheses, seconds in zip(ways, texts, least, strict=True)
        )


def _with_vocabulary(recipe: Recipe, bundle: Bundle) -> Recipe:
    """Return the recipe with the teacher's vocabulary and languages."""
    same = replace(
        recipe,
        languages=bundle.languages if recipe.languages == Languages() else recipe.languages,
        tokenizer=tokenizer_settings(bundle.tokenizer),
        model=replace(recipe.model, vocab_size=bundle.tokenizer.vocab_size),
    )
    for conflict in conflicts(same):
        raise ValueError(conflict)
    return same


def _of_the_student(recipe: Recipe, out: Path, *, test: bool) -> Recipe:
    data = replace(
        recipe.data,
        folder=str(out / FOLDER),
        train=_names("train", recipe.languages),
        validation=_names("validation", recipe.languages),
        test=_names("test", recipe.languages) if test else (),
    )
    return replace(recipe, data=data)


def _names(part: str, languages: Languages) -> tuple[str, str]:
    codes = (languages.source, languages.target)
    if codes[0] == codes[1] or not all(code.replace("-", "").isalnum() for code in codes):
        codes = ("source", "target")
    return f"{part}.{codes[0]}", f"{part}.{codes[1]}"


def _headline(recipe: Recipe, hypotheses: Sequence[str], pairs: Sequence[Pair]) -> Score:
    score = recipe_bleu(recipe, hypotheses, pairs)
    return chrf(hypotheses, [pair.target for pair in pairs]) if score.note else score


def _translate_fast(translator: Translator, sources: Sequence[str], beam: int) -> list[Translation]:
    return translator.translate(sources, num_beams=beam, token_scores=False)
