"""`batch.micro_tokens = "auto"` from the command line: measured once, then the run's for good."""

from pathlib import Path

import pytest
from tests.conftest import SMALL, Transduce, refuses, write_corpus

from transduce.train import loop, memory

AUTO = (*SMALL, "--set", "train.updates=12", "--set", "train.validate_every=6")
AUTO = (*AUTO, "--set", "batch.micro_tokens=auto", "--set", "model.dropout=0.1")


def train(transduce: Transduce, folder: Path, name: str, *more: str) -> str:
    files = ("--source", folder / "train.src", "--target", folder / "train.rev")
    result = transduce("train", *files, *AUTO, "--out", folder / name, *more)
    assert result.code in (0, 130), result.err
    return result.err


def room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: free)


def test_a_run_keeps_the_number_it_was_begun_with_and_so_its_bits(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_corpus(tmp_path)
    room(monkeypatch, 10_000_000)
    uninterrupted = train(transduce, tmp_path, "whole")

    def stopped(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "train_step", stopped)
        begun = train(transduce, tmp_path, "resumed")
    room(monkeypatch, 10**12)
    resumed = train(transduce, tmp_path, "resumed", "--resume")

    (note,) = (line for line in uninterrupted.splitlines() if line.startswith("micro-batches of "))
    size = note.split(":")[0]
    assert 0 < int(size.split()[2].replace(",", "")) < 4096
    assert note in begun
    assert f"{size}, as before" in resumed
    expected, actual = (tmp_path / run / "model/model.safetensors" for run in ("whole", "resumed"))
    assert expected.read_bytes() == actual.read_bytes()


def test_any_other_word_is_refused(transduce: Transduce):
    result = transduce("train", "tiny", "--set", "batch.micro_tokens=most")

    refuses(result, "batch.micro_tokens", 'a whole number or "auto"', "most")
