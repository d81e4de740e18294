"""Step by step with a memory of the past = reading the whole target at once."""

import random
from dataclasses import replace

import pytest
import torch
from tests.conftest import made
from torch import Tensor

from transduce.model.config import ModelConfig
from transduce.model.fused_decoder import FusedDecoder
from transduce.model.layers import Positions
from transduce.model.transformer import Transformer


def ids(*shape: int, seed: int) -> Tensor:
    return torch.randint(2, 36, shape, generator=torch.Generator().manual_seed(seed))


def mask(*lengths: int) -> Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]


@pytest.fixture(
    params=[
        *("the paper's", "learned positions", "gelu", "pre-norm", "biases"),
        *("a neighbourhood", "all of them"),
    ]
)
def tiny(config: ModelConfig, request: pytest.FixtureRequest) -> Transformer:
    """One model for each departure; the learned table is as long as the longest target here."""
    options = {
        "the paper's": {},
        "learned positions": {"positions": "learned", "max_positions": 23},
        "gelu": {"activation": "gelu"},
        "pre-norm": {"norm": "pre"},
        "biases": {"attention_bias": True, "output_bias": True},
        "a neighbourhood": {"radius": 2},
    }
    every = {key: value for option in options.values() for key, value in option.items()}
    model = made(replace(config, **options.get(request.param, every))).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # they start at zero, where nobody would miss them
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(3))
    return model


@torch.no_grad()
def test_steps_are_the_positions_of_one_reading(tiny: Transformer):
    source, seen, target = ids(2, 8, seed=1), mask(8, 5), ids(2, 7, seed=2)
    decoding = FusedDecoder(tiny, source, seen)

    steps = torch.stack([decoding.step(column) for column in target.unbind(1)], dim=1)

    torch.testing.assert_close(steps, tiny(source, seen, target))


@torch.no_grad()
def test_steps_with_reordered_beams_equal_reading_the_target_at_once(tiny: Transformer):
    """What beam search does to the cache must be invisible in the logits."""
    source, seen = ids(2, 8, seed=1), mask(8, 5)
    decoding = FusedDecoder(tiny, source, seen, beams=3)
    so_far = torch.zeros(6, 0, dtype=torch.long)
    generator = torch.Generator().manual_seed(3)
    for step in range(7):
        rows = torch.cat(
            [torch.randint(first, first + 3, (3,), generator=generator) for first in (0, 3)]
        )
        new = ids(6, seed=10 + step)
        decoding.reorder(rows)
        so_far = torch.cat([so_far[rows], new[:, None]], dim=1)

        at_once = tiny(source.repeat_interleave(3, 0), seen.repeat_interleave(3, 0), so_far)

        torch.testing.assert_close(decoding.step(new), at_once[:, -1])


@pytest.mark.parametrize("padded", [True, False])
@torch.no_grad()
def test_steps_with_dropped_sentences_equal_reading_the_target_at_once(
    tiny: Transformer, padded: bool
):
    source = ids(5, 8, seed=1)
    seen = mask(8, 5, 3, 7, 2) if padded else None
    decoding = FusedDecoder(tiny, source, seen, beams=2)
    present, so_far = list(range(5)), torch.zeros(10, 0, dtype=torch.long)
    draw = random.Random(0)
    for step, leave in enumerate([0, 2, 0, 1, 1, 0]):
        kept = sorted(draw.sample(range(len(present)), len(present) - leave))
        if leave:
            decoding.select(torch.tensor(kept))
            so_far = so_far.unflatten(0, (-1, 2))[kept].flatten(0, 1)
            present = [present[place] for place in kept]
        rows = torch.tensor([2 * s + draw.randrange(2) for s in range(len(kept)) for _ in range(2)])
        new = ids(len(rows), seed=10 + step)
        decoding.reorder(rows)
        so_far = torch.cat([so_far[rows], new[:, None]], dim=1)

        beams = torch.tensor(present).repeat_interleave(2)
        at_once = tiny(source[beams], None if seen is None else seen[beams], so_far)

        torch.testing.assert_close(decoding.step(new), at_once[:, -1])


@torch.no_grad()
def test_a_translation_may_outgrow_the_table_of_sinusoids(tiny: Transformer):
    if isinstance(tiny.positions, Positions):
        tiny.positions = Positions(14, length=5)
    source, target = ids(1, 3, seed=1), ids(1, 23, seed=2)
    decoding = FusedDecoder(tiny, source, None)

    for new in target.unbind(1):
        last = decoding.step(new)

    torch.testing.assert_close(last, tiny(source, None, target)[:, -1])
