"""`train.compile` through the command line: without a GPU the first line says so."""

from pathlib import Path

from tests.conftest import SMALL, Transduce, refuses, write_corpus


def test_without_a_gpu_a_run_ends_before_it_begins(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    wanted = ("--set", "train.device=cpu", "--set", "train.compile=true", "--out", tmp_path / "run")

    result = transduce("train", *files, *SMALL, *wanted)

    refuses(result, "train.compile is for GPUs, and this run has none: leave it out")
    assert not (tmp_path / "run").exists()
