import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import SHAPE, made
from torch.utils.flop_counter import FlopCounterMode

from transduce.config import load_recipe
from transduce.data.batch import Batch, collate
from transduce.model.config import ModelConfig
from transduce.model.loss import cross_entropy
from transduce.paper.table2.run import (
    RUNS,
    Assumed,
    SentenceLengths,
    account,
    count,
    project_on_gpu,
)

LENGTHS = SentenceLengths(source=11, target=7)
ROWS = 5


def batch(config: ModelConfig) -> Batch:
    source, target = ([[3] * (length - 1)] * ROWS for length in LENGTHS)
    return collate(source, target, pad=config.pad, eos=1)


def test_the_way_there_has_the_operations_that_torch_counts():
    model, pairs = made(SHAPE), batch(SHAPE)

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(pairs.source, pairs.source_mask, pairs.target_in)

    assert counter.get_total_flops() == ROWS * sum(count(SHAPE, LENGTHS))


def test_there_and_back_has_the_operations_that_torch_counts():
    model, pairs = made(SHAPE), batch(SHAPE)

    with FlopCounterMode(display=False) as counter:
        logits = model(pairs.source, pairs.source_mask, pairs.target_in)
        cross_entropy(logits, pairs.target_out, smoothing=0.1).smoothed.backward()

    assert counter.get_total_flops() == ROWS * count(SHAPE, LENGTHS).training


def test_mixing_alone_grows_with_the_square_of_the_length():
    once, twice = count(SHAPE, SentenceLengths(5, 5)), count(SHAPE, SentenceLengths(10, 10))

    assert twice.mixing == 4 * once.mixing
    assert twice.projections == 2 * once.projections
    assert twice.feed_forward == 2 * once.feed_forward
    assert twice.output == 2 * once.output


def test_a_larger_vocabulary_costs_output_alone():
    more = count(replace(SHAPE, vocab_size=SHAPE.vocab_size + 1), LENGTHS)

    difference = [b - a for a, b in zip(count(SHAPE, LENGTHS), more, strict=True)]

    assert difference == [0, 0, 0, 2 * SHAPE.d_model * LENGTHS.target]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_papers_arithmetic_gives_its_figure(run):
    assert float(f"{run.estimated:.1e}") == run.published


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_hours_are_about_the_updates_times_their_seconds(run):
    assert run.updates * run.seconds_an_update / 3600 == pytest.approx(run.hours, rel=0.08)


@pytest.mark.parametrize(
    ("number", "total", "utilisation"), [(0, 9.5e17, 0.29), (1, 9.7e18, 0.42)], ids=["base", "big"]
)
def test_the_papers_gpus_were_used_in_part(number: int, total: float, utilisation: float):
    run = RUNS[number]

    result = account(
        run, load_recipe(run.recipe).model, tokens=25_000, lengths=SentenceLengths(28, 28)
    )

    assert result.total == pytest.approx(total, rel=0.01)
    assert result.utilisation == pytest.approx(utilisation, abs=0.005)


def test_all_updates_cost_their_target_pieces():
    result = account(RUNS[0], SHAPE, tokens=70, lengths=LENGTHS)

    assert result.total == 100_000 * 10 * count(SHAPE, LENGTHS).training


def test_a_gpu_takes_the_hours_of_its_rate():
    counted = account(RUNS[0], SHAPE, tokens=70, lengths=LENGTHS)

    result = project_on_gpu(counted, Assumed(gpu_tflops=2.0, gpu_hour_price=3.0))

    assert result.hours == pytest.approx(counted.total / 2e12 / 3600)
    assert result.price == pytest.approx(3 * result.hours)


@pytest.mark.parametrize(("tflops", "price"), [(0.0, 3.0), (400.0, -1.0)])
def test_a_gpu_without_a_rate_or_with_a_price_below_zero_is_refused(tflops: float, price: float):
    with pytest.raises(ValueError, match="--gpu-tflops must be above 0"):
        Assumed(gpu_tflops=tflops, gpu_hour_price=price)


def test_the_page_has_what_is_counted_from_the_shapes():
    """Beside the record, which the numbers name in comments."""
    text = (Path(__file__).parents[4] / "docs/paper/results.md").read_text()
    page = " ".join(re.sub(r"<!--= .*?-->", "", text).split())
    assumed, raised = Assumed(), str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    lengths = SentenceLengths(assumed.mean_length, assumed.mean_length)
    recipes = [load_recipe(run.recipe) for run in RUNS]
    base, big = (
        account(run, recipe.model, tokens=recipe.batch.tokens, lengths=lengths)
        for run, recipe in zip(RUNS, recipes, strict=True)
    )

    totals = []
    for counted in (base, big):
        digits, _, power = f"{counted.total:.1e}".partition("e+")
        totals.append(f"{digits} · 10{power.translate(raised)}")
    hours = [project_on_gpu(counted, assumed).hours for counted in (base, big)]

    assert f"pairs of {assumed.mean_length} pieces a side" in page
    assert f"{totals[0]} operations for base and {totals[1]} for big" in page
    assert f"{base.utilisation:.0%} and {big.utilisation:.0%}".replace("%", " %") in page
    assert f"would take {hours[0]:.1f} hours for base and {hours[1]:.0f} for big" in page
