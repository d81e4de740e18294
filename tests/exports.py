"""A bundle that every format can express, and a model of Marian's made of random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import torch

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

ENGLISH = (
    "a small house stands by the river",
    "the old man reads a book in the garden",
    "two children play with a red ball",
)
GERMAN = (
    "ein kleines Haus steht am Fluss",
    "der alte Mann liest ein Buch im Garten",
    "zwei Kinder spielen mit einem roten Ball",
)
SENTENCES = ("the small garden", "two  old houses", "a_b ☃ ball", "</s> the river")
"""Twice a blank, a character without a piece, and what looks like a control piece."""

ODD = (
    *("", " ", "  a  man ", "▁a▁", "</s>", "a <pad> b", "<unk>", "<0x41>", "☃ ½ ﬁ Ａ", "x" * 97),
    *("a\u00a0b", "a\u200db", "e\u0301", "𝔘", "1,000.5", '"quoted"', "don't", "_", "tab\there"),
)
"""Text that tokenizers like to rewrite."""

CONFIG = ModelConfig(
    vocab_size=79,
    encoder_layers=2,
    decoder_layers=1,
    d_model=12,
    d_ff=17,
    heads=3,
    d_k=4,
    d_v=4,
    dropout=0.1,
)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from torch's generator without anybody noticing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def model_of(config: ModelConfig) -> Transformer:
    """Norms and biases are uneven, some pieces clearly preferred, so that no near-ties arise."""
    with seeded(5), torch.no_grad():
        model = Transformer(config).eval()
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_()
        model.embedding.weight *= 3.0
    return model


def bundle_of(config: ModelConfig, tokenizer: Tokenizer) -> Bundle:
    return Bundle(
        model=model_of(config),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de", source_name="English", target_name="German"),
        search=SearchConfig(beam=3, alpha=0.4, extra=7, max_source=101),
        provenance=replace(Provenance.current(), recipe='name = "small"\n'),
    )


def one_vocabulary(
    *, byte_fallback: bool = False, kind: Literal["bpe", "char"] = "bpe", lower_case: bool = False
) -> Tokenizer:
    size = CONFIG.vocab_size + (256 if byte_fallback else 0)
    config = TokenizerConfig(
        kind=kind, vocab_size=size, byte_fallback=byte_fallback, lower_case=lower_case
    )
    return Tokenizer.train((*ENGLISH, *GERMAN), config)


def two_vocabularies() -> PairTokenizer:
    sides = [Tokenizer.train(text, TokenizerConfig(vocab_size=47)) for text in (ENGLISH, GERMAN)]
    texts = {piece for side in sides for piece in side.pieces(range(2, side.pad))}
    names = ["</s>", "<unk>", *sorted(texts), "<pad>"]
    source, target = (side.to_bytes() for side in sides)
    return PairTokenizer.from_files(
        source=source, target=target, table={name: number for number, name in enumerate(names)}
    )
