"""The nouns: enough of each gender, no word twice, and some declined by hand."""

from collections import Counter

import pytest

from transduce.demo.lexicon import ADJECTIVES, BARE, NOUNS, THE, VERBS, A, nouns
from transduce.demo.realization import NounPhrase, german_phrase


def test_there_are_several_hundred_words():
    assert len(NOUNS) >= 150
    assert len(ADJECTIVES) >= 60
    assert len({verb.german.participle for verb in VERBS}) >= 80


def test_each_gender_has_a_good_share_of_nouns_and_of_animals():
    for some in (NOUNS, nouns("beast")):
        counts = Counter(noun.gender for noun in some)
        assert min(counts.values()) > 0.27 * len(some), counts


def test_no_noun_and_no_adjective_is_given_twice():
    for words in (NOUNS, ADJECTIVES):
        assert not [
            english for english, times in Counter(w.english for w in words).items() if times > 1
        ]


def test_no_kind_has_the_name_of_a_noun():
    assert {noun.kind for noun in NOUNS}.isdisjoint(noun.english for noun in NOUNS)


def test_no_german_noun_translates_two_english_ones():
    assert len({noun.german for noun in NOUNS}) == len(NOUNS)


def test_german_nouns_have_capitals_and_a_plural_where_english_has_one():
    for noun in NOUNS:
        assert noun.german[0].isupper(), noun
        assert bool(noun.english_plural) == bool(noun.german_plural), noun
        assert noun.weak in ("", noun.german + "n", noun.german + "en"), noun


def test_all_adjectives_speak_of_known_nouns():
    assert all(nouns(adjective.nouns) for adjective in ADJECTIVES if adjective.nouns)


DECLINED = {
    "dog": "der Hund, einen Hund, dem Hund, die Hunde, Hunden",
    "wolf": "der Wolf, einen Wolf, dem Wolf, die Wölfe, Wölfen",
    "monkey": "der Affe, einen Affen, dem Affen, die Affen, Affen",
    "mouse": "die Maus, eine Maus, der Maus, die Mäuse, Mäusen",
    "goose": "die Gans, eine Gans, der Gans, die Gänse, Gänsen",
    "lamb": "das Lamm, ein Lamm, dem Lamm, die Lämmer, Lämmern",
    "rabbit": "das Kaninchen, ein Kaninchen, dem Kaninchen, die Kaninchen, Kaninchen",
    "pony": "das Pony, ein Pony, dem Pony, die Ponys, Ponys",
    "daughter": "die Tochter, eine Tochter, der Tochter, die Töchter, Töchtern",
    "stream": "der Bach, einen Bach, dem Bach, die Bäche, Bächen",
    "ditch": "der Graben, einen Graben, dem Graben, die Gräben, Gräben",
    "castle": "das Schloss, ein Schloss, dem Schloss, die Schlösser, Schlössern",
    "bench": "die Bank, eine Bank, der Bank, die Bänke, Bänken",
    "wall": "die Mauer, eine Mauer, der Mauer, die Mauern, Mauern",
    "bed": "das Bett, ein Bett, dem Bett, die Betten, Betten",
    "shirt": "das Hemd, ein Hemd, dem Hemd, die Hemden, Hemden",
    "lake": "der See, einen See, dem See, die Seen, Seen",
}


@pytest.mark.parametrize(("english", "expected"), DECLINED.items())
def test_nouns_decline(english: str, expected: str):
    (noun,) = nouns(english)
    single = [NounPhrase(noun=noun, determiner=determiner) for determiner in (THE, A)]
    some = [NounPhrase(noun=noun, determiner=article, plural=True) for article in (THE, BARE)]

    result = (
        german_phrase(single[0], "nominative"),
        german_phrase(single[1], "accusative"),
        german_phrase(single[0], "dative"),
        german_phrase(some[0], "nominative"),
        german_phrase(some[1], "dative"),
    )

    assert ", ".join(result) == expected
