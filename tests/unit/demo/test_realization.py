"""Each rule of the demo's German against what a school grammar says, written by hand."""

from dataclasses import replace
from typing import Literal

import pytest

from transduce.demo.lexicon import (
    BARE,
    BE,
    CLAUSE_VERBS,
    IT,
    MANNERS,
    NAMES,
    NO,
    NUMBERS,
    POSSESSIVES,
    PRONOUNS,
    SEIN,
    THE,
    THIS,
    TODAY,
    VERBS,
    A,
    Case,
    Determiner,
    Verb,
    adjective,
    nouns,
    verb,
)
from transduce.demo.realization import (
    Clause,
    Complement,
    Coordination,
    Form,
    NounPhrase,
    Order,
    Phrase,
    Quality,
    conjugate,
    english,
    english_phrase,
    german,
    german_phrase,
)

ME, YOU, HE, SHE, WE, THEY = PRONOUNS
CASES: tuple[Case, Case, Case] = ("nominative", "accusative", "dative")


def np(
    determiner: Determiner, noun: str, described: str = "", *, plural: bool = False
) -> NounPhrase:
    (result,) = nouns(noun)
    return NounPhrase(
        noun=result,
        determiner=determiner,
        adjective=adjective(described) if described else None,
        plural=plural,
    )


def clause(
    subject: Phrase,
    base: str,
    form: Form,
    *complements: Complement,
    negated: bool = False,
    time: Literal["", "end", "first"] = "",
) -> Clause:
    return Clause(
        subject=subject,
        verb=BE if base == "be" else verb(base),
        form=form,
        complements=complements,
        negated=negated,
        time=TODAY if time else None,
        time_first=time == "first",
    )


def what(phrase: Phrase) -> Complement:
    return Complement(phrase, "accusative")


def whom(phrase: Phrase) -> Complement:
    return Complement(phrase, "dative")


ENDINGS = {
    ("dog", THE): "der alte Hund, den alten Hund, dem alten Hund",
    ("woman", THE): "die alte Frau, die alte Frau, der alten Frau",
    ("book", THE): "das alte Buch, das alte Buch, dem alten Buch",
    ("dogs", THE): "die alten Hunde, die alten Hunde, den alten Hunden",
    ("dog", THIS): "dieser alte Hund, diesen alten Hund, diesem alten Hund",
    ("woman", THIS): "diese alte Frau, diese alte Frau, dieser alten Frau",
    ("book", THIS): "dieses alte Buch, dieses alte Buch, diesem alten Buch",
    ("dogs", THIS): "diese alten Hunde, diese alten Hunde, diesen alten Hunden",
    ("dog", A): "ein alter Hund, einen alten Hund, einem alten Hund",
    ("woman", A): "eine alte Frau, eine alte Frau, einer alten Frau",
    ("book", A): "ein altes Buch, ein altes Buch, einem alten Buch",
    ("dog", NO): "kein alter Hund, keinen alten Hund, keinem alten Hund",
    ("woman", NO): "keine alte Frau, keine alte Frau, keiner alten Frau",
    ("book", NO): "kein altes Buch, kein altes Buch, keinem alten Buch",
    ("dogs", NO): "keine alten Hunde, keine alten Hunde, keinen alten Hunden",
    ("dog", POSSESSIVES[4]): "unser alter Hund, unseren alten Hund, unserem alten Hund",
    ("woman", POSSESSIVES[0]): "meine alte Frau, meine alte Frau, meiner alten Frau",
    ("book", POSSESSIVES[3]): "ihr altes Buch, ihr altes Buch, ihrem alten Buch",
    ("dogs", POSSESSIVES[2]): "seine alten Hunde, seine alten Hunde, seinen alten Hunden",
    ("dogs", BARE): "alte Hunde, alte Hunde, alten Hunden",
    ("dogs", NUMBERS[0]): "zwei alte Hunde, zwei alte Hunde, zwei alten Hunden",
}


@pytest.mark.parametrize(("noun_phrase", "expected"), ENDINGS.items(), ids=str)
def test_articles_and_adjectives_agree(noun_phrase: tuple[str, Determiner], expected: str):
    noun, determiner = noun_phrase
    phrase = np(determiner, noun.rstrip("s"), "old", plural=noun.endswith("s"))

    assert ", ".join(german_phrase(phrase, case) for case in CASES) == expected


