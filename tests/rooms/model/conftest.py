"""A model whose every axis has another size, so that a swapped axis cannot pass."""

import pytest
import torch

from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer


@pytest.fixture
def config() -> ModelConfig:
    return ModelConfig(
        vocab_size=19,
        encoder_layers=2,
        decoder_layers=3,
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
