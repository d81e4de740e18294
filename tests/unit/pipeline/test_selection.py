"""The final weights are those that the metric prefers which can tell them apart."""

from collections.abc import Sequence

import pytest

from transduce.config import load_recipe
from transduce.data.corpus import Pair
from transduce.evaluation.metrics import Score, bleu, chrf
from transduce.model.transformer import Transformer
from transduce.pipeline.selection import ScoredWeights, compare_texts, select

WORDS = ["tomato", "potato", "carrot", "radish"]
SENTENCES = ["the cat sat on the mat today", "a dog barks at the red door"]


def candidate(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> ScoredWeights:
    scores = bleu(hypotheses, references), chrf(hypotheses, references)
    return ScoredWeights(Transformer.__new__(Transformer), name, (), *scores)


def measured(*values: float, of: Sequence[ScoredWeights]) -> dict[int, float]:
    return {id(item.model): value for item, value in zip(of, values, strict=True)}


def test_one_word_lines_are_selected_by_chrf():
    average = candidate("the average", ["tomatoes", "pot", *WORDS[2:]], WORDS)
    best = candidate("the best", WORDS, WORDS)

    selected = select([average, best], perplexity=lambda model: pytest.fail("not needed"))

    assert selected.model is best.model
    assert selected.name.startswith("the best: 100.00 chrF2 on validation, against ")


def test_bleu_decides_where_it_can():
    first, second = candidate("a", SENTENCES, SENTENCES), candidate("b", ["x y"] * 2, SENTENCES)

    selected = select([second, first], perplexity=lambda model: pytest.fail("not needed"))

    assert selected.name == f"a: 100.00 BLEU on validation, against {second.bleu.value:.2f} of b"


def test_a_bleu_of_zero_everywhere_leaves_it_to_chrf():
    both = [candidate(name, [name] * 2, SENTENCES) for name in ("qqqq", "the dog")]
    assert all(isinstance(item.bleu, Score) and round(item.bleu.value, 2) == 0 for item in both)

    assert "the dog: " in select(both, perplexity=lambda model: pytest.fail("no")).name


def test_equal_text_leaves_it_to_perplexity_and_only_among_the_best():
    poor = candidate("poor", ["x y"] * 2, SENTENCES)
    equal = [candidate(name, SENTENCES, SENTENCES) for name in ("first", "second")]
    values = measured(9.0, 4.0, of=equal)

    selected = select([poor, *equal], perplexity=lambda model: values[id(model)])

    assert selected.name == "second: 4.00 perplexity on validation, against 9.00 of first"
    assert select(equal, perplexity=lambda model: 3.0).name.startswith("first: 3.00")


def test_a_single_candidate_is_selected():
    only = candidate("only", SENTENCES, SENTENCES)

    selected = select([only], perplexity=lambda model: pytest.fail("not needed"))

    assert selected.name == "only: 100.00 BLEU on validation"


def test_texts_are_compared_as_the_recipe_scores_them():
    recipe = load_recipe("tiny", ["tokenizer.lower_case=true"])
    pairs = [Pair("x", text.upper()) for text in SENTENCES]

    first, second = compare_texts(recipe, [SENTENCES, ["x y"] * 2], pairs)

    assert (round(first.value), first.verdict) == (100, "baseline")
    assert second.value < 100
