"""Pieces can be read from the tokenizer's file and added to it, and nothing else in it changes."""

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
import sentencepiece

from transduce.data.config import TokenizerConfig
from transduce.data.sentencepiece_model import (
    SubwordSampler,
    VocabularyPiece,
    append_pieces,
    read_model_type,
    read_pieces,
    without_prefix,
)
from transduce.data.tokenizer import Tokenizer

LINES = ["abc de abcab deab", "cab dec de abc ½"] * 7


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def data(request: pytest.FixtureRequest) -> bytes:
    return Tokenizer.train(LINES, TokenizerConfig(kind=request.param, vocab_size=23)).to_bytes()


def library(data: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=data)


def test_the_pieces_are_those_that_the_library_reads(data: bytes):
    reference = library(data)

    result = read_pieces(data)

    size = reference.get_piece_size()
    assert [piece.text for piece in result] == [reference.id_to_piece(i) for i in range(size)]
    assert [piece.score for piece in result] == [reference.get_score(i) for i in range(size)]
    assert [piece.type for piece in result] == [3, 2, *[1] * (size - 2)]


def test_bytes_are_told_from_pieces():
    config = TokenizerConfig(vocab_size=280, byte_fallback=True)
    data = Tokenizer.train(LINES, config).to_bytes()

    result = {piece.text for piece in read_pieces(data) if piece.type == 6}

    assert result == {f"<0x{byte:02X}>" for byte in range(256)}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_the_kind_is_read(kind: str):
    data = Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=23)).to_bytes()

    assert read_model_type(data) == kind


def test_added_pieces_get_the_next_ids(data: bytes):
    size = len(read_pieces(data))
    new = [
        VocabularyPiece("ж", -7.5),
        VocabularyPiece("▁long" + "g" * 200, -9.25),
    ]  # longer than one byte counts

    reference = library(append_pieces(data, new))

    assert reference.get_piece_size() == size + 2
    assert [(reference.id_to_piece(i), reference.get_score(i)) for i in (size, size + 1)] == [
        (piece.text, piece.score) for piece in new
    ]


def test_nothing_added_changes_nothing(data: bytes):
    assert append_pieces(data, []) == data


def test_a_piece_of_another_type_keeps_it(data: bytes):
    added = append_pieces(data, [VocabularyPiece("<x>", 0.0, 4)])

    assert read_pieces(added)[-1] == VocabularyPiece("<x>", 0.0, 4)


def test_without_prefix_the_inside_of_a_word_is_cut(data: bytes):
    reference = library(without_prefix(data))

    assert "".join(reference.encode("abc", out_type=str)) == "abc"
    assert "".join(reference.encode(" abc", out_type=str)) == "▁abc"


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_file_that_is_cut_short_is_damaged(data: bytes, lost: int):
    with pytest.raises(ValueError, match="the tokenizer model is damaged"):
        read_pieces(data[:-lost])


def test_a_number_without_end_is_damage():
    with pytest.raises(ValueError, match="the tokenizer model is damaged"):
        read_pieces(b"\xff" * 20)


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


def cutter(kind: Tokenizer, *pieces: VocabularyPiece) -> SubwordSampler:
    """A model of that kind in which some pieces have these scores."""
    return SubwordSampler(append_pieces(kind.to_bytes(), pieces))


def frequencies(cutter: SubwordSampler, word: Sequence[str], *, alpha: float) -> dict[str, float]:
    chance = Random(7)
    drawn = Counter(" ".join(cutter.sample(word, alpha=alpha, rng=chance)) for _ in range(DRAWS))
    return {cut: count / DRAWS for cut, count in drawn.items()}


def test_no_merge_left_out_is_the_librarys_own_cut(bpe: Tokenizer):
    for line in [*LINES, "a word wholly unknown", "wewater  lowthe"]:
        usual = bpe.encode(line)

        assert bpe.sample_subwords(usual, alpha=0.0, rng=Random(1)) == usual


def test_merges_are_left_out_as_often_as_the_paper_says(bpe: Tokenizer):
    """From a b c: ab first, else bc, else nothing; behind ab there is abc, behind bc too."""
    pieces = ("a", "b", "c", "ab", "bc", "abc")
    model = cutter(bpe, *(VocabularyPiece(text, -rank) for rank, text in enumerate(pieces)))

    result = frequencies(model, ["abc"], alpha=0.3)

    keep, drop = 0.7, 0.3
    assert result == pytest.approx(
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
    model = cutter(unigram, *(VocabularyPiece(text, score) for text, score in logs.items()))

    result = frequencies(model, ["aba"], alpha=0.5)

    cuts = ("a b a", "ab a", "a ba", "aba")
    weights = [math.exp(0.5 * sum(logs[piece] for piece in cut.split())) for cut in cuts]
    expected = {cut: weight / sum(weights) for cut, weight in zip(cuts, weights, strict=True)}
    assert result == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_is_drawn_spells_the_same_text(kind: str, request: pytest.FixtureRequest):
    tokenizer: Tokenizer = request.getfixturevalue(kind)
    chance = Random(3)

    for line in LINES[:3]:
        for _ in range(50):
            drawn = tokenizer.sample_subwords(tokenizer.encode(line), alpha=0.4, rng=chance)
            assert tokenizer.decode(drawn) == line


def test_a_word_with_an_unknown_character_keeps_its_pieces(bpe: Tokenizer):
    usual = bpe.encode("water Ω")
    unknown = usual[-1]

    drawn = bpe.sample_subwords(usual, alpha=0.9, rng=Random(5))

    assert unknown == bpe.UNK
    assert drawn[-1] == unknown


def test_nothing_is_drawn_from_nothing(bpe: Tokenizer):
    assert bpe.sample_subwords([], alpha=0.5, rng=Random(1)) == []


def test_another_process_draws_the_same(bpe: Tokenizer, tmp_path: Path):
    """SentencePiece itself does not."""
    (tmp_path / "model").write_bytes(bpe.to_bytes())
    program = (
        "import sys; from pathlib import Path; from random import Random\n"
        "from transduce.data.tokenizer import Tokenizer\n"
        "it = Tokenizer.from_bytes(Path(sys.argv[1]).read_bytes())\n"
        "print(it.sample_subwords(it.encode(sys.argv[2]), alpha=0.5, rng=Random('1/2/3')))\n"
    )

    output = {
        subprocess.run(
            [sys.executable, "-c", program, tmp_path / "model", LINES[0]],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }

    drawn = bpe.sample_subwords(bpe.encode(LINES[0]), alpha=0.5, rng=Random("1/2/3"))
    assert output == {f"{drawn}\n"}
