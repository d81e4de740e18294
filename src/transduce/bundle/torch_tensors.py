"""Safetensors files as tensors of torch: what training stores, and foreign models."""

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from transduce.bundle.tensors import naming_file
from transduce.bundle.tensors import write_tensors as write_arrays


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read tensors by name; dtypes, shapes and values are not checked.

    Raises:
        ValueError: one line that names the file, if it is missing or damaged.
    """
    with naming_file(path):
        return load_file(path)


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors of any type that NumPy has, with the default permissions of a new file.

    Raises:
        OSError: if they cannot be written.
    """
    write_arrays({name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}, path)
