"""A timed plain training loop over prepared batches, shared by the peers' programs.

Started as `PYTHON PROGRAM MODEL FOLDER UPDATES [--precision P]`, each prints one line of JSON.
"""

import argparse
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from shapes import SHAPES, Shape
from torch import Tensor


class Ready(NamedTuple):
    """A batch, padded on the right with PAD, the last id, which also starts every target."""

    source: Tensor
    """The sources, with EOS."""
    before: Tensor
    """The decoder's input."""
    after: Tensor
    """The decoder's labels."""


class Corpus(NamedTuple):
    """The training batches of all systems."""

    vocabulary: int
    """Number of ids, with PAD."""
    batches: list[Ready]

    @property
    def pad(self) -> int:
        """The id of PAD, the last."""
        return self.vocabulary - 1

    def tokens(self, batch: Ready) -> int:
        """Count the target tokens of a batch, with EOS, without padding."""
        return int((batch.after != self.pad).sum())


Update = Callable[[Ready], object]
Build = Callable[[Shape, Corpus, str], Update]
"""Builds the update of a system from shape, corpus and the precision of matrix products."""


def read(folder: Path, name: str) -> Corpus:
    """Read the batches that `prepare.py` wrote."""
    with np.load(folder / f"{name}.npz") as arrays:
        tensors = [
            torch.from_numpy(arrays[f"{side}{number}"])
            for number in range(int(arrays["batches"]))
            for side in Ready._fields
        ]
        batches = [Ready(*tensors[first : first + 3]) for first in range(0, len(tensors), 3)]
        return Corpus(int(arrays["vocabulary"]), batches)


def run(build: Build, *, package: str, precision: str = "float32") -> None:
    """Time the updates of a system, by default in `precision`, and print the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("updates", type=int)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default=precision)
    arguments = parser.parse_args()
    shape = SHAPES[arguments.model]
    corpus = read(arguments.folder, "train")
    torch.manual_seed(1)
    update = build(shape, corpus, arguments.precision)
    timed = corpus.batches[: arguments.updates]
    for batch in timed:  # every shape once, for kernels that are compiled for it
        update(batch)
    tokens, seconds = 0, 0.0
    for batch in timed:
        started = time.perf_counter()
        update(batch)
        seconds += time.perf_counter() - started
        tokens += corpus.tokens(batch)
    speed = {"tokens_a_second": tokens / seconds, "tokens_an_update": tokens / arguments.updates}
    setup = {"precision": arguments.precision, "threads": torch.get_num_threads()}
    print(json.dumps({**speed, **setup, "version": version(package)}))


def autocast(precision: str) -> torch.autocast:
    """Return torch's autocast, as in its tutorial."""
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")
