"""The layers of Table 1: torch's are the equations; the mixing is the layer less projections."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from transduce.model.attention import Attention
from transduce.paper.table1.complexity import operations
from transduce.paper.table1.layers import (
    KINDS,
    PARTS,
    Convolution,
    Kind,
    Part,
    Reach,
    Recurrent,
    layer,
)

KERNEL = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def count_operations(kind: Kind, length: int, width: int, *, reach: Reach, part: Part) -> int:
    """Count the FLOPs of one layer's forward pass on one sentence."""
    module = layer(kind, width, reach, part=part)
    x = torch.zeros(1, length, width)
    with (
        torch.no_grad(),
        FlopCounterMode(display=False, custom_mapping={KERNEL: of_kernel}) as counter,
    ):
        if not isinstance(module, Recurrent):
            module(x)
            return counter.get_total_flops()
        module.written_out(x)
    # The mixing is without the product with its input, a number for each position.
    projection = 2 * length * len(module.kernel.weight_ih_l0) if part == "mixing" else 0
    return counter.get_total_flops() - projection


def of_kernel(
    query: Sequence[int], key: Sequence[int], value: Sequence[int], *_: object, **__: object
) -> int:
    """FLOPs of the fused CPU kernel, which torch's counter does not register."""
    return sdpa_flop_count(query, key, value)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_layer_keeps_length_and_width(kind: Kind, part: Part):
    assert layer(kind, 6, Reach(radius=2), part=part)(draw(2, 11, 6)).shape == (2, 11, 6)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("part", PARTS)
def test_a_recurrence_written_out_is_torchs(kind: Kind, part: Part):
    torch.manual_seed(0)
    made, x = layer(kind, 7, Reach(), part=part), draw(2, 11, 7)

    assert isinstance(made, Recurrent)
    torch.testing.assert_close(made.written_out(x), made(x))


@pytest.mark.parametrize("radius", [0, 2])
def test_the_mixing_of_attention_is_equation_1_of_the_input_itself(radius: int):
    kind = "restricted" if radius else "self-attention"
    made = layer(kind, 6, Reach(radius=2), heads=1, part="mixing").double()
    x = draw(1, 11, 6).double()

    far = (torch.arange(11)[None] - torch.arange(11)[:, None]).abs() > (radius or 11)
    shares = (x @ x.mT / 6**0.5).masked_fill(far, -torch.inf).softmax(-1)
    torch.testing.assert_close(made(x), shares @ x)


def test_a_convolution_is_a_sum_over_the_positions_before():
    torch.manual_seed(0)
    made, x = Convolution(5, kernel=3, dilation=2), draw(1, 11, 5)

    weight, bias = made.kernel.weight, made.kernel.bias
    assert bias is not None
    by_hand = bias + sum(weight[:, :, tap] @ x[0, 9 - 2 * (2 - tap)] for tap in range(3))
    torch.testing.assert_close(made(x)[0, 9], by_hand)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("size", [(96, 64), (112, 128)])
def test_operations_by_formula_are_those_that_are_count_operations(
    kind: Kind, part: Part, size: tuple[int, int]
):
    n, d = size
    reach = Reach(radius=3, kernel=5)

    assert count_operations(kind, n, d, reach=reach, part=part) == operations(
        kind, n, d, reach=reach, part=part
    )


@pytest.mark.parametrize("part", PARTS)
def test_so_are_those_of_a_short_sentence_whose_attention_is_written_out(part: Part):
    result = count_operations("self-attention", 7, 64, reach=Reach(), part=part)

    assert result == operations("self-attention", 7, 64, reach=Reach(), part=part)


def test_operations_grow_with_the_radius_and_with_the_kernel():
    once, twice = Reach(radius=16, kernel=3), Reach(radius=32, kernel=6)
    for kind in ("restricted", "convolution"):
        few = operations(kind, 1024, 64, reach=once, part="mixing")

        assert operations(kind, 1024, 64, reach=twice, part="mixing") == 2 * few


def test_heads_are_as_wide_as_the_papers():
    made = layer("self-attention", 256, replace(Reach()))

    assert isinstance(made, Attention)
    assert made.heads == 4
