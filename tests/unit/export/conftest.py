"""A bundle of our own kind, one with all that imported models have, and folders of Marian's."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.exports import CONFIG, bundle_of, one_vocabulary, two_vocabularies

from transduce.bundle.bundle import Bundle
from transduce.export.marian import write_huggingface


@pytest.fixture(scope="session")
def plain() -> Bundle:
    return bundle_of(CONFIG, one_vocabulary())


@pytest.fixture(scope="session")
def foreign() -> Bundle:
    """As one that was imported: biases, SiLU, a SentencePiece model a side."""
    tokenizer = two_vocabularies()
    config = replace(
        CONFIG,
        vocab_size=tokenizer.vocab_size,
        activation="silu",
        attention_bias=True,
        output_bias=True,
    )
    return bundle_of(config, tokenizer)


@pytest.fixture
def folder(foreign: Bundle, tmp_path: Path) -> Path:
    """What Marian would have written of `foreign`."""
    write_huggingface(foreign, tmp_path / "marian")
    (tmp_path / "marian" / "manifest.json").unlink()  # only ours have one
    return tmp_path / "marian"
