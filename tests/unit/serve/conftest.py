"""Servers that shout, for tests of what is asked and answered."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer
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
