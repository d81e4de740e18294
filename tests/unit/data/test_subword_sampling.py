"""Pieces drawn at random: by the laws of the papers, and the same in every process."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from transduce.data.corpus_config import TokenizerConfig
from transduce.data.sentencepiece_model import Piece, append_pieces
from transduce.data.subword_sampling import Cutter
from transduce.data.tokenizer import Tokenizer

LINES = [
    "the lowest newer widest water",
    "lower newest wide waters the",
    "new low wider the water lowest",
] * 5
DRAWS = 20_000


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(vocab_size=41))


@pytest.fixture(scope="module")
def unigram() -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(vocab_size=31, kind="unigram"))


def cutter(kind: Tokenizer, *pieces: Piece) -> Cutter:
    """A model of that kind in which some pieces have these scores."""
    return Cutter(append_pieces(kind.to_bytes(), pieces))


def frequencies(cutter: Cutter, word: Sequence[str], *, alpha: float) -> dict[str, float]:
    chance = Random(7)
    drawn = Counter(" ".join(cutter.draw(word, alpha=alpha, chance=chance)) for _ in range(DRAWS))
    return {cut: count / DRAWS for cut, count in drawn.items()}


def test_no_merge_left_out_is_the_librarys_own_cut(bpe: Tokenizer):
    for line in [*LINES, "a word wholly unknown", "wewater  lowthe"]:
        usual = bpe.encode(line)

        assert bpe.draw(usual, alpha=0.0, chance=Random(1)) == usual


def test_merges_are_left_out_as_often_as_the_paper_says(bpe: Tokenizer):
    """From a b c: ab first, else bc, else nothing; behind ab there is abc, behind bc too."""
    pieces = ("a", "b", "c", "ab", "bc", "abc")
    model = cutter(bpe, *(Piece(text, -at) for at, text in enumerate(pieces)))

    found = frequencies(model, ["abc"], alpha=0.3)

    keep, drop = 0.7, 0.3
    assert found == pytest.approx(
        {
            "abc": keep * keep + drop * keep * keep,
            "ab c": keep * drop,
            "a bc": drop * keep * drop,
            "a b c": drop * drop,
        },
        abs=0.01,
    )


def test_a_cut_is_as_likely_as_its_probability_to_the_power_alpha(unigram: Tokenizer):
    logs = {"a": -2.0, "b": -1.5, "ab": -2.5, "ba": -3.0, "aba": -4.0}
    model = cutter(unigram, *(Piece(text, score) for text, score in logs.items()))

    found = frequencies(model, ["aba"], alpha=0.5)

    cuts = ("a b a", "ab a", "a ba", "aba")
    weights = [math.exp(0.5 * sum(logs[piece] for piece in cut.split())) for cut in cuts]
    expected = {cut: weight / sum(weights) for cut, weight in zip(cuts, weights, strict=True)}
    assert found == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_is_drawn_spells_the_same_text(kind: str, request: pytest.FixtureRequest):
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    chance = Random(3)

    for line in LINES[:3]:
        for _ in range(50):
            drawn = tokenizer.draw(tokenizer.encode(line), alpha=0.4, chance=chance)
            assert tokenizer.decode(drawn) == line


def test_a_word_with_an_unknown_character_keeps_its_pieces(bpe: Tokenizer):
    usual = bpe.encode("water Ω")
    unknown = usual[-1]

    drawn = bpe.draw(usual, alpha=0.9, chance=Random(5))

    assert unknown == bpe.UNK
    assert drawn[-1] == unknown


def test_nothing_is_drawn_from_nothing(bpe: Tokenizer):
    assert bpe.draw([], alpha=0.5, chance=Random(1)) == []


def test_another_process_draws_the_same(bpe: Tokenizer, tmp_path: Path):
    """SentencePiece itself does not."""
    (tmp_path / "model").write_bytes(bpe.to_bytes())
    program = (
        "import sys; from pathlib import Path; from random import Random\n"
        "from transduce.data.tokenizer import Tokenizer\n"
        "it = Tokenizer.from_bytes(Path(sys.argv[1]).read_bytes())\n"
        "print(it.draw(it.encode(sys.argv[2]), alpha=0.5, chance=Random('1/2/3')))\n"
    )

    said = {
        subprocess.run(
            [sys.executable, "-c", program, tmp_path / "model", LINES[0]],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }

    here = bpe.draw(bpe.encode(LINES[0]), alpha=0.5, chance=Random("1/2/3"))
    assert said == {f"{here}\n"}
