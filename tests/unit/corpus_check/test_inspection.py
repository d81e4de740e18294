"""Each kind of planted fault is found, counted and shown; a clean corpus has none."""

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from unicodedata import category

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sentences import sentences

from transduce.config import load_recipe
from transduce.corpus_check.check import probe_vocabulary
from transduce.corpus_check.fingerprint import fold, profile_corpus
from transduce.corpus_check.inspection import (
    Finding,
    FindingKind,
    Inspection,
    PairExample,
    inspect_corpus,
)
from transduce.corpus_check.language import Script, SideClassifier, mismatched_language, words_of
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.tokenizer import Tokenizer

CLEAN = sentences(500)
TRAIN, HELD = CLEAN[:433], CLEAN[433:]


def numbered(pairs: Iterable[Pair]) -> list[NumberedPair]:
    return [NumberedPair(line, pair) for line, pair in enumerate(pairs, start=1)]


def findings(
    train: Sequence[Pair],
    *settings: str,
    validation: Sequence[Pair] = (),
    test: Sequence[Pair] = (),
) -> tuple[Finding, ...]:
    codes = ["languages.source=en", "languages.target=de"]
    recipe = load_recipe("tiny", [*codes, *settings])
    result = inspect_corpus(recipe, lambda: numbered(train), validation=validation, test=test)
    return result.report.findings


def of_kind(all_findings: Iterable[Finding], kind: FindingKind, part: str = "training") -> Finding:
    return next(item for item in all_findings if (item.kind, item.part) == (kind, part))


def exchanged(pairs: Iterable[Pair]) -> list[Pair]:
    return [Pair(pair.target, pair.source) for pair in pairs]


@pytest.mark.parametrize(
    ("words", "pairs", "few"),
    [
        ("a line of several words", 9_999, True),
        ("a line of several words", 10_000, False),
        ("昨日は学校へ行きました", 1_000, True),
        ("word", 999, True),
        ("word", 1_000, False),
    ],
)
def test_too_few_pairs_are_said_with_the_remedy(words: str, pairs: int, few: bool):
    train = numbered(Pair(f"{words} {line}", f"{words} {line}!") for line in range(pairs))

    report = inspect_corpus(load_recipe("tiny"), lambda: train).report

    assert report.size_warning.startswith(f"WARNING: {pairs:,} training pairs are few") == few
    assert ("train --from MODEL" in report.size_warning) == few
    assert (report.size_warning in str(report).splitlines()) == few


def test_a_clean_corpus_has_no_finding():
    assert findings(TRAIN, validation=HELD[:31], test=HELD[31:]) == ()


def test_an_empty_corpus_has_none_either():
    assert findings([]) == ()


def test_pairs_with_their_sides_swapped_are_found():
    train = [*TRAIN[:50], *exchanged(TRAIN[50:73]), *TRAIN[73:]]

    (result,) = findings(train)

    assert (result.kind, result.count, result.of, result.severe) == ("swapped", 23, 433, False)
    assert [example.line for example in result.examples] == [51, 52, 53]
    assert result.examples[0].source == TRAIN[50].target


def test_a_validation_set_the_other_way_round_is_found_loudly():
    result = of_kind(findings(TRAIN, validation=exchanged(HELD)), "swapped", "validation")

    assert result.count > 60
    assert result.severe
    assert "exchange the two files of data.validation" in str(result)


def test_exchanged_files_are_known_by_their_languages():
    (result,) = findings(exchanged(TRAIN))

    assert (result.kind, result.count, result.severe) == ("language", 433, True)
    assert "the source looks like de, not en and the target looks like en, not de" in str(result)
    assert "exchange the two files" in result.advice


def test_two_other_languages_are_not_called_exchanged():
    (result,) = findings(TRAIN, "languages.source=fr", "languages.target=es")

    assert (result.kind, result.count) == ("language", 433)
    assert "correct languages.* or the files" in result.advice


def test_languages_nobody_knows_are_believed():
    unknown = ("languages.source=x", "languages.target=y")

    assert findings(exchanged(TRAIN), *unknown) == ()


def test_a_handful_of_pairs_is_too_few_to_tell_a_language_by():
    assert findings(exchanged(TRAIN[:49])) == ()


def test_lengths_that_tell_nothing_shift_nothing():
    draw = random.Random(5)
    train = [Pair("a" * draw.randint(20, 40), "b" * draw.randint(20, 40)) for _ in range(3000)]

    assert not [finding for finding in findings(train) if finding.kind == "shifted"]


def test_a_missing_line_is_seen_by_the_lengths_that_follow():
    sources, targets = zip(*TRAIN, strict=True)
    train = [*TRAIN[:200], *map(Pair, sources[200:-1], targets[201:])]

    result = of_kind(findings(train), "shifted")

    assert result.examples[0].line == 201
    assert result.severe


