"""Options under the names that users of other programs type."""

import pytest
import typer.main
from tests.conftest import Transduce, refuses

from transduce.cli.app import app


def options() -> dict[str, set[str]]:
    """The options of each command that is not the paper's."""
    group = typer.main.get_command(app)
    commands: dict[str, typer.core.TyperCommand] = group.commands  # type: ignore[attr-defined]
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands.items()
        if name != "paper"
    }


def test_output_and_input_have_one_letter_everywhere() -> None:
    for name, known in options().items():
        assert ("-o" in known) == bool({"--out", "--output"} & known), name
        # Commands with a corpus of two sides have no one input.
        if name in ("translate", "evaluate", "score", "calibrate"):
            assert "-i" in known, name


def test_source_and_target_are_files_in_every_command() -> None:
    for name, known in options().items():
        assert not {"--source", "--target"} & known or name in (
            *("check", "prepare", "train", "tune", "distill"),  # a corpus
            *("score", "evaluate", "calibrate", "compare"),  # a text and its references
        )


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "--beam-size", "nix"),
        ("translate", "--num-beams=nix"),
        ("distill", "--num-beams", "nix"),
        ("serve", "--beam-size", "nix"),
        ("translate", "--length-penalty", "nix"),
    ],
)
def test_names_of_other_programs_are_taken(words: tuple[str, ...], transduce: Transduce) -> None:
    refuses(transduce(words[0], "model", *words[1:]), "Invalid value for", "not a ")


def test_files_have_names_of_other_programs(transduce: Transduce) -> None:
    for words in (
        ("evaluate", "--hypotheses", "no.de", "--reference", "no.en"),
        ("score", "model", "-i", "no.de", "--reference", "no.en"),
        ("compare", "no.de", "no.de", "--reference", "no.en", "--target-lang", "de"),
        ("translate", "model", "--source", "no.de", "--out", "no.txt"),
    ):
        refuses(transduce(*words), ": No such file or directory")
