"""The demo's corpus: distinct, disjoint, one translation a source, the same for the same seed."""

import hashlib
import re
from pathlib import Path
from random import Random

import pytest

from transduce.demo.corpus import pronoun_in, read_cases, write_corpus
from transduce.demo.lexicon import NOUNS
from transduce.demo.sentences import KINDS, SCENES, sentence

NAMES = ("train", "validation", "test")


IT = re.compile(
    r"(?:The|This|My|Your|His|Her|Our|Their) (?P<doer>.+?) (?:did|does|could|can|will|won|is)"
    r".* (?P<thing>\w+) because it (?:is|was) (?:too|very) (?P<reason>\w+)\."
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "not" / "there"


@pytest.fixture(scope="module", autouse=True)
def open_reference(folder: Path) -> int:
    return write_corpus(folder, pairs=401, held_out=53, cases=41, seed=7)


def its(folder: Path, name: str) -> set[tuple[str, str, str]]:
    """Both nouns and the adjective of the sentences with "it", read from the English."""
    result = (IT.fullmatch(line) for line in lines(folder, f"{name}.en"))
    return {(it["doer"].split()[-1], it["thing"], it["reason"]) for it in result if it}


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").split("\n")[:-1]


def test_each_set_has_its_size_on_both_sides(folder: Path):
    sizes = [len(lines(folder, f"{name}.{side}")) for name in NAMES for side in ("en", "de")]

    assert sizes == [401, 401, 53, 53, 94, 94]


def test_no_source_comes_twice_in_any_set(folder: Path):
    sources = [source for name in NAMES for source in lines(folder, f"{name}.en")]

    assert len(set(sources)) == len(sources)


@pytest.mark.parametrize("name", ["validation", "test"])
def test_training_has_no_target_of_what_is_held_out(folder: Path, name: str):
    assert set(lines(folder, "train.de")).isdisjoint(lines(folder, f"{name}.de"))


def test_the_same_seed_writes_the_same_files(folder: Path, tmp_path: Path):
    write_corpus(tmp_path, pairs=401, held_out=53, cases=41, seed=7)

    names = [*(f"{name}.{side}" for name in NAMES for side in ("en", "de")), "pronouns.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for name in names:
        assert lines(tmp_path, name) == lines(folder, name)


def test_the_corpus_of_a_seed_never_changes(folder: Path):
    """Records of the demo, and its models, are of the sentences that these rules draw."""
    corpus = b"".join(file.read_bytes() for file in sorted(folder.iterdir()))

    assert hashlib.sha256(corpus).hexdigest() == (
        "ac139ac6efe4d26298739f1d9b8b374c9130c2801961f32496fffbd93ff8f739"
    )


def test_another_seed_writes_other_files(folder: Path, tmp_path: Path):
    write_corpus(tmp_path, pairs=1, held_out=53, cases=2, seed=8)

    assert lines(tmp_path, "test.en") != lines(folder, "test.en")


def test_a_source_has_one_target():
    rng, translations = Random(11), {}

    for source, target in (sentence(rng) for _ in range(299)):
        assert translations.setdefault(source, target) == target


def test_sentences_have_4_to_16_words_and_a_mark_at_the_end():
    rng = Random(13)

    for pair in (sentence(rng) for _ in range(199)):
        assert 4 <= len(pair.source.split()) <= 16
        assert all(re.fullmatch(r"[A-ZÄÖÜ][a-zA-ZäöüÄÖÜß,' ]*[.?]", side) for side in pair)
        assert "  " not in pair.source + pair.target


def test_the_shares_of_the_kinds_are_hundredths():
    assert sum(KINDS.values()) == 100


def test_a_fifth_of_training_has_it(folder: Path):
    share = sum(" because it " in line for line in lines(folder, "train.en")) / 401

    assert 0.14 < share < 0.26


def test_discarded_sentences_are_counted(open_reference: int):
    assert open_reference > 0


def test_no_two_sets_share_both_nouns_and_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    few = [scene for scene in SCENES if scene.verb.english.startswith(("carry", "pull"))]
    monkeypatch.setattr("transduce.demo.sentences.SCENES", few)
    write_corpus(tmp_path, pairs=401, held_out=53, cases=41, seed=7)

    train, validation, test = (its(tmp_path, name) for name in NAMES)

    assert len(train) > 50
    assert len(test) > 30
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)


def test_the_cases_are_the_sentences_with_it_and_agree_with_the_references(folder: Path):
    sources, targets = lines(folder, "test.en"), lines(folder, "test.de")

    cases = read_cases(folder)

    with_it = [line for line, source in enumerate(sources) if IT.fullmatch(source)]
    assert [case.line for case in cases] == with_it
    for case in cases:
        assert case.pronoun == pronoun_in(targets[case.line])
        assert case.pronoun in (case.first, case.second)
        assert case.first != case.second


def test_half_of_the_cases_are_unseen_and_half_are_about_the_first_noun(folder: Path):
    cases = read_cases(folder)

    assert sum(case.unseen for case in cases) == 21
    assert sum(case.pronoun == case.first for case in cases) in (20, 21)


def test_the_majority_is_the_commonest_pronoun_of_trainings_it(folder: Path):
    pairs = zip(lines(folder, "train.en"), lines(folder, "train.de"), strict=True)
    result = [pronoun_in(target) for source, target in pairs if IT.fullmatch(source)]

    (majority,) = {case.majority for case in read_cases(folder)}

    assert result.count(majority) == max(map(result.count, ("er", "sie", "es")))


def test_training_and_validation_never_hold_an_unseen_noun_and_its_reason(folder: Path):
    plurals = {noun.english: noun.english_plural for noun in NOUNS}
    elsewhere = [
        set(re.findall(r"\w+", line.lower()))
        for name in ("train", "validation")
        for line in lines(folder, f"{name}.en")
    ]
    test = lines(folder, "test.en")

    for case in read_cases(folder):
        if case.unseen:
            result = IT.fullmatch(test[case.line])
            assert result
            of_first = case.pronoun == case.first
            noun = result["doer"].split()[-1] if of_first else result["thing"]
            for form in (noun, plurals[noun]):
                assert not any({form, result["reason"]} <= words for words in elsewhere)
