"""Run by tests/parity/test_compiled.py: no function is wrapped in checks of its types here.

Passes batches through a model of the shape given, as it is written, and through a copy whose layers
are compiled, and prints how far their gradients are apart, at most, and how many graphs torch has
compiled.
"""

import copy
import json
import sys

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from transduce.data.batch import Batch, collate
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.precision import compile_layers, eager_mode
from transduce.train.step import LossSettings, batch_loss


def batches(pad: int) -> list[Batch]:
    """Rows of several lengths; in the second an empty one."""
    return [
        collate([[5, 6, 7, 8], [9]], [[10, 11], [12, 13, 14]], pad=pad, eos=0),
        collate([[15, 16]] * 3, [[17], [1, 2, 3, 4], []], pad=pad, eos=0),
    ]


def gradients(model: Transformer, *, loss: bool) -> list[Tensor]:
    """Of the loss of all batches, which may be compiled too."""
    model.zero_grad()
    for batch in batches(model.config.pad):
        batch_loss(model, batch, loss=LossSettings(compiled=loss)).backward()
    return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]


def apart(some: list[Tensor], others: list[Tensor]) -> float:
    """The largest difference between two of them."""
    pairs = zip(some, others, strict=True)
    return max(float((item - other).abs().max()) for item, other in pairs)


def main(shape: str) -> None:
    """Compare, and print; the shape is what a ModelConfig is made of, as JSON."""
    torch.manual_seed(0)
    plain = Transformer(ModelConfig(**json.loads(shape))).train()
    compiled = copy.deepcopy(plain)
    compile_layers(compiled)
    wanted = gradients(plain, loss=False)
    assert max(float(item.abs().max()) for item in wanted) > 1.0
    with eager_mode(compiled=True):
        before = apart(gradients(compiled, loss=False), wanted), counters["stats"]["unique_graphs"]
    after = apart(gradients(compiled, loss=True), wanted), counters["stats"]["unique_graphs"]
    keys = list(plain.state_dict()) == list(copy.deepcopy(compiled).state_dict())
    print(json.dumps({"as_written": before, "compiled": after, "same_keys": keys}))


if __name__ == "__main__":
    main(sys.argv[1])
