"""The data of a tokenizer for the page: what the SentencePiece models hold, as JSON.

The browser has neither the SentencePiece library nor protocol buffers. engine/sentencepiece.js
segments with this data, and engine/tokenizer.js assigns ids.
"""

import base64
from collections.abc import Mapping

import numpy as np

from transduce.data.pair_tokenizer import SOURCE, TARGET, PairTokenizer
from transduce.data.sentencepiece_model import UNUSED, read_model_type, read_options, read_pieces
from transduce.data.tokenizer import Tokenizer


def tokenizer_data(tokenizer: Tokenizer) -> dict[str, object]:
    """Return the data of a tokenizer, for JSON.

    A pair of models has `source`, `target`, and `table`, the pieces in id order.

    Raises:
        ValueError: if a model has a feature that the engine lacks; the message names it.
    """
    pair = isinstance(tokenizer, PairTokenizer)
    features = {
        "separate vocabularies of source and target (tokenizer.shared = false)": (
            not tokenizer.shared
        ),
        "several directions (data.directions)": bool(tokenizer.tags) and not pair,
    }
    _refuse("the model", features)
    if not pair:
        return model_data(tokenizer.to_bytes())
    models = tokenizer.files()
    return {
        "source": model_data(models[SOURCE]),
        "target": model_data(models[TARGET]),
        "table": sorted(tokenizer.table, key=tokenizer.table.__getitem__),
    }


def model_data(model: bytes) -> dict[str, object]:
    """Return the data of one SentencePiece model; engine/sentencepiece.js documents the fields.

    Raises:
        ValueError: if it has a feature that the engine lacks, or is damaged.
    """
    pieces, options = read_pieces(model), read_options(model)
    refused = {
        "white space as suffix (treat_whitespace_as_suffix)": options.whitespace_as_suffix,
        "denormalization rules (denormalizer_spec)": options.denormalizes,
        "unused pieces": any(piece.type == UNUSED for piece in pieces),
    }
    _refuse("the tokenizer model", refused)
    return {
        "type": read_model_type(model),
        "pieces": [piece.text for piece in pieces],
        # The shortest decimals that give the same float32.
        "scores": [float(str(np.float32(piece.score))) for piece in pieces],
        "types": "".join(str(piece.type) for piece in pieces),
        "byteFallback": options.byte_fallback,
        "unknownSurface": options.unknown_surface,
        "addDummyPrefix": options.add_dummy_prefix,
        "removeExtraWhitespaces": options.remove_extra_whitespaces,
        "escapeWhitespaces": options.escape_whitespaces,
        "charsmap": base64.b64encode(options.charsmap).decode(),
    }


def _refuse(subject: str, features: Mapping[str, bool]) -> None:
    """Refuse the first feature that is present."""
    for feature, present in features.items():
        if present:
            raise ValueError(
                f"{subject} has {feature}, which the web page does not implement; "
                f"export it to another format"
            )
