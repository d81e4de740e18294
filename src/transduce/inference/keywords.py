"""Keywords of `Translator.translate`: what is suggested for unknown ones, and names in errors."""

import tomllib
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path
from typing import Final

_SYNONYMS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Keywords of transformers, CTranslate2 and other toolkits, and ours."""


def unknown_keyword(name: str, parameters: Collection[str]) -> TypeError:
    """Return the error for an unknown keyword, which suggests a similar one of the parameters."""
    known = [name for name in parameters if name not in ("self", "sentences", "unknown")]
    similar = [_SYNONYMS[name]] if name in _SYNONYMS else get_close_matches(name, known, n=1)
    advice = f"did you mean {similar[0]!r}?" if similar else f"there are {', '.join(known)}"
    return TypeError(f"translate() got an unexpected keyword argument {name!r}: {advice}")


def api_names(message: str) -> str:
    """Replace names of settings in an error message by the keywords.

    >>> api_names("search.beam must be at least 1, not 0")
    'num_beams must be at least 1, not 0'
    """
    for name, keyword in (
        ("nbest", "num_return_sequences"),
        *(("search.beam", "num_beams"), ("search.alpha", "length_penalty")),
        *(("no-repeat", "no_repeat_ngram_size"), ("max-length", "max_new_tokens")),
        *(("min-length", "min_new_tokens"), ("top-k", "top_k"), ("top-p", "top_p")),
    ):
        message = message.replace(name, keyword)
    return message
