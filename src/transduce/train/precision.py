"""The precision of an update: products in bfloat16 beside weights in float32, or all in float32.

A processor with units for bfloat16 makes matrix products in it several times as quickly. Its eight
bits are too few to learn in, since most updates of a weight are smaller than its last bit. So the
weights that are learned, the masters, stay float32, and so does all that adds up many numbers.

=====================================  ========
linear maps, attention, dropout        bfloat16
logits and their slopes                bfloat16
Muon's iteration                       bfloat16
embedding, positions, normalisations   float32
softmax of the loss, the loss          float32
gradients, added up over micro-batches float32
optimizers, running mean, checkpoints  float32
=====================================  ========
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from transduce.data.batch import Batch, filled
from transduce.model.bfloat16 import in_bfloat16
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.oom_retry import positions

CPU_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}
"""What multiplies in bfloat16 on a CPU, by torch's names, and what people call it."""

_SMALL = 1 << 27  # positions x d_model²: 8,192 positions of a model of width 128, 512 of 512
_FEWEST = 16  # rows of a batch that is filled up: to fewer, too large a share would be added


class Precision(NamedTuple):
    """The precision that a run computes in."""

    name: Literal["float32", "bfloat16"]
    reason: str
    """A clause for the person; empty where nothing was left open."""


def choose_precision(config: TrainConfig, device: torch.device) -> Precision:
    """Take the precision that the recipe says; "auto" is bfloat16 where a device has the units."""
    units = bfloat16_units(device)
    if config.precision == "bfloat16":
        return Precision("bfloat16", "" if units else f"{_named(device)} has no units for it: slow")
    if config.precision == "float32":
        return Precision("float32", "")
    if config.fsdp:
        return Precision("float32", "weights are shared out (train.fsdp)")
    if not units:
        return Precision("float32", f"{_named(device)} has no units for bfloat16")
    return Precision(
        "bfloat16", f"{_named(device)} has units for it ({units}), weights stay float32"
    )


def bfloat16_units(device: torch.device) -> str:
    """What multiplies in bfloat16 on a device; empty where nothing does."""
    if device.type == "cuda":
        there = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.cuda.get_device_name(device) if there else ""
    if device.type != "cpu":
        return ""
    has = torch.cpu.get_capabilities()
    return next((said for name, said in CPU_UNITS.items() if has.get(name)), "")


class Bf16Replica:
    """A model for the passes of an update, whose linear maps are copies in bfloat16.

    All its other weights are the masters themselves, so their gradients are where they belong. In
    between everything flows in bfloat16. Where torch adds up a gradient over all tokens in the
    precision of what it is given, it is given float32: in bfloat16 the 257th of equal addends, and
    all after it, would be lost from the gradient of a normalisation's gain, or of a frequent piece.
    """

    def __init__(self, masters: Transformer) -> None:
        """Copy a model in float32; it may learn from then on."""
        self.model = in_bfloat16(masters, embedding=False).train()
        """What is passed; it reads its weights anew when told to `follow`."""
        self._masters, self._copies = _linear_weights(masters), _linear_weights(self.model)

    @property
    def extra_bytes(self) -> int:
        """Bytes of the copies, and of the gradients that they hand over."""
        return sum(
            each.numel() * (each.element_size() + master.element_size())
            for each, master in zip(self._copies, self._masters, strict=True)
        )

    def pad_to_bucket(self, batch: Batch) -> Batch:
        """A batch as it should be passed: a small one on a CPU in one of few shapes.

        There products in bfloat16 are compiled for each shape they are of, and what is compiled
        fills the memory. For a small batch that costs more than padding does.
        """
        config = self.model.config
        small = positions(batch) * config.d_model**2 <= _SMALL and len(batch.source) >= _FEWEST
        fits, on_cpu = batch.width < config.max_positions, batch.source.device.type == "cpu"
        return filled(batch, pad=config.pad) if small and fits and on_cpu else batch

    @torch.no_grad()
    def sync_from_master(self) -> None:
        """Round the masters into the copies."""
        torch._foreach_copy_(self._copies, self._masters)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    @torch.no_grad()
    def accumulate_grads_to_master(self) -> None:
        """Add the copies' gradients to those of the masters, and forget them."""
        for each, master in zip(self._copies, self._masters, strict=True):
            if each.grad is None:
                continue
            if master.grad is None:
                master.grad = each.grad.to(master.dtype)
            else:
                master.grad += each.grad
            each.grad = None


def make_replica(masters: Transformer, config: TrainConfig) -> Bf16Replica | None:
    """Make what is to be passed in place of the model; None: the model itself."""
    weight = masters.embedding.weight
    if weight.dtype != torch.float32 or choose_precision(config, weight.device).name == "float32":
        return None
    return Bf16Replica(masters)


def _linear_weights(model: Transformer) -> list[Tensor]:
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [weight for module in linear for weight in module.parameters()]


def _named(device: torch.device) -> str:
    return {"cpu": "this CPU", "cuda": "this GPU"}.get(device.type, f"the device {device}")


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


def eager_mode(compiled: bool) -> AbstractContextManager[object]:
    """Around what else a model is read for: calls that its compiled layers were not made for."""
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _two_kernels(x: Tensor) -> Tensor:
    return (x * 2).softmax(0)
