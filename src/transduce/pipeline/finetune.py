"""Fine-tuning: a run that starts from a model's weights in place of random ones.

The shape and the vocabulary are the model's; a recipe may say how to train, not what. Where
`tokenizer.extend` asks for more pieces, old ids and rows stay, PAD moves to the new end, and each
new row starts as the mean of the rows that the old vocabulary spelled its piece with.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from transduce.bundle.bundle import WEIGHTS, Bundle, find_bundle
from transduce.config import Recipe, conflicts
from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.sentencepiece_model import BYTE, read_model_type, read_pieces
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.data.tokenizer_extension import encode_without_prefix
from transduce.io.atomic_folder import sha256
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer

FOLDER = "start"
"""Where a prepared corpus keeps the model to start from, its vocabulary extended already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartModel:
    """The model that a run starts from."""

    name: str
    """As it was given; of an absolute path the end, which is nobody's home folder."""

    sha256: str
    """Of its weights."""

    bundle: Bundle

    @classmethod
    def load(cls, path: Path) -> "StartModel":
        """Read a bundle, or the best bundle of a run's folder.

        Raises:
            ValueError: one line that names the file at fault.
        """
        bundle = Bundle.load(path)
        name = "/".join(path.parts[-2:]) if path.is_absolute() else str(path)
        return cls(name=name, sha256=sha256(find_bundle(path) / WEIGHTS), bundle=bundle)


def adopt_model(
    recipe: Recipe, start: StartModel, *, explicit: Collection[str], by_hand: Collection[str]
) -> Recipe:
    """Give a recipe the shape and the vocabulary of the model that it starts from.

    Dropout, languages and search are the model's too, unless the recipe says them.

    Args:
        recipe: how to train.
        start: the model.
        said: the settings that the recipe says, as "section.key"; the rest are defaults.
        named: those that a person set over it by hand, which must not contradict the model.

    Raises:
        ValueError: for such a contradiction; one line that names the setting.
    """
    theirs = start.bundle
    tokenizer = replace(tokenizer_settings(theirs.tokenizer), extend=recipe.tokenizer.extend)
    if tokenizer.extend and isinstance(theirs.tokenizer, PairTokenizer):
        raise ValueError(
            f"tokenizer.extend cannot add to the vocabulary of {start.name}, which was imported "
            f"with a SentencePiece model a side: leave it out"
        )
    _check(recipe, by_hand, section="model", theirs=theirs.model.config, name=start.name)
    _check(recipe, by_hand, section="tokenizer", theirs=tokenizer, name=start.name)
    size = tokenizer.vocab_size + tokenizer.extend
    dropout = recipe.model.dropout if "model.dropout" in explicit else theirs.model.config.dropout
    codes = (recipe.languages.source, recipe.languages.target)
    same = {"languages.source", "languages.target"}.isdisjoint(explicit) or codes == (
        theirs.languages.source,
        theirs.languages.target,
    )
    recipe = replace(
        recipe,
        tokenizer=replace(tokenizer, vocab_size=size),
        model=replace(theirs.model.config, vocab_size=size, dropout=dropout),
        languages=theirs.languages if same else recipe.languages,
        search=recipe.search
        if any(key.startswith("search.") for key in explicit)
        else theirs.search,
    )
    for contradiction in conflicts(recipe):
        raise ValueError(contradiction)
    return recipe


def extend_vocabulary(bundle: Bundle, tokenizer: Tokenizer) -> Bundle:
    """Give a bundle a vocabulary that begins with its own; all it knew, it still knows.

    A new row is the mean of the rows of the pieces that spelled it. A character that could not be
    spelled starts from the mean of all rows, which keeps its logit that of a middling piece, where
    a random row could outbid every other.

    Source:
        Gee, Zugarini, Rigutini, Torroni 2022, "Fast Vocabulary Transfer for Language Model
        Compression", for pieces; Hewitt 2021, "Initializing New Word Embeddings for Pretrained
        Language Models", for what had no spelling.
    """
    old = bundle.tokenizer
    if tokenizer.checksum == old.checksum:
        return bundle
    texts = [piece.text for piece in read_pieces(tokenizer.to_bytes())]
    assert texts[: old.pad] == [piece.text for piece in read_pieces(old.to_bytes())]
    config = replace(bundle.model.config, vocab_size=tokenizer.vocab_size)
    weights = dict(bundle.model.state_dict())
    spelled = encode_without_prefix(old, texts[old.pad :])
    weights["embedding.weight"] = _rows(weights["embedding.weight"], spelled)
    if config.output_bias:
        weights["output_bias"] = _rows(weights["output_bias"][:, None], spelled)[:, 0]
    with torch.random.fork_rng(devices=[]):  # the initial weights must not cost a run its seed
        model = Transformer(config)
    model.load_state_dict(weights)
    return replace(bundle, model=model.eval(), tokenizer=tokenizer)


def _rows(
    old: Float[Tensor, "vocab d_model"], spelled: Sequence[Sequence[int]]
) -> Float[Tensor, "more d_model"]:
    """The embedding with a row more for each spelling; PAD's row, which is zero, stays the last."""
    known = old[:-1].clone()
    known[UNK] = known[UNK + 1 :].mean(dim=0)
    new = [known[list(ids)].mean(dim=0) for ids in spelled]
    return torch.cat([old[:-1], *(row[None] for row in new), old[-1:]])


def tokenizer_settings(tokenizer: Tokenizer) -> TokenizerConfig:
    """The settings that a vocabulary can be known to have."""
    pair = isinstance(tokenizer, PairTokenizer)
    models = list(tokenizer.files().values()) if pair else [tokenizer.to_bytes()]
    pieces = [piece for model in models for piece in read_pieces(model)]
    return TokenizerConfig(
        kind=read_model_type(models[0]),
        vocab_size=tokenizer.vocab_size,
        byte_fallback=any(piece.type == BYTE for piece in pieces),
    )


def _check(
    recipe: Recipe,
    named: Collection[str],
    *,
    section: Literal["model", "tokenizer"],
    theirs: ModelConfig | TokenizerConfig,
    name: str,
) -> None:
    """Refuse a setting that was made by hand and contradicts the model."""
    for field in fields(theirs):
        key, wanted = f"{section}.{field.name}", getattr(recipe, section)
        mine, its = getattr(wanted, field.name), getattr(theirs, field.name)
        if key in named and key != "model.dropout" and mine != its:
            raise ValueError(
                f"{key} cannot be {mine}: it is {its} in {name}, the model to start from; "
                f"leave it out"
            )
