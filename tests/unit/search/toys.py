"""Toys for search: a table says the logits of every prefix, so that all can be enumerated."""

import itertools
import math
import random
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.steps import SearchTask

EOS, A, B, C, PAD = range(5)
Logits = Callable[[int, tuple[int, ...]], Sequence[float]]
"""The logits that follow a prefix (PAD first) in the translation of a sentence."""


class Toy:
    """Steps by a table. It remembers what every row has read, and checks that rows stay at home."""

    def __init__(self, logits: Logits, *, sentences: int, beam: int) -> None:
        self.logits, self.beam = logits, beam
        self.rows: list[tuple[int, tuple[int, ...]]] = [
            (sentence, ()) for sentence in range(sentences) for _ in range(beam)
        ]
        self.sizes: list[int] = []

    def step(self, ids: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self.rows = [
            (sentence, (*prefix, piece))
            for (sentence, prefix), piece in zip(self.rows, ids.tolist(), strict=True)
        ]
        self.sizes.append(len(self.rows))
        return torch.tensor([self.logits(sentence, prefix) for sentence, prefix in self.rows])

    def reorder(self, beam_indices: Int[Tensor, " rows"]) -> None:
        kept = [self.rows[row] for row in beam_indices.tolist()]
        assert [sentence for sentence, _ in kept] == [sentence for sentence, _ in self.rows]
        self.rows = kept

    def select(self, batch_indices: Int[Tensor, " kept"]) -> None:
        assert batch_indices.tolist() == sorted(set(batch_indices.tolist()))
        self.rows = [
            self.rows[sentence * self.beam + beam]
            for sentence in batch_indices.tolist()
            for beam in range(self.beam)
        ]


def random_logits(seed: int, *, vocab: int = 5, scale: float = 2.0) -> Logits:
    def logits(sentence: int, prefix: tuple[int, ...]) -> Sequence[float]:
        draw = random.Random(f"{seed} {sentence} {prefix}")
        return [draw.gauss(0, scale) for _ in range(vocab)]

    return logits


def log_softmax(logits: Sequence[float]) -> list[float]:
    """Over all pieces but PAD, which is the last one."""
    total = math.log(sum(math.exp(logit) for logit in logits[:-1]))
    return [logit - total for logit in logits[:-1]]


def enumerate_all(
    logits: Logits, *, sentence: int, limit: int, alpha: float
) -> dict[tuple[int, ...], float]:
    """Score all that can be said: what ends in EOS within the limit, and what the limit cuts."""
    scores: dict[tuple[int, ...], float] = {}
    for length in range(1, limit + 1):
        for words in itertools.product((A, B, C), repeat=length - 1):
            for last in (EOS, A, B, C) if length == limit else (EOS,):
                ids = (*words, last)
                log_prob = sum(
                    log_softmax(logits(sentence, (PAD, *ids[:place])))[piece]
                    for place, piece in enumerate(ids)
                )
                scores[ids] = log_prob / ((5 + length) / 6) ** alpha
    return scores


def table(rows: dict[tuple[int, ...], dict[int, float]]) -> Logits:
    """Logits from probabilities by prefix (without PAD); what is not named is impossible."""

    def logits(sentence: int, prefix: tuple[int, ...]) -> Sequence[float]:
        chances = rows.get(prefix[1:], {EOS: 1.0})
        return [math.log(chances[piece]) if piece in chances else -math.inf for piece in range(5)]

    return logits


def search_requests(
    logits: Logits,
    requests: Sequence[Request],
    *,
    limits: Sequence[int],
    beam: int,
    alpha: float = 0.6,
    constraints: DecodingConstraints = UNCONSTRAINED,
) -> list[list[Hypothesis]]:
    """Search by the rules of these requests; their sources say nothing to a toy."""
    return fast_search(
        Toy(logits, sentences=len(limits), beam=beam),
        SearchTask(
            limits=limits,
            config=SearchConfig(beam=beam, alpha=alpha),
            eos=EOS,
            pad=PAD,
            device="cpu",
            constraint_mask=ConstraintMask.of(
                requests, constraints, limits=limits, eos=EOS, pad=PAD, device="cpu"
            ),
        ),
    )


def best_first(scores: dict[tuple[int, ...], float]) -> list[tuple[int, ...]]:
    return sorted(scores, key=lambda ids: -scores[ids])


def shifted(logits: Logits, sentence: int) -> Logits:
    """The same logits, of a batch in which this sentence is alone."""
    return lambda _, prefix: logits(sentence, prefix)
