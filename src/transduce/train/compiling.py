"""Layers compiled by torch: fewer and larger kernels, where a run is long enough to wait for them.

Nothing else changes: the model is called as before, and weights and checkpoints are the same. It
is meant for GPUs, where attention of any length is one call. A CPU takes other ways through it for
short rows (`model/attention.py`, `model/cpu/softmax.py`): each would be compiled for itself, up to
a number beyond which torch compiles no more. The loss is told so where it is called
(`model/loss.py`), since no module holds it.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from transduce.model.transformer import Transformer


def compile_layers(model: Transformer) -> None:
    """Have each layer compiled when it is passed for the first time, once for all lengths."""
    for layer in (*model.encoder, *model.decoder_layers()):
        layer.compile(dynamic=True)


def check_compiler(device: torch.device) -> None:
    """Make sure that layers can be compiled for a device, before a run waits for its corpus.

    Raises:
        ValueError: one line that says what is missing.
    """
    if device.type == "cpu":
        raise ValueError("train.compile is for GPUs, and this run has none: leave it out")
    try:
        torch.compile(_two_kernels)(torch.ones(2, device=device))
    except (RuntimeError, OSError, ImportError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next(
            (line for line in lines if not line.endswith("raised:")), type(error).__name__
        )
        raise ValueError(
            f"train.compile needs a compiler for this device, on CUDA Triton, and torch could not "
            f"use one here ({reason}): install it, or leave train.compile out"
        ) from None


def as_written(compiled: bool) -> AbstractContextManager[object]:
    """Around what else a model is read for: calls that its compiled layers were not made for."""
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _two_kernels(x: Tensor) -> Tensor:
    return (x * 2).softmax(0)
