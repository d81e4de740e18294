"""Small bundles that CTranslate2 can express, and a machine of two cores."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.ct2_model import Cache
from transduce.inference.engines.ct2_runtime import Ct2Hypothesis, Ct2Model, SearchBatch
from transduce.inference.engines.forking import preserve_thread_count
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

PLAIN_SHAPE = ModelConfig(
    vocab_size=97,
    encoder_layers=2,
    decoder_layers=3,
    d_model=22,
    d_ff=31,
    heads=2,
    d_k=11,
    d_v=11,
    max_positions=61,
)
"""d_k and d_v are d_model / heads."""


@pytest.fixture
def two_threads() -> Iterator[None]:
    """torch computes with two, whatever the machine has."""
    with preserve_thread_count():
        torch.set_num_threads(2)
        yield


def lively(config: ModelConfig, *, seed: int = 2) -> Transformer:
    """An untrained model with opinions: it says one thing after another, and comes to an end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(config).eval()
        with torch.no_grad():
            model.embedding.weight *= 1.5
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    parameter.normal_(std=0.3)
            last = (
                model.decoder_norm
                if config.norm == "pre"
                else model.decoder[-1].feed_forward_norm.norm
            )
            last.weight *= -1.0  # else it says again and again what it has read last
            last.bias.zero_()
            model.embedding.weight[0] *= 1.7  # EOS
    return model


def bundle_of(model: Transformer, tokenizer: Tokenizer) -> Bundle:
    """A model with what else a bundle holds."""
    return Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(),
        provenance=Provenance(),
    )


@pytest.fixture
def shape(tokenizer: Tokenizer) -> ModelConfig:
    return replace(PLAIN_SHAPE, vocab_size=tokenizer.vocab_size)


@pytest.fixture
def bundle(tokenizer: Tokenizer, shape: ModelConfig) -> Bundle:
    return bundle_of(lively(shape), tokenizer)


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def batch_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the batches that CTranslate2 is given from now on."""
    sizes: list[int] = []
    search = Ct2Model.search

    def counting(
        model: Ct2Model, batches: Sequence[SearchBatch], **options: Any
    ) -> list[list[list[Ct2Hypothesis]]]:
        sizes.extend(len(batch.requests) for batch in batches)
        return search(model, batches, **options)

    monkeypatch.setattr(Ct2Model, "search", counting)
    return sizes