def test_copies_are_found():
    train = [*TRAIN, *(Pair(pair.source, f"{pair.source} ") for pair in HELD[:5])]

    (result,) = findings(train)

    assert (result.kind, result.count, result.examples[0].line) == ("copy", 5, 434)


def test_duplicates_are_counted_without_the_first():
    (result,) = findings([*TRAIN, TRAIN[3], TRAIN[3], TRAIN[8]])

    assert (result.kind, result.count, result.severe) == ("duplicate", 3, False)
    assert [example.line for example in result.examples] == [434, 435, 436]


def test_a_swapped_pair_is_a_duplicate_of_itself_the_right_way_round():
    result = findings([*TRAIN, *exchanged(TRAIN[3:4])])

    assert [(item.kind, item.count) for item in result] == [("swapped", 1), ("duplicate", 1)]


def test_a_source_with_several_targets_is_no_duplicate():
    other = Pair(TRAIN[3].source, HELD[0].target)

    (result,) = findings([*TRAIN, other])

    assert (result.kind, result.count, result.examples[0].line) == ("several targets", 1, 4)


def test_leaked_pairs_are_found_whatever_their_case_and_punctuation():
    leaked = Pair(TRAIN[7].source.upper(), f"  {TRAIN[7].target} !")

    (result,) = findings(TRAIN, test=[*HELD, leaked])

    assert (result.kind, result.part, result.count) == ("leaked pair", "test", 1)
    assert result.examples == (PairExample(len(HELD) + 1, *leaked),)


def test_leaked_sources_are_told_from_leaked_pairs():
    leaked = Pair(TRAIN[7].source, HELD[0].target)

    (result,) = findings(TRAIN, validation=[*HELD, leaked])

    assert (result.kind, result.part, result.count) == ("leaked source", "validation", 1)


def test_marks_of_a_script_are_no_punctuation():
    """Hindi vowel signs are no letters to Python, and yet they tell words apart."""
    train = [*TRAIN, Pair("कि", "dass")]

    result = findings(train, validation=[Pair("का", "das")])

    assert not [item for item in result if item.kind.startswith("leaked")]


def test_odd_lengths_are_those_far_from_the_corpus_own():
    train = [*TRAIN, Pair("Yes.", TRAIN[0].target * 2), Pair(TRAIN[1].source * 3, "@@")]

    (result,) = findings(train)

    assert (result.kind, result.count) == ("length ratio", 2)


def test_a_ratio_that_is_usual_is_not_odd():
    train = [Pair(f"{pair.source} {pair.source}", pair.target) for pair in TRAIN]

    assert findings(train, validation=HELD) == ()


def test_what_training_drops_for_its_length_is_odd_too():
    strict = "data.max_ratio=1.2"

    assert of_kind(findings(TRAIN, strict), "length ratio").count > 3


@pytest.mark.parametrize("pair", [Pair("", "Ein Hund. " * 9), Pair("A dog.", " \t"), Pair("", "")])
def test_an_empty_side_is_that_and_nothing_else(pair: Pair):
    (result,) = findings([*TRAIN, pair])

    assert (result.kind, result.count, result.examples[0].line) == ("empty", 1, 434)


def test_nothing_leaks_from_an_empty_line():
    result = findings([*TRAIN, Pair("", "")], test=[*HELD, Pair("", "")])

    assert [(item.part, item.kind) for item in result] == [("training", "empty"), ("test", "empty")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("control character", "Ein\x07 Hund."),
        ("control character", "Ein\u2028Hund."),
        ("mojibake", "Ein schÃ¶ner Hund."),
        ("mojibake", "Er sagte: â€žNein.â€œ"),
        ("mojibake", "Ein sch\ufffdner Hund."),
        ("not UTF-8", "Ein sch\udcf6ner Hund."),
        ("script", "Собака видит дом."),
    ],
)
def test_damaged_text_is_found_by_kind(kind: FindingKind, text: str):
    result = findings([*TRAIN, Pair("A dog.", text)])

    assert [(item.kind, item.count) for item in result] == [(kind, 1)]
    assert result[0].examples[0].line == 434


@pytest.mark.parametrize(
    "text", ["Ärger über Öl, 5 € für Ångström.", "São João não é Ä.", "ÇA VA À NOËL – «OUI»"]
)
def test_letters_with_accents_are_no_damage(text: str):
    assert not findings([*TRAIN, Pair("An annoyance.", text)])


def test_a_source_in_a_script_of_its_own_is_as_it_should_be():
    train = [Pair(f"{pair.source} собака видит дом", pair.target) for pair in TRAIN]

    assert Script([f"собака видит дом, {n}" for n in range(9)]).name == "Cyrillic"
    assert not [
        finding for finding in findings(train, "languages.source=mk") if finding.kind == "script"
    ]