@pytest.mark.parametrize(
    ("noun", "described", "expected"),
    [
        ("coffee", "hot", "heißer Kaffee, heißen Kaffee, heißem Kaffee"),
        ("milk", "cold", "kalte Milch, kalte Milch, kalter Milch"),
        ("water", "cold", "kaltes Wasser, kaltes Wasser, kaltem Wasser"),
    ],
)
def test_an_adjective_without_an_article_shows_the_case_itself(
    noun: str, described: str, expected: str
):
    phrase = np(BARE, noun, described)

    assert ", ".join(german_phrase(phrase, case) for case in CASES) == expected


def test_some_adjectives_end_on_a_stem_of_their_own():
    assert german_phrase(np(A, "car", "expensive"), "dative") == "einem teuren Auto"
    assert german_phrase(np(THE, "wall", "high"), "nominative") == "die hohe Mauer"
    assert german_phrase(np(A, "forest", "dark"), "dative") == "einem dunklen Wald"
    assert german_phrase(np(BARE, "milk", "sour"), "accusative") == "saure Milch"
    assert german_phrase(np(THE, "radio", "quiet"), "nominative") == "das leise Radio"
    assert german_phrase(np(A, "man", "tired"), "nominative") == "ein müder Mann"


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("boy", "der Junge, den Jungen, dem Jungen"),
        ("bear", "der Bär, den Bären, dem Bären"),
        ("lion", "der Löwe, den Löwen, dem Löwen"),
        ("elephant", "der Elefant, den Elefanten, dem Elefanten"),
        ("farmer", "der Bauer, den Bauern, dem Bauern"),
        ("neighbour", "der Nachbar, den Nachbarn, dem Nachbarn"),
        ("tractor", "der Traktor, den Traktor, dem Traktor"),
    ],
)
def test_weak_nouns_take_n_in_all_but_the_nominative(noun: str, expected: str):
    assert ", ".join(german_phrase(np(THE, noun), case) for case in CASES) == expected


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("child", "den Kindern"),
        ("teacher", "den Lehrern"),
        ("apple", "den Äpfeln"),
        ("woman", "den Frauen"),
        ("car", "den Autos"),
        ("egg", "den Eiern"),
        ("queen", "den Königinnen"),
        ("calf", "den Kälbern"),
        ("radio", "den Radios"),
        ("tunnel", "den Tunneln"),
    ],
)
def test_the_dative_plural_ends_in_n_or_s(noun: str, expected: str):
    assert german_phrase(np(THE, noun, plural=True), "dative") == expected


def test_a_becomes_an_before_a_vowel():
    assert english_phrase(np(A, "apple")) == "an apple"
    assert english_phrase(np(A, "apple", "red")) == "a red apple"
    assert english_phrase(np(A, "man", "old")) == "an old man"


def test_numbers_stand_before_plurals():
    assert english_phrase(np(NUMBERS[3], "mouse", plural=True)) == "five mice"
    assert german_phrase(np(NUMBERS[3], "mouse", plural=True), "dative") == "fünf Mäusen"


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (ME, "I am|ich bin"),
        (YOU, "you are|du bist"),
        (HE, "he is|er ist"),
        (WE, "we are|wir sind"),
        (THEY, "they are|sie sind"),
        (NAMES[0], "Anna is|Anna ist"),
        (Coordination(NAMES[0], NAMES[5]), "Anna and Tom are|Anna und Tom sind"),
        (np(THE, "child", plural=True), "the children are|die Kinder sind"),
    ],
)
def test_the_verb_agrees_with_its_subject(subject: Phrase, expected: str):
    result = clause(subject, "be", "present")

    assert f"{english(result)}|{german(result)}" == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("present", "she reads the book|sie liest das Buch"),
        ("progressive", "she is reading the book|sie liest das Buch"),
        ("past", "she read the book|sie las das Buch"),
        ("past progressive", "she was reading the book|sie las das Buch"),
        ("perfect", "she has read the book|sie hat das Buch gelesen"),
        ("future", "she will read the book|sie wird das Buch lesen"),
        ("can", "she can read the book|sie kann das Buch lesen"),
        ("could", "she could read the book|sie konnte das Buch lesen"),
        ("must", "she must read the book|sie muss das Buch lesen"),
        ("want", "she wants to read the book|sie will das Buch lesen"),
        ("wanted", "she wanted to read the book|sie wollte das Buch lesen"),
    ],
)
def test_every_tense_has_its_german(form: Form, expected: str):
    result = clause(SHE, "read", form, what(np(THE, "book")))

    assert f"{english(result)}|{german(result)}" == expected


