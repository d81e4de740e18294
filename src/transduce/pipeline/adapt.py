"""Adapt a model to corrections: fine-tune, compare with the old model, replace it if it is better.

A run's folder that was adapted also has:

    adaptation/original/    the bundle before the first adaptation; each one starts from it
    adaptation/previous/    the bundle before the last one, for `roll_back`
    adaptation/replaced/    the model that `roll_back` is about to exchange with that
    adaptation/corpus/      the pairs of the last one: corrections, and earlier pairs as rehearsal
    adaptation/run/         its fine-tuning
    adaptation/report.json  what was compared, and the decision
"""

import hashlib
import json
import math
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from transduce.bundle.bundle import WEIGHTS, Bundle
from transduce.config import Recipe, explicit_settings, load_recipe
from transduce.data.corpus import Pair, one_line
from transduce.data.languages import normalized_base
from transduce.data.store import PREPARED_FOLDER, Store
from transduce.evaluation.scoring import translation_texts
from transduce.evaluation.significance import SIGNIFICANCE_LEVEL
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import MANIFEST, atomic_folder, recover_interrupted, sha256
from transduce.io.lock import exclusive_lock
from transduce.memory.store import CORRECTION, Entry
from transduce.pipeline.defaults import EpochPlan
from transduce.pipeline.finetune import StartModel, adopt_model
from transduce.pipeline.prepare import write_pairs
from transduce.pipeline.prepared import open_prepared
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import write_text
from transduce.pipeline.selection import compare_texts
from transduce.train.events import EventHandler, LogMessage

FEWEST: Final = 50
"""Corrections that an adaptation needs."""

_FOLDER, _MODEL, _REPLACED = "adaptation", "model", "replaced"
_EPOCHS = 10
_HELD_OUT, _VALIDATION, _PARTS = 2, 1, 10  # tenths of the corrections


class CorrectionSplit(NamedTuple):
    """Corrections by what they are for; a source is always in the same part."""

    train: tuple[Pair, ...]
    validation: tuple[Pair, ...]
    """Select the checkpoint."""
    held_out: tuple[Pair, ...]
    """Decide whether the new model replaces the old one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BleuChange:
    """BLEU of two models on the same pairs."""

    pairs: int
    before: float
    after: float
    p: float
    """p-value of the difference, by paired bootstrap resampling."""

    def __str__(self) -> str:
        """Format both scores and p."""
        return f"BLEU {self.before:.2f} → {self.after:.2f} (p = {self.p:.4f}, {self.pairs:,} pairs)"


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationReport:
    """What an adaptation compared, and its decision."""

    corrections: int
    rehearsal: int
    """Earlier pairs that were trained on besides."""
    held_out: BleuChange
    """On corrections that were not trained on; before is the current model."""
    earlier: BleuChange
    """On the run's test pairs, or its validation pairs; before is the original model."""
    refused: str
    """Why the model was not replaced; "" if it was."""
    sha256: str
    """Of the new model's weights."""

    def __str__(self) -> str:
        """Format the comparisons and the decision."""
        decision = f"refused: {self.refused}" if self.refused else "the model was replaced"
        return (
            f"held-out corrections: {self.held_out}\nearlier test pairs:   {self.earlier}\n"
            f"{decision}"
        )


