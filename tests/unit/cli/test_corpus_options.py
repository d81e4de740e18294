"""Options of the commands that read a corpus; what a run would take; how files may be written."""

import gzip
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses
from tests.sentences import sentences, write_sides

from transduce.cli.corpus_options import complete_languages, corpus_settings
from transduce.cli.translate_documents import read_input_document
from transduce.config import load_recipe
from transduce.data.corpus import CleaningCounts, clean, read_pairs
from transduce.documents.formats import read_document


def test_validation_and_test_files_are_named_beside_the_corpus():
    source, target = Path("a.en"), Path("a.de")

    settings = corpus_settings(
        source, target, validation=(Path("v.en"), Path("v.de")), test=(Path("t.en"), Path("t.de"))
    )

    data = load_recipe("tiny", settings).data
    assert (data.validation, data.test) == (("v.en", "v.de"), ("t.en", "t.de"))


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("EN-de", ("EN", "de")),
        ("pt-BR-en", ("pt-BR", "en")),
        ("en-zh-Hant-TW", ("en", "zh-Hant-TW")),
        ("pt-br:en-gb", ("pt-br", "en-gb")),
    ],
)
def test_codes_of_a_direction_may_have_a_region(text: str, codes: tuple[str, str]):
    settings = corpus_settings(directions=[f"{text}=a.tsv"])

    (direction,) = load_recipe("tiny", settings).data.directions

    assert direction.pair == codes


@pytest.mark.parametrize("text", ["pt-br-en", "EN-PT-BR"])
def test_a_direction_that_could_be_two_is_refused(text: str):
    with pytest.raises(ValueError, match="a colon separates codes with hyphens, as pt-br:en"):
        corpus_settings(directions=[f"{text}=a.tsv"])
    with pytest.raises(ValueError, match="a colon separates codes with hyphens, as pt-br:en"):
        corpus_settings(also=[f"{text}=a.tsv"])


@pytest.mark.parametrize("option", ["source_lang", "target_lang"])
def test_the_languages_of_a_direction_have_no_other_options(option: str):
    with pytest.raises(ValueError, match="names the training files and their languages: leave out"):
        corpus_settings(directions=["en-de=a.tsv"], **{option: "en"})


def test_a_dry_run_says_what_training_takes(tmp_path: Path, transduce: Transduce):
    train = write_sides(tmp_path, "train", sentences(60))
    held = write_sides(tmp_path, "held", sentences(70)[60:])
    before = sorted(tmp_path.rglob("*"))
    layers = ("model.encoder_layers=1", "model.decoder_layers=1")
    small = (*layers, "model.d_model=16", "model.heads=2", "model.d_ff=32")
    settings = [word for setting in small for word in ("--set", setting)]
    settings += ["--set", "tokenizer.vocab_size=100"]
    files = ("--source", train[0], "--target", train[1], "--validation", *held)

    result = transduce("train", *files, *settings, "--dry-run", "--out", tmp_path / "run")

    assert result.code == 0, result.err
    assert result.out.startswith("training would take ")
    assert result.out.endswith("nothing was written\n")
    assert " GB of memory" in result.out
    assert "60 pairs: 1+1 layers of width 16" in result.err
    assert "300 updates, about " in result.err
    assert " parameters, on cpu" in result.err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_cannot_be_resumed(tmp_path: Path, transduce: Transduce):
    train = write_sides(tmp_path, "train", sentences(60))
    words = ("--source", train[0], "--target", train[1], "--dry-run", "--resume")

    refuses(transduce("train", *words, "--out", tmp_path / "run"), "leave --resume out")


ENGLISH = "The man who lives in the old house said that he was not at home with you."
GERMAN = "Der Mann, der in dem alten Haus wohnt, sagte, dass er nicht zu Hause ist und die Tür."


def test_a_language_is_not_guessed_of_the_side_that_has_it(tmp_path: Path):
    file = tmp_path / "memory.tmx"
    sides = (("de", GERMAN), ("en", ENGLISH))
    texts = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in sides)
    units = f"<tu>{''.join(texts)}</tu>" * 20
    file.write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    corpus = f"data.train={file}"

    languages = complete_languages(load_recipe("tiny", [corpus]))[0].languages
    other = complete_languages(load_recipe("tiny", [corpus, "languages.source=de"]))[0].languages

    assert languages.codes == other.codes == ("de", "en")
    with pytest.raises(ValueError, match=r"memory\.tmx names the languages .*: add --target-lang$"):
        complete_languages(load_recipe("tiny", [corpus, "languages.source=en"]))


def test_compressed_documents_are_read(tmp_path: Path):
    file = tmp_path / "page.html.gz"
    file.write_bytes(gzip.compress(b"<p>Good morning.</p>"))

    assert "Good morning" in read_input_document(file, "html").segments[0].text


def test_a_damaged_compressed_document_is_named(tmp_path: Path):
    file = tmp_path / "page.html.gz"
    file.write_bytes(gzip.compress(b"<p>Good morning.</p>")[:-9])

    with pytest.raises(ValueError, match=r"page\.html\.gz is not a complete gzip file"):
        read_input_document(file, "html")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Grüße".encode("utf-16"), "a.txt is UTF-16, not UTF-8; convert it: iconv -f UTF-16"),
        ("One.\nGrüße".encode("latin-1"), r"a.txt, line 2: not UTF-8 \(byte 0xfc at byte 3 of"),
    ],
)
def test_a_document_of_another_encoding_has_a_remedy(content: bytes, message: str):
    with pytest.raises(ValueError, match=message):
        read_document("a.txt", content)


def test_the_header_of_a_table_is_no_pair(tmp_path: Path):
    file = tmp_path / "corpus.tsv"
    file.write_text("Source\tTarget\nA dog.\tEin Hund.\nsource\ttarget\n")
    counts = CleaningCounts()

    pairs = list(clean(read_pairs([file]), max_ratio=4.0, counts=counts))

    assert [line for line, _ in pairs] == [2, 3]
    assert counts.summary() == "kept 2 pairs; dropped 1 (header: 1, such as line 1)"
