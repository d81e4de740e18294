"""Restricted self-attention in blocks = equation (1) written out under a mask."""

import math

import pytest
import torch

from transduce.model.local_attention import blockwise_local_attention, local_attention


def draw(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def by_hand(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    *,
    radius: int,
    mask: torch.Tensor | None,
    causal: bool,
) -> torch.Tensor:
    """Equation (1), the neighbourhood as a mask over all pairs of positions."""
    length = queries.size(2)
    ahead = torch.arange(length)[None] - torch.arange(length)[:, None]
    seen = (ahead >= -radius) & (ahead <= (0 if causal else radius))
    if mask is not None:
        seen = seen & mask | (ahead == 0)
    scores = queries @ keys.mT / math.sqrt(queries.size(-1))
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ values


def padding(length: int) -> torch.Tensor:
    return (torch.arange(length) < torch.tensor([length, length // 3])[:, None])[:, None, None]


CASES = [
    (radius, length, causal, padded)
    for radius in (1, 5, 19)
    for length in (1, 16, 37, 101)
    for causal, padded in ((False, False), (False, True), (True, False))
]


@pytest.mark.parametrize(("radius", "length", "causal", "padded"), CASES)
def test_blocks_are_the_masked_equation(radius: int, length: int, causal: bool, padded: bool):
    given = [draw(2, 3, length, width, seed=width) for width in (5, 5, 7)]
    mask = padding(length) if padded else None

    read = blockwise_local_attention(*given, radius=radius, mask=mask, causal=causal)

    expected = by_hand(*given, radius=radius, mask=mask, causal=causal)
    torch.testing.assert_close(read, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("radius", "length", "causal", "padded"), CASES)
def test_their_gradients_are_those_of_the_masked_equation(
    radius: int, length: int, causal: bool, padded: bool
):
    given = [draw(2, 3, length, width, seed=width) for width in (5, 5, 7)]
    mask = padding(length) if padded else None
    pull = draw(2, 3, length, 7, seed=3)

    read = blockwise_local_attention(*given, radius=radius, mask=mask, causal=causal)
    gradients = torch.autograd.grad(read, given, pull)

    written = by_hand(*given, radius=radius, mask=mask, causal=causal)
    for gradient, expected in zip(
        gradients, torch.autograd.grad(written, given, pull), strict=True
    ):
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [37, 347])
@pytest.mark.parametrize(("causal", "padded"), [(False, False), (False, True), (True, False)])
def test_short_and_long_sentences_are_read_alike(length: int, causal: bool, padded: bool):
    given = [draw(2, 3, length, width, seed=width) for width in (5, 5, 7)]
    mask = padding(length) if padded else None

    read = local_attention(*given, radius=3, mask=mask, causal=causal)

    expected = by_hand(*given, radius=3, mask=mask, causal=causal)
    torch.testing.assert_close(read, expected, rtol=0, atol=1e-12)
