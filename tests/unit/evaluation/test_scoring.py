"""Confidence is fitted to what a model can say."""

import pytest

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import Pair
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.scoring import fit_confidence
from transduce.inference.translation import Translation


@pytest.mark.parametrize(("lower_case", "worth"), [(True, 1.0), (False, 0.5)])
def test_case_does_not_count_for_a_model_that_lower_cases(lower_case: bool, worth: float):
    pairs = [Pair("the dog", "der Hund")] * 100
    lines = [*pairs[0], "der hund"]
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=19, lower_case=lower_case))
    pieces = tuple(tokenizer.pieces([*tokenizer.encode("der hund"), tokenizer.EOS]))
    translation = Translation(
        source="the dog",
        text="der hund",
        score=-1.0,
        ids=(),
        pieces=pieces,
        log_probs=(-0.1,) * len(pieces),
    )

    confidence = fit_confidence([translation] * 100, pairs, tokenizer=tokenizer)

    assert confidence.words is not None
    assert confidence.words.worth == (worth,)
    assert confidence.sentences is not None
    assert (confidence.sentences.worth == (1.0,)) == lower_case
