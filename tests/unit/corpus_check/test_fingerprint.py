"""The even sample of a corpus of unknown length."""

import pytest

from transduce.corpus_check import fingerprint
from transduce.corpus_check.fingerprint import EvenSample, even_stride
from transduce.data.corpus import NumberedPair, Pair


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 19, 20, 37, 40, 41, 100])
def test_the_stride_says_which_pairs_the_sample_keeps(count: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fingerprint, "_SAMPLE", 5)
    pairs = [NumberedPair(number, Pair(str(number), "")) for number in range(count)]
    spread = EvenSample()

    assert list(spread.sample(pairs)) == pairs
    kept = [int(pair.source) for pair in spread.pairs]
    assert kept == list(range(0, count, even_stride(count)))
