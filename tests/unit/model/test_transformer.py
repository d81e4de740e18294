"""The whole model: its shape, its one embedding, its initial weights."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from transduce.model.config import ModelConfig
from transduce.model.layers import sinusoids
from transduce.model.loss import output_projection_inputs
from transduce.model.transformer import Transformer


def ids(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(2, 18, shape, generator=torch.Generator().manual_seed(seed))


def test_every_target_position_gets_a_logit_for_every_piece(tiny: Transformer):
    logits = tiny(ids(2, 11), None, ids(2, 7))

    assert logits.shape == (2, 7, 19)


def test_the_logit_of_pad_is_zero(tiny: Transformer):
    logits = tiny(ids(2, 11), None, ids(2, 7))

    assert (logits[..., 18] == 0).all()


def test_logits_are_made_from_hidden_in_one_place(tiny: Transformer):
    hidden = tiny.hidden_states(ids(2, 11), None, ids(2, 7))

    assert torch.equal(tiny(ids(2, 11), None, ids(2, 7)), tiny.logits(hidden))


def test_the_stacks_may_differ_in_depth(tiny: Transformer):
    assert (len(tiny.encoder), len(tiny.decoder)) == (2, 3)


def test_pre_norm_ends_each_stack_with_a_normalisation(config: ModelConfig):
    model = Transformer(replace(config, norm="pre"))

    assert isinstance(model.encoder_norm, nn.LayerNorm)
    assert isinstance(model.decoder_norm, nn.LayerNorm)


def test_pre_norm_normalises_memory_and_output(config: ModelConfig):
    model = Transformer(replace(config, norm="pre")).eval()

    memory, hidden = (
        model.encode(ids(2, 11), None),
        model.hidden_states(ids(2, 11), None, ids(2, 7)),
    )

    for x in (memory, hidden):
        torch.testing.assert_close(x.mean(-1), torch.zeros(x.shape[:2]), rtol=0, atol=1e-5)


def test_all_weights_have_names_that_say_where_they_are(tiny: Transformer):
    names = {name for name in tiny.state_dict() if not name.startswith(("encoder.", "decoder."))}
    layer = {name for name in tiny.state_dict() if name.startswith("decoder.2.")}

    assert names == {"embedding.weight"}
    assert {name.removeprefix("decoder.2.").split(".")[0] for name in layer} == {
        *(
            "self_attention",
            "self_attention_norm",
            "cross_attention",
            "cross_attention_norm",
            "feed_forward",
            "feed_forward_norm",
        )
    }


def test_the_embedding_starts_with_unit_variance_once_it_is_scaled():
    config = ModelConfig(vocab_size=4_001, encoder_layers=1, decoder_layers=1, d_model=64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(config)

    pieces = model.embedding.weight.detach()[:-1] * 8.0

    assert pieces.std().item() == pytest.approx(1.0, abs=0.02)


def test_the_start_and_the_padding_are_zero_vectors(tiny: Transformer):
    assert (tiny.embedding.weight[18] == 0).all()


def test_a_seed_decides_the_initial_weights(config: ModelConfig):
    def drawn(seed: int) -> torch.Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.utils.parameters_to_vector(Transformer(config).parameters()).detach()

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_a_sentence_longer_than_the_table_of_positions_passes(tiny: Transformer):
    logits = tiny(ids(1, 601), None, ids(1, 523))

    assert logits.isfinite().all()


def test_learned_positions_start_as_loud_as_the_sinusoids_they_stand_in_for():
    config = ModelConfig(
        vocab_size=19, encoder_layers=1, decoder_layers=1, d_model=64, positions="learned"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Transformer(config)

    loudness = sinusoids(257, 64).square().mean().sqrt().item()
    assert model.positions.weight.shape == (257, 64)
    assert model.positions.weight.std().item() == pytest.approx(loudness, rel=0.02)


def test_learned_positions_leave_the_draws_of_all_other_weights_as_they_are(config: ModelConfig):
    def drawn(positions: str) -> dict[str, torch.Tensor]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return Transformer(replace(config, positions=positions)).state_dict()

    learned, plain = drawn("learned"), drawn("sinusoid")

    assert learned.keys() - plain.keys() == {"positions.weight"}
    assert all(torch.equal(learned[name], weight) for name, weight in plain.items())


def test_learned_positions_learn_from_both_sides(config: ModelConfig):
    model = Transformer(replace(config, positions="learned", max_positions=13))

    model(ids(2, 11), None, ids(2, 7)).square().sum().backward()

    touched = model.positions.weight.grad.abs().sum(1) > 0
    assert touched.tolist() == [True] * 11 + [False] * 2


def test_every_weight_gets_a_gradient(tiny: Transformer):
    tiny(ids(2, 11), None, ids(2, 7)).square().sum().backward()

    without = [name for name, weight in tiny.named_parameters() if weight.grad is None]
    assert not without


@pytest.fixture
def biased(config: ModelConfig) -> Transformer:
    """A model whose pieces each have a bias of their logit."""
    model = Transformer(replace(config, output_bias=True)).eval()
    nn.init.normal_(model.output_bias, generator=torch.Generator().manual_seed(3))
    return model


def test_an_output_bias_is_added_to_the_logits(biased: Transformer):
    hidden = biased.hidden_states(ids(2, 11), None, ids(2, 7))

    by_hand = hidden @ biased.embedding.weight.T + biased.output_bias
    torch.testing.assert_close(biased.logits(hidden), by_hand)


def test_the_factors_of_the_logits_are_their_factors(tiny: Transformer, biased: Transformer):
    for model in (tiny, biased):
        hidden = model.hidden_states(ids(2, 11), None, ids(2, 7))

        factors = output_projection_inputs(model, hidden)

        torch.testing.assert_close(factors.hidden @ factors.matrix.T, model.logits(hidden))


def test_without_an_output_bias_the_factors_are_what_is_there(tiny: Transformer):
    hidden = tiny.hidden_states(ids(2, 11), None, ids(2, 7))

    assert output_projection_inputs(tiny, hidden) == (hidden, tiny.embedding.weight)


def test_the_models_biases_are_the_configs(config: ModelConfig):
    plain = Transformer(config).state_dict().keys()
    both = Transformer(replace(config, attention_bias=True, output_bias=True)).state_dict().keys()

    more = both - plain
    assert "output_bias" in more
    assert len(more) == 1 + 4 * (2 + 2 * 3)  # four projections an attention
    assert all(name.endswith("bias") for name in more)
    assert plain < both


def test_biases_start_at_zero(config: ModelConfig):
    model = Transformer(replace(config, attention_bias=True, output_bias=True))

    assert not any(
        tensor.any() for name, tensor in model.state_dict().items() if name.endswith("bias")
    )
