"""The small model as training meets it: the store's vocabulary, dropout, not in eval mode."""

from dataclasses import replace

import pytest
from tests.conftest import SHAPE, made

from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer


@pytest.fixture
def config() -> ModelConfig:
    return replace(SHAPE, vocab_size=37, encoder_layers=1, decoder_layers=2, dropout=0.1)


@pytest.fixture
def tiny(config: ModelConfig) -> Transformer:
    return made(config)