def test_verbs_of_motion_make_their_perfect_with_sein():
    garden = Complement(np(THE, "garden"), "accusative", "into", "in")

    assert german(clause(HE, "go", "perfect", garden)) == "er ist in den Garten gegangen"


def test_the_past_of_du_takes_an_e_after_some_consonants():
    assert conjugate(verb("find").german, person=2, past=True) == "fandest"
    assert conjugate(SEIN, person=2, past=True) == "warst"


@pytest.mark.parametrize(
    ("form", "order", "expected"),
    [
        ("past", "second", "er machte die Tür auf"),
        ("past", "first", "machte er die Tür auf"),
        ("past", "final", "er die Tür aufmachte"),
        ("perfect", "second", "er hat die Tür aufgemacht"),
        ("perfect", "final", "er die Tür aufgemacht hat"),
        ("must", "second", "er muss die Tür aufmachen"),
        ("must", "final", "er die Tür aufmachen muss"),
        ("future", "first", "wird er die Tür aufmachen"),
    ],
)
def test_a_prefix_separates_only_where_the_verb_is_finite_and_not_last(
    form: Form, order: Order, expected: str
):
    result = clause(HE, "open", form, what(np(THE, "door")))

    assert german(result, order=order) == expected


SEPARATED = [
    ("lock", "suitcase", "schließt den Koffer ab", "den Koffer abgeschlossen hat"),
    ("turn on", "lamp", "schaltet die Lampe ein", "die Lampe eingeschaltet hat"),
    ("turn off", "radio", "schaltet das Radio aus", "das Radio ausgeschaltet hat"),
    ("put on", "coat", "zieht den Mantel an", "den Mantel angezogen hat"),
    ("take off", "hat", "zieht den Hut aus", "den Hut ausgezogen hat"),
    ("throw away", "letter", "wirft den Brief weg", "den Brief weggeworfen hat"),
    ("bring back", "book", "bringt das Buch zurück", "das Buch zurückgebracht hat"),
    ("invite", "queen", "lädt die Königin ein", "die Königin eingeladen hat"),
    ("pick up", "child", "holt das Kind ab", "das Kind abgeholt hat"),
    ("wake up", "boy", "weckt den Jungen auf", "den Jungen aufgeweckt hat"),
    ("look at", "monkey", "sieht den Affen an", "den Affen angesehen hat"),
]


