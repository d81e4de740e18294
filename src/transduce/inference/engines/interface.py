"""Interfaces of the decoding backends."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

MAX_SCORE_LOGITS = 1 << 24
"""Maximum logits of one forward pass when scoring pairs; each takes 4 bytes, a few times over."""

Ids = Sequence[int]

IdPair = tuple[Ids, Ids]
"""Ids of a source and a target, both without EOS."""


class NextPiece(NamedTuple):
    """A candidate for the next piece."""

    id: int
    log_prob: float
    """Its log-probability."""


@runtime_checkable  # the shape checks of the tests use isinstance
class Engine(Protocol):
    """Searches translations of encoded sentences. All engines follow `search.beam`."""

    @property
    def name(self) -> str:
        """The engine's name: "native", "ctranslate2", "torch" or "numpy"."""
        ...

    @property
    def preferred_batches(self) -> int:
        """Number of batches to pass per call, as one list, for best throughput."""
        ...

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Name what this engine does not support of a call of `search`; empty if nothing."""
        ...

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of some sentences, preferably of similar length.

        Args:
            requests: the sentences.
            config: beam size, α and the length limit.
            constraints: the call's constraints.
            token_scores: whether the log-probability of each piece is needed. If not, an engine
                that computes them at extra cost may leave `Hypothesis.log_probs` empty, and with a
                beam of 1 `log_prob` and `score` NaN.

        Returns:
            For each sentence its hypotheses, best first: at least one, at most `config.beam`.

        Raises:
            ValueError: if the constraints cannot be satisfied, or the logits are NaN or infinite.
        """
        ...

    def score(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target and of its EOS.

        Raises:
            ValueError: if a side exceeds the model's positions.
        """
        ...


@runtime_checkable
class ScoringEngine(Engine, Protocol):
    """An engine that also ranks next pieces, and scores in the model's own precision."""

    @property
    def longest(self) -> int:
        """Maximum pieces of a side, EOS included."""
        ...

    def next_pieces(self, request: Request, k: int) -> list[NextPiece]:
        """Return the `k` most probable pieces after the prefix, best first, EOS among them.

        There may be fewer in the vocabulary.

        Args:
            request: its prefix is shorter than `longest`.
            k: at least 1.
        """
        ...


def check_sides(pairs: Sequence[IdPair], *, longest: int, first_line: int = 1) -> None:
    """Check that both sides of all pairs have positions.

    Raises:
        ValueError: if a side exceeds the `longest` positions; the message names its line.
    """
    for line, pair in enumerate(pairs, first_line):
        if (length := max(map(len, pair))) >= longest:
            raise ValueError(
                f"line {line} has a side of {length} pieces that exceeds the model's {longest} "
                f"positions (EOS included): split it"
            )


def scoring_batches(
    pairs: Sequence[IdPair], *, vocab_size: int, most: int = MAX_SCORE_LOGITS
) -> Iterator[list[int]]:
    """Yield the indices of pairs to score together: of similar length, the longest first.

    Args:
        pairs: to score.
        vocab_size: the model's.
        most: maximum pairs of a batch, besides that of their logits.
    """
    lengths = [(len(target), len(source)) for source, target in pairs]
    order = sorted(range(len(pairs)), key=lambda index: lengths[index], reverse=True)
    while order:
        rows = MAX_SCORE_LOGITS // ((max(lengths[order[0]]) + 1) * vocab_size)
        rows = max(1, min(rows, most))
        yield order[:rows]
        order = order[rows:]


def score_in_batches(
    pairs: Sequence[IdPair],
    score_batch: Callable[[Sequence[Ids], Sequence[Ids]], Sequence[Sequence[float]]],
    *,
    longest: int,
    vocab_size: int,
) -> list[tuple[float, ...]]:
    """Score pairs in batches of similar length, the longest first.

    Args:
        pairs: to score; the result is in their order.
        score_batch: returns a row for each source and target: the log-probability of each piece of
            the target and of its EOS, and then anything.
        longest: the model's positions.
        vocab_size: the model's.

    Raises:
        ValueError: if a side exceeds the model's positions.
    """
    check_sides(pairs, longest=longest)
    scores: list[tuple[float, ...]] = [()] * len(pairs)
    for batch in scoring_batches(pairs, vocab_size=vocab_size):
        sources, targets = zip(*(pairs[index] for index in batch), strict=True)
        for index, row in zip(batch, score_batch(sources, targets), strict=True):
            scores[index] = tuple(row[: len(pairs[index][1]) + 1])
    return scores
