"""The state behind search's verbs: what keep and drop leave."""

import torch
from torch import Tensor

from transduce.model.fused_decoder import FusedDecoder, PreallocatedCache
from transduce.model.transformer import Transformer


def ids(*shape: int, seed: int = 1) -> Tensor:
    return torch.randint(2, 18, shape, generator=torch.Generator().manual_seed(seed))


def mask(*lengths: int) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]


@torch.no_grad()
def test_a_step_answers_every_row(tiny: Transformer):
    decoding = FusedDecoder(tiny, ids(2, 7), mask(7, 5), beams=3)

    assert decoding.step(ids(6)).shape == (6, 19)


@torch.no_grad()
def test_keeping_every_row_changes_nothing(tiny: Transformer):
    kept, plain = (FusedDecoder(tiny, ids(2, 7), mask(7, 5), beams=3) for _ in range(2))
    kept.step(ids(6))
    plain.step(ids(6))

    kept.reorder(torch.arange(6))

    assert torch.equal(kept.step(ids(6, seed=2)), plain.step(ids(6, seed=2)))


@torch.no_grad()
def test_a_row_kept_twice_goes_on_twice(tiny: Transformer):
    decoding = FusedDecoder(tiny, ids(1, 7), None, beams=3)
    decoding.step(torch.tensor([2, 3, 4]))

    decoding.reorder(torch.tensor([1, 1, 2]))
    logits = decoding.step(torch.tensor([5, 5, 5]))

    torch.testing.assert_close(logits[0], logits[1])
    assert not torch.allclose(logits[0], logits[2])


@torch.no_grad()
def test_keep_before_the_first_step_has_nothing_to_move(tiny: Transformer):
    decoding, plain = (FusedDecoder(tiny, ids(1, 7), None, beams=3) for _ in range(2))

    decoding.reorder(torch.tensor([2, 2, 0]))

    assert torch.equal(decoding.step(ids(3)), plain.step(ids(3)))


@torch.no_grad()
def test_a_sentence_goes_on_alike_when_others_are_dropped(tiny: Transformer):
    alone, among = (FusedDecoder(tiny, ids(3, 7), mask(4, 7, 6), beams=2) for _ in range(2))
    alone.step(ids(6))
    among.step(ids(6))

    alone.select(torch.tensor([0, 2]))

    rows = torch.tensor([0, 1, 4, 5])
    step = ids(6, seed=2)
    torch.testing.assert_close(alone.step(step[rows]), among.step(step)[rows])


@torch.no_grad()
def test_the_memory_is_never_copied_for_beams(tiny: Transformer):
    decoding = FusedDecoder(tiny, ids(2, 7), None, beams=5)

    assert [layer._memory.keys.size(0) for layer in decoding._layers] == [2, 2, 2]


def test_the_past_returns_all_that_was_added():
    past, added = PreallocatedCache(torch.zeros(3, 5), radius=0), torch.randn(71, 3, 5)

    seen = [past.append(new).clone() for new in added]

    assert all(torch.equal(all_so_far, added[: n + 1]) for n, all_so_far in enumerate(seen))


def test_with_a_radius_the_past_returns_what_is_seen_and_holds_little_more():
    past, added = PreallocatedCache(torch.zeros(3, 5), radius=2), torch.randn(71, 3, 5)

    seen = [past.append(new).clone() for new in added]

    assert all(torch.equal(few, added[max(0, n - 2) : n + 1]) for n, few in enumerate(seen))
    assert len(past._block) < 71


@torch.no_grad()
def test_two_translations_by_one_model_do_not_meet(tiny: Transformer):
    first, second = (FusedDecoder(tiny, ids(1, 7, seed=seed), None) for seed in (1, 2))
    alone = FusedDecoder(tiny, ids(1, 7, seed=1), None)

    for decoding in (first, second, alone):
        decoding.step(torch.tensor([18]))

    assert torch.equal(first.step(torch.tensor([3])), alone.step(torch.tensor([3])))
