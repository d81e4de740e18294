"""Packing batches for GPUs; tests/gpu has what needs one."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from transduce.data.batch import Batch, collate
from transduce.train.fused_passes import pack_batch


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_a_packed_batch_holds_every_piece_once_and_padding_in_sentences_of_its_own(rows: int):
    batch = random_batch(rows=rows, longest=30)
    packed = pack_batch(batch, pad=98)
    assert packed is not None
    for side, padded in ((packed.source, batch.source), (packed.target, batch.target_in)):
        real = padded.size(0)
        starts = side.starts.tolist()
        for row, (start, end) in enumerate(pairwise(starts)):
            assert end - start <= packed.shape.longest[side is not packed.source]
            assert side.positions[start:end].tolist() == list(range(end - start))
            if row < real:
                length = (
                    int((batch.target_out[row] != 98).sum())
                    if padded is batch.target_in
                    else int((padded[row] != 98).sum())
                )
                assert side.ids[start:end].tolist() == padded[row, :length].tolist()
            else:
                assert set(side.ids[start:end].tolist()) <= {98}
        assert starts[-1] == len(side.ids)
    assert int((packed.target_out != 98).sum()) == batch.target_tokens


def test_batches_of_similar_sizes_have_one_shape():
    shapes = {
        pack.shape
        for rows in range(400, 420)
        if (pack := pack_batch(random_batch(rows=rows, longest=30), pad=98))
    }
    assert len(shapes) <= 6


def test_too_long_sentences_are_left_to_the_model_as_it_is_written():
    assert pack_batch(random_batch(rows=2, longest=300), pad=98) is None


def random_batch(*, rows: int, longest: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)

    def side() -> Iterator[np.ndarray]:
        for row in range(rows):
            yield rng.integers(3, 98, size=longest - 1 if row == 0 else rng.integers(1, longest))

    return collate([*side()], [*side()], pad=98, eos=0)
