"""Packing batches for GPUs; tests/gpu has what needs one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.conftest import made
from tests.gpu.device import CONFIG

from transduce.data.batch import Batch, collate
from transduce.model.transformer import Transformer
from transduce.train.fused_passes import GraphedPasses, pack_batch
from transduce.train.step import train_step


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


def test_an_update_without_rows_adds_no_gradient_of_the_one_before(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    passes = GraphedPasses(tiny, list(tiny.parameters()), smoothing=0.1)
    for grad in passes._grads:
        grad.fill_(1.0)

    result = train_step(tiny, [], optimizers=[], rates=[], passes=passes)

    assert result.grad_norm == 0


@pytest.mark.parametrize(
    ("d_k", "shared_memory", "pieces"),
    [
        (64, 232_448, 256),  # H100
        (64, 166_912, 256),  # A100
        (64, 101_376, 128),  # RTX
        (128, 232_448, 128),
        (128, 101_376, 0),
        (256, 232_448, 0),
    ],
)
def test_sentences_are_packed_as_far_as_shared_memory_holds_their_heads(
    d_k: int, shared_memory: int, pieces: int, monkeypatch: pytest.MonkeyPatch
):
    properties = SimpleNamespace(shared_memory_per_block_optin=shared_memory)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    model = made(replace(CONFIG, d_k=d_k))
    passes = GraphedPasses(model, list(model.parameters()), smoothing=0.1)

    packed = [n for n in (128, 129, 256, 257) if passes.pack(random_batch(rows=2, longest=n))]

    assert max(packed, default=0) == pieces


def random_batch(*, rows: int, longest: int, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)

    def side() -> Iterator[np.ndarray]:
        for row in range(rows):
            yield rng.integers(3, 98, size=longest - 1 if row == 0 else rng.integers(1, longest))

    return collate([*side()], [*side()], pad=98, eos=0)
