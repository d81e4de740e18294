"""Padding is on the right, EOS ends both sides, and the decoder's input is the target shifted."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.batch import collate, pad_source

EOS, PAD = 0, 97
SENTENCES = st.lists(st.lists(st.integers(2, PAD - 1), max_size=11), min_size=1, max_size=7)


def test_source_ends_with_eos_and_is_padded_on_the_right():
    ids, mask = pad_source([[5, 7], [3, 4, 6]], pad=PAD, eos=EOS)

    assert ids.tolist() == [[5, 7, EOS, PAD], [3, 4, 6, EOS]]
    assert mask is not None
    assert mask.shape == (2, 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[True, True, True, False], [True] * 4]


def test_mask_is_none_when_nothing_is_padded():
    assert pad_source([[5, 7], [3, 4]], pad=PAD, eos=EOS).mask is None


def test_empty_source_still_holds_eos():
    ids, mask = pad_source([[], [3]], pad=PAD, eos=EOS)

    assert ids.tolist() == [[EOS, PAD], [3, EOS]]
    assert mask is not None
    assert mask[:, 0, 0].tolist() == [[True, False], [True, True]]


def test_only_empty_sources_are_a_batch():
    ids, mask = pad_source([[], []], pad=PAD, eos=EOS)

    assert ids.tolist() == [[EOS], [EOS]]
    assert mask is None


def test_decoder_reads_the_target_behind_a_pad_and_says_it_before_an_eos():
    batch = collate([[2], [3]], [[5, 7, 9], [8]], pad=PAD, eos=EOS)

    assert batch.target_in.tolist() == [[PAD, 5, 7, 9], [PAD, 8, PAD, PAD]]
    assert batch.target_out.tolist() == [[5, 7, 9, EOS], [8, EOS, PAD, PAD]]
    assert batch.target_tokens == 6


@settings(deadline=None)
@given(SENTENCES)
def test_lists_and_arrays_make_the_same_batch(sentences: list[list[int]]):
    arrays = [np.array(sentence, dtype=np.uint16) for sentence in sentences]

    of_lists = collate(sentences, sentences[::-1], pad=PAD, eos=EOS)
    of_arrays = collate(arrays, arrays[::-1], pad=PAD, eos=EOS)

    for item, other in zip(of_lists, of_arrays, strict=True):
        if isinstance(item, torch.Tensor):
            torch.testing.assert_close(item, other)
        else:
            assert item == other


@settings(deadline=None)
@given(SENTENCES)
def test_every_id_is_in_its_place(sentences: list[list[int]]):
    batch = collate(sentences, sentences, pad=PAD, eos=EOS)

    for row, sentence in enumerate(sentences):
        kept = batch.source[row][batch.source[row] != PAD].tolist()
        assert kept == [*sentence, EOS]
        assert batch.target_out[row].tolist() == batch.source[row].tolist()
        assert batch.target_in[row, 1 : len(sentence) + 1].tolist() == sentence
        assert (batch.target_in[row, len(sentence) + 1 :] == PAD).all()
    assert batch.source_mask is None or torch.equal(batch.source_mask[:, 0, 0], batch.source != PAD)
    assert batch.target_tokens == int((batch.target_out != PAD).sum())


def test_ids_are_64_bits():
    batch = collate([np.array([2], dtype=np.uint16)], [[3]], pad=PAD, eos=EOS)

    assert {batch.source.dtype, batch.target_in.dtype, batch.target_out.dtype} == {torch.int64}


@pytest.mark.parametrize("targets", [[[2]], [[2], [3]]])
def test_batch_moves_to_another_device_as_a_whole(targets: list[list[int]]):
    batch = collate([[5, 7, 9][: 2 + i] for i in range(len(targets))], targets, pad=PAD, eos=EOS)

    moved = batch.to("meta")

    tensors = [part for part in moved if isinstance(part, torch.Tensor)]
    assert len(tensors) == 2 + len(targets)
    assert all(tensor.device.type == "meta" for tensor in tensors)


def test_full_batch_takes_no_time():
    rng = np.random.default_rng(5)
    sentences = [rng.integers(2, PAD, size=16, dtype=np.uint16) for _ in range(256)]
    times = []

    for _ in range(11):
        start = time.perf_counter()
        collate(sentences, sentences, pad=PAD, eos=EOS)
        times.append(time.perf_counter() - start)

    assert min(times) < 0.005  # a tenth of it on a quiet machine; a loop over ids takes more
