"""Settings out of range are refused by name."""

from pathlib import Path

import pytest

from transduce.data.config import BatchConfig, CorpusConfig, Languages, ScoreConfig, TokenizerConfig


@pytest.mark.parametrize("field", ["tokens", "micro_tokens"])
def test_batch_setting_out_of_range_is_named(field: str):
    with pytest.raises(ValueError, match=rf"^batch\.{field} must be 1 or more, not 0"):
        BatchConfig(**{field: 0})


@pytest.mark.parametrize("code", [" ", "de/AT", "de\\AT", "de\n"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_language_needs_a_code_that_file_names_may_have(side: str, code: str):
    with pytest.raises(ValueError, match=rf"^languages\.{side} must be a code .* not '"):
        Languages(**{side: code})


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("train", ("a", "b", "c"), "two files"),
        ("validation", ("a", "b", "c"), "two files"),
        ("test", ("a", "b", "c"), "two files"),
        ("held_out", -1, "0 or more, not -1"),
        ("max_ratio", 0.5, "1 or more, not 0.5"),
        ("max_ratio", float("nan"), "1 or more, not nan"),
        ("max_pieces", 0, "1 or more, not 0"),
    ],
)
def test_corpus_setting_out_of_range_is_named(field: str, value: object, allowed: str):
    with pytest.raises(ValueError, match=rf"^data\.{field} must be {allowed}"):
        CorpusConfig(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [("vocab_size", 3), ("character_coverage", 0.9), ("character_coverage", 1.1)],
)
def test_tokenizer_setting_out_of_range_is_named(field: str, value: object):
    with pytest.raises(ValueError, match=rf"^tokenizer\.{field} must be .*not {value}"):
        TokenizerConfig(**{field: value})


def test_bytes_need_room_in_the_vocabulary():
    assert TokenizerConfig(byte_fallback=True, vocab_size=260).vocab_size == 260

    with pytest.raises(
        ValueError, match=r"^tokenizer\.byte_fallback needs a tokenizer\.vocab_size of 260 .* 259$"
    ):
        TokenizerConfig(byte_fallback=True, vocab_size=259)


def test_foreign_bleu_tokeniser_is_refused_with_the_choice():
    with pytest.raises(ValueError, match=r"score\.bleu_tokenize .*'13a', .*not 'moses'"):
        ScoreConfig(bleu_tokenize="moses")


def test_relative_names_are_looked_up_in_the_folder():
    config = CorpusConfig(folder="corpora", train=("a.en", "/b/a.de"))

    assert config.paths(config.train) == (Path("corpora/a.en"), Path("/b/a.de"))
