"""Sequence-level knowledge distillation: a small, fast student trained on a teacher's translations.

A teacher's translations are more regular than human ones, so that a decoder of one layer can learn
them. The decoder runs once per piece; the encoder runs once per sentence and may stay deep. The
student's folder has, besides the files of a run:

    original/          the recipe's corpus, prepared with the teacher's vocabulary
    distilled/         the student's corpus: original sources, the teacher's translations as
                       targets, with `references` also the original pairs; validation and test
                       text unchanged
    distilled.json     teacher and student compared: quality and speed
    distilled.html     the same as a table and a chart

Each is written atomically, so the same command resumes an interrupted distillation, also in the
middle of the translation.

Source:
    Kim, Rush 2016, "Sequence-Level Knowledge Distillation"; Freitag, Al-Onaizan, Sankaran 2017,
    "Ensemble Distillation for Neural Machine Translation"; Kasai, Pappas, Peng, Cross, Smith 2021,
    "Deep Encoder, Shallow Decoder".
"""

import json
import shutil
import tomllib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch

from transduce.bundle.bundle import Bundle, check_same_vocabulary
from transduce.cluster.engines import ClusterConfig, check_installed
from transduce.cluster.translate import translate_corpus
from transduce.config import Recipe, conflicts
from transduce.data.config import Languages
from transduce.data.corpus import Pair
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import MANIFEST, atomic_folder, check_folder, sha256
from transduce.io.lock import LOCK_FILE, exclusive_lock
from transduce.io.resumable import partial_file, resumable_output
from transduce.io.streams import open_output, read_lines
from transduce.pipeline.defaults import EpochPlan
from transduce.pipeline.distill_report import DistillationResult, compare_models
from transduce.pipeline.finetune import StartModel, tokenizer_settings
from transduce.pipeline.prepare import write_pairs
from transduce.pipeline.prepared import Prepared
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import describe_fault, has_begun, prepare_run
from transduce.pipeline.synthetic_pairs import translate_lines
from transduce.train.distributed import find_device
from transduce.train.events import EventHandler, LogMessage

ORIGINAL, FOLDER = "original", "distilled"

_MADE = "made.json"
_TARGETS = "distilled.txt"  # the translations, until the distilled corpus is written
_SHARDS = ".distilled.shards"  # those of workers
_DRAW = ("held_out", "max_ratio", "duplicates")  # of data: decide which pairs are held out


def distill(
    path: Path,
    recipe: Recipe,
    out: Path,
    *,
    ensemble: Sequence[Path] = (),
    beam: int = 4,
    references: bool = False,
    plan: EpochPlan | None = None,
    cluster: ClusterConfig | None = None,
    on_event: EventHandler,
) -> DistillationResult:
    """Translate a corpus with a teacher, train a student on that, and measure both.

    Args:
        path: the teacher, a model of the same languages. The student gets its vocabulary.
        recipe: the corpus, the student's shape, and how to train it.
        out: the student's run; an interrupted one is resumed.
        ensemble: further teachers with the same vocabulary, whose probabilities are averaged with
            the first one's.
        beam: beam size of the translations.
        references: train on the original pairs too.
        plan: sets the student's updates once the corpus is prepared.
        cluster: where workers translate; None: in this process.

    Raises:
        ValueError: if corpus, teacher and folder do not go together; one line that says what to
            change.
        FloatingPointError: if the loss becomes NaN or infinite.
    """
    if cluster:
        check_installed(cluster)
    distillation = _Distillation(
        paths=(path, *ensemble),
        teachers=[StartModel.load(teacher) for teacher in (path, *ensemble)],
        out=out,
        beam=beam,
        references=references,
        cluster=cluster,
        on_event=on_event,
    )
    with exclusive_lock(out):
        return distillation.run(recipe, plan)


