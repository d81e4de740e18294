"""What stands beside a sentence, behind it or after it cannot be seen in its logits."""

from itertools import product

import pytest
import torch
from torch import Tensor

from transduce.data.batch import Batch, collate, pad_to_bucket
from transduce.model.loss import chunked_cross_entropy, output_projection_inputs
from transduce.model.transformer import Transformer

SOURCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [], [14, 15, 16, 17, 18]]
TARGETS = [[20, 21, 22], [23, 24, 25, 26, 27], [28], [29, 30, 31, 32]]


def ids(*shape: int, seed: int) -> Tensor:
    return torch.randint(2, 36, shape, generator=torch.Generator().manual_seed(seed))


def logits(model: Transformer, batch: Batch) -> Tensor:
    with torch.no_grad():
        return model(batch.source, batch.source_mask, batch.target_in)


def test_a_batch_of_one_is_a_row_of_a_batch_of_many(tiny: Transformer):
    together = logits(tiny, collate(SOURCES, TARGETS, pad=36, eos=0))

    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = logits(tiny, collate([source], [target], pad=36, eos=0))
        torch.testing.assert_close(together[row, : len(target) + 1], alone[0])


def test_padding_the_source_changes_nothing(tiny: Transformer):
    source, target = ids(2, 7, seed=1), ids(2, 5, seed=2)
    longer = torch.nn.functional.pad(source, (0, 4), value=36)
    mask = (torch.arange(11) < 7).expand(2, 1, 1, 11)

    with torch.no_grad():
        plain, padded = tiny(source, None, target), tiny(longer, mask, target)

    torch.testing.assert_close(padded, plain)


def test_what_the_padding_of_the_source_holds_is_never_read(tiny: Transformer):
    source, target = ids(2, 11, seed=1), ids(2, 5, seed=2)
    mask = (torch.arange(11) < torch.tensor([11, 7])[:, None])[:, None, None]
    other = source.clone()
    other[1, 7:] = 3

    with torch.no_grad():
        first, second = tiny(source, mask, target), tiny(other, mask, target)

    assert torch.equal(first, second)


def test_padding_the_target_changes_nothing(tiny: Transformer):
    source, target = ids(2, 7, seed=1), ids(2, 5, seed=2)
    longer = torch.nn.functional.pad(target, (0, 4), value=36)

    with torch.no_grad():
        plain, padded = tiny(source, None, target), tiny(source, None, longer)

    torch.testing.assert_close(padded[:, :5], plain)


@pytest.mark.parametrize("rows", [slice(0, 4), slice(3, 4)], ids=["padded", "no mask"])
def test_filling_a_batch_up_changes_neither_loss_nor_gradients(tiny: Transformer, rows: slice):
    tiny.double()
    batch = collate(SOURCES[rows], TARGETS[rows], pad=36, eos=0)
    results: list[tuple[Tensor, ...]] = []

    for variant in (batch, pad_to_bucket(batch, pad=36)):
        hidden = tiny.hidden_states(variant.source, variant.source_mask, variant.target_in)
        hidden, pieces = output_projection_inputs(tiny, hidden)
        loss = chunked_cross_entropy(hidden, pieces, variant.target_out, smoothing=0.1).smoothed
        results.append((loss, *torch.autograd.grad(loss, list(tiny.parameters()))))

    torch.testing.assert_close(results[1], results[0])


def test_filled_batches_have_few_shapes():
    for rows, wide, long in product((1, 7, 8, 9), (1, 6, 7), (3, 6, 8)):
        batch = collate([[5] * (wide - 1)] * rows, [[6] * (long - 1)] * rows, pad=36, eos=0)
        shape = (-(-rows // 8) * 8, -(-max(wide, long) // 2) * 2)

        padded = pad_to_bucket(batch, pad=36)

        assert padded.source.shape == padded.target_in.shape == padded.target_out.shape == shape
        assert padded.source_mask is not None
        assert padded.source_mask.sum(-1).flatten().tolist() == [wide] * rows + [1] * (
            shape[0] - rows
        )
        assert int((padded.target_out != 36).sum()) == padded.target_tokens == rows * long


def test_a_changed_future_token_leaves_past_logits_bit_equal(tiny: Transformer):
    source, target = ids(3, 7, seed=1), ids(3, 11, seed=2)

    with torch.no_grad():
        plain = tiny(source, None, target)
        for place in range(11):
            changed = target.clone()
            changed[:, place] = (target[:, place] + 1) % 36
            after = tiny(source, None, changed)

            assert torch.equal(after[:, :place], plain[:, :place])
            assert not torch.equal(after[:, place], plain[:, place])
