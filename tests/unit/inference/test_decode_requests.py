"""Text becomes requests: its parts, what the first begins with, what each shall say."""

from dataclasses import replace

import pytest

from transduce.data.tokenizer import Tokenizer
from transduce.inference.decode import build_requests, encode_prefix
from transduce.inference.glossary import Term
from transduce.search.config import Request, SearchConfig

CONFIG = SearchConfig(max_source=31)
TERMS = (Term("ball", "Ball"), Term("book", "Buch"))


def ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text))


def test_a_sentence_becomes_a_request_of_its_tidy_text(tokenizer: Tokenizer):
    built = build_requests([" a red\tball\u2028"], [""], config=CONFIG, tokenizer=tokenizer)

    assert built.requests == ((Request(ids(tokenizer, "a red ball")),),)
    assert built.terms == {}


def test_a_prefix_is_that_of_its_sentence_and_tidied(tokenizer: Tokenizer):
    built = build_requests(
        ["a ball", "a book"], ["", " ein\tBuch "], config=CONFIG, tokenizer=tokenizer
    )

    assert [item.prefix for (item,) in built.requests] == [(), ids(tokenizer, "ein Buch")]


def test_of_a_long_sentence_the_first_part_gets_the_prefix(tokenizer: Tokenizer):
    short = replace(CONFIG, max_source=7)

    built = build_requests(["a red ball in the garden"], ["ein"], config=short, tokenizer=tokenizer)

    (parts,) = built.requests
    assert len(parts) > 1
    assert [bool(part.prefix) for part in parts] == [True] + [False] * (len(parts) - 1)


def test_a_blank_sentence_has_no_request_and_its_prefix_is_left_out(tokenizer: Tokenizer):
    built = build_requests([" \t"], ["ein"], config=CONFIG, tokenizer=tokenizer)

    assert built == (((),), {})


def test_a_sentence_gets_the_terms_that_it_calls_for(tokenizer: Tokenizer):
    sentences = ["a ball", "the garden"]

    built = build_requests(sentences, ["", ""], config=CONFIG, tokenizer=tokenizer, glossary=TERMS)

    ((first,), _) = built.requests
    assert {
        request: [item.target_ids for item in some] for request, some in built.terms.items()
    } == {first: [ids(tokenizer, "Ball")]}


def test_sentences_of_equal_pieces_keep_their_own_terms(tokenizer: Tokenizer):
    terms = (Term("猫", "Ball"), Term("狗", "Buch"))

    built = build_requests(
        ["a 猫", "a 狗"], ["", ""], config=CONFIG, tokenizer=tokenizer, glossary=terms
    )

    ((cat,), (dog,)) = built.requests
    assert cat.source == dog.source
    for request, text in ((cat, "Ball"), (dog, "Buch")):
        assert [item.target_ids for item in built.terms[request]] == [ids(tokenizer, text)]


def test_each_part_of_a_long_sentence_gets_its_own_terms(tokenizer: Tokenizer):
    short = replace(CONFIG, max_source=len(ids(tokenizer, "a red ball")))
    line = "a red ball and a book"

    built = build_requests([line], [""], config=short, tokenizer=tokenizer, glossary=TERMS)

    first, *_, last = built.requests[0]
    assert [item.target_ids for item in built.terms[first]] == [ids(tokenizer, "Ball")]
    assert [item.target_ids for item in built.terms[last]] == [ids(tokenizer, "Buch")]
    for part in (first, last):
        (term,) = built.terms[part]
        assert all(0 <= place < len(part.source) for place in term.source_positions)
        assert tokenizer.decode(part.source[place] for place in term.source_positions) in (
            "ball",
            "book",
        )


def test_a_sentence_too_long_is_refused_by_its_number(tokenizer: Tokenizer):
    short = replace(CONFIG, max_source=3, long="refuse")

    with pytest.raises(ValueError, match=r"^line 8 has \d+ pieces"):
        build_requests(
            ["a", "a red ball"], ["", ""], config=short, tokenizer=tokenizer, first_line=7
        )


def test_a_prefix_that_the_vocabulary_cannot_write_is_refused(tokenizer: Tokenizer):
    with pytest.raises(
        ValueError, match=r"^no translation can begin with 'ein ☃': .*choose another spelling"
    ):
        build_requests(["a ball"], ["ein ☃"], config=CONFIG, tokenizer=tokenizer)


def test_a_blank_beginning_is_none(tokenizer: Tokenizer):
    assert encode_prefix(" \t", tokenizer) == ()


def test_a_term_that_the_vocabulary_cannot_write_is_refused_by_name(tokenizer: Tokenizer):
    with pytest.raises(ValueError, match=r"^the term ball → ☃ cannot be applied"):
        build_requests(
            ["a ball"], [""], config=CONFIG, tokenizer=tokenizer, glossary=(Term("ball", "☃"),)
        )