class _Distillation(NamedTuple):
    """A distillation's settings, with the teachers loaded."""

    paths: Sequence[Path]
    """Of the teachers."""
    teachers: Sequence[StartModel]
    """The first gives vocabulary and languages; further ones make it an ensemble."""
    out: Path
    beam: int
    references: bool
    cluster: ClusterConfig | None
    on_event: EventHandler

    def run(self, recipe: Recipe, plan: EpochPlan | None) -> DistillationResult:
        """Translate, train and measure, whatever of it is not done."""
        out, on_event = self.out, self.on_event
        resume = self._check(recipe)
        teacher = self.teachers[0].bundle
        original, tokenizer = _with_vocabulary(recipe, teacher), teacher.tokenizer
        corpus = prepare_run(original, out / ORIGINAL, vocabulary=tokenizer, on_event=on_event)
        for model in self.teachers:
            if _has_trained_on_held_out(model.bundle, corpus, original):
                text = f"WARNING: {model.name} was trained on most of the pairs held out here, and "
                remedy = "scores too high: name others by --validation or --test"
                on_event(LogMessage(text + remedy))
        self._translate(corpus, original)
        student = _of_the_student(original, out, test=bool(corpus.test))
        if not resume:
            prepare_run(student, out, vocabulary=tokenizer, plan=plan, on_event=on_event)
        finished = run_recipe(student, out, resume=resume, plan=plan, on_event=on_event)
        part, pairs = ("test", corpus.test) if corpus.test else ("validation", corpus.validation)
        on_event(LogMessage(f"measuring teacher and student on {len(pairs):,} sentences"))
        rows = compare_models(
            *(self.paths, out, student, pairs),
            parameters=sum(teacher.bundle.weights.size for teacher in self.teachers),
            beam=self.beam,
        )
        result = DistillationResult(finished=finished, part=part, sentences=len(pairs), rows=rows)
        result.write(out)
        return result

    def _check(self, recipe: Recipe) -> bool:
        """Refuse an impossible distillation; return whether the student's training has begun."""
        (teacher, *others), out = self.teachers, self.out
        if self.beam < 1:
            raise ValueError(f"the teacher's beam must be 1 or more, not {self.beam}")
        if recipe.data.directions or teacher.bundle.directions:
            raise ValueError("distillation is for models of one direction")
        if recipe.data.also:
            raise ValueError("a student is trained on one corpus: leave out data.also (--also)")
        if recipe.tokenizer.extend:
            raise ValueError("a student has its teacher's vocabulary: leave out tokenizer.extend")
        for other in others:
            check_same_vocabulary(teacher.bundle, other.bundle, names=(teacher.name, other.name))
        languages, unset = teacher.bundle.languages, Languages()
        for side in ("source", "target"):
            requested, known = getattr(recipe.languages, side), getattr(languages, side)
            if requested != known and getattr(unset, side) not in (requested, known):
                raise ValueError(
                    f"languages.{side} is {requested!r}, but {teacher.name} translates "
                    f"{languages.source!r} to {languages.target!r}"
                )
        find_device(recipe.train.device)  # a wrong name should not have to wait for the corpus
        if any(path.name != LOCK_FILE for path in out.iterdir()) and not (out / ORIGINAL).is_dir():
            raise ValueError(f"{out} holds other files: name another folder by --out")
        return has_begun(out)

    def _translate(self, corpus: Prepared, recipe: Recipe) -> None:
        """Write the distilled corpus unless it exists; refuse one of another teacher or corpus."""
        (teacher, *others), out, folder = self.teachers, self.out, self.out / FOLDER
        settings_used: dict[str, object] = {
            "teacher": teacher.sha256,
            "beam": self.beam,
            "original": sha256(out / ORIGINAL / PREPARED_FOLDER / MANIFEST),
        }
        if others:
            settings_used["ensemble"] = [other.sha256 for other in others]
        if self.references:
            settings_used["references"] = True
        try:
            check_folder(folder, expected="a distilled corpus")
        except ValueError as error:
            if folder.exists():
                self.on_event(LogMessage(f"{describe_fault(error)}: translating it again"))
        else:
            if json.loads((folder / _MADE).read_text(encoding="utf-8")) != settings_used:
                raise ValueError(
                    f"{folder} was made by another teacher, with another beam, of another corpus "
                    f"or otherwise with or without --references: name another folder by --out"
                )
            (out / _TARGETS).unlink(missing_ok=True)  # of a run killed just before it did
            shutil.rmtree(out / _SHARDS, ignore_errors=True)
            self.on_event(LogMessage(f"the corpus is translated already, in {folder}"))
            return
        text = f"translating {len(corpus.store):,} sources with {teacher.name}"
        self.on_event(LogMessage(text))
        settings = {key: str(value) for key, value in settings_used.items()}
        device = find_device(recipe.train.device)
        with (
            self._translated(corpus.store, settings=settings, device=device) as targets,
            atomic_folder(folder) as fresh,
        ):
            pairs = self._training_pairs(corpus.store, targets)
            write_pairs(fresh, _names("train", recipe.languages), pairs)
            write_pairs(fresh, _names("validation", recipe.languages), corpus.validation)
            if corpus.test:
                write_pairs(fresh, _names("test", recipe.languages), corpus.test)
            (fresh / _MADE).write_text(json.dumps(settings_used, indent=2) + "\n", encoding="utf-8")

    def _training_pairs(self, store: Store, targets: Sequence[str]) -> Iterator[Pair]:
        """Pair each source with its translation, and with its reference if that is kept."""
        for row, target in zip(range(len(store)), targets, strict=True):
            pair = store.pair(row)
            if self.references:
                yield pair
            if not (self.references and target == pair.target):
                yield Pair(pair.source, target)

    @contextmanager
    def _translated(
        self, store: Store, *, settings: Mapping[str, str], device: torch.device
    ) -> Generator[list[str]]:
        """Yield the teacher's translations; what resumes them goes when the block succeeds."""
        sources = (store.pair(row).source for row in range(len(store)))
        (path, *ensemble), file, shards = self.paths, self.out / _TARGETS, self.out / _SHARDS
        if self.cluster:
            shards.mkdir(exist_ok=True)
            with open_output(shards / "in.txt") as stream:
                stream.writelines(f"{source}\n".encode() for source in sources)
            result = translate_corpus(
                *(path, str(shards / "in.txt"), str(shards / "out")),
                config=replace(self.cluster, device=device.type),
                loading={"ensemble": ensemble},
                on_event=self.on_event,
                num_beams=self.beam,
            )
            yield [line for name in result.files for line in read_lines(shards / "out" / name)]
            shutil.rmtree(shards)
            return
        translator = Translator.load(path, ensemble=ensemble, device=device)
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


