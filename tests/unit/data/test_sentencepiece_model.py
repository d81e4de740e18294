"""Pieces can be read from the tokenizer's file and added to it, and nothing else in it changes."""

import pytest
import sentencepiece

from transduce.data.corpus_config import TokenizerConfig
from transduce.data.sentencepiece_model import (
    Piece,
    append_pieces,
    read_kind,
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
    theirs = library(data)

    found = read_pieces(data)

    size = theirs.get_piece_size()
    assert [piece.text for piece in found] == [theirs.id_to_piece(i) for i in range(size)]
    assert [piece.score for piece in found] == [theirs.get_score(i) for i in range(size)]
    assert [piece.type for piece in found] == [3, 2, *[1] * (size - 2)]


def test_bytes_are_told_from_pieces():
    config = TokenizerConfig(vocab_size=280, byte_fallback=True)
    data = Tokenizer.train(LINES, config).to_bytes()

    found = {piece.text for piece in read_pieces(data) if piece.type == 6}

    assert found == {f"<0x{byte:02X}>" for byte in range(256)}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_kind_is_read(kind: str):
    data = Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=23)).to_bytes()

    assert read_kind(data) == kind


def test_added_pieces_get_the_next_ids(data: bytes):
    size = len(read_pieces(data))
    new = [Piece("ж", -7.5), Piece("▁long" + "g" * 200, -9.25)]  # longer than one byte counts

    theirs = library(append_pieces(data, new))

    assert theirs.get_piece_size() == size + 2
    assert [(theirs.id_to_piece(i), theirs.get_score(i)) for i in (size, size + 1)] == [
        (piece.text, piece.score) for piece in new
    ]


def test_nothing_added_changes_nothing(data: bytes):
    assert append_pieces(data, []) == data


def test_a_piece_of_another_type_keeps_it(data: bytes):
    added = append_pieces(data, [Piece("<x>", 0.0, 4)])

    assert read_pieces(added)[-1] == Piece("<x>", 0.0, 4)


def test_without_prefix_the_inside_of_a_word_is_cut(data: bytes):
    theirs = library(without_prefix(data))

    assert "".join(theirs.encode("abc", out_type=str)) == "abc"
    assert "".join(theirs.encode(" abc", out_type=str)) == "▁abc"


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_file_that_is_cut_short_is_damaged(data: bytes, lost: int):
    with pytest.raises(ValueError, match="the tokenizer model is damaged"):
        read_pieces(data[:-lost])


def test_a_number_without_end_is_damage():
    with pytest.raises(ValueError, match="the tokenizer model is damaged"):
        read_pieces(b"\xff" * 20)
