"""Text becomes requests: parts of a sentence, the prefix of the first, the terms of each."""

from collections.abc import Sequence
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.batching import cut
from transduce.inference.glossary import Term, terms_in
from transduce.inference.term_placement import Wanted, wanted
from transduce.search.config import Request, SearchConfig


class Asked(NamedTuple):
    """What is asked of the search for some sentences."""

    requests: tuple[tuple[Request, ...], ...]
    """Of each sentence its parts, in order; a blank one has none."""

    terms: dict[Request, tuple[Wanted, ...]]
    """What the translation of a part shall say, where that is anything."""


def ask(
    sentences: Sequence[str],
    prefixes: Sequence[str],
    *,
    config: SearchConfig,
    tokenizer: Tokenizer,
    glossary: tuple[Term, ...] = (),
    first_line: int = 1,
) -> Asked:
    """Tidy, encode and cut some sentences, and find what a glossary says of them.

    Args:
        sentences: as they were given.
        prefixes: what the translation of each begins with, or "".
        config: says what is too long, and what becomes of it.
        tokenizer: the model's.
        glossary: terms that may apply.
        first_line: the number that a message gives to the first sentence.

    Raises:
        ValueError: if a sentence is too long and is not to be cut, or the vocabulary cannot write
            a prefix or a term.
    """
    texts = [tidy(sentence) for sentence in sentences]
    terms: dict[Request, tuple[Wanted, ...]] = {}
    asked: list[tuple[Request, ...]] = []
    for line, (text, ids) in enumerate(
        zip(texts, tokenizer.encode_all(texts), strict=True), first_line
    ):
        parts = [Request(part) for part in cut(ids, config, tokenizer, line=line)]
        prefix = prefixes[line - first_line]
        if parts and prefix:
            parts[0] = parts[0]._replace(prefix=beginning(prefix, tokenizer))
        for part in parts if glossary else ():
            here = text if len(parts) == 1 else tokenizer.decode(part.source)
            if called := terms_in(here, glossary):
                terms[part] = wanted(here, part.source, called, tokenizer)
        asked.append(tuple(parts))
    return Asked(tuple(asked), terms)


def beginning(text: str, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return the ids of what a translation shall begin with.

    Raises:
        ValueError: if it has a character that the vocabulary cannot write.
    """
    ids = tuple(tokenizer.target.encode(tidy(text)))
    if tokenizer.UNK in ids:
        raise ValueError(
            f"no translation can begin with {text[:60]!r}: the model's vocabulary lacks a "
            f"character of it; write it otherwise"
        )
    return ids
