"""What cannot be checked or meant gets one line and exit code 2, and leaves nothing."""

from pathlib import Path

import pytest
from tests.conftest import CommandResult, Transduce, refuses
from tests.sentences import sentences, write_sides

from transduce.config import load_recipe, warnings


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_sides(tmp_path, "train", sentences(97))
    return tmp_path


def check(transduce: Transduce, corpus: Path, *words: object) -> CommandResult:
    files = ("--source", corpus / "train.en", "--target", corpus / "train.de")
    return transduce("check", *files, "--set", "tokenizer.vocab_size=97", *words)


def test_sides_of_unequal_length_cannot_be_checked(transduce: Transduce, corpus: Path):
    with (corpus / "train.de").open("a") as file:
        file.write("Eine Zeile zu viel.\n")

    refuses(check(transduce, corpus), "97 lines", "98", "look first near line")


def test_a_missing_file_is_named(transduce: Transduce, corpus: Path):
    (corpus / "train.de").unlink()

    refuses(check(transduce, corpus), corpus / "train.de", "does not exist")


def test_a_header_alone_is_nothing_to_check(transduce: Transduce, corpus: Path):
    for name in ("train.en", "train.de"):
        (corpus / name).write_text("source\n" if name.endswith("en") else "target\n")

    refuses(check(transduce, corpus), "train.en", "no line to read but a header")


def test_no_corpus_is_nothing_to_check(transduce: Transduce):
    refuses(transduce("check"), "there is no corpus")


@pytest.mark.parametrize("command", ["check", "prepare", "train"])
def test_one_side_is_no_corpus(transduce: Transduce, corpus: Path, command: str):
    result = transduce(command, "--source", corpus / "train.en")

    refuses(result, "--source and --target belong together")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (["batch.micro_tokens=256"], ["batch.micro_tokens 256", "data.max_pieces 256", "257"]),
        (["train.r_drop=5.0", "model.dropout=0.0"], ["train.r_drop 5.0", "model.dropout is 0"]),
        (['data.train=["a", "b"]', "data.held_out=0"], ["nothing to validate on"]),
        (
            ['data.train=["a", "b"]', 'data.validation=["a", "b"]'],
            ["data.validation names the files of data.train"],
        ),
        (
            ['data.train=["a", "b"]', 'data.test=["a", "b"]'],
            ["data.test names the files of data.train"],
        ),
        (["train.warmup=2500"], ["train.warmup", "2500"]),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    transduce: Transduce, settings: list[str], parts: list[str]
):
    given = [word for setting in settings for word in ("--set", setting)]

    refuses(transduce("train", "tiny", *given), *parts)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (["train.validate_every=2501"], "there is one validation, at the end"),
        (
            ["train.average_checkpoints=11"],
            "train.average_checkpoints 11 is more than the 10 checkpoints",
        ),
        (
            ["train.schedule=paper", "train.learning_rate=1", "train.warmup=2500"],
            "the rate only rises",
        ),
    ],
)
def test_settings_that_hardly_mean_what_they_say_are_doubted(settings: list[str], part: str):
    (doubt,) = warnings(load_recipe("tiny", settings))

    assert part in doubt


def test_a_recipe_that_is_sound_is_not_doubted():
    assert list(warnings(load_recipe("tiny"))) == []
