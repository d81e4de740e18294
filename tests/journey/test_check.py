"""A corpus looked over from the command line, and by `train` itself."""

import json
from pathlib import Path

import pytest
from tests.conftest import SMALL, CommandResult, Transduce
from tests.sentences import sentences, write_sides

from transduce.config import load_recipe
from transduce.data.corpus import Pair

PAIRS = sentences(433)
SWAPPED = [Pair(pair.target, pair.source) for pair in PAIRS[:11]]
FAULTY = [*SWAPPED, *PAIRS[11:], PAIRS[20], Pair("Stop!", "Stop!"), Pair("", "Leer.")]
FAULTY += [Pair("It is late.", "Es ist\u2028spät."), Pair("No.", PAIRS[0].target * 3)]
TEST = sentences(500)[480:]
LEAKED = PAIRS[33]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_sides(tmp_path, "train", FAULTY)
    write_sides(tmp_path, "clean", PAIRS)
    write_sides(tmp_path, "test", [*TEST, LEAKED])
    return tmp_path


def check(transduce: Transduce, corpus: Path, *words: object, name: str = "train") -> CommandResult:
    files = ("--source", corpus / f"{name}.en", "--target", corpus / f"{name}.de")
    small = ("--set", "tokenizer.vocab_size=97")
    return transduce("check", *files, *small, *words)


def with_test(corpus: Path) -> tuple[str, str]:
    return ("--set", f'data.test=["{corpus}/test.en", "{corpus}/test.de"]')


def test_a_clean_corpus_has_no_finding(transduce: Transduce, corpus: Path):
    result = check(transduce, corpus, name="clean")

    assert result.code == 0
    assert result.err == ""
    first, few, last = result.out.splitlines()
    assert first.startswith(
        "433 pairs to train on, about 21 of them held out to validate, 0 to test; "
    )
    assert first.endswith(" pieces per word")
    assert few.startswith("WARNING: 433 training pairs are few for random weights, below 10,000: ")
    assert "`transduce train --from MODEL`" in few
    assert last == "no findings"


def test_a_first_line_that_names_the_columns_is_no_fault(transduce: Transduce, corpus: Path):
    write_sides(corpus, "named", [Pair("source", "target"), *PAIRS])

    result = check(transduce, corpus, name="named")

    assert result.out.startswith("433 pairs to train on, ")
    assert "empty side" not in result.out


def test_a_header_of_held_out_text_is_no_pair(transduce: Transduce, corpus: Path):
    write_sides(corpus, "test", [Pair("source", "target"), *TEST, LEAKED])

    result = check(transduce, corpus, *with_test(corpus), name="clean")

    assert "433 pairs to train on, about 21 of them held out to validate, 21 to test" in result.out
    assert "empty side" not in result.out
    assert "test: 1 of 21 pairs also occurs in training" in result.out
    assert ", such as line 22: " in result.out


def test_every_fault_gets_a_line_with_a_count_and_an_example(transduce: Transduce, corpus: Path):
    result = check(transduce, corpus, *with_test(corpus))

    assert result.code == 0
    assert "training: 11 of 438 pairs have their sides swapped, such as line 1: " in result.out
    assert "1 of 438 pairs has a target identical to its source, such as line 435" in result.out
    assert "1 of 438 pairs is a duplicate" in result.out
    assert "1 of 438 pairs has an empty side, such as line 436:  | Leer." in result.out
    assert "test: 1 of 21 pairs also occurs in training" in result.out
    assert result.out.endswith("findings\n")


def test_a_fault_that_spoils_training_is_loud_and_the_exit_code_says_it(
    transduce: Transduce, corpus: Path
):
    (corpus / "train.de").write_bytes((corpus / "train.en").read_bytes())

    result = check(transduce, corpus)

    assert result.code == 1
    assert "WARNING: training: " in result.out


def test_json_holds_counts_and_examples(transduce: Transduce, corpus: Path):
    result = check(transduce, corpus, "--json")

    output = json.loads(result.out)
    copy = next(finding for finding in output["report"]["findings"] if finding["kind"] == "copy")
    assert output["report"]["training_pairs"] == 438
    assert (copy["part"], copy["count"], copy["of"]) == ("training", 1, 438)
    assert copy["examples"] == [[435, "Stop!", "Stop!"]]
    assert [*output] == ["report"]


def test_a_recipe_names_a_corpus_too(transduce: Transduce, corpus: Path):
    (corpus / "mine.toml").write_text(
        f'[data]\nfolder = "{corpus}"\ntrain = ["clean.en", "clean.de"]\n'
        "[tokenizer]\nvocab_size = 97\n"
    )

    result = transduce("check", corpus / "mine.toml")

    assert result.out.startswith("433 pairs to train on")


