"""A glossary's terms are read whole, met as whole words, and handed to a search as runs of ids."""

from pathlib import Path

import pytest

from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.inference.glossary import (
    Term,
    encode_term,
    match_terms,
    read_glossary,
    term_constraints,
    whole_term,
)

DOG, HOT_DOG = Term("dog", "Hund"), Term("hot dog", "Würstchen")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "terms.tsv"
    path.write_bytes(data)
    return path


def test_a_glossary_is_read_without_its_comments_and_blank_lines(tmp_path: Path):
    path = written(tmp_path, b"# animals\n\ndog\tHund\r\n  \ncat\t Katze \n")

    assert read_glossary(path) == (DOG, Term("cat", "Katze"))


@pytest.mark.parametrize("header", ["Source\tTarget", "# terms\n\nsrc\ttrg", "EN\tde"])
def test_a_header_is_no_term(tmp_path: Path, header: str):
    path = written(tmp_path, f"{header}\ndog\tHund\nsource\ttarget\n".encode())

    assert read_glossary(path, languages=("en", "de")) == (DOG, Term("source", "target"))


def test_a_terminology_in_tbx_is_read_in_the_direction_of_the_model(tmp_path: Path):
    path = tmp_path / "terms.tbx"
    path.write_text(
        '<martif type="TBX"><text><body><termEntry>'
        '<langSet xml:lang="de"><tig><term>Hund</term></tig></langSet>'
        '<langSet xml:lang="en"><tig><term> dog </term></tig></langSet>'
        "</termEntry></body></text></martif>"
    )

    assert read_glossary(path, languages=("en", "de")) == (DOG,)
    with pytest.raises(ValueError, match="no entry has terms in both en and fr"):
        read_glossary(path, languages=("en", "fr"))


TMX = "<tmx><body><tu>{}</tu></body></tmx>"
TUV = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
PAIR = TUV.format("de", "Hund") + TUV.format("en", "dog")
XLIFF = '<xliff><file source-language="en" target-language="de">{}</file></xliff>'


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        ("tmx", TMX.format(PAIR)),
        ("xlf", XLIFF.format("<trans-unit><source>dog</source><target>Hund</target></trans-unit>")),
        ("po", 'msgid "dog"\nmsgstr "Hund"\n'),
        ("csv", "source,target\ndog,Hund\n"),
        ("jsonl", '{"source": "dog", "target": "Hund"}\n'),
    ],
)
def test_pairs_of_other_files_are_terms(tmp_path: Path, ending: str, text: str):
    path = tmp_path / f"terms.{ending}"
    path.write_text(text)

    assert read_glossary(path, languages=("en", "de")) == (DOG,)


def test_homonyms_of_a_terminology_have_their_first_target(tmp_path: Path):
    path = tmp_path / "terms.tmx"
    dachshund = TUV.format("de", "Dackel") + TUV.format("en", "dog")
    path.write_text(f"<tmx><body><tu>{PAIR}</tu><tu>{dachshund}</tu></body></tmx>")

    assert read_glossary(path, languages=("en", "de")) == (DOG,)


def test_a_second_target_is_refused_in_a_list(tmp_path: Path):
    path = tmp_path / "terms.csv"
    path.write_text("dog,Hund\ncat,\ndog,Dackel\n")

    with pytest.raises(ValueError, match=r"entry 3: .dog. is .Dackel. here, but .Hund. in entry 1"):
        read_glossary(path)


def test_a_file_without_pairs_is_refused(tmp_path: Path):
    (tmp_path / "terms.csv").write_text("")

    with pytest.raises(ValueError, match=r"terms\.csv: no entry has terms of two languages"):
        read_glossary(tmp_path / "terms.csv")


def test_the_mark_at_a_files_beginning_is_no_text(tmp_path: Path):
    assert read_glossary(written(tmp_path, "\ufeffdog\tHund".encode())) == (DOG,)


def test_terms_are_tidied_as_sentences_are(tmp_path: Path):
    path = written(tmp_path, "cafe\u0301\tCafe\u0301".encode())

    assert read_glossary(path) == (Term("caf\xe9", "Caf\xe9"),)


def test_the_same_line_twice_is_one_term(tmp_path: Path):
    assert read_glossary(written(tmp_path, b"dog\tHund\ndog\tHund\n")) == (DOG,)


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (b"dog\tHund\ncat Katze\n", 2, "1 columns instead of 2"),
        (b"dog\tHund\tder\n", 1, "3 columns instead of 2"),
        (b"\n\tHund\n", 2, "source is empty"),
        (b"#\n\ndog\t \n", 3, "target is empty"),
        (b"dog\tHund\ncat\tKatze\ndog\tK\xc3\xb6ter\n", 3, "'Köter' here, but 'Hund' on line 1"),
        (b"hot  dog\ta\nhot dog\tb\n", 2, "on line 1"),
        (b"dog\tHund\ncat\t\xe4\n", 2, "not UTF-8 (byte 0xe4 at byte 5 of the line)"),
    ],
)
def test_a_broken_glossary_names_file_and_line(tmp_path: Path, data: bytes, line: int, what: str):
    path = written(tmp_path, data)

    with pytest.raises(ValueError, match=r"terms\.tsv") as refused:
        read_glossary(path)

    assert f"{path}, line {line}: " in str(refused.value)
    assert what in str(refused.value)


