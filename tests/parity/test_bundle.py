"""A model that was saved and loaded is the model: equal weights, equal translations."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import made

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import EOS, Tokenizer
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.config import ModelConfig
from transduce.model.layers import Positions
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig


@pytest.fixture(params=["the paper's", "every option"])
def tiny(config: ModelConfig, request: pytest.FixtureRequest) -> Transformer:
    if request.param == "every option":
        config = replace(
            config, norm="pre", activation="gelu", positions="learned", max_positions=53
        )
    return made(config).eval()


@pytest.fixture
def bundle(tiny: Transformer) -> Bundle:
    draw = random.Random(0)
    words = ["one", "two", "three", "four", "five"]
    lines = [" ".join(draw.choices(words, k=4)) for _ in range(60)]
    return Bundle(
        model=tiny,
        tokenizer=Tokenizer.train(lines, TokenizerConfig(vocab_size=37)),
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=3, alpha=0.7),
        provenance=Provenance(),
    )


def test_saved_and_loaded_weights_are_equal_bit_for_bit(bundle: Bundle, tmp_path: Path):
    bundle.save(tmp_path / "model")

    loaded = Bundle.load(tmp_path / "model").model

    assert loaded.config == bundle.model.config
    assert loaded.state_dict().keys() == bundle.model.state_dict().keys()
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, bundle.model.state_dict()[name]), name


def test_a_loaded_bundle_translates_as_the_saved_one_did(bundle: Bundle, tmp_path: Path):
    bundle.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")
    texts = ["one two three", "four", "", "five five two one"]

    translations = [
        TorchEngine(candidate.model, pad=36, eos=EOS, device="cpu").search(
            [Request(tuple(ids)) for ids in candidate.tokenizer.encode_all(texts)], candidate.search
        )
        for candidate in (bundle, loaded)
    ]

    assert translations[0] == translations[1]


def test_training_goes_on_from_translations_longer_than_the_table(bundle: Bundle):
    """Search grows the table in inference mode; a model in training must be able to read it."""
    bundle.model.positions = Positions(14, length=5)
    engine = TorchEngine(bundle.model, pad=36, eos=EOS, device="cpu")
    engine.search([Request((3,) * 13)], SearchConfig(beam=1, extra=1))

    bundle.model.train()
    ids = torch.full((1, 11), 3)
    bundle.model(ids, None, ids).sum().backward()

    assert bundle.model.embedding.weight.grad is not None
