"""Keywords of `Translator.translate`: its former ones, and what is suggested for unknown ones."""

import tomllib
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypedDict
from warnings import warn

from transduce.inference.decode import Extras
from transduce.search.config import DecodingConstraints


class FormerKeywords(TypedDict, total=False):
    """Keywords of the version before, which are accepted with a DeprecationWarning."""

    beam: int | None
    alpha: float | None
    nbest: int
    constraints: DecodingConstraints
    wishes: DecodingConstraints
    extras: Extras


_CONSTRAINTS = "no_repeat_ngram_size, min_new_tokens, max_new_tokens, do_sample"
_RENAMED: Final = {
    "beam": "num_beams",
    "alpha": "length_penalty",
    "nbest": "num_return_sequences",
    "constraints": _CONSTRAINTS,
    "wishes": _CONSTRAINTS,
    "extras": "glossary, protect, mbr, retry_loops, recase, token_scores",
}
_SYNONYMS: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
"""Keywords of transformers, CTranslate2 and other toolkits, and ours."""


def check_keywords(given: Iterable[str], parameters: Collection[str]) -> None:
    """Warn of former keywords, for the caller's caller; refuse unknown ones.

    Args:
        given: keywords that are not parameters.
        parameters: of `Translator.translate`.

    Raises:
        TypeError: for an unknown keyword; the message suggests a similar one.
    """
    known = [name for name in parameters if name not in ("self", "sentences", "former")]
    for name in given:
        if name in _RENAMED:
            text = f"translate({name}=) is deprecated: use {_RENAMED[name]}"
            warn(text, DeprecationWarning, stacklevel=3)
            continue
        similar = [_SYNONYMS[name]] if name in _SYNONYMS else get_close_matches(name, known, n=1)
        advice = f"did you mean {similar[0]!r}?" if similar else f"there are {', '.join(known)}"
        raise TypeError(f"translate() got an unexpected keyword argument {name!r}: {advice}")


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
