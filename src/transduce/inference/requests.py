"""Text to search requests: encoding, splitting, prefixes and terms; batches of requests."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.glossary import Term, match_terms
from transduce.inference.term_placement import TermConstraint, term_constraints
from transduce.search.config import Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

Ids = tuple[int, ...]


class RequestBatch(NamedTuple):
    """The search requests of some sentences."""

    requests: tuple[tuple[Request, ...], ...]
    """For each sentence its parts, in order; a blank sentence has none."""

    terms: dict[Request, tuple[TermConstraint, ...]]
    """The terms that a part's translation must contain, for parts that have any."""


def build_requests(
    sentences: Sequence[str],
    prefixes: Sequence[str],
    *,
    config: SearchConfig,
    tokenizer: Tokenizer,
    glossary: tuple[Term, ...] = (),
    first_line: int = 1,
) -> RequestBatch:
    """Tidy, encode and split sentences, and match glossary terms in them.

    Args:
        sentences: the input text.
        prefixes: the prefix of each translation, or "".
        config: the maximum source length, and what to do with longer sentences.
        tokenizer: the model's.
        glossary: terms that may apply.
        first_line: line number of the first sentence, for messages.

    Raises:
        ValueError: if a sentence is too long and must not be split, or the vocabulary cannot
            encode a prefix or a term.
    """
    texts = [tidy(sentence) for sentence in sentences]
    terms: dict[Request, tuple[TermConstraint, ...]] = {}
    requests: list[tuple[Request, ...]] = []
    for line, (text, ids) in enumerate(
        zip(texts, tokenizer.encode_all(texts), strict=True), first_line
    ):
        parts = [Request(part) for part in split_source(ids, config, tokenizer, line=line)]
        prefix = prefixes[line - first_line]
        if parts and prefix:
            parts[0] = parts[0]._replace(prefix=encode_prefix(prefix, tokenizer))
        for part in parts if glossary else ():
            part_text = text if len(parts) == 1 else tokenizer.decode(part.source)
            if matched := match_terms(part_text, glossary):
                terms[part] = term_constraints(part_text, part.source, matched, tokenizer)
        requests.append(tuple(parts))
    return RequestBatch(tuple(requests), terms)


def encode_prefix(text: str, tokenizer: Tokenizer) -> Ids:
    """Return the ids that a translation must begin with.

    Raises:
        ValueError: if the vocabulary lacks one of its characters.
    """
    ids = tuple(tokenizer.target.encode(tidy(text)))
    if tokenizer.UNK in ids:
        raise ValueError(
            f"no translation can begin with {text[:60]!r}: the model's vocabulary lacks one of its "
            f"characters; choose another spelling"
        )
    return ids


def split_source(
    ids: Sequence[int], config: SearchConfig, tokenizer: Tokenizer, *, line: int
) -> tuple[Ids, ...]:
    """Split a long sentence at word boundaries, or inside a word that is itself too long.

    Args:
        ids: the sentence, without EOS.
        config: the maximum source length, and whether to split.
        tokenizer: the model's; its pieces mark where words begin.
        line: line number, for the message.

    Raises:
        ValueError: if it is too long and `config.long` is "refuse".
    """
    if len(ids) <= config.max_source:
        return (tuple(ids),) if ids else ()
    if config.long == "refuse":
        raise ValueError(
            f"line {line} has {len(ids)} pieces, more than search.max_source "
            f"{config.max_source}: split it, set search.long to 'split', or raise the limit "
            f"(learned positions end at model.max_positions)"
        )
    starts_word = [piece.startswith("▁") for piece in tokenizer.pieces(ids)]
    parts: list[Ids] = []
    start = 0
    while len(ids) - start > config.max_source:
        end = start + config.max_source
        end = next((index for index in range(end, start, -1) if starts_word[index]), end)
        parts.append(tuple(ids[start:end]))
        start = end
    return (*parts, tuple(ids[start:]))


def batches(
    requests: set[Request], config: SearchConfig, tokens: int, *, batch_count: int = 1
) -> Iterator[list[Request]]:
    """Batch sources of similar length, the longest first, so that lack of memory shows at once.

    Equal requests are searched once, and the input order does not matter.

    Args:
        requests: all requests.
        config: its beam multiplies the rows.
        tokens: batch size limit: rows x beam x longest source, in pieces.
        batch_count: number of batches to yield as one list.
    """
    tokens *= batch_count
    batch: list[Request] = []
    for request in sorted(requests, key=lambda request: (-len(request.source), request)):
        longest = len((batch[0] if batch else request).source) + 1
        if batch and (len(batch) + 1) * config.beam * longest > tokens:
            yield batch
            batch = []
        batch.append(request)
    if batch:
        yield batch


def combine_parts(
    parts: Sequence[Sequence[Hypothesis]], count: int
) -> list[tuple[Hypothesis, ...]]:
    """Return the `count` best ways to choose one hypothesis for every part, best first."""
    combinations: list[tuple[Hypothesis, ...]] = [()]
    for hypotheses in parts:
        extended = [(*head, last) for head, last in itertools.product(combinations, hypotheses)]
        combinations = sorted(extended, key=lambda choice: -total_score(choice))[:count]
    return combinations


def total_score(hypotheses: Sequence[Hypothesis]) -> float:
    """Return the score of a sentence: the sum over its parts."""
    return math.fsum(hypothesis.score for hypothesis in hypotheses)


class SentenceProgress:
    """Counts the sentences all of whose parts are translated."""

    def __init__(
        self, requests: Sequence[Sequence[Request]], callback: Callable[[int], None] | None
    ) -> None:
        """Count over the parts of each sentence; `callback` receives the count."""
        self._callback = callback
        self._pending = [len(set(parts)) for parts in requests]
        self._owners: dict[Request, list[int]] = {}
        for sentence, parts in enumerate(requests):
            for request in set(parts):
                self._owners.setdefault(request, []).append(sentence)
        self._count = self._pending.count(0)
        if callback is not None and self._count:
            callback(self._count)

    def update(self, batch: Sequence[Request]) -> None:
        """Record a translated batch and report the number of complete sentences."""
        for request in batch:
            for sentence in self._owners[request]:
                self._pending[sentence] -= 1
                self._count += self._pending[sentence] == 0
        if self._callback is not None:
            self._callback(self._count)
