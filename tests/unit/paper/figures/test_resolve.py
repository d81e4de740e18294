"""Which head resolves "it": the sentences, the looks, the statistics."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
import torch

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.demo.corpus import unseen_combinations
from transduce.model.config import ModelConfig
from transduce.model.trace import Trace
from transduce.model.transformer import Transformer
from transduce.paper.figures import coreference as resolve
from transduce.paper.figures.coreference import measure_coreference, two_readings, wilson
from transduce.search.config import SearchConfig

COUNT = 12


def bundled(model: Transformer, tokenizer: Tokenizer) -> Bundle:
    return Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(),
        provenance=Provenance(),
    )


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    """An untrained model whose tokenizer has a piece for every word."""
    text = [side for pair in two_readings(283) for both in pair[:2] for side in both]
    tokenizer = Tokenizer.train(text, TokenizerConfig(vocab_size=700))
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=2, decoder_layers=1, d_model=8, d_ff=8,
        heads=3, d_k=2, d_v=2,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(shape).eval()
    return bundled(model, tokenizer)


def test_two_readings_differ_in_their_last_word_alone():
    for pair in two_readings(COUNT):
        first, second = pair.first.source.split(), pair.second.source.split()

        assert first[:-1] == second[:-1]
        assert first[-1] != second[-1]
        assert first[-4] == "it"


def test_fresh_readings_never_met_in_training():
    pairs = unseen_combinations(Random(1)).pairs
    for first, second, doer, thing in two_readings(COUNT):
        assert (doer.english, first.source.split()[-1].rstrip(".")) in pairs
        assert (thing.english, second.source.split()[-1].rstrip(".")) in pairs


def test_an_untrained_model_resolves_nothing(bundle: Bundle):
    result = measure_coreference(bundle, count=COUNT)

    assert result.pairs == COUNT
    assert len(result.heads) == 3 * (2 + 1)
    assert not [head for head in result.heads if head.sentences.low > 0.5]


def test_a_head_that_looks_at_the_noun_that_is_meant_is_found(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
):
    """The looks are made up: the third head of the second layer knows, the first loves the doer."""
    meant = {
        side.source: (noun.english, pair.doer.english)
        for pair in two_readings(COUNT)
        for side, noun in ((pair.first, pair.doer), (pair.second, pair.thing))
    }

    def look(model: object, source: Sequence[int], target: Sequence[int]) -> Trace:
        text = bundle.tokenizer.decode(source).strip()
        pieces = bundle.tokenizer.pieces(source)
        right, doer = (resolve.piece_positions(pieces, noun) for noun in meant[text])
        encoder = np.full((2, 3, len(source), len(source)), 0.01, np.float32)
        encoder[1, 2][:, right] = 0.5
        encoder[1, 0][:, doer] = 0.5
        return Trace(
            encoder=encoder,
            decoder=np.zeros((1, 3, len(target), len(target))),
            cross=np.full((1, 3, len(target), len(source)), 0.01, np.float32),
            log_probs=np.zeros(len(target)),
        )

    monkeypatch.setattr(resolve, "trace", look)
    result = measure_coreference(bundle, count=COUNT)

    assert (result.best.side, result.best.layer, result.best.head) == ("encoder", 2, 3)
    assert result.held_out.right == result.held_out.of == COUNT
    assert result.best.both == COUNT
    loves = result.heads[3]
    assert (loves.sentences.right, loves.both) == (COUNT, 0)


def test_a_model_that_is_no_demos_is_refused(tokenizer: Tokenizer, untrained: Transformer):
    other = bundled(untrained, tokenizer)

    with pytest.raises(ValueError, match="transduce demo"):
        measure_coreference(other, count=3)


@pytest.mark.parametrize(
    ("pieces", "positions"),
    [
        (["▁the", "▁cat", "."], [1]),
        (["▁the", "▁c", "at", "."], [1, 2]),
        (["▁the", "▁cat", "s", "."], []),
        (["▁cat", "▁cat"], []),
        (["▁the", "▁dog"], []),
    ],
)
def test_a_noun_is_found_whole_and_once(pieces: list[str], positions: list[int]):
    assert resolve.piece_positions(pieces, "cat") == positions


def test_wilsons_interval_is_wider_at_a_stricter_level():
    usual, strict = wilson(40, 50), wilson(40, 50, level=0.05 / 24)

    assert strict.low < usual.low < 0.8 < usual.high < strict.high
    assert usual.low == pytest.approx(0.6696, abs=1e-4)
