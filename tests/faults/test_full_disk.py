"""A full disk, a lost permission: what was there is there, and the next writer puts all right."""

import os
import random
import re
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.conftest import SMALL, Corpus, Transduce, made, write_corpus
from tests.faults.damaging import SHAPE, same_bundle, tiny_bundle
from tests.faults.failing import Failure, at_every_touch, failing

from transduce.bundle.bundle import Bundle
from transduce.cli import main
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.store import Store
from transduce.io.atomic_folder import atomic_file, atomic_folder, check_folder, recover_interrupted
from transduce.model.config import ModelConfig
from transduce.train.checkpoint import TrainState, load_state, save_state

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /dev/full")
both = pytest.mark.parametrize("failure", ["full once", "forbidden from then on"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing is counted, and may fail, but waits for no medium."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@both
def test_a_folder_is_the_old_one_or_the_new_one_whatever_failed(tmp_path: Path, failure: Failure):
    box = tmp_path / "box"

    def write(text: str) -> None:
        with atomic_folder(box) as fresh:
            (fresh / "a").write_text(text)
            (fresh / "deep").mkdir()
            (fresh / "deep" / "b").write_bytes(b"b")

    def check() -> None:
        assert recover_interrupted(box)
        check_folder(box, expected="a box")
        assert (box / "a").read_text() in ("old", "new")
        write("old")
        assert names(tmp_path) == {"box"}

    write("old")
    touches = at_every_touch(tmp_path, failure, work=lambda: write("new"), check=check)

    assert touches > 10


@both
def test_a_file_is_the_old_one_or_the_new_one_whatever_failed(tmp_path: Path, failure: Failure):
    file = tmp_path / "a.txt"

    def write(text: str) -> None:
        with atomic_file(file) as stream:
            stream.write(text.encode())

    def check() -> None:
        assert file.read_text() in ("old", "new")
        write("old")
        assert names(tmp_path) == {"a.txt"}

    write("old")
    touches = at_every_touch(tmp_path, failure, work=lambda: write("new"), check=check)

    assert touches == (3 if failure == "full once" else 4)  # the lock's deletion


@both
def test_a_bundle_is_the_old_one_or_the_new_one_whatever_failed(tmp_path: Path, failure: Failure):
    old, new = tiny_bundle(), tiny_bundle()
    with torch.no_grad():
        new.model.embedding.weight[3] = 0.25

    def check() -> None:
        bundle = Bundle.load(tmp_path / "model")
        assert same_bundle(bundle, old) or same_bundle(bundle, new)
        old.save(tmp_path / "model")
        assert names(tmp_path) == {"model"}

    old.save(tmp_path / "model")
    at_every_touch(tmp_path, failure, work=lambda: new.save(tmp_path / "model"), check=check)

    assert same_bundle(Bundle.load(tmp_path / "model"), new)


@both
def test_the_checkpoint_before_is_whole_whatever_failed(tmp_path: Path, failure: Failure):
    model = made(ModelConfig(vocab_size=7, **SHAPE))
    adam = torch.optim.Adam(model.parameters())

    def save(update: int) -> None:
        save_state(tmp_path, TrainState(update=update), model=model, optimizers=[adam])

    def check() -> None:
        first = load_state(tmp_path / "update-00000001", model=model, optimizers=[adam])
        assert first.update == 1

    save(1)
    at_every_touch(tmp_path, failure, work=lambda: save(2), check=check)

    assert names(tmp_path) == {"update-00000001", "update-00000002"}


@both
def test_a_store_is_the_old_one_or_the_new_one_whatever_failed(
    tmp_path: Path, corpus: Corpus, failure: Failure
):
    pairs = [NumberedPair(line, Pair("one two", "two")) for line in range(1, 8)]

    def write(count: int) -> None:
        Store.write(tmp_path / "store", pairs[:count], tokenizer=corpus.tokenizer, max_pieces=9)

    def check() -> None:
        assert recover_interrupted(tmp_path / "store")
        assert len(Store.open(tmp_path / "store")) in (3, 7)
        write(3)
        assert names(tmp_path) == {"store"}

    write(3)
    at_every_touch(tmp_path, failure, work=lambda: write(7), check=check)


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    with atomic_file(tmp_path / "pipe") as stream:
        stream.write(b"through")

    assert os.read(reader, 9) == b"through"
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_a_file_that_a_killed_writer_left_goes_when_the_next_one_comes(tmp_path: Path):
    (tmp_path / ".a.new-99999999999999999999").write_text("half of")

    with atomic_file(tmp_path / "a") as stream:
        stream.write(b"whole")

    assert names(tmp_path) == {"a"}


def test_what_is_left_beside_a_folder_with_brackets_in_its_name_is_put_right(tmp_path: Path):
    box = tmp_path / "run[1]"
    with atomic_folder(box) as fresh:
        (fresh / "a").write_text("whole")
    box.rename(tmp_path / ".run[1].old-99999999999999999999")

    assert recover_interrupted(box)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_bundle().save(tmp_path / "model")
    return tmp_path / "model"


@both
def test_a_translation_that_cannot_be_written_leaves_the_old_file(
    transduce: Transduce, model: Path, failure: Failure
):
    out = model.parent / "out" / "b.txt"
    out.parent.mkdir()
    out.write_text("old\n")
    (model.parent / "a.txt").write_text("a dog\n")
    words = ("translate", model, "--engine", "torch", "-i", model.parent / "a.txt", "-o", out)

    for touch in (1, 2, 3):
        with failing(out.parent, touch=touch, failure=failure):
            result = transduce(*words)
        full = failure == "full once"
        assert result.code == (1 if full else 2), result
        why = "No space left on device" if full else "Permission denied"
        assert why in result.err.splitlines()[-1]
        assert "Traceback" not in result.err
        assert out.read_text() == "old\n"

    assert transduce(*words).code == 0
    assert names(out.parent) == {"b.txt"}


@pytest.mark.parametrize("command", ["--version", "relabel model --source-lang en"])
def test_a_full_disk_behind_stdout_is_one_line(
    model: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str
):
    monkeypatch.chdir(model.parent)
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main(command.split())

    assert code == 1
    assert re.fullmatch(r"transduce: (stdout: )?No space left on device\n", capfd.readouterr().err)


FEW = (
    *SMALL,
    *("--set", "train.updates=4", "--set", "train.validate_every=2", "--set", "train.warmup=2"),
)


def in_a_child(work: Callable[[], int], log: Path) -> int:
    """Do some work in a process of its own, whose limits end with it."""
    child = os.fork()
    if child == 0:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(stream, number)
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "most", [9_000, *(pytest.param(most, marks=pytest.mark.slow) for most in (700, 40_000))]
)
def test_a_run_whose_files_may_not_grow_stops_with_one_line_and_can_be_gone_on_with(
    tmp_path: Path, most: int
):
    """The limit holds for what is not written by Python, too: the tensors."""
    write_corpus(tmp_path)
    files = ["--source", str(tmp_path / "train.src"), "--target", str(tmp_path / "train.rev")]
    words, out = ["train", *files, *FEW, "--out", str(tmp_path / "run")], tmp_path / "run"
    log = tmp_path / "log"

    def limited() -> int:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        with log.open("w") as sys.stderr:
            return main(words)

    code = in_a_child(limited, log)

    assert code == 1, log.read_text()
    assert "File too large" in log.read_text().splitlines()[-1]
    assert "Traceback" not in log.read_text()
    assert in_a_child(lambda: main([*words, "--resume"]), log) == 0, log.read_text()
    check_folder(out / "model", expected="a bundle")


@pytest.mark.slow
def test_a_run_on_a_full_disk_stops_with_one_line_and_can_be_gone_on_with(
    transduce: Transduce, tmp_path: Path
):
    write_corpus(tmp_path)
    out = tmp_path / "runs" / "run"
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    words = ("train", *files, *FEW, "--out", out)
    chance = random.Random(6)

    touch = 0
    while True:
        touch += chance.randint(20, 60)
        with failing(out.parent, touch=touch, failure="full once") as disk:
            result = transduce(*words, "--resume")
        if result.code == 0:
            break
        assert result.code == 1, result.err
        assert "No space left on device" in result.err.splitlines()[-1], disk.touched[-1]

    check_folder(out / "model", expected="a bundle")
    assert not [name for name in names(out) if ".new-" in name or ".old-" in name]