def adapt(
    model: Path,
    corrections: Iterable[Entry],
    *,
    rehearsal: float = 8.0,
    max_loss: float = 0.5,
    settings: Sequence[str] = (),
    on_event: EventHandler,
) -> AdaptationReport:
    """Fine-tune a run's model on corrections, and replace it if the new one is better.

    It is better if BLEU rises significantly on the held-out corrections and falls by at most
    `max_loss` on the run's own test pairs. Every adaptation starts from the model before the first
    one, with all corrections, so that small losses do not add up.

    Args:
        model: folder of a finished run.
        corrections: entries of a translation memory; others than corrections, and other languages,
            are left out. Of one source the newest counts.
        rehearsal: earlier training pairs per correction, against forgetting.
        max_loss: BLEU that the earlier test pairs may lose.
        settings: over the recipe finetune, each "section.key=value".

    Raises:
        ValueError: if there are too few corrections, the folder is not a finished run, or a number
            is out of range.
    """
    if not 0 <= rehearsal < math.inf:
        raise ValueError(f"--rehearsal must be finite and not negative, not {rehearsal}")
    if math.isnan(max_loss):
        raise ValueError(f"--max-loss must be a number, not {max_loss}")
    current = _load_run(model)
    languages = current.languages
    prepared = open_prepared(model)
    recipe = replace(load_recipe(model / "recipe.toml"), languages=languages)
    split = split_corrections(corrections, languages=(languages.source, languages.target))
    count = sum(map(len, split))
    if count < FEWEST or not all(split):
        remedy = "; name the model's languages by `transduce relabel`" * bool(languages.missing)
        raise ValueError(
            f"{count} corrections from {languages.source} into {languages.target}: adapting needs "
            f"{FEWEST}{remedy}"
        )
    folder = model / _FOLDER
    with exclusive_lock(folder):
        original = _original(model, current)
        earlier = _earlier_pairs(prepared.store, round(rehearsal * count))
        on_event(LogMessage(f"{count:,} corrections, {len(earlier):,} earlier pairs"))
        new = _fine_tune(folder, original, split, earlier, settings=settings, on_event=on_event)
        test = prepared.test or prepared.validation
        held_out = _change(current, new, pairs=split.held_out, recipe=recipe)
        kept = _change(original.bundle, new, pairs=test, recipe=recipe)
        report = AdaptationReport(
            corrections=count,
            rehearsal=len(earlier),
            held_out=held_out,
            earlier=kept,
            refused=_refusal(held_out, kept, max_loss=max_loss),
            sha256=sha256(folder / "run" / _MODEL / WEIGHTS),
        )
        write_text(folder / "report.json", f"{json.dumps(asdict(report), indent=2)}\n")
        if not report.refused:
            _copy(model / _MODEL, folder / "previous")
            _remove(folder / _REPLACED)  # of a killed roll-back, which is not finished any more
            _copy(folder / "run" / _MODEL, model / _MODEL)
    return report


def roll_back(model: Path) -> None:
    """Exchange the model in a run's folder and the one before its last adaptation.

    Raises:
        ValueError: if it was never adapted.
    """
    folder = model / _FOLDER
    previous, replaced = folder / "previous", folder / _REPLACED
    with exclusive_lock(folder):
        recover_interrupted(model / _MODEL)
        has_previous = recover_interrupted(previous)
        if not (replaced / MANIFEST).is_file():  # else a killed call left it, and is finished
            if not has_previous:
                raise ValueError(f"{model} has no earlier model: no adaptation has replaced it")
            _copy(model / _MODEL, replaced)
        if (previous / MANIFEST).is_file():  # else it is the model already
            _copy(previous, model / _MODEL)
        _remove(previous)
        replaced.rename(previous)


def split_corrections(entries: Iterable[Entry], *, languages: tuple[str, str]) -> CorrectionSplit:
    """Split the corrections among entries, of two languages, by a hash of their source.

    So a source stays in its part.
    """
    codes = tuple(map(normalized_base, languages))
    newest: dict[str, Entry] = {}
    for entry in entries:
        if entry.origin != CORRECTION or (entry.source_lang, entry.target_lang) != codes:
            continue
        if entry.source not in newest or newest[entry.source].created <= entry.created:
            newest[entry.source] = entry
    parts: tuple[list[Pair], ...] = ([], [], [])
    for source, entry in newest.items():
        number = hashlib.sha256(source.casefold().encode()).digest()[0] % _PARTS
        part = 2 if number < _HELD_OUT else 1 if number < _HELD_OUT + _VALIDATION else 0
        parts[part].append(Pair(one_line(source), one_line(entry.target)))
    return CorrectionSplit(*map(tuple, parts))


