"""What is damaged in a run's folder is made again where it can be, and stops no run for good."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.conftest import CommandResult, Run, Transduce, refuses
from tests.faults.test_damaged_files import forge

WEIGHTS = "model.safetensors"


@pytest.fixture
def begun(run: Run, tmp_path: Path) -> Path:
    """The run as it was after its last checkpoint."""
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("model", "results.json"))
    return folder


@pytest.fixture
def in_the_middle(begun: Path) -> Path:
    """The run as it was after its last checkpoint but one."""
    shutil.rmtree(begun / "checkpoints/update-00000090")
    return begun


def flip(file: Path) -> None:
    """Change a byte of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def resumed(transduce: Transduce, run: Run, folder: Path) -> CommandResult:
    """Resume a run where its corpus is; a model of the same weights must come out."""
    result = transduce("train", "--resume", "--out", folder)
    assert result.code == 0, result.err
    for name in ("best", "model"):
        resumed_file, straight_file = (place / name / WEIGHTS for place in (folder, run.folder))
        assert resumed_file.read_bytes() == straight_file.read_bytes()
    return result


def test_a_damaged_best_model_is_made_again(run: Run, in_the_middle: Path, transduce: Transduce):
    (in_the_middle / "best/config.json").unlink()

    result = resumed(transduce, run, in_the_middle)

    assert f"{in_the_middle / 'best'} is damaged: deleted, and made again" in result.err


@pytest.mark.parametrize(("update", "rebuilt"), [(60, True), (30, False)])
def test_a_best_model_that_is_lost_comes_from_its_checkpoint_or_is_left_out(
    begun: Path, transduce: Transduce, update: int, rebuilt: bool
):
    state = begun / "checkpoints/update-00000090/state.json"
    forge(state, json.dumps(json.loads(state.read_text()) | {"best_update": update}))
    flip(begun / "best" / WEIGHTS)

    result = transduce("train", "--resume", "--out", begun)

    assert result.code == 0, result.err
    assert (begun / "best").is_dir() == rebuilt
    assert ("the checkpoint of update 30 are lost: left out" in result.err) != rebuilt


def test_a_recipe_edited_by_hand_is_refused(in_the_middle: Path, transduce: Transduce):
    file = in_the_middle / "recipe.toml"
    file.write_text(file.read_text().replace("warmup = 7\n", "warmup = 8\n"))

    result = transduce("train", "--resume", "--out", in_the_middle)

    refuses(result, "train.warmup in", file, "differs from what", "change it back")


def test_other_threads_and_precision_are_said_and_a_run_can_be_made_longer(
    in_the_middle: Path, transduce: Transduce
):
    machine = ("--set", "train.intra_op_threads=2", "--set", "train.precision=bfloat16")
    longer = ("--set", "train.updates=91")

    result = transduce("train", "--resume", "--out", in_the_middle, *machine, *longer)

    assert result.code == 0, result.err
    assert re.search("resuming with 2 threads in bfloat16[^,]*, before 1 in ", result.err)
    assert (in_the_middle / "checkpoints/update-00000091").is_dir()
    refuses(
        transduce("train", "--resume", "--out", in_the_middle, "--set", "train.updates=99"),
        "train.updates differs",
    )


@pytest.mark.parametrize("name", ["tokenizer.model", "prepared.json"])
def test_a_damaged_corpus_is_prepared_again(
    run: Run, in_the_middle: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.chdir(run.corpus)
    flip(in_the_middle / "prepared" / name)

    result = resumed(transduce, run, in_the_middle)

    assert f"{in_the_middle / 'prepared'} is damaged: preparing it again" in result.err


@pytest.mark.parametrize("missing", [False, True])
def test_a_lost_corpus_is_not_replaced_by_another(
    run: Run,
    in_the_middle: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    missing: bool,
):
    corpus = in_the_middle.parent
    for file in run.corpus.glob("*.*"):
        shutil.copy(file, corpus)
    (corpus / "train.src").write_text((corpus / "train.src").read_text().replace("1", "2"))
    monkeypatch.chdir(corpus)
    flip(in_the_middle / "prepared/tokenizer.model")
    if missing:
        shutil.rmtree(in_the_middle / "prepared")

    result = transduce("train", "--resume", "--out", in_the_middle)

    assert result.code == 2
    assert "missing or damaged, and the corpus changed since: put" in result.err.splitlines()[-1]
    if not missing:  # else best/ alone is exported
        export = transduce("export", in_the_middle, "--to", "huggingface", "--out", corpus / "x")
        refuses(export, "damaged")
