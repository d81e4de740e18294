"""A small store and a model that fits it, every axis of another size."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from transduce.data.store import Store
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.text.config import TokenizerConfig
from transduce.text.corpus import NumberedPair, Pair
from transduce.text.tokenizer import Tokenizer


def pairs() -> Iterator[NumberedPair]:
    """Words and the same words backwards."""
    draw = random.Random(0)
    for line in range(1, 60):
        words = draw.choices(["one", "two", "three", "four", "five"], k=draw.randint(1, 6))
        yield NumberedPair(line, Pair(" ".join(words), " ".join(reversed(words))))


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    text = [side for _, pair in pairs() for side in pair]
    tokenizer = Tokenizer.train(text, TokenizerConfig(vocab_size=37))
    folder: Path = tmp_path_factory.mktemp("corpus") / "store"
    return Store.write(folder, pairs(), tokenizer=tokenizer, max_pieces=50)


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=37,
        encoder_layers=1,
        decoder_layers=2,
        d_model=14,
        d_ff=23,
        heads=3,
        d_k=5,
        d_v=7,
        dropout=0.0,
    )


@pytest.fixture
def tiny(config: ModelConfig) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer(config).eval()