def test_a_swapped_pair_is_not_also_in_a_wrong_script():
    train = [Pair(pair.source, "собака видит дом и " * (1 + n % 3)) for n, pair in enumerate(TRAIN)]

    result = findings([*train[9:], *exchanged(train[:9])], "languages.target=ru")

    assert of_kind(result, "swapped").count == 9
    assert not [item for item in result if item.kind == "script"]


def test_a_wrong_script_is_a_wrong_language():
    words = words_of("собака видит дом")

    script = Script(["собака видит дом"])

    assert mismatched_language("en", "de", words=Counter(words), script=script) == "Cyrillic"
    assert mismatched_language("ru", "de", words=Counter(words), script=script) == ""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("en", "He was not at home and I do not know what it is for."),
        ("de", "Er war nicht zu Hause und ich weiß nicht, ob das eine gute Sache ist."),
        ("fr", "Il est dans la maison et je ne sais pas ce que vous faites avec les enfants."),
        ("es", "No está en la casa y no lo sé, pero el niño está con los otros."),
        ("it", "Non è in casa e non so che cosa sono gli altri per il bambino."),
        ("nl", "Hij is niet thuis en ik weet niet wat het is, maar dat is van mij."),
        ("pt", "Ele não está em casa e eu não sei o que os outros fazem com uma coisa."),
        ("sv", "Han är inte hemma och jag vet inte vad det är som de har."),
        ("pl", "Nie ma go w domu i nie wiem, co to jest, ale on się na to zgodził."),
        ("cs", "Není doma a nevím, co to je, ale já jsem se na to ptal, že ano."),
        ("tr", "Evde değil ve ben bunun ne için bir şey olduğunu bilmiyorum ama çok iyi."),
    ],
)
def test_a_language_is_known_by_its_common_words(code: str, text: str):
    words, script = Counter(words_of(text)), Script([text])

    assert mismatched_language(code, "x", words=words, script=script) == ""
    assert (
        mismatched_language("de" if code == "en" else "en", "x", words=words, script=script) == code
    )


def test_of_two_languages_the_other_side_s_is_the_likelier():
    words = Counter({"het": 5, "een": 5, "van": 5, "der": 4, "und": 4})

    script = Script(["het een van der und"])

    assert mismatched_language("en", "x", words=words, script=script) == "nl"
    assert mismatched_language("en", "de", words=words, script=script) == "de"


def test_one_word_alone_is_no_evidence():
    """English "die" is a German article."""
    sides = SideClassifier([Pair("the", "die")] * 500)

    assert not sides.swapped(Pair("die", "the"))
    assert sides.swapped(Pair("die die", "the the"))


def test_a_word_of_both_sides_says_nothing_about_either():
    names = [Pair(f"Tom {n % 7}", f"Tom {n % 5}") for n in range(70)]

    assert not SideClassifier(names).swapped(Pair("Tom Tom Tom Tom", "Tom Tom Tom Tom"))


def test_a_side_of_more_words_does_not_own_the_words_of_both():
    sides = SideClassifier([Pair("x tom", "a b c d e tom tom tom")] * 9)

    assert not sides.swapped(Pair("tom tom tom tom tom", "x x"))


