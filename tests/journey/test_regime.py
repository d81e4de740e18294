"""The options of training together, through the real command line: a run like any other."""

from pathlib import Path

from tests.conftest import SMALL, Transduce, write_corpus

REGIME = (
    *("--set", "train.ema=0.9", "--set", "train.r_drop=1", "--set", "batch.sampling=0.1"),
    *("--set", "train.schedule=wsd", "--set", "model.dropout=0.1"),
    *("--set", "model.positions=learned", "--set", "model.activation=gelu"),
)


def test_a_running_mean_stands_for_election(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    corpus = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")

    said = transduce("train", *corpus, *SMALL, *REGIME, "--out", tmp_path / "run")

    assert said.code == 0, said.err
    assert "the running mean of the weights" in said.err
    assert "the average of the last 2 checkpoints" in said.err
    again = transduce("translate", tmp_path / "run", stdin=b"1 2 3\n")
    assert (again.code, again.out.count("\n")) == (0, 1)