@pytest.mark.parametrize("name", ["none.tsv", "none.tbx"])
def test_a_glossary_that_is_not_there_is_named(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match=rf"{name}: the glossary cannot be read"):
        read_glossary(tmp_path / name)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("a dog, a dog", [DOG, DOG]),
        ("two dogs in a doghouse", []),  # a whole word, not a part of one
        ("Dog days", [DOG]),  # the capital of a sentence's first word
        ("«Dog!» he said", [DOG]),  # marks before it are no word
        ("the Dog", []),  # a capital of its own is another word
        ("DOG", []),
        ("", []),
    ],
)
def test_a_term_is_met_as_a_whole_word(sentence: str, expected: list[Term]):
    assert match_terms(sentence, (DOG,)) == tuple(expected)


def test_a_term_of_other_scripts_is_met():
    terms = (Term("собака", "dog"), Term("狗", "dog"))

    assert match_terms("Собака и 黑狗", terms) == terms


def test_a_term_in_capitals_is_not_met_in_small_letters():
    assert match_terms("rust never sleeps", (Term("Rust", "Rust"),)) == ()


def test_a_term_written_with_a_capital_goes_before_the_one_without():
    terms = (Term("rust", "Rost"), Term("Rust", "Rust"))

    assert match_terms("Rust is no rust", terms) == (terms[1], terms[0])


def test_the_longest_of_overlapping_terms_wins():
    terms = (DOG, HOT_DOG, Term("a hot", "ein heißer"))

    assert match_terms("a hot dog for a dog", terms) == (terms[2], DOG, DOG)
    assert match_terms("one hot dog", terms) == (HOT_DOG,)


def test_terms_are_given_in_the_order_of_the_sentence():
    assert match_terms("a dog or a hot dog", (DOG, HOT_DOG)) == (DOG, HOT_DOG)


def test_a_longer_term_wins_over_one_that_begins_before_it():
    terms = (Term("big hot", "x"), Term("hot dog stand", "y"))

    assert match_terms("a big hot dog stand", terms) == (terms[1],)


def test_phrases_begin_with_a_word_and_are_said_in_mid_sentence(tokenizer: Tokenizer):
    run = encode_term(Term("ball", "roten Ball"), tokenizer)

    assert tokenizer.pieces(run)[0].startswith("▁")
    assert tokenizer.decode([*tokenizer.encode("mit dem"), *run]) == "mit dem roten Ball"


@pytest.mark.parametrize("target", [" Müller\t", "Mu\N{COMBINING DIAERESIS}ller"])
def test_a_target_is_tidied(target: str):
    tokenizer = Tokenizer.train(["Herr Müller"], TokenizerConfig(vocab_size=14))

    assert encode_term(Term("miller", target), tokenizer) == tuple(tokenizer.encode("Müller"))


def test_a_target_is_demanded_once(tokenizer: Tokenizer):
    text, terms = "a dog, a hot dog and a dog", [DOG, HOT_DOG._replace(target="Hund"), DOG]

    (constraint,) = term_constraints(text, tokenizer.encode(text), terms, tokenizer)

    assert constraint.target_ids == tuple(tokenizer.encode("Hund"))


def test_a_target_that_the_vocabulary_cannot_write_is_refused(tokenizer: Tokenizer):
    with pytest.raises(ValueError, match="dog → 狗 cannot be applied"):
        encode_term(Term("dog", "狗"), tokenizer)


def test_without_terms_nobody_asks_what_the_words_are(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr("transduce.inference.glossary.words")

    assert match_terms("The dog runs.", ()) == ()


def test_many_terms_are_hashed_once_and_not_for_each_sentence():
    class CountingTuple(tuple[Term, ...]):
        hashed = 0

        def __hash__(self) -> int:
            CountingTuple.hashed += 1
            return super().__hash__()

    terms = CountingTuple((DOG, HOT_DOG))
    again = CountingTuple(terms)

    assert [match_terms("a dog", terms) for _ in range(5)] == [(DOG,)] * 5
    assert whole_term("Hot dog", terms) == HOT_DOG
    assert CountingTuple.hashed == 1
    assert match_terms("a hot dog", again) == (HOT_DOG,)