def with_languages(recipe: Recipe, teacher: Bundle) -> Recipe:
    """Return the recipe with the teacher's language on each side that has none."""
    known = {
        name: getattr(teacher.languages, name)
        for side in recipe.languages.missing
        for name in (side, f"{side}_name")
    }
    return replace(recipe, languages=replace(recipe.languages, **known))


def _with_vocabulary(recipe: Recipe, bundle: Bundle) -> Recipe:
    """Return the recipe with the teacher's vocabulary and languages."""
    adapted = replace(
        with_languages(recipe, bundle),
        tokenizer=tokenizer_settings(bundle.tokenizer),
        model=replace(recipe.model, vocab_size=bundle.tokenizer.vocab_size),
    )
    for conflict in conflicts(adapted):
        raise ValueError(conflict)
    return adapted


def _has_trained_on_held_out(teacher: Bundle, corpus: Prepared, recipe: Recipe) -> bool:
    """Whether a teacher is scored on pairs of its own corpus, but held out others or none."""
    provenance = teacher.provenance
    shared = {*provenance.data_sha256.values()} & {*corpus.data_sha256.values()}
    if recipe.data.validation or corpus.test or not shared:
        return False
    trained = tomllib.loads(provenance.recipe).get("data", {})
    changed = {key for key in _DRAW if trained.get(key) != getattr(recipe.data, key)}
    if len(shared) < len(corpus.data_sha256) or len(trained["train"]) != len(recipe.data.train):
        changed.add("train")
    return bool(trained.get("validation") or changed)


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