@pytest.mark.parametrize(("base", "noun", "second", "final"), SEPARATED)
def test_separable_verbs_part_in_the_main_clause_and_join_at_the_end(
    base: str, noun: str, second: str, final: str
):
    present = clause(HE, base, "progressive", what(np(THE, noun)))
    perfect = clause(HE, base, "perfect", what(np(THE, noun)))

    assert german(present) == f"er {second}"
    assert german(perfect, order="final") == f"er {final}"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("get up", "er steht auf, er stand auf, er ist aufgestanden, er will aufstehen"),
        ("run away", "er läuft weg, er lief weg, er ist weggelaufen, er will weglaufen"),
        (
            "fall asleep",
            "er schläft ein, er schlief ein, er ist eingeschlafen, er will einschlafen",
        ),
        ("sleep", "er schläft, er schlief, er hat geschlafen, er will schlafen"),
        ("sit", "er sitzt, er saß, er hat gesessen, er will sitzen"),
        ("sing", "er singt, er sang, er hat gesungen, er will singen"),
        ("steal", "er stiehlt, er stahl, er hat gestohlen, er will stehlen"),
        ("catch", "er fängt, er fing, er hat gefangen, er will fangen"),
        ("break", "er zerbricht, er zerbrach, er hat zerbrochen, er will zerbrechen"),
        ("push", "er schiebt, er schob, er hat geschoben, er will schieben"),
        ("pull", "er zieht, er zog, er hat gezogen, er will ziehen"),
        ("lift", "er hebt, er hob, er hat gehoben, er will heben"),
        ("enter", "er betritt, er betrat, er hat betreten, er will betreten"),
        ("leave", "er verlässt, er verließ, er hat verlassen, er will verlassen"),
        ("know", "er kennt, er kannte, er hat gekannt, er will kennen"),
        ("draw", "er zeichnet, er zeichnete, er hat gezeichnet, er will zeichnen"),
        ("answer", "er antwortet, er antwortete, er hat geantwortet, er will antworten"),
        ("feed", "er füttert, er fütterte, er hat gefüttert, er will füttern"),
    ],
)
def test_the_principal_parts_of_verbs(base: str, expected: str):
    forms: tuple[Form, ...] = ("progressive", "past", "perfect", "want")

    assert ", ".join(german(clause(HE, base, form)) for form in forms) == expected


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("sleep", "du schläfst"),
        ("dance", "du tanzt"),
        ("sit", "du sitzt"),
        ("read", "du liest"),
        ("draw", "du zeichnest"),
        ("find", "du findest"),
        ("feed", "du fütterst"),
        ("throw away", "du wirfst weg"),
    ],
)
def test_du_has_its_own_form(base: str, expected: str):
    assert german(clause(YOU, base, "progressive")) == expected


def test_the_verb_stays_second_when_time_comes_first():
    result = clause(HE, "buy", "past", what(np(A, "car")), time="first")

    assert (english(result), german(result)) == (
        "today he bought a car",
        "heute kaufte er ein Auto",
    )


def test_what_is_known_precedes_the_place_and_what_is_new_follows_it():
    garden = Complement(np(THE, "garden"), "dative", "in", "in", scene=True)
    known = clause(HE, "read", "past", what(np(THE, "book")), garden, time="end")
    new = clause(HE, "read", "past", what(np(A, "book")), garden, time="end")

    assert german(known) == "er las heute das Buch im Garten"
    assert german(new) == "er las heute im Garten ein Buch"


def test_how_it_is_done_follows_what_is_known_and_precedes_what_is_new():
    slowly = MANNERS["slowly"]
    known = clause(HE, "open", "past", what(np(THE, "door")), time="end")
    new = clause(HE, "open", "past", what(np(A, "door")))

    assert german(replace(known, manner=slowly)) == "er machte heute die Tür langsam auf"
    assert german(replace(new, manner=slowly)) == "er machte langsam eine Tür auf"
    assert english(replace(known, manner=slowly)) == "he opened the door slowly today"


def test_a_verb_may_govern_its_object_by_a_preposition():
    box = Complement(np(THE, "box"), "accusative", "", "in")
    car = Complement(np(THE, "car"), "accusative", "", "in")
    pony = Complement(np(THE, "pony"), "dative", "", "von")
    bed = np(THE, "bed")

    assert german(replace(clause(bed, "be", "past", box), verb=verb("fit into"))) == (
        "das Bett passte in die Kiste"
    )
    assert (
        german(replace(clause(bed, "be", "past", car, negated=True), verb=verb("fit into")))
        == "das Bett passte nicht ins Auto"
    )
    assert german(clause(SHE, "dream of", "past", pony)) == "sie träumte vom Pony"


def test_a_receiver_is_dative_and_stands_before_the_thing():
    result = clause(HE, "give", "past", whom(np(THE, "boy")), what(np(A, "apple")))

    assert english(result) == "he gave the boy an apple"
    assert german(result) == "er gab dem Jungen einen Apfel"


