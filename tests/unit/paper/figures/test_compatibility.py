"""Additive, dot-product, scaled dot-product: what they compute and what they hold."""

import pytest
import torch

from transduce.paper.figures.lookups import (
    SCORE_FUNCTIONS,
    ScoreFunction,
    ScoreModule,
    measure_compatibility,
    peak_bytes,
)


@pytest.mark.parametrize("kind", SCORE_FUNCTIONS)
def test_each_comparison_can_be_done_by_hand(kind: ScoreFunction):
    scores, x, memory = (
        ScoreModule(kind, d_model=5, d_k=7),
        torch.randn(1, 2, 5),
        torch.randn(1, 3, 5),
    )

    made = scores(x, memory)[0, 1, 2]

    query, key = scores.query.weight @ x[0, 1], scores.key.weight @ memory[0, 2]
    by_hand = {"dot": query @ key, "scaled": query @ key / 7**0.5}
    if scores.v is not None:
        by_hand["additive"] = scores.v @ (query + key).tanh()
    torch.testing.assert_close(made, by_hand[kind])


def test_the_additive_one_holds_a_number_for_each_query_and_key_and_axis():
    result = measure_compatibility(lengths=(32,), widths=(), seeds=0, updates=0, repeats=1)

    held = {cost.kind: cost.peak_bytes for cost in result.costs}
    assert held["additive"] > result.batch * 32 * 32 * result.width * 4
    assert held["additive"] > 8 * held["scaled"]


def test_what_was_let_go_is_not_counted():
    def compute() -> None:
        for _ in range(5):
            torch.zeros(1024)

    assert peak_bytes(compute) == 4096


def test_what_autograd_keeps_is_counted():
    x = torch.ones(1024, requires_grad=True)

    assert peak_bytes(lambda: x.exp().exp().exp()) == 3 * 4096


def test_the_same_seeds_learn_the_same():
    first, second = (
        measure_compatibility(lengths=(), widths=(4,), seeds=1, updates=2).learned for _ in range(2)
    )

    assert first == second
