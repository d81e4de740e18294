"""Fine-tuning: a run that starts from a model's weights in place of random ones.

Shape and vocabulary are the model's; the recipe decides the training. If `tokenizer.extend` adds
pieces, old ids and rows stay, and PAD moves to the new end.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float

from transduce.bundle.bundle import WEIGHTS, Bundle, find_bundle
from transduce.config import Recipe, conflicts
from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.sentencepiece_model import BYTE, read_model_type, read_pieces
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.data.tokenizer_extension import encode_without_prefix
from transduce.io.atomic_folder import sha256
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import NumpyTransformer

_DROPOUTS = ("dropout", "attention_dropout", "relu_dropout")

FOLDER = "start"
"""The folder of the start model in a prepared corpus, its vocabulary extended already."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartModel:
    """The model that a run starts from."""

    name: str
    """The path as given; of an absolute one the last two parts, without any home folder."""
    sha256: str
    """Of its weights."""
    bundle: Bundle

    @classmethod
    def load(cls, path: Path) -> "StartModel":
        """Load a bundle, or the best bundle of a run's folder.

        Raises:
            ValueError: one line that names the file at fault.
        """
        bundle = Bundle.load(path)
        name = "/".join(path.parts[-2:]) if path.is_absolute() else str(path)
        return cls(name=name, sha256=sha256(find_bundle(path) / WEIGHTS), bundle=bundle)


def adopt_model(
    recipe: Recipe, start: StartModel, *, explicit: Collection[str], by_hand: Collection[str]
) -> Recipe:
    """Return a recipe with the shape and the vocabulary of the model that it starts from.

    Dropout, languages and search are the model's too, unless the recipe sets them; of a recipe with
    directions the languages are those of the first.

    Args:
        explicit: the settings that the recipe sets, as "section.key"; the rest are defaults.
        by_hand: settings made over the recipe, which must not contradict the model.

    Raises:
        ValueError: for such a contradiction; one line that names the setting.
    """
    base = start.bundle
    for direction in recipe.data.directions:
        if not base.tokenizer.find_tag(direction.target):
            raise ValueError(
                f"{start.name} has no tag for the target language {direction.target!r} of "
                f"data.directions: its targets cannot be extended"
            )
    if base.directions and not recipe.data.directions:
        listed = ", ".join(map(str, base.directions))
        raise ValueError(
            f"{start.name} has the directions {listed}: name yours in data.directions (--direction)"
        )
    tokenizer = replace(tokenizer_settings(base.tokenizer), extend=recipe.tokenizer.extend)
    if tokenizer.extend and isinstance(base.tokenizer, PairTokenizer):
        raise ValueError(
            f"tokenizer.extend cannot add to the vocabulary of {start.name}, which was imported "
            f"with a SentencePiece model a side: leave it out"
        )
    _check(recipe, by_hand, section="model", expected=base.model.config, name=start.name)
    _check(recipe, by_hand, section="tokenizer", expected=tokenizer, name=start.name)
    size = tokenizer.vocab_size + tokenizer.extend
    dropouts = {
        name: getattr(recipe.model, name) for name in _DROPOUTS if f"model.{name}" in explicit
    }
    languages, codes = base.languages, (recipe.languages.source, recipe.languages.target)
    if {"languages.source", "languages.target"}.isdisjoint(explicit):
        if recipe.data.directions:
            source, target = recipe.data.trained[0].pair
            languages = languages.with_codes(source=source, target=target)
    elif codes != (languages.source, languages.target):
        languages = recipe.languages
    recipe = replace(
        recipe,
        tokenizer=replace(tokenizer, vocab_size=size),
        model=replace(base.model.config, vocab_size=size, **dropouts),
        languages=languages,
        search=recipe.search if any(key.startswith("search.") for key in explicit) else base.search,
    )
    for contradiction in conflicts(recipe):
        raise ValueError(contradiction)
    return recipe


def extend_vocabulary(bundle: Bundle, tokenizer: Tokenizer) -> Bundle:
    """Return a bundle with a larger vocabulary that begins with its own.

    A new embedding is the mean of those of the pieces that spelled it. A character that could not
    be spelled starts from the mean of all, which gives it an average logit, where a random
    embedding could exceed every other.

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
    model = bundle.weights.to_numpy()
    weights = dict(model.weights)
    spelled = encode_without_prefix(old, texts[old.pad :])
    for name in ("embedding.weight", "source_embedding.weight", "output_embedding.weight"):
        if name in weights:
            weights[name] = _rows(weights[name], spelled)
    if model.config.output_bias:
        weights["output_bias"] = _rows(weights["output_bias"][:, None], spelled)[:, 0]
    config = replace(model.config, vocab_size=tokenizer.vocab_size)
    return replace(bundle, model=NumpyTransformer(config, weights), tokenizer=tokenizer)


def _rows(
    old: Float[np.ndarray, "vocab d_model"], spelled: Sequence[Sequence[int]]
) -> Float[np.ndarray, "more d_model"]:
    """The embedding with a row more for each spelling; PAD's row of zeros stays the last."""
    known = old[:-1].copy()
    known[UNK] = known[UNK + 1 :].mean(axis=0)
    new = [known[list(ids)].mean(axis=0) for ids in spelled]
    return np.concatenate([old[:-1], *(row[None] for row in new), old[-1:]])


def tokenizer_settings(tokenizer: Tokenizer) -> TokenizerConfig:
    """Return the settings that can be read from a vocabulary."""
    pair = isinstance(tokenizer, PairTokenizer)
    models = list(tokenizer.files().values()) if pair else [tokenizer.to_bytes()]
    pieces = [piece for model in models for piece in read_pieces(model)]
    return TokenizerConfig(
        kind=read_model_type(models[0]),
        vocab_size=tokenizer.vocab_size,
        shared=tokenizer.shared,
        lower_case=tokenizer.lower_case,
        byte_fallback=any(piece.type == BYTE for piece in pieces),
        protect=tokenizer.protection.patterns,
    )


def _check(
    recipe: Recipe,
    by_hand: Collection[str],
    *,
    section: Literal["model", "tokenizer"],
    expected: ModelConfig | TokenizerConfig,
    name: str,
) -> None:
    """Refuse a setting made by hand that contradicts the model."""
    for field in fields(expected):
        key, settings = f"{section}.{field.name}", getattr(recipe, section)
        value, fixed = getattr(settings, field.name), getattr(expected, field.name)
        if key in by_hand and key.partition(".")[2] not in _DROPOUTS and value != fixed:
            raise ValueError(
                f"{key} cannot be {value}: it is {fixed} in {name}, the model to start from; "
                f"leave it out"
            )
