"""What the tests of this folder compute on."""

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if torch.cuda.is_available() else torch.float32
"""Triton's interpreter multiplies no bfloat16."""
