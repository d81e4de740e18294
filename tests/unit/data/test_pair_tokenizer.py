"""Two SentencePiece models and one table of pieces behave as one tokenizer."""

import io
import zipfile
from collections.abc import Mapping
from random import Random
from typing import Any, Literal

import pytest
from sentencepiece import SentencePieceProcessor

from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer, read_tokenizer
from transduce.data.tokenizer import UNK, Tokenizer

SOURCE = ("a small house stands by the river", "the old man reads a book in the garden")
TARGET = ("ein kleines Haus steht am Fluss", "der alte Mann liest ein Buch im Garten")


def learned(*lines: str) -> Tokenizer:
    return Tokenizer.train(lines, TokenizerConfig(vocab_size=41))


def table_of(*sides: Tokenizer, more: tuple[str, ...] = ()) -> dict[str, int]:
    texts = {piece for side in sides for piece in side.pieces(range(2, side.pad))}
    names = ["</s>", "<unk>", *sorted({*texts, *more}), "<pad>"]
    return {name: number for number, name in enumerate(names)}


@pytest.fixture(scope="module")
def sides() -> tuple[Tokenizer, Tokenizer]:
    return learned(*SOURCE), learned(*TARGET)


@pytest.fixture(scope="module")
def pair(sides: tuple[Tokenizer, Tokenizer]) -> PairTokenizer:
    source, target = (side.to_bytes() for side in sides)
    table = table_of(*sides, more=(">>deu<<",))
    return PairTokenizer.from_files(source=source, target=target, table=table)


def test_each_side_is_cut_by_its_own_model(pair: PairTokenizer, sides: tuple[Tokenizer, Tokenizer]):
    text = "the man"

    cut = [pair.pieces(item.encode(text)) for item in (pair, pair.target)]

    assert cut[0] == sides[0].pieces(sides[0].encode(text))
    assert cut[1] == sides[1].pieces(sides[1].encode(text))
    assert cut[0] != cut[1]


@pytest.mark.parametrize("count", [1, 31, 32, 100])
def test_few_texts_are_encoded_without_threads_and_alike(
    pair: PairTokenizer, monkeypatch: pytest.MonkeyPatch, count: int
):
    texts = [f"the man {number}" for number in range(count)]
    expected = [pair.encode(text) for text in texts]
    threaded = list[bool]()
    encode = SentencePieceProcessor.encode

    def spy(processor: SentencePieceProcessor, *arguments: Any, **options: Any) -> Any:
        threaded.append("num_threads" in options)
        return encode(processor, *arguments, **options)

    monkeypatch.setattr(SentencePieceProcessor, "encode", spy)

    assert pair.encode_all(texts) == expected
    assert threaded == ([True] if count >= 32 else [False] * count)


def test_text_of_the_target_side_comes_back(pair: PairTokenizer):
    assert pair.decode(pair.target.encode("ein  Haus am Fluss")) == "ein  Haus am Fluss"


def test_pieces_of_the_source_side_are_joined_as_well(pair: PairTokenizer):
    assert pair.decode(pair.encode("the small book")) == "the small book"


def test_a_character_without_a_piece_is_unknown(pair: PairTokenizer):
    ids = pair.encode("a ☃")

    assert ids[-1] == UNK
    assert pair.decode(ids) == "a  ⁇ "


def test_eos_and_pad_are_left_out_of_text(pair: PairTokenizer):
    ids = pair.target.encode("ein Haus")

    assert pair.decode([pair.pad, *ids, 0]) == "ein Haus"
    assert pair.pieces([0, UNK, pair.pad]) == ["</s>", "<unk>", "<pad>"]


def test_nothing_is_joined_to_nothing(pair: PairTokenizer):
    assert pair.decode([]) == ""


def test_the_word_for_a_target_language_is_one_piece(pair: PairTokenizer):
    first, *rest = pair.encode(">>deu<< a house")

    assert pair.pieces([first]) == [">>deu<<"]
    assert rest == pair.encode(" a house")


@pytest.mark.parametrize("tag", ["<2de>", "<2deu>", ">>de<<"])
def test_another_spelling_of_the_tag_takes_the_space_after_it(pair: PairTokenizer, tag: str):
    assert pair.encode(f"{tag} a house") == pair.encode(">>deu<<a house")


def test_a_word_that_is_no_language_of_the_table_is_text(pair: PairTokenizer):
    assert len(pair.encode(">>fra<<")) > 1


