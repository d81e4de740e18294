"""Read, check and write safetensors files, which cannot execute code.

The library validates the header and the layout. Values are checked here: a flipped bit in an
exponent makes 1e36 of 0.01.
"""

import errno
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from jaxtyping import Shaped
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from transduce.io.atomic_folder import sanitise
from transduce.model.config import ModelConfig

MAX_WEIGHT: Final = float(np.finfo(np.float16).max)
"""Larger weights overflow in half precision; those of trained models are near ten at most."""

_OLD_SUBLAYERS: Final = {
    "attend": "self_attention",
    "after_attend": "self_attention_norm",
    "cross": "cross_attention",
    "after_cross": "cross_attention_norm",
    "feed": "feed_forward",
    "after_feed": "feed_forward_norm",
}
"""Names of a layer's parts in bundles of version 1, and the current ones."""

_SPARE = 1 << 16  # weights that may be missing before a model is built to say which


@contextmanager
def naming_file(path: Path) -> Generator[None]:
    """Turn what the library raises on a missing or damaged file into one line that names it.

    Raises:
        ValueError: this line.
    """
    try:
        yield
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: copy it again") from None
    except (SafetensorError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        reason = sanitise(str(error).partition("\n")[0])
        raise ValueError(f"{path} is no safetensors file ({reason}): copy it again") from None


def read_weights(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Read a model's weights under their current names, whichever version wrote the file.

    Dtypes, shapes and values are not checked.

    Raises:
        ValueError: one line that names the file, if it is missing or damaged.
    """
    with naming_file(path):
        return {_current_name(name): tensor for name, tensor in load_file(path).items()}


def _current_name(name: str) -> str:
    """Translate an old name of a layer's part: decoder.0.attend.… is decoder.0.self_attention.…"""
    match name.split(".", 3):
        case ["encoder" | "decoder" as stack, layer, part, rest]:
            return f"{stack}.{layer}.{_OLD_SUBLAYERS.get(part, part)}.{rest}"
        case _:
            return name


def write_tensors(tensors: Mapping[str, Shaped[np.ndarray, "..."]], path: Path) -> None:
    """Write tensors, with the default permissions of a new file.

    Raises:
        OSError: if they cannot be written.
    """
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(dict(tensors), path)
        path.chmod(mode)  # the library lets only the owner read it
    except SafetensorError as error:
        match = re.search(r"os error (\d+)", str(error))
        number = int(match[1]) if match else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


def check_size(sizes: Sequence[int], config: ModelConfig, where: str) -> None:
    """Refuse a configuration far larger than the weights, before a model of that size is built.

    Args:
        sizes: number of weights of each tensor.
        config: the claimed shape.
        where: start of the message, such as the file.

    Raises:
        ValueError: if there are far fewer weights than the shape needs.
    """
    layers = config.encoder_layers + config.decoder_layers
    if config.matrices > sum(sizes) + _SPARE or layers > len(sizes):
        raise ValueError(
            f"{where} does not fit config.json: it has {sum(sizes):,} weights in {len(sizes):,} "
            f"tensors, far too few for the model there: copy all files from one folder"
        )


def check_weights(weights: Mapping[str, Shaped[np.ndarray, "..."]], where: str) -> None:
    """Refuse weights of a failed training or a damaged file; `where` they are starts the message.

    Raises:
        ValueError: if a weight is not finite or exceeds `MAX_WEIGHT`.
    """
    for name, tensor in weights.items():
        if not np.issubdtype(tensor.dtype, np.floating) or not tensor.size:
            continue
        most = float(np.abs(tensor).max())
        if not most <= MAX_WEIGHT:  # written so that nan is refused too
            finite = bool(np.isfinite(tensor).all())
            fault = f"beyond ±{MAX_WEIGHT:,.0f}" if finite else "not finite numbers"
            raise ValueError(
                f"{where} has weights that are {fault}, in {sanitise(name)}: training had failed "
                f"by then, or the file is damaged; take an earlier checkpoint"
            )
