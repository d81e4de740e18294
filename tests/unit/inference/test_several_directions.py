"""A model of several directions: the one that is asked for is translated, scored and looked up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import CommandResult, Transduce, refuses
from tests.unit.conftest import LINES
from tests.unit.inference.engines.conftest import PLAIN_SHAPE, bundle_of, lively

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer, target_tag
from transduce.inference.translator import Translator
from transduce.memory.store import Entry, TranslationMemory
from transduce.search.config import SearchConfig

BOTH = ("en-de", "de-en")


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    """Save an untrained model of these directions."""

    def save(*names: str) -> Path:
        pairs = [LanguagePair(*name.split("-")) for name in names]
        tags = [*dict.fromkeys(target_tag(pair.target) for pair in pairs)]
        tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97), tags=tags)
        Bundle(
            model=lively(replace(PLAIN_SHAPE, vocab_size=tokenizer.vocab_size)),
            tokenizer=tokenizer,
            languages=Languages(source=pairs[0].source, target=pairs[0].target),
            search=SearchConfig(beam=2),
            provenance=Provenance(),
            directions=tuple(pairs),
        ).save(tmp_path / "model")
        return tmp_path / "model"

    return save


@pytest.mark.parametrize("names", [BOTH, ("de-en", "fr-en")])
def test_an_ensemble_has_the_directions_of_its_first_model(
    saved: Callable[..., Path], names: tuple[str, ...]
):
    model = saved(*names)
    together = Translator.load(model, ensemble=[model])

    target = "en" if names == BOTH else None
    tagged, plain = together.translate(["<2en> ein Ball", "ein Ball"], target=target)
    assert tagged.ids == plain.ids
    if names == BOTH:
        with pytest.raises(ValueError, match="into de, en: put the tag of a target"):
            together.score(["ein Ball"], ["a ball"])


def test_a_model_is_evaluated_in_the_language_of_the_references(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce
):
    model = saved(*BOTH)
    for name, text in (("test.de", "ein Ball\n"), ("test.en", "a ball\n"), ("test", "a ball\n")):
        (tmp_path / name).write_text(text)

    def evaluate(references: str, *options: object) -> CommandResult:
        files = ("--source", tmp_path / "test.de", "--target", tmp_path / references)
        return transduce("evaluate", model, *files, "--metric", "perplexity", *options)

    english, german = (evaluate("test.en", "--language", code).out for code in ("en", "de"))
    assert evaluate("test.en").out == english != german
    (tmp_path / "test.fr").write_text("a ball\n")
    for references in ("test", "test.fr"):
        message = "the model translates into de, en: name one with --language"
        refuses(evaluate(references), message)
    assert evaluate("test", "--language", "en").out == english
    page = evaluate("test.en", "--report", tmp_path / "page.html")
    assert (page.code, page.out) == (0, english)
    assert "on test.de, de → en, " in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("command", ["score", "alternatives", "view", "calibrate"])
def test_a_tag_before_each_text_chooses_the_target(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce, command: str
):
    model = saved(*BOTH)

    def run(text: str) -> CommandResult:
        (tmp_path / "in").write_text(f"{text}\n")
        (tmp_path / "out").write_text("ein Ball\n")
        files = ("--source", tmp_path / "in", "--target", tmp_path / "out")
        single = {"alternatives": (text,), "view": (text, "--out", tmp_path / "map.json")}
        return transduce(command, model, *single.get(command, files))

    refuses(run("a ball"), "into de, en: put the tag of a target language, such as <2de>, before")
    tagged = run("<2de> a ball")
    if command == "calibrate":
        refuses(tagged, "1 lines are too few")
    else:
        assert tagged.code == 0, tagged.err


def test_a_blank_line_among_lines_with_tags_needs_none(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce
):
    lines = b"<2de> a ball\n\n \t\n<2en> ein Ball\n"

    result = transduce("translate", saved(*BOTH), "--align", tmp_path / "links", stdin=lines)

    assert result.code == 0, result.err
    assert list(map(bool, result.out.split("\n"))) == [True, False, False, True, False]
    assert (tmp_path / "links").read_text().count("\n") == 4


@pytest.mark.parametrize(
    ("names", "options", "entry"),
    [
        (BOTH, ("--to", "en"), "de-en"),
        (BOTH, ("--to", "deu"), "en-de"),
        (("de-en", "fr-en"), ("--to", "en", "--from", "fr"), "fr-en"),
        ((*BOTH, "en-fr"), ("--to", "fr", "--from", "de"), "de-fr"),  # zero-shot
        (BOTH, (), ""),
        (("de-en", "fr-en"), (), ""),
        (("de-en", "fr-en"), ("--to", "en"), ""),
    ],
)
def test_a_memory_is_searched_in_the_direction_that_is_translated(
    saved: Callable[..., Path],
    tmp_path: Path,
    transduce: Transduce,
    names: tuple[str, ...],
    options: tuple[str, ...],
    entry: str,
):
    store = tmp_path / "memory.db"
    with TranslationMemory(store) as memory:
        for name in (*BOTH, "en-fr", "fr-en", "de-fr"):
            source, target = name.split("-")
            memory.add([Entry(source="Ball", target=name, source_lang=source, target_lang=target)])

    result = transduce("translate", saved(*names), *options, "--memory", store, stdin=b"Ball\n")

    if entry:
        assert (result.code, result.out) == (0, f"{entry}\n"), result.err
    else:
        refuses(result, f"directions {', '.join(names)}: choose one for --memory by --to and")


TMX = """<tmx><body><tu><tuv xml:lang="en"><seg>a ball</seg></tuv>
<tuv xml:lang="de"><seg>ein Ball</seg></tuv></tu></body></tmx>"""


def test_a_model_of_a_single_target_is_evaluated_in_it(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce
):
    bundle = Bundle.load(saved("en-de"))
    bundle.languages = Languages(source="en", target="mul")  # as of an imported model
    bundle.save(tmp_path / "model")
    (tmp_path / "test").write_text("a ball\n")

    files = ("--source", tmp_path / "test", "--target", tmp_path / "test")
    result = transduce("evaluate", tmp_path / "model", *files, "--metric", "perplexity")

    assert result.code == 0, result.err


def test_columns_name_the_first_direction_where_none_is_chosen(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce
):
    (tmp_path / "terms.csv").write_text("en,de\na ball,ein Ball\n")
    glossary = ("--glossary", tmp_path / "terms.csv", "--engine", "torch")

    result = transduce("translate", saved("de-en", "fr-en"), *glossary, stdin=b"ein Ball\n")

    assert "of 1 terms applied\n" in result.err


def test_codes_of_a_trained_direction_are_not_zero_shot_however_they_are_spelled(
    saved: Callable[..., Path], transduce: Transduce
):
    options = ("--to", "deu", "--from", "eng")

    assert "zero-shot" not in transduce("translate", saved(*BOTH), *options, stdin=b"a\n").err


@pytest.mark.parametrize(
    ("name", "content"), [("terms.tmx", TMX), ("terms.csv", "en,de\na ball,ein Ball\n")]
)
def test_a_glossary_is_read_in_the_direction_that_is_translated(
    saved: Callable[..., Path], tmp_path: Path, transduce: Transduce, name: str, content: str
):
    (tmp_path / name).write_text(content)
    glossary = ("--glossary", tmp_path / name, "--engine", "torch")

    result = transduce("translate", saved(*BOTH), "--to", "en", *glossary, stdin=b"ein Ball\n")

    assert "a ball" in result.out
    assert "of 1 terms applied\n" in result.err


def test_a_model_of_one_direction_takes_its_own_target_alone(
    tokenizer: Tokenizer, tmp_path: Path, transduce: Transduce
):
    bundle = bundle_of(lively(replace(PLAIN_SHAPE, vocab_size=tokenizer.vocab_size)), tokenizer)

    def translate(*options: str) -> CommandResult:
        bundle.save(tmp_path / "model")
        return transduce("translate", tmp_path / "model", *options, stdin=b"a ball\n")

    named = translate("--to", "deu", "--from", "en")
    assert (named.code, named.out) == (0, translate().out)
    refuses(translate("--to", "fr"), "does not translate into 'fr', only into de")
    bundle.languages = Languages()
    refuses(translate("--to", "de"), "it has one direction, so leave out the target language")
