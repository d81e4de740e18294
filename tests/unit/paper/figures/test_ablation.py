"""Heads removed: what is zeroed, that it comes back, and what is counted."""

import pytest
import torch
from tests.conftest import made
from tests.unit.paper.figures.test_resolve import COUNT, bundled
from tests.unit.paper.figures.test_resolve import bundle as bundle  # a fixture

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.model.config import ModelConfig
from transduce.paper.figures import ablation
from transduce.paper.figures.ablation import HeadName, bootstrap_mean, measure_ablation
from transduce.paper.figures.coreference import two_readings
from transduce.paper.figures.run import finding


def test_every_head_of_every_attention_is_removed_and_comes_back(bundle: Bundle):
    before = {name: weights.clone() for name, weights in bundle.model.state_dict().items()}

    result = measure_ablation(bundle, count=COUNT)

    assert len(result.heads) == 3 * (2 + 1 + 1)
    assert {head.heads[0].kind for head in result.heads} == {"encoder", "decoder", "cross"}
    assert all(torch.equal(before[name], now) for name, now in bundle.model.state_dict().items())


def test_a_removed_head_adds_nothing(bundle: Bundle):
    attention = bundle.model.decoder[0].cross_attention
    x, memory = torch.randn(1, 4, 8), torch.randn(1, 5, 8)

    with torch.no_grad(), ablation.without_heads(bundle.model, [HeadName("cross", 1, 2)]):
        result = attention(x, attention.project_kv(memory))
        columns = attention.out.weight.view(8, 3, 2)
        assert not columns[:, 1].any()
        assert columns[:, [0, 2]].any()
    with torch.no_grad():
        assert not torch.allclose(result, attention(x, attention.project_kv(memory)))


def test_only_heads_that_see_the_source_attend_to_the_referent(bundle: Bundle):
    result = measure_ablation(bundle, count=COUNT)

    assert all((head.attends is None) == (head.heads[0].kind == "decoder") for head in result.heads)


def test_what_is_lost_is_the_difference_of_the_accuracies(bundle: Bundle):
    result = measure_ablation(bundle, count=COUNT)

    for head in result.heads:
        assert head.lost.value == pytest.approx(result.intact - head.accuracy)
        assert head.lost.low <= head.lost.value <= head.lost.high


def test_pronouns_are_pieces_of_the_targets_own_vocabulary():
    texts = [pair for reading in two_readings(283) for pair in reading[:2]]
    tokenizer = PairTokenizer.train_pair(
        [pair.source for pair in texts],
        [pair.target for pair in texts],
        TokenizerConfig(vocab_size=700),
    )
    shape = ModelConfig(
        vocab_size=tokenizer.vocab_size, encoder_layers=1, decoder_layers=1, d_model=8, d_ff=8,
        heads=2, d_k=2, d_v=2, tie="none",
    )  # fmt: skip

    bundle = bundled(made(shape).eval(), tokenizer)
    result = measure_ablation(bundle, count=COUNT)

    assert (result.pairs, len(result.heads)) == (COUNT, 3 * 2)
    attended = [head.attends.of for head in result.heads if head.attends]
    assert attended == [2 * COUNT] * 4  # all sentences, by the heads of encoder and cross-attention


def test_an_interval_narrows_with_more_pairs_and_widens_with_certainty():
    values = (torch.arange(100) % 4 == 0).double()

    few, many = (bootstrap_mean(values.repeat(n), level=0.05) for n in (1, 9))
    sure = bootstrap_mean(values, level=0.001)

    assert few.value == 0.25
    assert few.high - few.low == pytest.approx(2 * 1.96 * (0.1875 / 100) ** 0.5, rel=0.15)
    assert many.high - many.low < 0.5 * (few.high - few.low)
    assert sure.high - sure.low > few.high - few.low


def test_the_figure_says_what_came_out(bundle: Bundle):
    text = finding("ablation", measure_ablation(bundle, count=6))

    assert "% of 12 sentences" in text
    assert "of 12 heads cost anything" in text
