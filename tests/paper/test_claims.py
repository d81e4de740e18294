"""The ten claims of the notes on the paper, and the errors that such notes make.

CLAIMS names the tests that prove each claim and each equation; `mutations.py` breaks the line that
implements it and sees that one of them fails. What is proved nowhere else is proved here.
"""

import ast
import math
import runpy
from pathlib import Path

import pytest
import torch
from tests.conftest import weights_of
from torch import Tensor

from transduce.model.attention import Attention, KeyValue
from transduce.model.config import ModelConfig
from transduce.model.kernels import scaled_dot_product_attention_cpu
from transduce.model.layers import sinusoids
from transduce.model.transformer import Transformer
from transduce.paper.figures.formulas import measure_scaling
from transduce.paper.figures.lookups import measure_heads

ROOT = Path(__file__).parents[2]

CLAIMS = {
    "1 equation (1), row by row": (
        "tests/paper/test_attention.py::"
        "test_equation_1_is_the_softmax_of_scaled_products_times_the_values",
        "tests/paper/test_claims.py::test_n_queries_of_d_k_become_n_rows_of_d_v",
        "tests/paper/test_claims.py::test_the_softmax_is_taken_over_the_keys_of_each_query",
    ),
    "2 without 1/√d_k the softmax saturates": (
        "tests/paper/test_claims.py::test_unscaled_products_have_variance_d_k",
        "tests/paper/test_claims.py::test_unscaled_products_leave_the_softmax_hardly_a_gradient",
        "tests/paper/test_claims.py::test_the_models_own_products_have_variance_1_whatever_d_k",
    ),
    "3 heads at the cost of one": (
        "tests/paper/test_attention.py::"
        "test_heads_attend_apart_and_stand_side_by_side_before_the_output",
        "tests/paper/test_claims.py::test_eight_heads_cost_what_one_of_full_width_costs",
        "tests/unit/paper/figures/test_heads.py::test_one_head_cannot_look_at_two_places_at_once",
    ),
    "4 the encoder": (
        "tests/paper/test_architecture.py::test_the_stacks_have_six_layers_of_width_512",
        "tests/paper/test_architecture.py::"
        "test_an_encoder_layer_has_two_sub_layers_and_a_decoder_layer_three",
        "tests/paper/test_attention.py::test_every_position_of_the_encoder_sees_all_positions",
        "tests/paper/test_claims.py::test_what_the_encoder_says_is_as_wide_as_what_it_read",
    ),
    "5 the decoder": (
        "tests/paper/test_attention.py::"
        "test_the_decoders_queries_meet_keys_and_values_of_the_encoders_output",
        "tests/paper/test_attention.py::test_a_position_of_the_decoder_sees_itself_and_what_came_before",
        "tests/paper/test_attention.py::test_the_mask_is_laid_on_scores_before_the_softmax",
        "tests/paper/test_architecture.py::"
        "test_the_decoder_starts_from_a_zero_vector_and_reads_the_target_shifted_right",
    ),
    "6 equation (2), feed-forward": (
        "tests/paper/test_architecture.py::"
        "test_equation_2_is_two_linear_maps_with_biases_and_a_relu_between",
        "tests/paper/test_architecture.py::"
        "test_feed_forward_is_the_same_at_every_position_and_differs_from_layer_to_layer",
        "tests/paper/test_architecture.py::test_feed_forward_is_two_convolutions_of_kernel_1",
        "tests/paper/test_architecture.py::test_the_inner_layer_is_four_times_as_wide",
    ),
    "7 LayerNorm(x + Sublayer(x))": (
        "tests/paper/test_architecture.py::test_a_sub_layer_is_layer_norm_of_x_plus_sublayer_of_x",
    ),
    "8 positions": (
        "tests/paper/test_architecture.py::test_sines_and_cosines_are_interleaved",
        "tests/paper/test_architecture.py::test_a_shift_of_positions_is_a_rotation",
        "tests/paper/test_architecture.py::test_embeddings_are_multiplied_by_the_root_of_the_width",
        "tests/paper/test_architecture.py::"
        "test_without_positions_the_encoder_would_not_know_the_order",
        "tests/unit/model/test_positions.py::test_learned_positions_are_the_rows_of_a_table",
        "tests/unit/paper/figures/test_order.py::test_an_encoder_without_positions_is_equivariant",
    ),
    "9 it is the animal, or the street": (
        "tests/unit/paper/figures/test_resolve.py::test_a_head_that_looks_at_the_noun_that_is_meant_is_found",
        "tests/unit/paper/figures/test_resolve.py::test_two_readings_differ_in_their_last_word_alone",
    ),
    "10 n²d against nd², parallel, easier to learn": (
        "tests/paper/test_claims.py::test_mixing_costs_n_squared_times_d",
        "tests/unit/paper/table1/test_run.py::test_the_exponents_of_operations_are_the_papers",
        "tests/unit/paper/table1/test_paths.py::test_signals_travel_as_far_as_the_formula_says",
        "tests/unit/paper/table1/test_recall.py::test_self_attention_learns_what_stands_near",
    ),
    "equation (3)": ("tests/paper/test_training.py::test_equation_3_gives_the_rate",),
}


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("test", [test for tests in CLAIMS.values() for test in tests])
def test_every_test_that_a_claim_names_exists(test: str):
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))

    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_that_a_mutation_breaks_is_there_once():
    result = runpy.run_path(str(ROOT / "tests" / "paper" / "mutations.py"))["MUTATIONS"]

    for mutation in result:
        text = (ROOT / "src" / "transduce" / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, mutation.claim
        assert f"def {mutation.test.rpartition('::')[2]}(" in (
            ROOT / mutation.test.partition("::")[0]
        ).read_text(encoding="utf-8"), mutation.claim


def test_n_queries_of_d_k_become_n_rows_of_d_v():
    past = KeyValue(draw(1, 1, 7, 5), draw(1, 1, 7, 2))

    made = scaled_dot_product_attention_cpu(draw(1, 1, 3, 5), *past, mask=None, causal=False)

    assert made.shape == (1, 1, 3, 2)


def test_the_softmax_is_taken_over_the_keys_of_each_query():
    attention, x, memory = Attention(14, heads=3, d_k=5, d_v=7), draw(2, 3, 14), draw(2, 7, 14)

    weights = weights_of(attention, x, attention.project_kv(memory), torch.ones(1, 1, 3, 7).bool())

    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 3))
    assert (weights.sum(-2) - 1).abs().max() > 0.1


