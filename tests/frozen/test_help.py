"""What every command says of itself, as stored in `help/`.

After a wanted change: TRANSDUCE_FREEZE=1 make test, then look at the difference.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Transduce

COMMANDS = (
    *("", "demo", "check", "prepare", "train", "average", "adapt", "distill", "augment"),
    "tune",
    *("translate", "alternatives", "score", "evaluate", "compare", "calibrate"),
    *("serve", "view", "export", "import", "relabel", "doctor"),
    *("corpus build", "corpus get"),
    *("memory import", "memory export", "memory lookup"),
    *(
        "paper table1",
        "paper table2",
        "paper table3",
        "paper figures",
        "paper model",
        "paper table4",
    ),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_it_said(
    command: str, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    stored = Path(__file__).parent / "help" / f"{command or 'transduce'}.txt"
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")

    result = transduce(*command.split(), "--help")

    if os.environ.get("TRANSDUCE_FREEZE"):
        stored.write_text(result.out)
    assert result.code == 0
    assert result.out == stored.read_text()


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_help_has_an_example(command: str, transduce: Transduce):
    output = transduce(*command.split(), "--help").out
    examples = output.partition("Example")[2].partition("Options")[0]

    assert f"transduce {command}" in examples


def test_no_command_is_a_call_for_help(transduce: Transduce):
    assert transduce().out == transduce("--help").out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_does_not_wait_for_torch(command: str):
    program = (
        "import sys; from transduce.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'torch' in sys.modules)"
    )

    result = subprocess.run(
        [sys.executable, "-c", program, *command.split(), "--help"], check=False
    )

    assert result.returncode == 0
