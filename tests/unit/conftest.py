"""A small tokenizer and an untrained model that fits it, for the rooms that need both."""

import pytest
import torch

from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer

LINES = (
    "a small house stands by the river",
    "the old man reads a book in the garden",
    "two children play with a red ball",
    "she buys bread and milk at the market",
    "ein kleines Haus steht am Fluss",
    "der alte Mann liest ein Buch im Garten",
    "zwei Kinder spielen mit einem roten Ball",
    "sie kauft Brot und Milch auf dem Markt",
)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(vocab_size=97))


@pytest.fixture
def untrained(tokenizer: Tokenizer) -> Transformer:
    """Its embedding is blown up, so that it prefers some pieces clearly and no near-ties arise."""
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        encoder_layers=2,
        decoder_layers=1,
        d_model=22,
        d_ff=31,
        heads=3,
        d_k=7,
        d_v=5,
        dropout=0.1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = Transformer(config).eval()
    with torch.no_grad():
        model.embedding.weight *= 3.0
    return model
