"""A term is found in the source piece by piece, and goes where the model looks at it."""

from collections.abc import Sequence

import numpy as np
import pytest

from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import EOS, Tokenizer
from transduce.inference import glossary as placing
from transduce.inference.glossary import (
    Term,
    TermConstraint,
    is_word_end,
    match_terms,
    missing_terms,
    piece_spans,
    place_next_term,
    term_constraints,
)
from transduce.model.transformer import Transformer
from transduce.search.config import Request
from transduce.search.hypothesis import Hypothesis

BALL = Term("ball", "Ball")


def ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text))


def constraints_of(text: str, tokenizer: Tokenizer, *terms: Term) -> tuple[TermConstraint, ...]:
    return term_constraints(text, tokenizer.encode(text), match_terms(text, terms), tokenizer)


def spelt(text: str, constraint: TermConstraint, tokenizer: Tokenizer) -> str:
    """The pieces of the source that are taken for the term."""
    pieces = tokenizer.pieces(tokenizer.encode(text))
    return "".join(pieces[place] for place in constraint.source_positions).strip("▁")


def hypothesis_of(tokenizer: Tokenizer, text: str) -> Hypothesis:
    all_ids = (*ids(tokenizer, text), EOS)
    return Hypothesis.scored(all_ids, [-0.1] * len(all_ids), alpha=0.6, eos=EOS)


def lacks(tokenizer: Tokenizer, text: str, *terms: TermConstraint) -> list[TermConstraint]:
    hypothesis = hypothesis_of(tokenizer, text)
    return missing_terms(hypothesis, terms, tokenizer)


@pytest.mark.parametrize(
    "text",
    [
        "a red ball in the garden",
        "a baller, then a ball",  # in another word before
        "☃ and a ball",  # behind what the vocabulary lacks
        "a☃☃b <unk> ball ☃",
        "Ball in the garden",  # a sentence's first word
        "the  ball",  # two blanks
    ],
)
def test_a_terms_pieces_are_those_of_its_words(tokenizer: Tokenizer, text: str):
    (single,) = constraints_of(text, tokenizer, BALL)

    assert spelt(text, single, tokenizer).lower() == "ball"


def test_a_terms_pieces_are_found_behind_characters_spelt_in_bytes():
    lines = ["a red ball", "ein roter Ball"]
    bytewise = Tokenizer.train(lines, TokenizerConfig(vocab_size=290, byte_fallback=True))
    text = "☃ö ball"
    assert any(piece.startswith("<0x") for piece in bytewise.pieces(bytewise.encode(text)))

    (single,) = constraints_of(text, bytewise, BALL)

    assert spelt(text, single, bytewise) == "ball"


def test_terms_are_found_each_at_its_own_place(tokenizer: Tokenizer):
    text = "a book and a ball"

    first, second = constraints_of(text, tokenizer, BALL, Term("book", "Buch"))

    assert [spelt(text, item, tokenizer) for item in (first, second)] == ["book", "ball"]
    assert [item.target_ids for item in (first, second)] == [
        ids(tokenizer, "Buch"),
        ids(tokenizer, "Ball"),
    ]


def test_a_term_of_two_words_has_the_pieces_of_both(tokenizer: Tokenizer):
    text = "the red ball in the garden"

    (single,) = constraints_of(text, tokenizer, Term("red ball", "Ball"))

    assert spelt(text, single, tokenizer).replace("▁", " ") == "red ball"


def test_what_is_met_twice_is_wanted_once_at_the_first_place(tokenizer: Tokenizer):
    text = "a ball and a ball"

    (single,) = constraints_of(text, tokenizer, BALL)

    assert max(single.source_positions) < len(tokenizer.encode("a ball and"))


def test_pieces_of_a_part_that_begins_within_a_word_are_found():
    assert piece_spans("den ball", ["d", "en", "▁b", "all"]) == [(0, 1), (1, 3), (4, 5), (5, 8)]


def test_a_term_is_lacking_unless_it_is_said(tokenizer: Tokenizer):
    ball, book = (TermConstraint((), ids(tokenizer, text)) for text in ("Ball", "Buch"))

    assert lacks(tokenizer, "ein Ball im Garten", ball, book) == [book]


@pytest.mark.parametrize(
    ("text", "lacks_it"), [("ein Ball", False), ("ein Ball.", False), ("eine Balle", True)]
)
def test_a_term_within_a_longer_word_is_lacking(text: str, lacks_it: bool):
    lines = ["ein Ball.", "eine Balle"] * 3
    letters = Tokenizer.train(lines, TokenizerConfig(vocab_size=19, kind="bpe"))
    term = TermConstraint((), ids(letters, "Ball"))
    given = hypothesis_of(letters, text)
    assert term.target_ids[0] in given.ids

    assert bool(missing_terms(given, [term], letters)) == lacks_it


def test_a_term_counts_though_a_longer_word_begins_with_it_before(tokenizer: Tokenizer):
    ball = TermConstraint((), ids(tokenizer, "Ball"))

    assert lacks(tokenizer, "Balle Ball", ball) == []


@pytest.mark.parametrize(
    ("text", "target"),
    [
        *(("l'eau", "eau"), ("„Hund“", "Hund"), ("ein (Hund)", "Hund"), ("我喜歡狗。", "狗")),
        ("Hund da", "hund"),  # as the report counts it
        ("Hund", ""),  # the server takes a target of nothing
    ],
)
def test_a_term_is_not_lacking_where_other_pieces_spell_it(text: str, target: str):
    given = Tokenizer.train([text, target], TokenizerConfig(vocab_size=300, byte_fallback=True))

    assert lacks(given, text, TermConstraint((), ids(given, target))) == []