def test_unscaled_products_have_variance_d_k():
    result = measure_scaling((5, 67), queries=2048)

    for row in result.of(scaled=False):
        assert row.variance == pytest.approx(row.d_k, rel=0.1)
    for row in result.of(scaled=True):
        assert row.variance == pytest.approx(1, rel=0.1)


def test_unscaled_products_leave_the_softmax_hardly_a_gradient():
    result = measure_scaling((17, 257), queries=512)

    (narrow, wide), (_, scaled) = result.of(scaled=False), result.of(scaled=True)
    assert wide.gradient < narrow.gradient / 2
    assert wide.median_gradient < narrow.median_gradient / 10 < scaled.median_gradient
    assert scaled.one_key == 0.0 < wide.one_key


@pytest.mark.parametrize("d_k", [5, 67, 257])
def test_the_models_own_products_have_variance_1_whatever_d_k(d_k: int):
    """ln p of two keys differs by the difference of their products, whose variance is twice one's.

    Values that are the rows of a unit matrix make equation (1) say its weights.
    """
    keys, unit = draw(257, 1, 11, d_k), torch.eye(11).expand(257, 1, 11, 11)

    for causal in (False, True):
        weights = scaled_dot_product_attention_cpu(
            draw(257, 1, 11, d_k, seed=2), keys, unit, mask=None, causal=causal
        )[:, 0, -1]

        apart = (weights[:, 1:].log() - weights[:, :1].log()).var().item()
        assert apart == pytest.approx(2, rel=0.2)


def test_eight_heads_cost_what_one_of_full_width_costs():
    result = measure_heads((1, 8), d_model=64, length=11, seeds=0, updates=0, repeats=1)

    single, eight = result.costs
    assert single.operations == eight.operations == 4 * 2 * 11 * 64 * 64 + 2 * 2 * 11 * 11 * 64
    assert single.parameters == eight.parameters == 4 * 64 * 64


