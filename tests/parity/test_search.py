"""Beam search over a real model, against loops that know no cache, no batch and no beam."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from transduce.data.batch import pad_source
from transduce.model.config import ModelConfig
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.transformer import Transformer
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.constraints import ConstraintMask
from transduce.search.fast_paths import fast_search
from transduce.search.hypothesis import Hypothesis
from transduce.search.steps import SearchTask

EOS = 0
NEAR = 1e-4
"""Two scores this close may change places in single precision."""


@pytest.fixture
def lively(tiny: Transformer) -> Transformer:
    """A model with opinions: larger weights, so that translations differ in length and content."""
    with torch.no_grad():
        tiny.embedding.weight.mul_(2.0)
    return tiny


def sources(count: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(7)
    lengths = torch.randint(0, 11, (count,), generator=draw).tolist()
    return [torch.randint(2, 36, (length,), generator=draw).tolist() for length in lengths]


def search(
    model: Transformer,
    batch: Sequence[Sequence[int]],
    config: SearchConfig,
    *,
    most: int = 9,
    request: Request | None = None,
    constraints: DecodingConstraints = UNCONSTRAINED,
) -> list[list[Hypothesis]]:
    requests = [request or Request(tuple(source)) for source in batch]
    limits, pad = [most] * len(batch), model.config.pad
    source = pad_source(batch, pad=model.config.pad, eos=EOS)
    with torch.no_grad():
        steps = FusedDecoder(model, source.ids, source.mask, beams=config.beam)
    return fast_search(
        steps,
        SearchTask(
            limits=limits,
            config=config,
            eos=EOS,
            pad=pad,
            device="cpu",
            constraint_mask=ConstraintMask.of(
                requests, constraints, limits=limits, eos=EOS, pad=pad, device="cpu"
            ),
        ),
    )


@torch.no_grad()
def log_probs(model: Transformer, source: Sequence[int], target: Tensor) -> Tensor:
    """ln p of what comes next after each prefix of `said`, by the whole model at once."""
    start = torch.full((len(target), 1), model.config.pad)
    read = torch.tensor([[*source, EOS]]).expand(len(target), -1)
    logits = model(read, None, torch.cat([start, target], dim=1))
    return logits[..., : model.config.pad].log_softmax(-1)


def greedily(model: Transformer, source: Sequence[int], *, most: int) -> tuple[int, ...]:
    ids: list[int] = []
    while len(ids) < most and EOS not in ids:
        now = torch.tensor([ids], dtype=torch.long)
        ids.append(int(log_probs(model, source, now)[0, -1].argmax()))
    return tuple(ids)


def test_a_beam_of_one_is_greedy(lively: Transformer):
    results = search(lively, sources(7), SearchConfig(beam=1))

    by_hand = [greedily(lively, source, most=9) for source in sources(7)]
    assert [hypotheses[0].ids for hypotheses in results] == by_hand


def small() -> Transformer:
    """A model of three pieces besides EOS and PAD, so that all can be tried."""
    config = ModelConfig(
        vocab_size=5, encoder_layers=1, decoder_layers=2, d_model=6, d_ff=11, heads=3, d_k=5, d_v=7
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return Transformer(config).eval()


def enumerate_targets(
    model: Transformer, source: Sequence[int], *, most: int, alpha: float
) -> dict[tuple[int, ...], float]:
    """The score of all that can be said in `most` pieces."""
    scores: dict[tuple[int, ...], float] = {}
    for length in range(1, most + 1):
        targets = list(itertools.product((1, 2, 3), repeat=length - 1))
        every = [(*ids, EOS) for ids in targets]
        if length == most:  # the limit cuts what has not ended
            every += list(itertools.product((1, 2, 3), repeat=most))
        worth = score(model, source, torch.tensor(every), alpha=alpha).tolist()
        scores |= dict(zip(every, worth, strict=True))
    return scores


def agree(best: Sequence[Hypothesis], scores: dict[tuple[int, ...], float]) -> None:
    ranked = sorted(scores, key=lambda ids: -scores[ids])[:20]
    assert [hypothesis.ids for hypothesis in best[:20]] == ranked
    assert [hypothesis.score for hypothesis in best[:20]] == pytest.approx(
        [scores[ids] for ids in ranked], abs=1e-5
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_wide_beam_finds_what_trying_everything_finds(alpha: float):
    model, source, most = small(), [2, 3, 3, 2, 1], 4

    best = search(model, [source], SearchConfig(beam=100, alpha=alpha), most=most)[0]

    agree(best, enumerate_targets(model, source, most=most, alpha=alpha))


def test_a_wide_beam_finds_the_best_of_all_that_begin_with_the_prefix():
    model, source = small(), (2, 3, 3, 2, 1)
    request = Request(source, prefix=(3, 1))

    best = search(model, [source], SearchConfig(beam=100), most=4, request=request)[0]

    scores = enumerate_targets(model, source, most=4, alpha=0.6)
    agree(best, {ids: ids_score for ids, ids_score in scores.items() if ids[:2] == (3, 1)})


@pytest.mark.parametrize("count", [1, 2])
def test_a_wide_beam_finds_the_best_of_all_that_repeat_nothing(count: int):
    model, source, constraints = small(), (2, 3, 3, 2, 1), DecodingConstraints(no_repeat=count)

    best = search(model, [source], SearchConfig(beam=100), most=4, constraints=constraints)[0]

    scores = enumerate_targets(model, source, most=4, alpha=0.6)
    runs = {ids: [ids[i : i + count] for i in range(len(ids) - count + 1)] for ids in scores}
    agree(best, {ids: scores[ids] for ids in scores if len(set(runs[ids])) == len(runs[ids])})


def score(model: Transformer, source: Sequence[int], target: Tensor, *, alpha: float) -> Tensor:
    """Section 6.1 by hand: the sum of ln p over ((5 + |Y|) / 6)^α, for rows of one length."""
    piece_log_probs = log_probs(model, source, target[:, :-1]).gather(2, target[:, :, None])
    return piece_log_probs.sum((1, 2)) / ((5 + target.size(1)) / 6) ** alpha


def test_a_sentence_is_translated_alike_alone_and_among_others(lively: Transformer):
    config, batch = SearchConfig(beam=4), sources(11)

    together = [hypotheses[0] for hypotheses in search(lively, batch, config)]
    alone = [search(lively, [source], config)[0][0] for source in batch]

    differ = [
        (number, batched, single)
        for number, (batched, single) in enumerate(zip(together, alone, strict=True))
        if batched.ids != single.ids
    ]
    far = [row for row in differ if abs(row[1].score - row[2].score) > NEAR]
    assert not far, f"near-ties: {differ}"
    assert len(differ) <= 1, f"too many to be chance: {differ}"


def test_hypotheses_are_worth_what_the_whole_model_says(lively: Transformer):
    batch = sources(7)

    results = search(lively, batch, SearchConfig(beam=3, alpha=0.6))

    for source, hypotheses in zip(batch, results, strict=True):
        for hypothesis in hypotheses:
            by_hand = score(lively, source, torch.tensor([hypothesis.ids]), alpha=0.6)
            assert hypothesis.score == pytest.approx(by_hand.item(), abs=NEAR)