def test_drawn_pieces_spell_the_same_text(pair: PairTokenizer):
    usual, chance = pair.target.encode("ein altes Haus"), Random(1)

    drawn = [pair.target.sample_subwords(usual, alpha=0.5, rng=chance) for _ in range(7)]

    assert {pair.decode(ids) for ids in drawn} == {"ein altes Haus"}
    assert len({tuple(ids) for ids in drawn}) > 1


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_piece_that_the_table_lacks_is_not_drawn(kind: Literal["unigram", "bpe"]):
    """Tables of real models lack pieces of their SentencePiece models."""
    config = TokenizerConfig(kind=kind, vocab_size=19)
    model = Tokenizer.train(["a dog dogs dodo"] * 3, config)
    data, table = model.to_bytes(), table_of(model)
    for missing in (piece for piece in table if "o" in piece and len(piece) > 1):
        rest = [piece for piece in table if piece != missing]
        tokenizer = PairTokenizer.from_files(
            source=data, target=data, table={piece: number for number, piece in enumerate(rest)}
        )
        ids = [id for id in tokenizer.encode("a dog dodo") if id != UNK]
        rng = Random(1)
        for _ in range(20):
            drawn = tokenizer.sample_subwords(ids, alpha=0.1, rng=rng)
            assert tokenizer.decode(drawn) == tokenizer.decode(ids)


def test_an_id_outside_of_the_vocabulary_is_refused(pair: PairTokenizer):
    with pytest.raises(ValueError, match=rf"^id {pair.vocab_size} is not in the vocabulary"):
        pair.decode([pair.vocab_size])


def test_it_comes_back_from_its_bytes(pair: PairTokenizer):
    again = read_tokenizer(pair.to_bytes())

    assert isinstance(again, PairTokenizer)
    assert again.checksum == pair.checksum
    assert (again.vocab_size, again.pad) == (pair.vocab_size, pair.pad)
    assert again.target.encode("ein Haus") == pair.target.encode("ein Haus")


def test_it_keeps_the_models_byte_for_byte(pair: PairTokenizer, sides: tuple[Tokenizer, Tokenizer]):
    assert list(pair.files().values()) == [side.to_bytes() for side in sides]


def test_a_tokenizer_of_one_model_is_read_as_ever(sides: tuple[Tokenizer, Tokenizer]):
    assert type(read_tokenizer(sides[0].to_bytes())) is Tokenizer


def test_a_tokenizer_of_one_model_is_that_of_its_target_side(sides: tuple[Tokenizer, Tokenizer]):
    assert sides[0].target is sides[0]


@pytest.mark.parametrize("end", [3, 100, -1])
def test_bytes_cut_short_are_refused(pair: PairTokenizer, end: int):
    with pytest.raises(ValueError, match="tokenizer archive is damaged"):
        read_tokenizer(pair.to_bytes()[:end])


def test_a_changed_byte_is_refused(pair: PairTokenizer):
    data = bytearray(pair.to_bytes())
    data[len(data) // 2] ^= 1

    with pytest.raises(ValueError, match="tokenizer archive is damaged"):
        read_tokenizer(bytes(data))


def test_an_archive_without_a_table_is_refused(pair: PairTokenizer):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in pair.files().items():
            archive.writestr(name, data)

    with pytest.raises(ValueError, match="tokenizer archive is damaged"):
        read_tokenizer(packed.getvalue())


def test_a_model_that_is_none_is_refused_by_name(sides: tuple[Tokenizer, Tokenizer]):
    with pytest.raises(ValueError, match=r"^target\.spm is damaged or not a SentencePiece model"):
        PairTokenizer.from_files(source=sides[0].to_bytes(), target=b"none", table=table_of(*sides))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"</s>": 0, "<unk>": 1, "a": 3, "<pad>": 4}, "missing or duplicate ids"),
        ({"</s>": 0, "<unk>": 1, "a": 1, "<pad>": 2}, "missing or duplicate ids"),
        ({"<unk>": 0, "</s>": 1, "a": 2, "<pad>": 3}, "must begin with </s>, <unk>"),
        ({"</s>": 0, "<unk>": 1, "<pad>": 2, "a": 3}, "end with <pad>"),
    ],
)
def test_a_table_that_keeps_no_rule_is_refused(
    sides: tuple[Tokenizer, Tokenizer], table: Mapping[str, int], reason: str
):
    source, target = (side.to_bytes() for side in sides)

    with pytest.raises(ValueError, match=reason):
        PairTokenizer.from_files(source=source, target=target, table=table)
