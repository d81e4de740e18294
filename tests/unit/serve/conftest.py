"""Servers that shout, for tests of what is asked and answered."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.unit.conftest import LINES

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.serve.settings import ServerSettings

if TYPE_CHECKING:
    from tests.served import Serve, Served


@pytest.fixture
def serve(tokenizer: Tokenizer, untrained: Transformer) -> "Iterator[Serve]":
    """Make a server of some pairs and settings; English to German, if nothing is said."""
    from tests.served import serving

    with ExitStack() as stack:

        def make(*pairs: str, settings: ServerSettings | None = None) -> "Served":
            return stack.enter_context(
                serving(pairs or ("en-de",), settings, tokenizer=tokenizer, model=untrained)
            )

        yield make


@pytest.fixture
def served(serve: "Serve") -> "Served":
    return serve()


@pytest.fixture
def both_ways(tmp_path: Path, untrained: Transformer) -> Path:
    """A model of two directions."""
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97), tags=["<2de>", "<2en>"])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(replace(untrained.config, vocab_size=tokenizer.vocab_size)).eval()
    bundle = Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=1, extra=2),
        provenance=Provenance(),
        directions=(LanguagePair("en", "de"), LanguagePair("de", "en")),
    )
    bundle.save(tmp_path / "both-ways")
    return tmp_path / "both-ways"
