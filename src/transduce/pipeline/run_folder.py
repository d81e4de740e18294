"""The folder of a run: may it be written to, is its corpus prepared, are its parts intact."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from transduce.bundle.bundle import CONFIG, Bundle
from transduce.cluster.engines import ClusterConfig, connected
from transduce.config import Recipe, differences, load_recipe, to_toml
from transduce.data.tokenizer import Tokenizer
from transduce.io.atomic_folder import atomic_file, check_folder, recover_interrupted
from transduce.io.lock import LOCK_FILE
from transduce.io.records import read_record
from transduce.pipeline.defaults import EpochPlan
from transduce.pipeline.finetune import StartModel
from transduce.pipeline.prepare import is_up_to_date, prepare
from transduce.pipeline.prepare_cluster import SHARDS_FOLDER
from transduce.pipeline.prepared import Prepared, open_prepared
from transduce.pipeline.survey import corpus_sha256
from transduce.train.checkpoint import list_checkpoints
from transduce.train.events import EventHandler, LogMessage
from transduce.train.memory import FILE as MICRO_TOKENS_FILE

_MACHINE = frozenset(
    {
        *("train.device", "train.intra_op_threads", "train.fsdp", "train.log_to"),
        *("train.precision", "train.keep_checkpoints", "batch.micro_tokens"),
    }
)
"""Settings of the machine, not of what is learned: a resumed run may change them."""

_CORPUS = ("languages.", "data.", "tokenizer.", "augment.")
"""Settings that preparing depends on."""

_PLAN_FILE = "plan.json"
"""The plan of a run of a given time, which is made again until there is a checkpoint."""


def has_begun(out: Path) -> bool:
    """Whether a folder holds a run whose training has started."""
    return any((out / name).exists() for name in ("metrics.jsonl", "checkpoints", "model"))


def check_output_folder(recipe: Recipe, out: Path, *, resume: bool) -> None:
    """Refuse a folder that this recipe's run cannot be written to, or resumed in."""
    file = out / "recipe.toml"
    if resume and not file.is_file():
        if has_begun(out):
            raise ValueError(f"{file} is missing: put it back, or name another folder with --out")
        if not recipe.data.files:
            raise ValueError(
                f"{out} holds no run to resume: name its folder with --out, or a corpus to begin"
            )
    if not resume and has_begun(out):
        raise ValueError(
            f"{out} already holds a run: continue it with --resume, "
            f"or name another folder with --out"
        )
    # What a run that was killed before it had its recipe.toml may leave.
    allowed = ("prepared", ".prepared.", ".recipe.toml.", _PLAN_FILE, f".{_PLAN_FILE}.", LOCK_FILE)
    held = () if file.is_file() or not out.is_dir() else out.iterdir()
    if any(not path.name.startswith(allowed) for path in held):
        raise ValueError(f"{out} holds other files: name another folder with --out")
    if not (resume and file.is_file()):
        return
    held = load_recipe(file)
    if key := _other_setting(held, recipe, out):
        raise ValueError(
            f"{key} differs from that of the run in {out}: resume with the settings of {file}, "
            f"or start a new run with another --out"
        )
    if (trained := _trained_recipe(out)) and (key := _other_setting(trained, recipe, out)):
        raise ValueError(
            f"{key} in {file} differs from what {out} was trained with: change it back, or start a "
            f"new run with another --out"
        )


def _other_setting(first: Recipe, second: Recipe, out: Path) -> str:
    """A setting that a run cannot change when it is resumed; empty if there is none."""
    free = set(_MACHINE)
    if not (out / "model").exists():
        if not first.train.time and second.train.updates > first.train.updates:
            free.add("train.updates")
        # Not before a checkpoint: R-Drop and warm-up of the first plan would stay.
        if first.train.time and second.train.time and list_checkpoints(out / "checkpoints"):
            free.add("train.time")
    return next((key for key in differences(first, second) if key not in free), "")