def test_the_usual_is_learned_from_all_of_a_long_corpus(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("transduce.corpus_check.fingerprint._SAMPLE", 11)
    late = [Pair("late", "spät") if line > 200 else Pair("early", "früh") for line in range(400)]

    source, target = profile_corpus(numbered(late)).sides.words

    assert source["late"] == pytest.approx(source["early"], abs=1)
    assert 11 <= target.total() <= 22


def test_a_corpus_of_one_length_is_not_shifted():
    assert not [
        finding for finding in findings([Pair("a b", "c d")] * 70) if finding.kind == "shifted"
    ]


def test_marks_are_of_the_pairs_they_are_about():
    recipe = load_recipe("tiny")

    result = inspect_corpus(recipe, lambda: numbered([*TRAIN, TRAIN[2]]), validation=[TRAIN[5]])

    assert np.flatnonzero(result.marks["duplicate"]).tolist() == [433]
    assert np.flatnonzero(result.marks["leaked source"]).tolist() == [5]


def test_a_finding_is_one_line_with_its_count_and_an_example():
    finding = Finding(
        kind="copy",
        part="training",
        count=1200,
        of=100_000,
        examples=(PairExample(7, "A dog\nbarks " + "loud " * 20, "A"),),
    )

    assert str(finding) == (
        "training: 1,200 of 100,000 pairs have targets identical to their sources, such as "
        "line 7: A dog barks loud loud loud loud loud lo… | A"
    )


@pytest.mark.parametrize(("count", "loud"), [(100, False), (101, True)])
def test_a_fault_of_more_than_a_tenth_is_loud(count: int, loud: bool):
    finding = Finding(kind="copy", part="training", count=count, of=1000)

    assert finding.severe is loud
    assert str(finding).startswith("WARNING: ") is loud


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(
        [side for pair in TRAIN for side in pair], TokenizerConfig(vocab_size=97)
    )


def test_clean_text_survives_being_cut(tokenizer: Tokenizer):
    tried = probe_vocabulary(tokenizer, HELD, part="test", max_pieces=256)

    assert tried.findings == ()
    assert tried.words == sum(len(side.split()) for pair in HELD for side in pair)
    assert tried.pieces > tried.words


def test_characters_that_no_piece_holds_are_counted(tokenizer: Tokenizer):
    pairs = [*HELD, Pair("A dog.", "Ein ½ Hund.")]

    (result,) = probe_vocabulary(tokenizer, pairs, part="test", max_pieces=256).findings

    assert (result.kind, result.count, result.examples[0].line) == ("unknown piece", 1, len(pairs))
    assert result.advice.startswith("1 of ")


def test_text_that_does_not_come_back_is_found(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: "something else")

    (result,) = probe_vocabulary(tokenizer, HELD[:3], part="test", max_pieces=256).findings

    assert (result.kind, result.count) == ("round trip", 3)


def test_over_long_pairs_are_counted_where_they_stand(tokenizer: Tokenizer):
    pairs = [Pair("the dog", "der Hund"), Pair("the dog", "der Hund " * 30)]

    (result,) = probe_vocabulary(
        tokenizer, pairs, part="training", max_pieces=29, lines=[5, 9]
    ).findings

    assert (result.kind, result.count, result.examples[0].line) == ("over-long", 1, 9)


def in_blocks(
    monkeypatch: pytest.MonkeyPatch,
    train: Sequence[Pair],
    *,
    most: int,
    validation: Sequence[Pair] = (),
) -> Inspection:
    """What is found where not all training pairs are looked at closely; a block is 10 pairs."""
    monkeypatch.setattr("transduce.corpus_check.fingerprint._BLOCK", 10)
    monkeypatch.setattr("transduce.corpus_check.inspection._MAX_PAIRS", most)
    recipe = load_recipe("tiny", ["languages.source=en", "languages.target=de"])
    return inspect_corpus(
        recipe, lambda: numbered(train), validation=validation, pair_count=len(train)
    )


def test_of_a_large_corpus_blocks_spread_over_it_are_looked_at(monkeypatch: pytest.MonkeyPatch):
    result = in_blocks(monkeypatch, TRAIN[:100], most=31)

    tens = [line for first in (1, 41, 81) for line in range(first, first + 10)]
    assert result.fingerprints.line.tolist() == tens
    assert result.report.training_pairs == 100


def test_a_fault_in_a_sample_is_counted_of_the_sample(monkeypatch: pytest.MonkeyPatch):
    train = [*TRAIN[:42], *exchanged(TRAIN[42:44]), *TRAIN[44:100]]

    swapped = of_kind(in_blocks(monkeypatch, train, most=31).report.findings, "swapped")

    assert (swapped.count, swapped.of, swapped.examples[0].line) == (2, 30, 43)


@pytest.mark.parametrize("place", [3, 13, 39, 99])
def test_leaks_are_found_all_over_a_large_corpus(monkeypatch: pytest.MonkeyPatch, place: int):
    leaked, half = TRAIN[place], Pair(TRAIN[place - 1].source, "anders")

    result = in_blocks(
        monkeypatch,
        [Pair(pair.source.upper(), pair.target) for pair in TRAIN[:100]],
        most=31,
        validation=[*HELD[:31], leaked, half],
    ).report.findings

    pair = of_kind(result, "leaked pair", "validation")
    assert (pair.count, pair.of, pair.examples[0].line) == (1, 33, 32)
    assert of_kind(result, "leaked source", "validation").count == 1


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=0x17F)))
def test_plain_text_is_folded_as_any_other(text: str):
    kept = "".join(item for item in text.casefold() if category(item)[0] in "LMN")

    assert fold(text) == (kept or text)


def test_examples_are_read_by_their_lines_where_that_is_quicker():
    train = [*TRAIN[:50], TRAIN[0], *TRAIN[50:]]
    requests: list[Collection[int]] = []

    def picked(lines: Collection[int]) -> list[NumberedPair]:
        requests.append(lines)
        return [item for item in numbered(train) if item.line in lines]

    result = inspect_corpus(
        load_recipe("tiny"), lambda: numbered(train), read_lines=picked
    ).report.findings

    assert requests == [{51}]
    assert of_kind(result, "duplicate").examples == (PairExample(51, *TRAIN[0]),)
