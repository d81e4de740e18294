"""OpusTrainer, with which Firefox Translations varies its corpora, gives the same text."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transduce.data.augmentation import vary
from transduce.data.config import AugmentConfig
from transduce.data.corpus import Pair

pytest.importorskip("opustrainer", reason="make test-interop installs it")
from opustrainer.modifiers.punctuation import RemoveEndPunctuationModifier
from opustrainer.modifiers.surface import TitleCaseModifier, UpperCaseModifier
from opustrainer.types import Modifier

SENTENCES = st.lists(st.text("abäéxИж'-,9", min_size=1, max_size=6), min_size=1, max_size=6)
ENDS = st.sampled_from(["", ".", "!", "?", ":", '"', ")", "。", " .", "...", "?!"])


@pytest.mark.parametrize(
    ("oracle", "config"),
    [
        (UpperCaseModifier(1.0), AugmentConfig(upper_case=1.0)),
        (TitleCaseModifier(1.0), AugmentConfig(title_case=1.0)),
        (RemoveEndPunctuationModifier(1.0), AugmentConfig(no_end_punctuation=1.0)),
    ],
    ids=["upper case", "title case", "no end punctuation"],
)
@given(source=SENTENCES, target=SENTENCES, end=ENDS)
def test_a_pair_is_varied_alike(
    oracle: Modifier, config: AugmentConfig, source: list[str], target: list[str], end: str
):
    pair = Pair(" ".join(source) + end, " ".join(target) + end)

    (expected,) = oracle(["\t".join(pair)])
    if not all(expected.split("\t")):  # of a mark alone it leaves an empty side, which we keep
        expected = "\t".join(pair)

    assert "\t".join(vary(pair, config, Random(1))) == expected