def test_each_direction_is_checked_with_its_further_corpora(transduce: Transduce, corpus: Path):
    write_sides(corpus, "more", [Pair("Halt!", "<bt> Stop!"), Pair("Halt!", "<bt> Halt!")])
    (corpus / "mine.toml").write_text(
        f'[data]\nfolder = "{corpus}"\n'
        '[[data.directions]]\nsource = "en"\ntarget = "de"\ntrain = ["train.en", "train.de"]\n'
        '[[data.directions]]\nsource = "de"\ntarget = "en"\ntrain = ["clean.de", "clean.en"]\n'
        '[[data.also]]\nsource = "de"\ntarget = "en"\ntrain = ["more.de", "more.en"]\n'
        "[tokenizer]\nvocab_size = 97\n"
    )

    result = transduce("check", corpus / "mine.toml")
    reports = json.loads(transduce("check", corpus / "mine.toml", "--json").out)["reports"]

    assert result.out.startswith("en-de: 438 pairs to train on")
    assert "training: 11 of 438 pairs have their sides swapped" in result.out
    assert "\n\nde-en: 435 pairs to train on" in result.out
    assert "training: 1 of 435 pairs has a target identical to its source" in result.out
    assert {name: report["training_pairs"] for name, report in reports.items()} == {
        "en-de": 438,
        "de-en": 435,
    }


def test_a_line_that_is_not_utf8_is_a_finding(transduce: Transduce, corpus: Path):
    write_sides(corpus, "train", [*PAIRS, Pair("nice", "sch\udcf6n")])

    result, as_json = check(transduce, corpus), check(transduce, corpus, "--json")

    assert "1 of 434 lines is not UTF-8; convert the file" in result.out
    assert "iconv -f LATIN1 -t UTF-8" in result.out
    assert r"nice | sch\xf6n" in result.out
    assert json.loads(as_json.out)["report"]["findings"][0]["count"] == 1


def test_preparing_says_what_it_finds_and_what_it_chose(transduce: Transduce, corpus: Path):
    files = ("--source", corpus / "train.en", "--target", corpus / "train.de")
    settings = ("--set", "tokenizer.vocab_size=97", "--set", "model.dropout=0.07")

    result = transduce("prepare", *files, *settings, *with_test(corpus), "--out", corpus / "run")

    lines = result.err.splitlines()
    assert result.code == 0, result.err
    assert lines[0].startswith(
        "437 pairs: 4+4 layers of width 128, 97 pieces, dropout 0.07 and R-Drop 2, updates for 120 "
        "epochs, at least 300, "
    )
    assert lines[1].startswith("kept 435 pairs; dropped 3 (")
    assert any("pairs has a target identical to its source" in line for line in lines)
    assert lines[-1].endswith(" pieces a word in validation and test text")
    recipe = load_recipe(corpus / "run" / "recipe.toml")
    prepared = json.loads((corpus / "run" / "prepared" / "prepared.json").read_text())
    assert recipe.train.updates == max(300, 120 * prepared["updates_per_epoch"])
    assert recipe.model.dropout == 0.07


def test_settings_that_hardly_mean_what_they_say_are_told(transduce: Transduce, corpus: Path):
    files = ("--source", corpus / "clean.en", "--target", corpus / "clean.de")
    odd = ("--set", "train.updates=20", "--set", "train.validate_every=21")

    out = ("--set", "tokenizer.vocab_size=97", "--out", corpus / "run")

    result = transduce("prepare", *files, *SMALL, *odd, *out)

    assert "train.validate_every 21 is above train.updates 20" in result.err


def test_going_on_with_a_run_keeps_what_was_chosen_for_it(transduce: Transduce, corpus: Path):
    files = ("--source", corpus / "clean.en", "--target", corpus / "clean.de")
    small = (*SMALL, "--set", "tokenizer.vocab_size=97", "--set", "train.updates=11")
    first = transduce("train", *files, *small, "--out", corpus / "run")
    chosen = load_recipe(corpus / "run" / "recipe.toml")
    with (corpus / "clean.en").open("a") as file:
        file.write("A line more.\n" * 9000)

    again = transduce("train", "--resume", "--out", corpus / "run")

    assert "433 pairs: 1+1 layers of width 32" in first.err
    assert (again.code, load_recipe(corpus / "run" / "recipe.toml")) == (0, chosen)
    assert "since" not in again.err
