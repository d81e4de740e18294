"""The tokenizer gives back what it was given, and its three special ids are no text."""

import io
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transduce.data.config import TokenizerConfig
from transduce.data.corpus import tidy
from transduce.data.tokenizer import EOS, UNK, Tokenizer

ALPHABET = "abcdeé½… </sun>k!日本²"
LINES = [f"{ALPHABET} abc{'ab' * (i % 7)} de{'d' * (i % 5)}" for i in range(41)]


@pytest.fixture(scope="module", params=["bpe", "unigram", "char"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return Tokenizer.train(LINES, TokenizerConfig(kind=request.param, vocab_size=37))


@settings(deadline=None)
@given(text=st.text(alphabet=ALPHABET))
def test_tidy_text_comes_back(tokenizer: Tokenizer, text: str):
    text = tidy(text)

    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", ["", " ab  de ", "½ … ²", "日本", "a</s>b", "<unk>", "</s>"])
def test_difficult_text_comes_back(tokenizer: Tokenizer, text: str):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(deadline=None)
@given(text=st.text(alphabet=ALPHABET))
def test_text_never_becomes_a_special_id(tokenizer: Tokenizer, text: str):
    ids = tokenizer.encode(f"</s>{text}<unk>")

    assert not {EOS, UNK, tokenizer.pad} & set(ids)


def test_unknown_character_is_unk(tokenizer: Tokenizer):
    assert UNK in tokenizer.encode("aЖb")


def test_pad_is_the_last_id_and_outside_the_model(tokenizer: Tokenizer):
    assert tokenizer.pad == tokenizer.vocab_size - 1
    assert tokenizer.pieces([EOS, UNK, tokenizer.pad]) == ["</s>", "<unk>", "<pad>"]


def test_decoding_leaves_out_eos_and_pad(tokenizer: Tokenizer):
    ids = tokenizer.encode("abc de")

    assert tokenizer.decode([tokenizer.pad, *ids, EOS, tokenizer.pad]) == "abc de"


def test_pieces_join_to_the_text(tokenizer: Tokenizer):
    pieces = tokenizer.pieces(tokenizer.encode("abc de"))

    assert "".join(pieces).replace("▁", " ") == " abc de"


@pytest.mark.parametrize("wrong", [-1, 997])
def test_foreign_id_is_refused(tokenizer: Tokenizer, wrong: int):
    with pytest.raises(ValueError, match=f"id {wrong} is not in the vocabulary"):
        tokenizer.decode([wrong])
    with pytest.raises(ValueError, match=f"id {wrong} is not in the vocabulary"):
        tokenizer.pieces([wrong])


def test_first_id_behind_pad_is_refused(tokenizer: Tokenizer):
    with pytest.raises(ValueError, match="is not in the vocabulary"):
        tokenizer.pieces([tokenizer.pad + 1])


def test_many_texts_are_encoded_as_each(tokenizer: Tokenizer):
    texts = ["abc", "", "de de", "日本"]

    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


def test_saved_is_loaded(tokenizer: Tokenizer):
    loaded = Tokenizer.from_bytes(tokenizer.to_bytes())

    assert loaded.to_bytes() == tokenizer.to_bytes()
    assert loaded.checksum == tokenizer.checksum
    assert loaded.encode(LINES[3]) == tokenizer.encode(LINES[3])


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_training_again_gives_the_same_bytes(kind: str, monkeypatch: pytest.MonkeyPatch):
    config = TokenizerConfig(kind=kind, vocab_size=31)

    first, again = (Tokenizer.train(iter(LINES * 5), config) for _ in range(2))

    assert first.to_bytes() == again.to_bytes()


def test_a_sample_of_many_lines_is_the_same_in_every_process():
    """Corpora above half a million pairs; SentencePiece's own sample is another in each."""
    program = """
from random import Random
import transduce.data.tokenizer as module
from transduce.data.config import TokenizerConfig
draw, config = Random(1).choice, TokenizerConfig(vocab_size=200)
lines = ["".join(draw("abcdefgh ") for _ in range(30)) for _ in range(900)]
for module._SAMPLE in (300, 900):
    print(module.Tokenizer.train(iter(lines), config).checksum)
"""
    first, again = (
        subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
        for _ in range(2)
    )

    assert first == again
    assert len({*first.split()}) == 2


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_small_corpus_has_the_largest_vocabulary_it_can(kind: str):
    tokenizer = Tokenizer.train(["ab ab", "ab"], TokenizerConfig(kind=kind, vocab_size=8000))

    assert 6 <= tokenizer.vocab_size < 12  # three ids, a, b, ▁ and what they join to
    assert tokenizer.decode(tokenizer.encode("ab ba")) == "ab ba"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_vocabulary_too_small_for_the_characters_says_how_many_are_needed(kind: str):
    with pytest.raises(ValueError, match=r"vocab_size 5 .*at least (\d+)") as caught:
        Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=5))

    needed = int(str(caught.value).split("at least ")[1].split(",")[0])
    result = Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=needed))
    assert result.vocab_size == needed


