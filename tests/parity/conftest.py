"""The small model with the vocabulary of the small store."""

from dataclasses import replace

import pytest
from tests.conftest import SHAPE

from transduce.model.config import ModelConfig


@pytest.fixture
def config() -> ModelConfig:
    return replace(SHAPE, vocab_size=37, encoder_layers=1, decoder_layers=2)
