"""Mixed precision: matrix products in bfloat16 beside master weights in float32.

A processor with units for bfloat16 multiplies matrices several times as fast in it. Its eight bits
of mantissa are too few to learn in, since most updates of a weight are smaller than its last bit.
So the master weights stay float32, and so does everything that sums many numbers.

=====================================  ========
linear maps, attention, dropout        bfloat16
logits and their gradients             bfloat16
Muon's iteration                       bfloat16
embedding, positions, normalisations   float32
softmax of the loss, the loss          float32
gradients, summed over micro-batches   float32
optimizers, EMA, checkpoints           float32
=====================================  ========
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from transduce.data.batch import Batch, pad_to_bucket
from transduce.model.transformer import Transformer, in_bfloat16
from transduce.train.config import TrainConfig

CPU_UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16"}
"""CPU features that multiply in bfloat16: torch's name, and the common one."""

_SMALL_BATCH = 1 << 27  # positions x d_model²: 8,192 positions at width 128, 512 at 512
_MIN_ROWS = 16  # rows come by eights; fewer rows than this would gain too large a share of padding


class Precision(NamedTuple):
    """The precision that a run computes in."""

    name: Literal["float32", "bfloat16"]
    reason: str
    """A clause for the person; empty where the recipe decided."""


def choose_precision(config: TrainConfig, device: torch.device) -> Precision:
    """Return the recipe's precision; "auto" is bfloat16 on devices that have units for it."""
    units = bfloat16_units(device)
    name = {"cpu": "this CPU", "cuda": "this GPU"}.get(device.type, f"the device {device}")
    if config.precision == "bfloat16":
        return Precision("bfloat16", "" if units else f"{name} has no units for it: slow")
    if config.precision == "float32":
        return Precision("float32", "")
    if config.fsdp:
        return Precision("float32", "weights are sharded (train.fsdp)")
    if not units:
        return Precision("float32", f"{name} has no units for bfloat16")
    return Precision("bfloat16", f"{name} has units for it ({units}), weights stay float32")


def cpu_capabilities() -> Mapping[str, object]:
    """Return the CPU's features by torch's names; none are known before torch 2.13."""
    get_capabilities = getattr(torch.cpu, "get_capabilities", None)
    return get_capabilities() if get_capabilities else {}


def bfloat16_units(device: torch.device) -> str:
    """Name what multiplies in bfloat16 on a device; empty if nothing does."""
    if device.type == "cuda":
        supported = torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.cuda.get_device_name(device) if supported else ""
    if device.type != "cpu":
        return ""
    features = cpu_capabilities()
    return next((unit for feature, unit in CPU_UNITS.items() if features.get(feature)), "")


class Bf16Replica:
    """A model for forward and backward passes, whose linear maps are bfloat16 copies.

    All its other weights are the master weights themselves, so their gradients need no copying.
    Activations are bfloat16. Where torch sums a gradient over all tokens in the precision of its
    input, that input is float32: in bfloat16 the 257th of equal addends, and all after it, would be
    lost from the gradient of a normalisation's gain, or of a frequent piece's embedding.
    """

    def __init__(self, master: Transformer) -> None:
        """Copy a float32 model, which may be trained from then on."""
        self.model = in_bfloat16(master, embedding=False).train()
        """Passed in place of the master; stale until `sync_from_master`."""
        self._masters, self._copies = _linear_weights(master), _linear_weights(self.model)

    @property
    def extra_bytes(self) -> int:
        """Bytes of the copies, and of the gradients that they pass on."""
        return sum(
            copied.numel() * (copied.element_size() + master.element_size())
            for copied, master in zip(self._copies, self._masters, strict=True)
        )

    def pad_to_bucket(self, batch: Batch) -> Batch:
        """Pad a small batch on a CPU to one of few shapes.

        There bfloat16 products are compiled for each shape, and the compiled code fills the memory.
        For a small batch that costs more than padding does.
        """
        config, rows = self.model.config, len(batch.source)
        small = rows * batch.width * config.d_model**2 <= _SMALL_BATCH and rows >= _MIN_ROWS
        # One more column must not exceed the rows of learned positions.
        fits, on_cpu = batch.width < config.max_positions, batch.source.device.type == "cpu"
        return pad_to_bucket(batch, pad=config.pad) if small and fits and on_cpu else batch

    @torch.no_grad()
    def sync_from_master(self) -> None:
        """Round the master weights into the copies."""
        # Few calls: a large model has hundreds of matrices.
        torch._foreach_copy_(self._copies, self._masters)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]

    @torch.no_grad()
    def accumulate_grads_to_master(self) -> None:
        """Add the copies' gradients to the masters' in float32, and drop them."""
        for copied, master in zip(self._copies, self._masters, strict=True):
            if copied.grad is None:
                continue
            if master.grad is None:
                master.grad = copied.grad.to(master.dtype)  # no zeros to add to
            else:
                master.grad += copied.grad
            copied.grad = None  # or the next micro-batch's would be summed in bfloat16


def make_replica(master: Transformer, config: TrainConfig) -> Bf16Replica | None:
    """Make the bfloat16 replica of a model, or None where the model itself is to be passed."""
    weight = master.embedding.weight
    if weight.dtype != torch.float32 or choose_precision(config, weight.device).name == "float32":
        return None
    return Bf16Replica(master)


def _linear_weights(model: Transformer) -> list[Tensor]:
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [weight for module in linear for weight in module.parameters()]
