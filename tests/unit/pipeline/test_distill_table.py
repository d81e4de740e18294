"""The table of a distillation has a metric that can tell the models apart."""

import pytest

from transduce import Recipe
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import Pair
from transduce.pipeline.distill_report import _score  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("target", "metric"), [("tomato", "chrF2"), ("the old man reads a book", "BLEU")]
)
def test_single_words_are_compared_by_chrf(target: str, metric: str):
    score = _score(Recipe(), [target] * 2, [Pair("x", target)] * 2)

    assert (score.name, round(score.value)) == (metric, 100)


def test_a_model_that_lower_cases_is_scored_without_case():
    recipe = Recipe(tokenizer=TokenizerConfig(lower_case=True))

    assert round(_score(recipe, ["tomato"] * 2, [Pair("x", "Tomato")] * 2).value) == 100
