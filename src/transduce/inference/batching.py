"""Long sentences in parts: cut where a word begins, searched one by one, and joined again."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from transduce.data.tokenizer import Tokenizer
from transduce.search.config import Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

Ids = tuple[int, ...]


def cut(
    ids: Sequence[int], config: SearchConfig, tokenizer: Tokenizer, *, line: int
) -> tuple[Ids, ...]:
    """Cut a sentence where a word begins, or within one that alone is too long.

    Raises:
        ValueError: if it is too long and `config.long` is "refuse"; the message names the line.
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
        end = next((cut for cut in range(end, start, -1) if starts_word[cut]), end)
        parts.append(tuple(ids[start:end]))
        start = end
    return (*parts, tuple(ids[start:]))


def batches(
    requests: set[Request], config: SearchConfig, tokens: int, *, together: int = 1
) -> Iterator[list[Request]]:
    """Gather sources of like length, the longest first, so that a want of memory shows at once.

    Equal requests are searched once, and the order of the input does not matter.

    Args:
        requests: what there is to search.
        config: the beam multiplies the rows.
        tokens: most rows x beam x longest source of one batch.
        together: how many batches are yielded as one.
    """
    tokens *= together
    batch: list[Request] = []
    for request in sorted(requests, key=lambda one: (-len(one.source), one)):
        longest = len((batch[0] if batch else request).source) + 1
        if batch and (len(batch) + 1) * config.beam * longest > tokens:
            yield batch
            batch = []
        batch.append(request)
    if batch:
        yield batch


def joined(parts: Sequence[Sequence[Hypothesis]], count: int) -> list[tuple[Hypothesis, ...]]:
    """The `count` ways to take one hypothesis of every part, best first."""
    ways: list[tuple[Hypothesis, ...]] = [()]
    for hypotheses in parts:
        longer = [(*way, one) for way, one in itertools.product(ways, hypotheses)]
        ways = sorted(longer, key=lambda way: -score(way))[:count]
    return ways


def score(hypotheses: Sequence[Hypothesis]) -> float:
    """The score of a sentence from those of its parts."""
    return math.fsum(hypothesis.score for hypothesis in hypotheses)


class Progress:
    """Counts the sentences all of whose parts are translated."""

    def __init__(
        self, asked: Sequence[Sequence[Request]], tell: Callable[[int], None] | None
    ) -> None:
        self._tell = tell
        self._missing = [len(set(requests)) for requests in asked]
        self._owners: dict[Request, list[int]] = {}
        for sentence, requests in enumerate(asked):
            for request in set(requests):
                self._owners.setdefault(request, []).append(sentence)
        self._count = self._missing.count(0)
        if tell is not None and self._count:
            tell(self._count)

    def done(self, batch: Sequence[Request]) -> None:
        """Note that a batch is translated, and tell how many sentences are whole by now."""
        for request in batch:
            for sentence in self._owners[request]:
                self._missing[sentence] -= 1
                self._count += self._missing[sentence] == 0
        if self._tell is not None:
            self._tell(self._count)
