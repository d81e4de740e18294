"""Section 5: the optimizer, the rate, regularisation, and what the paper starts from."""

import math

import pytest
import torch
from torch import nn

from transduce.data.config import BatchConfig, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.model.loss import cross_entropy
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import learning_rates, make_optimizers, paper_rate


@pytest.mark.parametrize("update", [1, 17, 3_999, 4_000, 4_001, 100_000])
def test_equation_3_gives_the_rate(update: int):
    rate, _ = learning_rates(update, config=TrainConfig(), d_model=512)

    assert rate == pytest.approx(512**-0.5 * min(update**-0.5, update * 4_000**-1.5))


@pytest.mark.parametrize(("d_model", "peak"), [(512, 6.99e-4), (1024, 4.94e-4)])
def test_the_rate_peaks_when_warmup_ends(d_model: int, peak: float):
    around = [paper_rate(update, d_model=d_model) for update in (3_999, 4_000, 4_001)]

    assert max(around) == around[1] == pytest.approx(peak, abs=5e-7)
    assert around[1] == pytest.approx(1 / math.sqrt(d_model * 4_000))


def test_after_warmup_the_rate_falls_as_the_root_of_the_updates():
    early, late = paper_rate(5_000, d_model=512), paper_rate(20_000, d_model=512)

    assert late == pytest.approx(early / 2)


def test_warmup_takes_4000_updates_of_100000():
    config = TrainConfig()

    assert (config.schedule, config.warmup, config.updates) == ("paper", 4_000, 100_000)


def test_the_optimizer_is_adam_with_the_papers_numbers(tiny: Transformer):
    (adam,) = make_optimizers(tiny, TrainConfig())

    for group in adam.param_groups:
        assert (group["betas"], group["eps"]) == ((0.9, 0.98), 1e-9)
        assert group["weight_decay"] == 0.0


def test_without_weight_decay_the_optimizer_moves_as_adam_does():
    start = torch.randn(7, 11, generator=torch.Generator().manual_seed(0))
    linear, adams = nn.Linear(11, 7, bias=False), nn.Parameter(start.clone())
    linear.weight.data.copy_(start)
    (made,) = make_optimizers(linear, TrainConfig())
    made.param_groups[0]["lr"] = 0.01
    adam = torch.optim.Adam([adams], lr=0.01, betas=(0.9, 0.98), eps=1e-9)

    for seed in range(5):
        grad = torch.randn(7, 11, generator=torch.Generator().manual_seed(seed))
        linear.weight.grad, adams.grad = grad, grad.clone()
        made.step()
        adam.step()

    torch.testing.assert_close(linear.weight, adams)


def test_dropout_and_label_smoothing_are_a_tenth():
    assert ModelConfig().dropout == 0.1
    assert TrainConfig().label_smoothing == 0.1


def test_label_smoothing_aims_at_nine_tenths_and_a_share_for_every_piece():
    """The best a model can do is to say the smoothed target itself."""
    share = 0.1 / 6
    best = torch.tensor([share, share, 0.9 + share, share, share, share, 1.0]).log()
    logits = best.repeat(1, 1, 1).requires_grad_()

    cross_entropy(logits, torch.tensor([[2]]), smoothing=0.1).smoothed.backward()

    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.zeros(1, 1, 7), rtol=0, atol=1e-6)


def test_an_update_holds_about_25000_target_tokens():
    assert BatchConfig().tokens == 25_000


def test_one_vocabulary_serves_both_sides():
    config = TokenizerConfig(vocab_size=40)
    tokenizer = Tokenizer.train(["ein kleines haus", "a small house"] * 7, config)

    for text in ("ein kleines haus", "a small house"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_weights_start_as_xavier_drew_them():
    config = ModelConfig(encoder_layers=1, decoder_layers=1, d_model=128, d_ff=192, vocab_size=19)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(config)

    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = math.sqrt(6 / (module.in_features + module.out_features))
            assert module.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
            assert module.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
            assert module.bias is None or (module.bias == 0).all()
