"""Engines that say what a test tells them to, and remember what they were asked."""

from collections.abc import Callable, Sequence

from transduce.data.tokenizer import EOS, Tokenizer
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

Say = Callable[[Request, DecodingConstraints], Sequence[Sequence[int]]]
"""What follows a request's prefix, EOS left out: one list of ids a hypothesis, best first."""


class Scripted:
    """An engine that can do all, or refuses what it is told to refuse.

    Of its hypotheses each has a sum of ln p that is by `gap` lower than the one before.
    """

    preferred_batches = 1

    def __init__(
        self,
        say: Say,
        *,
        name: str = "scripted",
        gap: float = 0.25,
        refuse: Callable[[DecodingConstraints], str] = lambda constraints: "",
    ) -> None:
        self.name = name
        self.batches: list[list[Request]] = []
        self.constraints: list[DecodingConstraints] = []
        self.token_scores: list[bool] = []
        self.scored: list[tuple[int, ...]] = []
        self._say, self._refuse, self._gap = say, refuse, gap

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        return self._refuse(constraints)

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        self.batches.append(list(requests))
        self.constraints.append(constraints)
        self.token_scores.append(token_scores)
        return [
            [
                _hypothesis(
                    (*request.prefix, *behind, EOS), -self._gap * rank, token_scores=token_scores
                )
                for rank, behind in enumerate(self._say(request, constraints), start=1)
            ]
            for request in requests
        ]

    def score(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> list[tuple[float, ...]]:
        self.scored += [tuple(target) for _, target in pairs]
        return [(-0.5,) * (len(target) + 1) for _, target in pairs]


def constant(tokenizer: Tokenizer, *texts: str) -> Say:
    """Say the same whatever is asked, behind any prefix."""
    return lambda request, constraints: [tokenizer.encode(text) for text in texts]


def _hypothesis(ids: tuple[int, ...], total: float, *, token_scores: bool) -> Hypothesis:
    return Hypothesis(
        ids=ids,
        log_probs=tuple([total / len(ids)] * len(ids)) if token_scores else (),
        log_prob=total,
        score=total,
        finished=True,
    )
