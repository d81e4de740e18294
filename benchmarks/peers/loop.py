"""A plain training loop over ready-made batches, timed: what the programs beside this file share.

Started as `PYTHON PROGRAM MODEL FOLDER UPDATES [--precision P]`, each prints one line of JSON.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from shapes import SHAPES, Shape
from torch import Tensor


class Ready(NamedTuple):
    """A batch. PAD, the last id, fills up on the right and starts every target."""

    source: Tensor
    """Every source, with EOS."""
    before: Tensor
    """What the decoder reads."""
    after: Tensor
    """What it should say."""


class Corpus(NamedTuple):
    """What every system learns from."""

    vocabulary: int
    """Ids, PAD included."""
    batches: list[Ready]

    @property
    def pad(self) -> int:
        """The last id."""
        return self.vocabulary - 1

    def tokens(self, batch: Ready) -> int:
        """Target tokens of a batch, EOS included, padding not."""
        return int((batch.after != self.pad).sum())


Update = Callable[[Ready], object]
Build = Callable[[Shape, Corpus, str], Update]
"""From what precision products of matrices are to be computed in."""


def read(folder: Path, name: str) -> Corpus:
    """Read what `prepare.py` wrote."""
    with np.load(folder / f"{name}.npz") as arrays:
        flat = [
            torch.from_numpy(arrays[f"{side}{number}"])
            for number in range(int(arrays["batches"]))
            for side in Ready._fields
        ]
        batches = [Ready(*flat[first : first + 3]) for first in range(0, len(flat), 3)]
        return Corpus(int(arrays["vocabulary"]), batches)


def run(build: Build, *, package: str, precision: str = "float32") -> None:
    """Time the updates of one system, by itself in `precision`, and print what was found."""
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
    batches = endless(corpus)
    for batch in itertools.islice(batches, shape.warm):
        update(batch)
    tokens, seconds = 0, 0.0
    for batch in itertools.islice(batches, arguments.updates):
        began = time.perf_counter()
        update(batch)
        seconds += time.perf_counter() - began
        tokens += corpus.tokens(batch)
    found = {"tokens_a_second": tokens / seconds, "tokens_an_update": tokens / arguments.updates}
    said = {"precision": arguments.precision, "threads": torch.get_num_threads()}
    print(json.dumps({**found, **said, "version": version(package)}))


def autocast(precision: str) -> torch.autocast:
    """torch's own way to other precisions, as its tutorial on them says."""
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16")


def endless(corpus: Corpus) -> Iterator[Ready]:
    """The batches, over and over."""
    return itertools.cycle(corpus.batches)