def test_pronouns_stand_before_time():
    assert german(clause(ME, "see", "past", what(HE), time="end")) == "ich sah ihn heute"
    assert german(clause(ME, "help", "past", whom(SHE), time="end")) == "ich half ihr heute"
    assert english(clause(ME, "help", "past", whom(SHE), time="end")) == "I helped her today"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            clause(SHE, "open", "past", what(np(THE, "door")), negated=True),
            "she did not open the door|sie machte die Tür nicht auf",
        ),
        (
            clause(SHE, "open", "past", what(np(THE, "door")), negated=True, time="end"),
            "she did not open the door today|sie machte die Tür heute nicht auf",
        ),
        (
            clause(SHE, "buy", "progressive", what(np(A, "car", "red")), negated=True),
            "she is not buying a red car|sie kauft kein rotes Auto",
        ),
        (
            clause(SHE, "drink", "perfect", what(np(BARE, "milk")), negated=True),
            "she has not drunk milk|sie hat keine Milch getrunken",
        ),
        (
            clause(SHE, "read", "want", what(np(BARE, "book", plural=True)), negated=True),
            "she does not want to read books|sie will keine Bücher lesen",
        ),
        (
            clause(SHE, "see", "can", what(THEY), negated=True),
            "she cannot see them|sie kann sie nicht sehen",
        ),
        (
            clause(
                *(SHE, "go", "past"),
                Complement(np(THE, "school"), "dative", "to", "zu"),
                negated=True,
            ),
            "she did not go to the school|sie ging nicht zur Schule",
        ),
    ],
)
def test_definite_things_are_negated_by_nicht_and_indefinite_ones_by_kein(
    statement: Clause, expected: str
):
    assert f"{english(statement)}|{german(statement)}" == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("present", "she doesn't sleep"),
        ("past", "she didn't sleep"),
        ("can", "she can't sleep"),
        ("future", "she won't sleep"),
        ("progressive", "she isn't sleeping"),
    ],
)
def test_english_may_contract(form: Form, expected: str):
    assert english(replace(clause(SHE, "sleep", form, negated=True), contracted=True)) == expected


def test_a_question_begins_with_its_verb():
    result = clause(np(THE, "man"), "call", "past", what(np(POSSESSIVES[2], "mother")))

    assert english(result, question=True) == "did the man call his mother"
    assert german(result, order="first") == "rief der Mann seine Mutter an"


@pytest.mark.parametrize(
    ("complement", "expected"),
    [
        (Complement(np(THE, "park"), "dative", "in", "in"), "im Park"),
        (Complement(np(THE, "house", "old"), "accusative", "into", "in"), "ins alte Haus"),
        (Complement(np(THE, "city"), "accusative", "into", "in"), "in die Stadt"),
        (Complement(np(A, "house"), "dative", "to", "zu"), "zu einem Haus"),
        (Complement(np(THE, "house"), "dative", "to", "zu"), "zum Haus"),
        (Complement(np(THE, "bridge"), "accusative", "across", "über"), "über die Brücke"),
        (Complement(WE, "dative", "with", "mit"), "mit uns"),
    ],
)
def test_a_preposition_governs_its_case_and_swallows_the_article(
    complement: Complement, expected: str
):
    assert german(clause(HE, "go", "past", complement)) == f"er ging {expected}"


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("river", "weil er zu breit war"),
        ("street", "weil sie zu breit war"),
        ("field", "weil es zu breit war"),
    ],
)
def test_it_takes_the_gender_of_what_it_stands_for(noun: str, expected: str):
    (thing,) = nouns(noun)
    result = Clause(
        subject=IT[thing.gender], verb=BE, form="past", quality=Quality(adjective("wide"), "too")
    )

    assert english(result) == "it was too wide"
    assert f"weil {german(result, order='final')}" == expected


def test_animals_fressen_and_people_essen():
    assert verb("eat", subject="beast").german.participle == "gefressen"
    assert verb("eat", subject="person").german.participle == "gegessen"


@pytest.mark.parametrize("verb", [*VERBS, *CLAUSE_VERBS], ids=lambda verb: verb.english)
def test_every_verb_has_all_its_forms_and_known_nouns(verb: Verb):
    assert len(verb.english.split()) == 5
    assert len(verb.german.present.split()) == 4
    assert verb.german.participle.startswith(verb.prefix)
    assert nouns(verb.subjects)
    assert bool(verb.objects) == bool(nouns(verb.objects))
    assert all(map(adjective, f"{verb.because} {verb.because_not}".split()))
    assert all(map(MANNERS.__getitem__, verb.manner.split()))
    assert bool(verb.where) == bool(nouns(verb.where))
