"""What a proof says: how many sentences are equal, and where the first difference is."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.exports import CONFIG, model_of

from transduce.bundle.bundle import Bundle
from transduce.export.proof import (
    Difference,
    PiecePair,
    Proof,
    compare_pieces,
    missing_packages,
    prove_argos,
    prove_ctranslate2,
    prove_huggingface,
    samples,
)
from transduce.inference.engines.ct2_model import write_ctranslate2


def pairs(*sides: tuple[str, str]) -> list[PiecePair]:
    return [PiecePair(tuple(line.split()), tuple(other.split())) for line, other in sides]


def test_sides_that_say_the_same_agree():
    proof = compare_pieces("huggingface", pairs(("a b", "a b"), ("c", "c")), gap=1.5e-6)

    assert proof.holds
    assert str(proof) == (
        "huggingface: 2 of 2 sentences identical; largest logit difference 1.5e-06"
    )


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("c x", Difference(2, 2, "d", "x")),
        ("c", Difference(2, 2, "d", "")),
        ("c d e", Difference(2, 3, "", "e")),
    ],
)
def test_the_first_difference_is_found(other: str, difference: Difference):
    proof = compare_pieces("argos", pairs(("a b", "a b"), ("c d", other), ("e", "f")))

    assert not proof.holds
    assert (proof.sentences, proof.equal) == (3, 1)
    assert proof.first_difference == difference


def test_a_difference_is_shown():
    proof = compare_pieces("argos", pairs(("a b", "a c")))

    assert str(proof).endswith("sentence 1, position 2: 'b', not 'c'")


def test_a_proof_that_was_not_made_says_what_to_install():
    proof = missing_packages("argos", "json", "no_such_module")

    assert proof is not None
    assert not proof.holds
    assert str(proof) == (
        "argos: not verified: no_such_module is not installed: pip install no_such_module"
    )


def test_what_is_installed_is_not_missing():
    assert missing_packages("argos", "json") is None


def test_without_the_other_program_there_is_no_proof(
    plain: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.export.proof.find_spec", lambda name: None)

    for prove in (prove_huggingface, prove_ctranslate2, prove_argos):
        assert "pip install" in prove(plain, tmp_path, ["a"]).not_made


@pytest.fixture
def written(plain: Bundle, tmp_path: Path) -> Path:
    write_ctranslate2(plain, tmp_path / "ct2")
    return tmp_path / "ct2"


SENTENCES: Sequence[str] = ("the small garden", "two  old houses", "a_b ☃ ball")


def test_ctranslate2_says_what_we_say(plain: Bundle, written: Path):
    proof = prove_ctranslate2(plain, written, SENTENCES)

    assert proof == Proof(format="ctranslate2", sentences=3, equal=3)


def test_another_model_is_found_out(plain: Bundle, tmp_path: Path):
    other = replace(plain, model=type(plain.model)(plain.model.config))
    write_ctranslate2(other, tmp_path / "ct2")

    proof = prove_ctranslate2(plain, tmp_path / "ct2", SENTENCES)

    assert proof.equal < proof.sentences
    assert proof.first_difference is not None


def test_blank_and_overlong_sentences_are_left_out(plain: Bundle, written: Path):
    short = replace(plain, search=replace(plain.search, max_source=11))

    proof = prove_ctranslate2(short, written, ["", "  ", "the garden", "the garden " * 7])

    assert proof.sentences == 1


def test_sentences_longer_than_the_positions_are_left_out(plain: Bundle):
    config = replace(CONFIG, positions="learned", max_positions=12)

    (sample,) = samples(replace(plain, model=model_of(config)), ["the garden", "the garden " * 7])

    assert sample.text == "the garden"
    assert sample.limit <= 12


def test_a_sample_that_is_left_out_altogether_proves_nothing(plain: Bundle, written: Path):
    short = replace(plain, search=replace(plain.search, max_source=11))

    proof = prove_ctranslate2(short, written, ["", "the garden " * 7])

    assert not proof.holds
    assert str(proof).startswith("ctranslate2: not verified: all sentences of the sample are blank")


def test_ctranslate2_reads_a_model_with_everything(foreign: Bundle, tmp_path: Path):
    write_ctranslate2(foreign, tmp_path / "ct2")

    assert prove_ctranslate2(foreign, tmp_path / "ct2", SENTENCES).holds
