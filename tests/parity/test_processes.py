"""How many processes train decides how long it takes, and nothing that is learned."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import SMALL, Corpus, write_corpus

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import NumberedPair
from transduce.data.store import Store
from transduce.model.config import ModelConfig
from transduce.train.checkpoint import WEIGHTS, list_checkpoints, load_weights
from transduce.train.config import TrainConfig

sys.path.insert(0, str(Path(__file__).parents[1]))  # by this name the other processes find it too

from processes import End, Lesson, commanded, learn, together

NEVER = End()

HUNDRED = TrainConfig(
    updates=100,
    validate_every=50,
    schedule="linear",
    learning_rate=0.005,
    warmup=10,
    weight_decay=0.1,
    log_every=1,
    precision="float32",  # on any processor
)
SHORT = replace(HUNDRED, updates=12, validate_every=4)


@pytest.fixture
def lesson(corpus: Corpus, config: ModelConfig, tmp_path: Path) -> Lesson:
    store, tokenizer = corpus.store, corpus.tokenizer
    pairs = [NumberedPair(store.line(n), store.pair(n)) for n in range(len(store))]
    Store.write(tmp_path / "store", pairs, tokenizer=tokenizer, max_pieces=50)
    (tmp_path / "tokenizer.model").write_bytes(tokenizer.to_bytes())
    return Lesson(
        store=tmp_path / "store",
        tokenizer=tmp_path / "tokenizer.model",
        model=replace(config, dropout=0.0),
        training=HUNDRED,
        folder=tmp_path,
    )


def taught(lesson: Lesson, world: int, *, folder: str) -> Lesson:
    """Learn in so many processes, in a folder beside the store, and see that all end well."""
    lesson = replace(lesson, folder=lesson.folder / folder)
    lesson.folder.mkdir(exist_ok=True)
    assert together(world, learn, lesson) == [0] * world
    return lesson


def losses(lesson: Lesson, world: int) -> dict[int, float]:
    """What each process says the losses of the updates were: all must say the same."""
    logged = [
        json.loads((lesson.folder / f"seen-{rank}-of-{world}.json").read_text())["losses"]
        for rank in range(world)
    ]
    assert all(process_losses == logged[0] for process_losses in logged)
    return {int(update): loss for update, loss in logged[0].items()}


def sentences(lesson: Lesson, world: int) -> dict[str, list[list[int]]]:
    """The targets of each update, those of all processes."""
    together: dict[str, list[list[int]]] = {}
    for rank in range(world):
        seen = json.loads((lesson.folder / f"seen-{rank}-of-{world}.json").read_text())
        for update, targets in seen["sentences"].items():
            together.setdefault(update, []).extend(targets)
    return {update: sorted(targets) for update, targets in together.items()}


def agree(actual: dict[int, float], expected: dict[int, float], *, double: bool) -> None:
    """As closely as numbers of that precision stay together over a hundred updates."""
    if double:
        assert actual == pytest.approx(expected, rel=0, abs=1e-12)
        return
    assert actual[1] == pytest.approx(expected[1], rel=0, abs=1e-6)
    assert actual == pytest.approx(expected, rel=0, abs=1e-3)


def weights(lesson: Lesson) -> dict[str, torch.Tensor]:
    return load_weights(list_checkpoints(lesson.folder / "checkpoints")[-1], name=WEIGHTS)


@pytest.mark.parametrize(
    "double", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["double", "single"]
)
def test_losses_and_sentences_do_not_depend_on_the_number_of_processes(
    lesson: Lesson, double: bool
):
    lesson = replace(lesson, double=double)

    single = taught(lesson, 1, folder="one")
    two = taught(lesson, 2, folder="two")
    four = taught(replace(lesson, micro_tokens=29), 2, folder="two times two")

    expected = losses(single, 1)
    assert list(expected) == list(range(1, 101))
    assert expected[100] < 0.8 * expected[1]
    for actual in (losses(two, 2), losses(four, 2)):
        agree(actual, expected, double=double)
    assert sentences(single, 1) == sentences(two, 2) == sentences(four, 2)


@pytest.mark.parametrize(
    ("training", "stops"),
    [
        pytest.param(SHORT, (5, 9), id="short"),
        pytest.param(
            replace(HUNDRED, validate_every=20), (33, 71), marks=pytest.mark.slow, id="long"
        ),
    ],
)
def test_the_number_of_processes_may_change_wherever_a_run_is_gone_on_with(
    lesson: Lesson, training: TrainConfig, stops: tuple[int, int]
):
    lesson = replace(lesson, double=True, training=training)
    uninterrupted = losses(taught(lesson, 1, folder="whole"), 1)
    resumed_losses: dict[int, float] = {}

    for world, stop_at in ((1, stops[0]), (2, stops[1]), (1, 0)):
        resumed_losses |= losses(
            taught(replace(lesson, stop_at=stop_at), world, folder="changed"), world
        )

    agree(resumed_losses, uninterrupted, double=True)


def test_every_process_drops_out_other_units_and_draws_the_same_ones_again(lesson: Lesson):
    lesson = replace(lesson, model=replace(lesson.model, dropout=0.3), training=SHORT, sampling=0.3)

    straight = taught(lesson, 2, folder="straight")
    taught(replace(lesson, stop_at=7), 2, folder="resumed")
    resumed = taught(lesson, 2, folder="resumed")

    resumed_weights, straight_weights = weights(resumed), weights(straight)
    assert all(
        torch.equal(resumed_weights[name], straight_weights[name]) for name in straight_weights
    )


def test_an_update_may_have_fewer_sentences_than_there_are_processes(lesson: Lesson):
    lesson = replace(lesson, tokens=5, double=True, training=SHORT)

    single, three = taught(lesson, 1, folder="one"), taught(lesson, 3, folder="three")

    assert min(map(len, sentences(single, 1).values())) == 1
    agree(losses(three, 3), losses(single, 1), double=True)


def test_a_gradient_that_is_no_number_in_one_process_is_skipped_by_all(lesson: Lesson):
    lesson = replace(lesson, training=SHORT, spoilt=5)

    actual = losses(taught(lesson, 2, folder="two"), 2)

    assert sorted({*range(1, 13)} - {*actual}) == [5]
    metrics = map(json.loads, (lesson.folder / "two" / "metrics.jsonl").read_text().splitlines())
    (skipped,) = (line for line in metrics if "skipped" in line)
    together = list(sentences(replace(lesson, folder=lesson.folder / "two"), 2).values())
    assert len(skipped["lines"]) == len(together[4])


def test_memory_that_runs_out_in_one_process_changes_nothing_that_is_learned(lesson: Lesson):
    lesson = replace(lesson, double=True, training=SHORT)

    never = losses(taught(lesson, 1, folder="never"), 1)
    once = losses(taught(replace(lesson, room=31), 2, folder="once"), 2)

    agree(once, never, double=True)
    seen = json.loads((lesson.folder / "once" / "seen-1-of-2.json").read_text())
    assert max(seen["passes"][0]) > 31
    assert max(seen["passes"][0][-9:]) <= 31


SHARDED = replace(SHORT, fsdp=True)


def test_weights_shared_out_come_from_a_whole_checkpoint_and_go_into_one(lesson: Lesson):
    # Some updates have fewer sentences than there are processes, which all pass forward even so.
    lesson = replace(lesson, tokens=5, double=True, training=SHARDED)
    single = taught(lesson, 1, folder="whole")
    actual: dict[int, float] = {}

    for world, stop_at in ((2, 5), (1, 9), (2, 0)):
        changed = replace(lesson, stop_at=stop_at)
        actual |= losses(taught(changed, world, folder="changed"), world)

    agree(actual, losses(single, 1), double=True)
    changed_weights, single_weights = (
        weights(replace(lesson, folder=lesson.folder / "changed")),
        weights(single),
    )
    assert changed_weights.keys() == single_weights.keys()
    for name, weight in changed_weights.items():
        torch.testing.assert_close(weight, single_weights[name], rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("world", "double"), [(2, True), (3, True), (2, False)])
def test_processes_that_share_out_the_weights_learn_what_one_learns(
    lesson: Lesson, world: int, double: bool
):
    training = replace(HUNDRED, updates=40, validate_every=20, fsdp=True)
    lesson = replace(lesson, double=double, training=training)

    single = taught(lesson, 1, folder="one")
    shared = taught(replace(lesson, micro_tokens=29), world, folder="shared")

    agree(losses(shared, world), losses(single, 1), double=double)
    assert sentences(single, 1) == sentences(shared, world)


@pytest.mark.slow
def test_in_bfloat16_the_number_of_processes_changes_nothing_but_rounding(lesson: Lesson):
    lesson = replace(lesson, training=replace(SHORT, precision="bfloat16"))

    single, two = (losses(taught(lesson, n, folder=str(n)), n) for n in (1, 2))

    assert two == pytest.approx(single, rel=0.002)


def command(folder: Path, name: str) -> list[str]:
    files = ("--source", str(folder / "train.src"), "--target", str(folder / "train.rev"))
    return ["train", *files, *SMALL, "--set", "model.dropout=0.1", "--out", str(folder / name)]


def carried_out(folder: Path, name: str, *, restarts: int = 0, end: End = NEVER) -> list[int]:
    """`transduce train` in two processes: their exit codes."""
    return together(2, commanded, command(folder, name), folder / name, end, restarts=restarts)


def weights_of(run: Path) -> list[torch.Tensor]:
    return list(load_weights(list_checkpoints(run / "checkpoints")[-1]).values())


def equal_runs(folder: Path, first: str, second: str) -> bool:
    files = ("model/model.safetensors", "hypotheses.validation.target")
    return all(
        (folder / first / f).read_bytes() == (folder / second / f).read_bytes() for f in files
    )


def test_a_run_whose_weights_are_shared_out_ends_in_a_whole_model(tmp_path: Path):
    write_corpus(tmp_path)
    few = ["train.updates=6", "train.validate_every=3", "train.warmup=2", "train.fsdp=true"]
    words = [*command(tmp_path, "run"), *(word for setting in few for word in ("--set", setting))]

    assert together(2, commanded, words, tmp_path / "run", NEVER) == [0, 0]

    output = (tmp_path / "run-0").read_text()
    assert "the average of the last 2 checkpoints" in output
    bundle = Bundle.load(tmp_path / "run" / "model")
    assert bundle.model.size == sum(weight.numel() for weight in weights_of(tmp_path / "run"))


@pytest.mark.slow
def test_a_run_of_a_given_duration_has_one_plan(tmp_path: Path):
    write_corpus(tmp_path)
    words = [*command(tmp_path, "run"), "--set", "batch.micro_tokens=auto", "--time", "20s"]
    length = words.index("train.updates=90")
    del words[length - 1 : length + 1]

    assert together(2, commanded, words, tmp_path / "run", NEVER) == [0, 0]

    assert "\n20s: " in (tmp_path / "run-0").read_text()


@pytest.mark.slow
def test_after_a_process_was_killed_all_start_again_and_go_on_by_themselves(tmp_path: Path):
    write_corpus(tmp_path)
    assert carried_out(tmp_path, "whole") == [0, 0]

    killed = carried_out(tmp_path, "killed", end=End(update=50))
    restarted = carried_out(tmp_path, "killed", restarts=1)

    assert killed == [1, -signal.SIGKILL]
    assert restarted == [0, 0]
    output = (tmp_path / "killed-0").read_text()
    assert "\ntransduce: another process of this run has ended or cannot be reached (" in output
    assert "\nresuming after update 30\n" in output
    assert (tmp_path / "killed-1").read_text() == ""
    assert equal_runs(tmp_path, "killed", "whole")


def test_all_leave_at_once_when_they_are_told_to(tmp_path: Path):
    write_corpus(tmp_path)

    codes = carried_out(tmp_path, "run", end=End(update=40, by=signal.SIGTERM, ranks=(0, 1)))

    assert codes == [143, 143]
    assert "interrupted; resume with: transduce train --resume" in (tmp_path / "run-0").read_text()
    assert (tmp_path / "run-1").read_text() == ""
    assert [path.name for path in list_checkpoints(tmp_path / "run" / "checkpoints")] == [
        "update-00000030"
    ]


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from processes import End, die_at
from transduce.cli import main
die_at(End(update=50))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_torchrun_starts_all_again_after_one_was_killed(tmp_path: Path):
    write_corpus(tmp_path)
    assert carried_out(tmp_path, "whole") == [0, 0]
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER.format(tests=str(Path(__file__).parents[1])))

    torchrun = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    ended = subprocess.run(
        [sys.executable, "-m", *torchrun, str(worker), *command(tmp_path, "killed")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "\nresuming after update 30\n" in ended.stderr
    assert ended.stdout.count("model: ") == 1
    assert equal_runs(tmp_path, "killed", "whole")