def test_every_character_is_a_piece_and_the_rarest_are_left_out():
    full, small = (
        Tokenizer.train([*LINES, "Ж"], TokenizerConfig(kind="char", vocab_size=size))
        for size in (8000, 9)
    )

    assert full.vocab_size == len(set("".join(LINES)) - {" "}) + len("▁Ж") + 3
    assert full.pieces(full.encode("abc Ж")) == [*"▁abc▁Ж"]
    assert small.vocab_size == 9
    assert UNK in small.encode("Ж")


@pytest.mark.parametrize("lines", [[], [""], ["", ""]])
def test_no_text_is_refused(lines: list[str]):
    with pytest.raises(ValueError, match=r"no text to train .* data\.train"):
        Tokenizer.train(lines, TokenizerConfig())


@pytest.mark.parametrize("line", ["Z" * 70_001, "Z " * 40_000, "Z▅Z", "Z\0Z\tZ"])
def test_no_line_is_skipped(line: str):
    tokenizer = Tokenizer.train([*LINES, line], TokenizerConfig(vocab_size=43))

    assert UNK not in tokenizer.encode("ZZ Z")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_and_loading_are_silent(kind: str, capfd: pytest.CaptureFixture[str]):
    Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=8000))
    with pytest.raises(ValueError, match="too small"):
        Tokenizer.train(LINES, TokenizerConfig(kind=kind, vocab_size=5))
    with pytest.raises(ValueError, match="damaged"):
        Tokenizer.from_bytes(b"not a model")

    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("piece", ["</s>", "<unk>"])
def test_characters_of_a_control_piece_are_learned_from_text(piece: str):
    tokenizer = Tokenizer.train([f"a{piece}b"], TokenizerConfig())

    assert UNK not in tokenizer.encode(piece)


def test_empty_model_is_refused(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="the tokenizer model is empty"):
        Tokenizer.from_bytes(b"")

    assert capfd.readouterr() == ("", "")


def test_failure_while_reading_lines_stays_what_it_was():
    def broken() -> Iterator[str]:
        yield "one"
        raise ValueError("a.de, line 2: not UTF-8")

    with pytest.raises(ValueError, match=r"^a\.de, line 2: not UTF-8$"):
        Tokenizer.train(broken(), TokenizerConfig())


def test_model_cut_anywhere_is_refused(tokenizer: Tokenizer):
    data = tokenizer.to_bytes()
    rules = data.rindex(b"identity")  # what follows them holds nothing that is used

    for length in range(rules):
        with pytest.raises(ValueError, match="the tokenizer model"):
            Tokenizer.from_bytes(data[:length])


