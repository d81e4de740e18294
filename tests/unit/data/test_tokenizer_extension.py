"""A vocabulary that is extended spells what it could not, and cuts the rest as it did."""

import pytest

from transduce.data.config import TokenizerConfig
from transduce.data.sentencepiece_model import read_pieces
from transduce.data.tokenizer import UNK, Tokenizer
from transduce.data.tokenizer_extension import encode_without_prefix, extend_tokenizer

OLD = [f"the old man reads a book {'and sleeps ' * (n % 3)}" for n in range(29)]
NEW = [*["the żółw drinks krabbensalat"] * 7, *["the żółw swims, 12:30"] * 5]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def old(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(OLD, TokenizerConfig(kind=request.param, vocab_size=61))


def test_old_ids_stay_what_they_are(old: Tokenizer):
    new = extend_tokenizer(old, NEW, count=31)

    assert read_pieces(new.to_bytes())[: old.pad] == read_pieces(old.to_bytes())


def test_there_are_as_many_more_as_wanted(old: Tokenizer):
    assert extend_tokenizer(old, NEW, count=31).vocab_size == old.vocab_size + 31
    assert extend_tokenizer(old, NEW, count=0).to_bytes() == old.to_bytes()


def test_a_small_corpus_gives_what_it_has(old: Tokenizer):
    new = extend_tokenizer(old, ["the ж"], count=31)

    assert new.vocab_size == old.vocab_size + 1  # no pair of pieces stands there twice


def test_unknown_characters_come_first_the_most_frequent_before_the_others(old: Tokenizer):
    new = extend_tokenizer(old, ["ж", "ż ó ł ó ż ż", "the the the the the"], count=3)

    assert new.pieces(range(old.pad, new.pad)) == ["ż", "ó", "ł"]


def test_a_new_character_takes_nothing_from_the_old_pieces(old: Tokenizer):
    least = min(piece.score for piece in read_pieces(old.to_bytes()))

    new = extend_tokenizer(old, ["ж ж"], count=1)

    assert read_pieces(new.to_bytes())[-1].score == least


def test_what_was_unknown_comes_back(old: Tokenizer):
    new = extend_tokenizer(old, NEW, count=31)

    assert UNK in old.encode(NEW[0])
    assert UNK not in new.encode(NEW[0])
    assert [new.decode(new.encode(text)) for text in NEW] == NEW


def test_a_frequent_word_becomes_one_piece(old: Tokenizer):
    new = extend_tokenizer(old, NEW, count=61)

    assert "▁żółw" in new.pieces(new.encode("the żółw"))


def test_text_without_a_new_piece_is_cut_as_before(old: Tokenizer):
    new = extend_tokenizer(old, NEW, count=31)

    words = [word for text in OLD for word in text.split()]
    cuts = [(old.encode(word), new.encode(word)) for word in [*words, "heat", "a", "sad"]]

    assert all(before == after for before, after in cuts if max(after) < old.pad)
    assert sum(max(after) < old.pad for _, after in cuts) > 50


def test_words_stay_words(old: Tokenizer):
    new = extend_tokenizer(old, NEW, count=61)

    pieces = new.pieces(range(old.pad, new.pad))
    assert all("▁" not in piece[1:] for piece in pieces)
    assert not any("," in piece and len(piece.strip("▁,")) for piece in pieces)


def test_the_same_text_gives_the_same_bytes(old: Tokenizer):
    assert (
        extend_tokenizer(old, iter(NEW), count=31).to_bytes()
        == extend_tokenizer(old, NEW, count=31).to_bytes()
    )


def test_bytes_are_no_pieces_to_merge():
    config = TokenizerConfig(vocab_size=310, byte_fallback=True)
    old = Tokenizer.train(OLD, config)

    new = extend_tokenizer(
        old, ["żżó the żżó"] * 3, count=3
    )  # ó has to wait while ż is more frequent
    spare = extend_tokenizer(old, ["żżó"] * 3, count=1)

    assert new.pieces(range(old.pad, new.pad))[:2] == ["ż", "ó"]
    assert spare.pieces(spare.encode("żżó"))[1:] == ["ż", "ż", "<0xC3>", "<0xB3>"]


def test_a_new_piece_is_cut_as_the_inside_of_a_word(old: Tokenizer):
    inside, begin = encode_without_prefix(old, ["man", "▁man"])

    assert "".join(old.pieces(inside)) == "man"
    assert "".join(old.pieces(begin)) == "▁man"


def test_a_rare_pair_of_common_pieces_is_used_once_it_is_learned(old: Tokenizer):
    """Where pieces are common their product outdoes the share of what they rarely make."""
    new = extend_tokenizer(old, [*["o a r"] * 19_997, *["oar"] * 2], count=5)

    assert new.pieces(new.encode("oar")) == ["▁oar"]


def test_a_new_merge_ranks_below_all_before_it():
    old = Tokenizer.train(OLD, TokenizerConfig(kind="bpe", vocab_size=61))

    pieces = read_pieces(extend_tokenizer(old, NEW, count=43).to_bytes())

    merges = [piece.score for piece in pieces[old.pad :] if len(piece.text) > 1]
    assert len(merges) > 10
    assert max(merges) < min(piece.score for piece in pieces[: old.pad])
    assert merges == sorted({*merges}, reverse=True)


def test_characters_gain_only_characters():
    old = Tokenizer.train(OLD, TokenizerConfig(kind="char", vocab_size=61))

    new = extend_tokenizer(old, NEW, count=43)

    added = new.pieces(range(old.pad, new.pad))
    assert added
    assert {len(piece) for piece in added} == {1}
    assert new.UNK not in new.encode(NEW[0])


def test_words_gain_only_words():
    old = Tokenizer.train(OLD, TokenizerConfig(kind="word", vocab_size=61))

    new = extend_tokenizer(old, NEW, count=3)

    added = new.pieces(range(old.pad, new.pad))
    assert added == ["▁żółw", "▁drinks", "▁krabbensalat"]
    assert encode_without_prefix(old, added) == [[UNK]] * 3
    assert new.pieces(new.encode("the żółw drinks")) == ["▁the", "▁żółw", "▁drinks"]
