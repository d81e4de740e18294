"""The options of training together, through the real command line: a run like any other."""

from pathlib import Path

import pytest
import torch
from tests.conftest import SMALL, Run, Transduce, write_corpus

from transduce.bundle.bundle import Bundle
from transduce.model.cpp_library import load_kernels
from transduce.train.config import TrainConfig
from transduce.train.precision import bfloat16_units, choose_precision

CPU = torch.device("cpu")

REGIME = (
    *("--set", "train.ema=0.9", "--set", "train.r_drop=1", "--set", "batch.subword_sampling=0.1"),
    *("--set", "train.schedule=wsd", "--set", "model.dropout=0.1"),
    *("--set", "model.positions=learned", "--set", "model.activation=gelu"),
)


def test_a_running_mean_stands_for_election(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    corpus = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")

    result = transduce("train", *corpus, *SMALL, *REGIME, "--out", tmp_path / "run")

    assert result.code == 0, result.err
    assert "the running mean of the weights" in result.err
    assert "the average of the last 2 checkpoints" in result.err
    again = transduce("translate", tmp_path / "run", stdin=b"1 2 3\n")
    assert (again.code, again.out.count("\n")) == (0, 1)


def test_a_run_in_bfloat16_says_so_and_writes_float32(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    corpus = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    few = ("train.updates=4", "train.validate_every=2", "train.warmup=1", "batch.tokens=60")
    settings = [word for item in (*few, "train.precision=bfloat16") for word in ("--set", item)]

    result = transduce("train", *corpus, *SMALL, *settings, "--out", tmp_path / "run")

    assert result.code == 0, result.err
    assert (
        bfloat16_units(CPU) or "computing in bfloat16: this CPU has no units for it" in result.err
    )
    weights = Bundle.load(tmp_path / "run" / "model").model.state_dict().values()
    assert {weight.dtype for weight in weights} == {torch.float32}
    assert not all(torch.equal(weight, weight.bfloat16().float()) for weight in weights)


def test_a_run_without_a_compiler_says_so(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", "")
    load_kernels.cache_clear()
    write_corpus(tmp_path)
    corpus = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    few = ("train.updates=2", "train.validate_every=2", "train.warmup=1", "batch.tokens=60")
    settings = [word for item in few for word in ("--set", item)]

    result = transduce("train", *corpus, *SMALL, *settings, "--out", tmp_path / "run")
    load_kernels.cache_clear()

    assert result.code == 0, result.err
    assert "without fused kernels, so updates take longer: " in result.err


def test_a_run_says_which_precision_was_chosen_and_why(run: Run):
    chosen = choose_precision(TrainConfig(), CPU)

    (line,) = [line for line in run.process.stderr.decode().splitlines() if "computing in" in line]
    assert line.endswith(f"computing in {chosen.name}: {chosen.reason} (train.precision)")