def foreign(*, eos_id: int, unk_id: int, bos_id: int) -> bytes:
    """A model as SentencePiece makes it when it is asked for nothing else."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        vocab_size=31,
        minloglevel=2,
        eos_id=eos_id,
        unk_id=unk_id,
        bos_id=bos_id,
    )
    return model.getvalue()


def test_model_with_other_ids_is_refused():
    data = foreign(eos_id=2, unk_id=0, bos_id=1)

    with pytest.raises(ValueError, match=r"ids \(EOS, UNK, BOS, PAD\) \(2, 0, 1, -1\)"):
        Tokenizer.from_bytes(data)


def test_model_that_rewrites_its_text_is_refused():
    data = foreign(eos_id=0, unk_id=1, bos_id=-1)

    with pytest.raises(ValueError, match="normalises its text"):
        Tokenizer.from_bytes(data)


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def spelling(request: pytest.FixtureRequest) -> Tokenizer:
    """A tokenizer that spells unknown characters in bytes."""
    config = TokenizerConfig(kind=request.param, vocab_size=293, byte_fallback=True)
    return Tokenizer.train(LINES, config)


@settings(deadline=None)
@given(text=st.text())
def test_with_bytes_all_tidy_text_comes_back(spelling: Tokenizer, text: str):
    text = tidy(text)

    assert spelling.decode(spelling.encode(text)) == text


@pytest.mark.parametrize("text", ["Жук", "👩‍👩‍👧 ab", "\U0010ffff", "<0x41>", "a</s><0xFF>b"])
def test_with_bytes_nothing_is_unknown_and_nothing_is_a_special_id(spelling: Tokenizer, text: str):
    ids = spelling.encode(text)

    assert not {EOS, UNK, spelling.pad} & set(ids)
    assert spelling.decode(ids) == text


def test_the_bytes_stand_behind_unk_in_their_order(spelling: Tokenizer):
    assert spelling.pieces([EOS, UNK, 2, 257]) == ["</s>", "<unk>", "<0x00>", "<0xFF>"]
    assert spelling.pieces([spelling.pad]) == ["<pad>"]
    assert spelling.encode("Ж")[1:] == [2 + byte for byte in "Ж".encode()]


def test_known_characters_are_cut_as_without_bytes():
    plain, spelling = (
        Tokenizer.train(LINES, TokenizerConfig(vocab_size=size, byte_fallback=size > 256))
        for size in (37, 37 + 256)
    )

    for line in LINES[:7]:
        assert spelling.pieces(spelling.encode(line)) == plain.pieces(plain.encode(line))


@settings(deadline=None)
@given(data=st.data())
def test_any_ids_a_model_may_say_are_decoded_to_one_line(spelling: Tokenizer, data: st.DataObject):
    any_id = st.integers(0, spelling.vocab_size - 1) | st.integers(2, 257)

    text = spelling.decode(data.draw(st.lists(any_id, max_size=13)))

    text.encode()
    assert not any(end in text for end in "\n\r\0\x85\u2028")


def test_bytes_that_spell_no_character_are_shown_as_such(spelling: Tokenizer):
    result = [2 + 0xF0, 2 + 0x9F, *spelling.encode("ab")[1:], 2 + ord("\n")]

    text = spelling.decode(result)

    assert text.startswith("\ufffd\ufffd")
    assert text.endswith(" ")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_characters_of_a_byte_piece_are_learned_from_text(kind: str):
    lines = [*LINES, *["<0x41> <0x4F>"] * 5]
    tokenizer = Tokenizer.train(
        lines, TokenizerConfig(kind=kind, vocab_size=350, byte_fallback=True)
    )

    ids = tokenizer.encode("<0x41>")

    assert not set(range(2, 258)) & set(ids)
    assert tokenizer.decode(ids) == "<0x41>"


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_bytes_and_characters_that_do_not_fit_say_how_many_pieces_are_needed(kind: str):
    config = TokenizerConfig(kind=kind, vocab_size=261, byte_fallback=True)

    with pytest.raises(ValueError, match=r"vocab_size 261 .*at least (\d+)") as caught:
        Tokenizer.train(LINES, config)

    needed = int(str(caught.value).split("at least ")[1].split(",")[0])
    result = Tokenizer.train(LINES, replace(config, vocab_size=needed))
    assert result.vocab_size == needed


def test_a_tokenizer_with_bytes_is_loaded_as_saved(spelling: Tokenizer):
    loaded = Tokenizer.from_bytes(spelling.to_bytes())

    assert loaded.encode("👩 ab") == spelling.encode("👩 ab")


def test_a_small_corpus_has_the_bytes_beside_its_own_pieces():
    config = TokenizerConfig(vocab_size=8000, byte_fallback=True)

    assert 262 <= Tokenizer.train(["ab ab", "ab"], config).vocab_size < 268


def test_the_code_chooses_the_script_of_a_target_language():
    tags = ["<2srp_Cyrl>", "<2srp_Latn>", ">>cmn_Hant<<", "<2zho>"]
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=40), tags=tags)
    codes = ("srp_Latn", "sr-Latn", "sr-Cyrl", "srp", "zh-Hant", "cmn-Hant", "zh", "zh-TW")

    chosen = [tokenizer.find_tag(code) for code in codes]

    assert chosen == [*(tags[i] for i in (1, 1, 0, 0, 2, 2, 3)), ""]
