"""The demo's corpus: distinct, disjoint, one translation a source, the same for the same seed."""

import re
from pathlib import Path
from random import Random

import pytest

from transduce.demo.corpus import write_corpus
from transduce.demo.lexicon import ADJECTIVES, NOUNS
from transduce.demo.sentences import KINDS, SCENES, pronoun, sentence

NAMES = ("train", "validation", "test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "not" / "there"
    write_corpus(folder, pairs=211, held_out=53, seed=7)
    return folder


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def test_each_set_has_its_size_on_both_sides(folder: Path):
    sizes = [len(lines(folder, f"{name}.{side}")) for name in NAMES for side in ("en", "de")]

    assert sizes == [211, 211, 53, 53, 53, 53]


def test_no_source_comes_twice_in_any_set(folder: Path):
    sources = [source for name in NAMES for source in lines(folder, f"{name}.en")]

    assert len(set(sources)) == len(sources)


@pytest.mark.parametrize("name", ["validation", "test"])
def test_training_has_no_target_of_what_is_held_out(folder: Path, name: str):
    assert set(lines(folder, "train.de")).isdisjoint(lines(folder, f"{name}.de"))


def test_the_same_seed_writes_the_same_files(folder: Path, tmp_path: Path):
    write_corpus(tmp_path, pairs=211, held_out=53, seed=7)

    for name in NAMES:
        for side in ("en", "de"):
            assert lines(tmp_path, f"{name}.{side}") == lines(folder, f"{name}.{side}")


def test_another_seed_writes_other_files(folder: Path, tmp_path: Path):
    write_corpus(tmp_path, pairs=1, held_out=53, seed=8)

    assert lines(tmp_path, "test.en") != lines(folder, "test.en")


@pytest.mark.parametrize("setting", ["pairs", "held_out"])
def test_a_corpus_of_nothing_is_refused(tmp_path: Path, setting: str):
    with pytest.raises(ValueError, match=f"{setting} must be at least 1, not 0"):
        write_corpus(tmp_path, **{setting: 0})


def test_a_source_has_one_target():
    rng, translations = Random(11), {}

    for source, target in (sentence(rng) for _ in range(499)):
        assert translations.setdefault(source, target) == target


def test_sentences_have_4_to_16_words_and_a_mark_at_the_end():
    rng = Random(13)

    for pair in (sentence(rng) for _ in range(397)):
        assert 4 <= len(pair.source.split()) <= 16
        assert all(re.fullmatch(r"[A-ZÄÖÜ][a-zA-ZäöüÄÖÜß,' ]*[.?]", side) for side in pair)
        assert "  " not in pair.source + pair.target


def test_the_shares_of_the_kinds_are_hundredths():
    assert sum(kind.share for kind in KINDS) == 100


def test_a_pronoun_sentence_agrees_with_the_noun_that_its_reason_can_be_said_of():
    """Read back from the German alone: the pronoun's gender picks out the noun."""
    rng = Random(17)
    genders = {noun.german: noun.gender for noun in NOUNS}
    english = {noun.german: noun.english for noun in NOUNS}
    reasons = {each.german: each.english for each in ADJECTIVES}

    for pair in (pronoun(rng) for _ in range(307)):
        main, because = pair.target.split(", weil ")
        it, _, mood = because.split()[:3]
        doer, thing = [word for word in re.findall(r"\w+", main) if word in genders]
        assert genders[doer] != genders[thing]
        meant = {"er": "m", "sie": "f", "es": "n"}[it] == genders[thing]
        could = {m for scene in SCENES for m in scene.things.get(english[thing], "").split()}
        assert meant == (reasons[mood] in could), pair


def test_no_reason_can_be_said_of_both_nouns():
    for scene in SCENES:
        for reasons in scene.things.values():
            assert set(scene.moods.split()).isdisjoint(reasons.split())
