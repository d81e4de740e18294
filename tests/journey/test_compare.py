"""`transduce compare`: a table or one JSON object on stdout, one line for what is wrong."""

import json
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses

LINES = [f"line {number} of a small test set" for number in range(29)]
SAMPLES = ("--samples", 101)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """References, a system that drops a word of each line, and one of every fifth line."""
    for name, lines in {
        "ref.en": LINES,
        "poor.en": [line.replace("small ", "") for line in LINES],
        "good.en": [line.replace("small ", "" if line[5] == "7" else "small ") for line in LINES],
    }.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_a_table_says_which_is_better(folder: Path, transduce: Transduce):
    files = (folder / "poor.en", folder / "good.en")

    result = transduce("compare", "--target", folder / "ref.en", *files, *SAMPLES)

    assert (result.code, result.err) == (0, "")
    assert [line.split()[0] for line in result.out.split("\n") if line[:1].isalpha()] == [
        *("BLEU", "chrF2", "TER")
    ]
    assert result.out.count("  better\n") == 3


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_json_is_one_object_with_the_values_of_evaluate(
    folder: Path, transduce: Transduce, test: str
):
    target = ("--target", folder / "ref.en", "--metric", "chrf", "--json")
    files = (folder / "poor.en", folder / "good.en", folder / "poor.en")

    actual = transduce("compare", *target, *files, *SAMPLES, "--test", test, "--seed", 3)

    result = json.loads(actual.out)
    systems = result["metrics"][0]["systems"]
    score = json.loads(transduce("evaluate", "--hypotheses", files[1], *target).out)[0]
    assert (result["test"], result["samples"], result["seed"]) == (test, 101, 3)
    assert [system["verdict"] for system in systems] == ["baseline", "better", "unclear"]
    assert systems[1]["value"] == score["value"]
    assert (systems[0]["p"], systems[2]["p"]) == (None, 1.0)


def test_files_of_one_name_are_told_apart_by_their_paths(folder: Path, transduce: Transduce):
    other = folder / "other" / "good.en"
    other.parent.mkdir()
    other.write_bytes((folder / "good.en").read_bytes())

    result = transduce(
        "compare", "--target", folder / "ref.en", folder / "good.en", other, *SAMPLES
    )

    assert "  other/good.en  " in result.out
    assert f"  {folder.name}/good.en  " in result.out


def test_mistakes_are_one_line(folder: Path, transduce: Transduce):
    target = ("--target", folder / "ref.en")
    good = folder / "good.en"
    short, latin = folder / "short.en", folder / "latin.en"
    short.write_text("one line\n")
    latin.write_bytes(b"caf\xe9\n" * 29)

    refuses(transduce("compare", good, good), "--target")
    refuses(transduce("compare", *target, good), "two systems")
    refuses(transduce("compare", *target, good, short), "short.en has 1 lines", "29 references")
    refuses(transduce("compare", *target, good, latin), "latin.en, line 1: not UTF-8")
    refuses(transduce("compare", *target, good, folder / "none.en"), "none.en")
    refuses(transduce("compare", *target, good, good, "--metric", "rouge"), "'rouge'")
    refuses(transduce("compare", *target, good, good, "--test", "t"), "--test")
    refuses(transduce("compare", *target, good, good, "--seed", "0"), "seed")
