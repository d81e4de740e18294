"""Compiled layers give the gradients of the layers as they are written."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from tests.conftest import Corpus, made

from transduce.model import loss
from transduce.model.config import ModelConfig
from transduce.model.loss import LogitGradients, logit_gradients
from transduce.model.transformer import Transformer
from transduce.train import loop
from transduce.train.config import TrainConfig
from transduce.train.loop import Validation
from transduce.train.precision import check_compiler

SCRIPT = Path(__file__).parents[1] / "compiling.py"


@pytest.mark.slow
def test_gradients_are_those_of_the_layers_as_written(config: ModelConfig):
    command = [sys.executable, SCRIPT, json.dumps(asdict(config))]

    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    assert result["as_written"] == [0.0, 0], "nothing is compiled where a model is read as written"
    difference, graphs = result["compiled"]
    assert difference < 1e-5
    assert 2 <= graphs <= 8, "an encoder's layer and a decoder's, for two kinds of batches"
    assert result["same_keys"], "a compiled model is written as any other"


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_training_passes_is_compiled_and_what_is_validated_is_not(
    precision: Literal["float32", "bfloat16"],
    config: ModelConfig,
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    events: list[str] = []

    def compile_layers(model: Transformer) -> None:
        events.append(f"compiled {next(model.encoder.parameters()).dtype}")

    @contextmanager
    def eager_mode(compiled: bool) -> Generator[None]:
        events.append(f"as written: {compiled}")
        yield
        events.append("done")

    def compiled_logit_gradients() -> LogitGradients:
        events.append("loss")
        return logit_gradients

    def validate(model: Transformer) -> Validation:
        events.append("validated")
        return Validation(loss=1.0, bleu=0.0, signature="")

    monkeypatch.setattr(loop, "compile_layers", compile_layers)
    monkeypatch.setattr(loop, "eager_mode", eager_mode)
    monkeypatch.setattr(loss, "compiled_logit_gradients", compiled_logit_gradients)
    loop.train(
        made(replace(config, vocab_size=37)),
        loader=corpus.loader(),
        config=TrainConfig(updates=2, validate_every=2, compile=True, precision=precision),
        validate=validate,
        folder=tmp_path,
        on_best=lambda model, evaluation: None,
        on_event=lambda event: None,
    )

    compiled = [f"compiled torch.{precision}", "loss", "loss"]
    assert events == [*compiled, "as written: True", "validated", "done"]


def test_a_cpu_is_refused():
    with pytest.raises(ValueError, match=r"^train\.compile is for GPUs, and this run has none: "):
        check_compiler(torch.device("cpu"))


def test_without_a_compiler_the_reason_is_told(monkeypatch: pytest.MonkeyPatch):
    def compile(call: object) -> object:
        raise RuntimeError("backend='inductor' raised:\nTritonMissing: no Triton\n\nSet TORCH_LOGS")

    monkeypatch.setattr(torch, "compile", compile)

    with pytest.raises(
        ValueError, match=r"^train\.compile needs .* \(TritonMissing: no Triton\): "
    ):
        check_compiler(torch.device("meta"))


def test_where_something_is_compiled_nothing_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "compile", lambda call: call)

    check_compiler(torch.device("meta"))