def test_what_the_encoder_says_is_as_wide_as_what_it_read(tiny: Transformer):
    ids = torch.tensor([[3, 4, 5, 6, 0]])

    assert tiny.encode(ids, None).shape == tiny.embed(ids).shape == (1, 5, 14)


@pytest.mark.parametrize(("length", "width"), [(22, 16), (11, 32)])
def test_mixing_costs_n_squared_times_d(length: int, width: int):
    """Of all operations those that the projections, n d², do not explain."""

    def mixing(length: int, width: int) -> int:
        result = measure_heads((1,), d_model=width, length=length, seeds=0, updates=0, repeats=1)
        return result.costs[0].operations - 4 * 2 * length * width * width

    times = (length / 11) ** 2 * (width / 16)
    assert mixing(length, width) == times * mixing(11, 16)


def test_no_two_feed_forward_layers_share_a_matrix(tiny: Transformer):
    """The error: "all feed-forward layers share the same matrix"."""
    layers = [*tiny.encoder, *tiny.decoder]
    matrices = [
        item.weight
        for layer in layers
        for item in (layer.feed_forward.inner, layer.feed_forward.outer)
    ]

    assert len({matrix.untyped_storage().data_ptr() for matrix in matrices}) == 2 * len(layers)


def test_the_decoders_self_attention_never_meets_the_encoders_output(tiny: Transformer):
    """The error: queries, keys and values of the decoder's self-attention from the encoder."""
    inputs = list[Tensor]()
    tiny.decoder[0].self_attention.register_forward_pre_hook(lambda _, given: inputs.extend(given))
    target = torch.tensor([[18, 5, 6]])
    tiny(torch.tensor([[3, 4, 0]]), None, target)
    tiny(torch.tensor([[9, 8, 7, 0]]), None, target)

    assert len(inputs) == 2
    assert all(torch.equal(x, tiny.embed(target)) for x in inputs)


def test_what_is_masked_is_as_if_it_were_not_there():
    """The error: queries and keys, and not the scores, set to −∞, which makes no numbers at all."""
    queries, keys, values = draw(1, 1, 3, 5), draw(1, 1, 7, 5, seed=2), draw(1, 1, 7, 2, seed=3)
    mask = torch.tensor([True, True, False, True, False, True, True])

    made = scaled_dot_product_attention_cpu(
        queries, keys, values, mask=mask[None, None, None], causal=False
    )

    past = KeyValue(keys[:, :, mask], values[:, :, mask])
    torch.testing.assert_close(
        made, scaled_dot_product_attention_cpu(queries, *past, mask=None, causal=False)
    )


def test_the_encodings_angles_are_powers_of_10_to_the_8_not_to_the_10():
    """The error: a positional encoding with 10^(10 i / d); 10000^(2 i / d) is 10^(8 i / d)."""
    angles = torch.atan2(sinusoids(2, 14)[1, 0::2], sinusoids(2, 14)[1, 1::2])

    torch.testing.assert_close(angles, 10 ** (-8 * torch.arange(7) / 14), rtol=1e-4, atol=0)


def test_attention_takes_a_mean_of_the_values_and_leaves_their_range_never():
    """The error: scaled dot-product attention without the softmax."""
    values = draw(1, 1, 7, 2)

    made = scaled_dot_product_attention_cpu(
        9 * draw(1, 1, 3, 5), draw(1, 1, 7, 5), values, mask=None, causal=False
    )

    assert (made >= values.amin(2, keepdim=True) - 1e-6).all()
    assert (made <= values.amax(2, keepdim=True) + 1e-6).all()


@pytest.mark.parametrize("heads", [1, 2, 7])
def test_heads_divide_the_width_and_do_not_multiply_it(heads: int):
    """The error: d_k and d_v multiplied by the number of heads."""
    model = Transformer(ModelConfig(d_model=14, heads=heads, d_k=14 // heads, d_v=14 // heads))
    attention = model.encoder[0].self_attention

    for projection in (attention.query, attention.key, attention.value, attention.out):
        assert projection.weight.shape == (14, 14)


def test_the_base_models_heads_have_an_eighth_of_its_width():
    base = ModelConfig()

    assert base.d_k == base.d_v == base.d_model // base.heads == 64 == math.isqrt(4096)
