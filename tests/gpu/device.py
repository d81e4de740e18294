"""What the tests of this folder share: a device, a small model, a measure."""

import torch
from torch import Tensor

from transduce.model.config import ModelConfig

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if torch.cuda.is_available() else torch.float32
"""Triton's interpreter multiplies no bfloat16."""

CONFIG = ModelConfig(
    vocab_size=99,
    encoder_layers=2,
    decoder_layers=2,
    d_model=64,
    d_ff=96,
    heads=2,
    d_k=32,
    d_v=32,
    dropout=0.0,
)


def distance(a: Tensor, b: Tensor) -> float:
    """Of two tensors, relative to the second."""
    return ((a.double() - b).norm() / (b.norm() + 1e-30)).item()