@pytest.mark.parametrize(
    ("text", "longer", "ends"),
    [
        ("ein Hund", "ein Hund", True),
        ("ein Hund", "ein Hund und", True),
        ("ein Hund", "ein Hund, der", True),
        ("ein Hund", "ein Hunde", False),
        ("ein Hund", "ein Hund2", False),
        ("ein Hund", "ein Hund\N{COMBINING DIAERESIS}", False),
        ("黑狗", "黑狗很小", True),
        ("黑狗", "黑狗A", True),
    ],
)
def test_a_word_ends_before_a_blank_a_mark_and_the_end(text: str, longer: str, ends: bool):
    assert is_word_end(text, longer) == ends


def looking(monkeypatch: pytest.MonkeyPatch, rows: Sequence[int], *, columns: int) -> None:
    """Let piece n of the translation look at place rows[n] of the source."""

    def attention(model: Transformer, source: Sequence[int], target: Sequence[int]) -> np.ndarray:
        assert len(target) == len(rows)
        return np.eye(columns)[list(rows)][None, None]

    monkeypatch.setattr(placing, "cross_attention", attention)


def placed(
    model: Transformer, tokenizer: Tokenizer, text: str, *terms: TermConstraint, prefix: str = ""
) -> str:
    """The prefix that is asked for next, as text."""
    request = Request(ids(tokenizer, "a red ball"), prefix=ids(tokenizer, prefix))
    hypothesis = hypothesis_of(tokenizer, text)
    now, placed_term = place_next_term(model, request, hypothesis, terms, tokenizer)
    assert placed_term in terms
    assert now._replace(prefix=()) == request._replace(prefix=())
    return tokenizer.decode(now.prefix)


def test_a_term_takes_the_place_of_the_word_that_looks_at_it(
    untrained: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    columns = len(tokenizer.encode("a red ball")) + 1
    # Pieces: "▁ein", then "▁B" "u" "ch", then "▁a" "m", then four of "Fluss", then EOS.
    looking(monkeypatch, [0, 1, 1, 1, 2, 2, 0, 0, 0, 0, 3], columns=columns)
    ball = TermConstraint((2,), ids(tokenizer, "Ball"))

    assert placed(untrained, tokenizer, "ein Buch am Fluss", ball) == "ein Buch Ball"


def test_the_leftmost_of_several_terms_is_placed(
    untrained: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    columns = len(tokenizer.encode("a red ball")) + 1
    # Pieces: "▁ein", then "▁B" "u" "ch", then "▁a" "m", then EOS.
    looking(monkeypatch, [0, 1, 1, 1, 2, 2, 3], columns=columns)
    ball, house = (
        TermConstraint((2,), ids(tokenizer, "Ball")),
        TermConstraint((1,), ids(tokenizer, "Haus")),
    )

    assert placed(untrained, tokenizer, "ein Buch am", ball, house) == "ein Haus"


def test_what_was_forced_already_stays(
    untrained: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    columns = len(tokenizer.encode("a red ball")) + 1
    looking(monkeypatch, [0, 2, 2, 2, 1, 1, 3], columns=columns)
    ball = TermConstraint((2,), ids(tokenizer, "Ball"))

    assert placed(untrained, tokenizer, "ein Buch am", ball, prefix="ein Buch") == "ein Buch Ball"


def test_a_term_goes_to_the_end_where_no_word_is_behind_what_was_forced(
    untrained: Transformer, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
):
    columns = len(tokenizer.encode("a red ball")) + 1
    looking(monkeypatch, [0, 2, 2, 2, 3], columns=columns)
    ball = TermConstraint((2,), ids(tokenizer, "Ball"))

    found_text = placed(untrained, tokenizer, "ein Buch", ball, prefix="ein Buch")

    assert found_text == "ein Buch Ball"


@pytest.mark.parametrize(
    ("text", "target", "index", "expected"),
    [
        ("我喜歡貓。", "狗", 4, "我喜歡狗"),
        ("貓很小。", "狗", 1, "狗"),
        ("用ab。", "c", 4, "用ab c"),  # else "abc" would be one word
    ],
)
def test_without_spaces_a_term_takes_the_place_of_a_piece_and_brings_no_space(
    untrained: Transformer,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    target: str,
    index: int,
    expected: str,
):
    lines = ["我喜歡貓。", "貓很小。", "用ab。", "狗c"]
    characters = Tokenizer.train(lines, TokenizerConfig(vocab_size=30, kind="char"))
    count = len(hypothesis_of(characters, text).ids)
    looking(monkeypatch, [2 if row == index else 3 for row in range(count)], columns=4)
    term = TermConstraint((2,), ids(characters, target))

    assert placed(untrained, characters, text, term) == expected


def test_a_term_does_not_cut_a_character_that_is_spelt_in_bytes(
    untrained: Transformer, monkeypatch: pytest.MonkeyPatch
):
    given = Tokenizer.train(["我狗。"] * 3, TokenizerConfig(vocab_size=263, byte_fallback=True))
    pieces = given.pieces(hypothesis_of(given, "我貓。").ids)
    last_byte = max(row for row, piece in enumerate(pieces) if piece.startswith("<0x"))
    looking(monkeypatch, [2 if row == last_byte else 3 for row in range(len(pieces))], columns=4)
    term = TermConstraint((2,), ids(given, "狗"))

    assert "\ufffd" not in placed(untrained, given, "我貓。", term)


def test_a_real_model_places_a_term_somewhere_behind_the_prefix(
    untrained: Transformer, tokenizer: Tokenizer
):
    ball = TermConstraint((3,), ids(tokenizer, "Ball"))

    text = placed(untrained, tokenizer, "ein Buch am Fluss", ball, prefix="ein")

    assert text.startswith("ein")
    assert text.endswith("Ball")