def _load_run(model: Path) -> Bundle:
    if not recover_interrupted(model / _MODEL) or not (model / PREPARED_FOLDER).is_dir():
        raise ValueError(
            f"{model} is not the folder of a finished run: adapting needs its {_MODEL}/ and "
            f"{PREPARED_FOLDER}/"
        )
    bundle = Bundle.load(model / _MODEL)
    if bundle.directions:
        raise ValueError(f"{model} has several directions: adapt is for models of one")
    return bundle


def _original(model: Path, current: Bundle) -> StartModel:
    """The model before the first adaptation; one that was trained anew since replaces it."""
    folder = model / _FOLDER / "original"
    if recover_interrupted(folder):
        original = StartModel.load(folder)
        if original.sha256 in current.provenance.started_from.values():
            # Those on disk are from before any `relabel`.
            return replace(original, bundle=replace(original.bundle, languages=current.languages))
    _copy(model / _MODEL, folder)
    return StartModel.load(folder)


def _earlier_pairs(store: Store, count: int) -> list[Pair]:
    """A fixed sample of the pairs that the model was trained on."""
    sample = Random(1).sample(range(len(store)), min(count, len(store)))
    return [store.pair(index) for index in sorted(sample)]


def _fine_tune(
    folder: Path,
    start: StartModel,
    split: CorrectionSplit,
    earlier: Sequence[Pair],
    *,
    settings: Sequence[str],
    on_event: EventHandler,
) -> Bundle:
    """Train on the corrections and most of the earlier pairs; the others validate."""
    corpus, run = folder / "corpus", folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    validating = len(split.validation)
    names = {part: (f"{part}.source", f"{part}.target") for part in ("train", "validation")}
    with atomic_folder(corpus) as fresh:
        write_pairs(fresh, names["train"], [*split.train, *earlier[validating:]])
        write_pairs(fresh, names["validation"], [*split.validation, *earlier[:validating]])
    by_hand = explicit_settings(None, settings)
    recipe = load_recipe("finetune", settings)
    data = replace(recipe.data, folder=str(corpus), **names)
    recipe = adopt_model(
        replace(recipe, data=data),
        start,
        explicit=explicit_settings("finetune", settings),
        by_hand=by_hand,
    )
    run_recipe(recipe, run, start=start, plan=EpochPlan(_EPOCHS, by_hand), on_event=on_event)
    return Bundle.load(run / _MODEL)


def _change(before: Bundle, after: Bundle, *, pairs: Sequence[Pair], recipe: Recipe) -> BleuChange:
    sources = [pair.source for pair in pairs]
    texts = [
        translation_texts(Translator.from_bundle(bundle).translate(sources))
        for bundle in (before, after)
    ]
    old, new = compare_texts(recipe, texts, pairs)
    return BleuChange(pairs=len(pairs), before=old.value, after=new.value, p=new.p or 0.0)


def _refusal(held_out: BleuChange, kept: BleuChange, *, max_loss: float) -> str:
    """Why the new model does not replace the current one; "" if it does."""
    if held_out.after <= held_out.before or held_out.p >= SIGNIFICANCE_LEVEL:
        return (
            f"held-out corrections are not translated better (p < {SIGNIFICANCE_LEVEL} is needed)"
        )
    if kept.before - kept.after > max_loss:
        return (
            f"the earlier test pairs lose {kept.before - kept.after:.2f} BLEU, and {max_loss:g} is "
            f"allowed (--max-loss)"
        )
    return ""


def _remove(bundle: Path) -> None:
    """Delete a bundle, its manifest first: what is left of it when killed is no bundle."""
    (bundle / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(bundle, ignore_errors=True)


def _copy(bundle: Path, folder: Path) -> None:
    with atomic_folder(folder) as fresh:
        shutil.copytree(bundle, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST))
