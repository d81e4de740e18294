"""The exponent of the length penalty, proposed from the n-best lists of one beam search.

The penalty only ranks finished hypotheses, so the lists of one search serve every exponent.
"""

from collections.abc import Callable, Sequence
from typing import Final

from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.inference.decode import (
    DecodeOptions,
    Extras,
    Searcher,
    SentenceProgress,
    build_requests,
)
from transduce.inference.engines.base import make_native_engine
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.translator import BATCH_TOKENS, fit_to_positions
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis, length_penalty

ALPHAS: Final = (0.0, 0.3, 0.6, 1.0, 1.4, 2.0)
"""The exponents compared, besides the recipe's."""

MAX_SEARCHED: Final = 500
"""Validation pairs searched."""

_FEWEST = 100  # pairs; with fewer the choice would be chance

Measure = Callable[[Sequence[str], Sequence[Pair]], tuple[float, ...]]
"""Scores translations of pairs; more is better."""


def propose_alpha(
    model: Transformer,
    tokenizer: Tokenizer,
    *,
    pairs: Sequence[Pair],
    search: SearchConfig,
    measure: Measure,
) -> float:
    """Return the exponent whose translations score best; the nearest to the recipe's of equals.

    Args:
        pairs: validation pairs, of which at most 500 are searched, evenly spaced.
        search: the recipe's, whose exponent stays if there are fewer than 100 pairs, or no beam.
        measure: scores the translations under one exponent.
    """
    if len(pairs) < _FEWEST or search.beam == 1:
        return search.alpha
    sample = pairs[:: -(-len(pairs) // MAX_SEARCHED)]
    lists = _nbest(model, tokenizer, [pair.source for pair in sample], search=search)

    def value(alpha: float) -> tuple[float, ...]:
        def score(hypothesis: Hypothesis) -> float:
            return hypothesis.log_prob / length_penalty(len(hypothesis.ids), alpha)

        best = [[max(nbest, key=score).ids for nbest in parts] for parts in lists]
        texts = [" ".join(map(tokenizer.target.decode, parts)) for parts in best]
        return *measure(texts, sample), -abs(alpha - search.alpha)

    return max(sorted({*ALPHAS, search.alpha}), key=value)


def _nbest(
    model: Transformer, tokenizer: Tokenizer, sources: Sequence[str], *, search: SearchConfig
) -> list[list[list[Hypothesis]]]:
    """The hypotheses of each part of each sentence; one part, unless a sentence is very long."""
    config = fit_to_positions(search, longest=model.config.longest)
    device = model.embedding.weight.device
    engine = make_native_engine(model) or TorchEngine(
        model, pad=tokenizer.pad, eos=tokenizer.EOS, device=device
    )
    requests = build_requests(
        sources, [""] * len(sources), config=config, tokenizer=tokenizer
    ).requests
    result = Searcher([engine], tokenizer, model=model).search(
        {request for parts in requests for request in parts},
        DecodeOptions(
            config=config,
            extras=Extras(retry_loops=False, token_scores=False),
            batch_tokens=BATCH_TOKENS,
        ),
        terms={},
        progress=SentenceProgress(requests, None),
    )
    return [[result.hypotheses[request] for request in parts] for parts in requests]