def _trained_recipe(out: Path) -> Recipe | None:
    """The recipe that best/ was trained with, which nobody edits by hand; None if it is lost."""
    try:
        config = json.loads((out / "best" / CONFIG).read_bytes())
        with TemporaryDirectory() as folder:
            file = Path(folder) / "recipe.toml"
            file.write_text(config["provenance"]["recipe"], encoding="utf-8")
            return load_recipe(file)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def prepare_run(
    recipe: Recipe,
    out: Path,
    *,
    resume: bool = False,
    start: StartModel | None = None,
    vocabulary: Tokenizer | None = None,
    plan: EpochPlan | None = None,
    cluster: ClusterConfig | None = None,
    on_event: EventHandler,
) -> Prepared:
    """Prepare the corpus in a run's folder, unless it is prepared and up to date.

    Args:
        resume: keep a prepared corpus even if the corpus files are gone or changed.
        start: the model to start from.
        vocabulary: used in place of one that would be trained.
        plan: sets the updates in recipe.toml by the prepared corpus.
        cluster: where workers clean and encode; None: in this process.

    Raises:
        ValueError: if the corpus cannot be used; then nothing is left behind.
    """
    file, prepared = out / "recipe.toml", None
    changed = (
        file.is_file()
        and not resume
        and any(key.startswith(_CORPUS) for key in differences(load_recipe(file), recipe))
    )
    usable = recover_interrupted(out / "prepared") and file.is_file() and not changed
    if usable and (resume or is_up_to_date(recipe, out, start=start)):
        try:
            prepared = open_prepared(out)
        except ValueError as error:
            on_event(LogMessage(f"{describe_fault(error)}: preparing it again"))
    if not resume and not has_begun(out):  # what a run of other settings measured
        for name in (MICRO_TOKENS_FILE, _PLAN_FILE):
            (out / name).unlink(missing_ok=True)
    if prepared:
        on_event(LogMessage(f"the corpus is prepared already, in {out / 'prepared'}"))
        if start and start.sha256 not in prepared.started_from.values():
            was = ", ".join(prepared.started_from) or "random weights"
            raise ValueError(f"the run in {out} started from {was}: leave --from out")
    else:
        vocabulary = _trained_vocabulary(recipe, out, start=start) or vocabulary
        try:
            with connected(cluster) if cluster else nullcontext():
                prepared = prepare(
                    recipe,
                    out,
                    start=start,
                    vocabulary=vocabulary,
                    stale=file if changed else None,
                    cluster=cluster,
                    on_event=on_event,
                )
        except BaseException:
            if out.is_dir() and not any(out.iterdir()):
                out.rmdir()
            raise
    if plan:
        recipe = plan.schedule(recipe, updates_per_epoch=prepared.updates_per_epoch(recipe))
        if recipe.train.time:
            record = plan._asdict() | {"by_hand": sorted(plan.by_hand)}
            write_text(out / _PLAN_FILE, f"{json.dumps(record)}\n")
    write_text(file, to_toml(recipe))
    shutil.rmtree(out / SHARDS_FOLDER, ignore_errors=True)
    return prepared


def begun_plan(out: Path, plan: EpochPlan) -> EpochPlan:
    """Return the plan that a run of a given time was begun with.

    Args:
        out: the run's folder; one of an older version has no plan.
        plan: of the command that resumes the run, whose settings by hand stay, too.

    Raises:
        ValueError: if the file is damaged; one line.
    """
    file = out / _PLAN_FILE
    if not file.is_file():
        return plan
    begun = read_record(file, EpochPlan, remedy="delete it to plan by the settings of the command")
    return begun._replace(by_hand=begun.by_hand | plan.by_hand)


def _trained_vocabulary(recipe: Recipe, out: Path, *, start: StartModel | None) -> Tokenizer | None:
    """The vocabulary of a run whose prepared corpus is lost; None before its training."""
    if not list_checkpoints(out / "checkpoints"):
        return None
    best, lost = Bundle.load(out / "best"), f"{out / 'prepared'} is missing or damaged, and"
    if best.provenance.data_sha256 != corpus_sha256(recipe):
        raise ValueError(f"{lost} the corpus changed since: put back the one or the other")
    started_from = [start.sha256] if start else []
    if [*best.provenance.started_from.values()] != started_from:
        names = ", ".join(best.provenance.started_from) or "no model"
        raise ValueError(f"{lost} the run started from {names}: name it with --from")
    return best.tokenizer


def find_damage(folder: Path) -> str:
    """Return what is wrong with a folder of the run; empty if it is intact."""
    try:
        check_folder(folder, expected="a part of this run")
    except ValueError as error:
        return describe_fault(error)
    return ""


def describe_fault(error: ValueError) -> str:
    """Return what is wrong with a folder, without the advice for one that cannot be made again."""
    return str(error).removesuffix(", copy it again")


def write_text(file: Path, text: str) -> None:
    """Write a file atomically."""
    with atomic_file(file) as stream:
        stream.write(text.encode())
