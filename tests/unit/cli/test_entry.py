"""How the command line ends when memory runs out, and what it reads and writes."""

import sys
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses

from transduce.cli import main
from transduce.cli.app import hint_to_resume, print_stdout
from transduce.inference.translator import Translator


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("could not create a primitive"), "lower --batch-tokens or --beam"),
        (MemoryError("a sentence of 9 pieces does not fit"), "a sentence of 9 pieces does not fit"),
    ],
)
def test_memory_that_runs_out_is_one_line_with_a_remedy(
    error: Exception, message: str, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    def load(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Translator, "load", load)

    result = transduce("translate", Path("model"), stdin=b"a\n")

    assert result.code == 1
    assert result.err.endswith(f"{message}\n")
    assert result.err.count("\n") == 1


def test_another_runtime_error_keeps_its_traceback(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    def load(*_: object, **__: object) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Translator, "load", load)

    with pytest.raises(RuntimeError, match="mat1"):
        transduce("translate", Path("model"), stdin=b"a\n")


def test_a_closed_stdin_is_empty(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "stdin", None)

    code = main(["translate", "model", "--format", "json"])
    sys.stdin.close()

    assert code == 2
    assert capfd.readouterr().err.startswith("transduce: stdin, line 1: not JSON")


def test_a_text_that_is_not_utf_8_is_refused_at_the_start(transduce: Transduce):
    refuses(transduce("translate", Path("model"), "caf\udce9"), "the text is not UTF-8")


def test_a_path_that_is_not_utf_8_is_printed_as_it_is(capfdbinary: pytest.CaptureFixture[bytes]):
    print_stdout("caf\udce9.svg")

    assert capfdbinary.readouterr().out == b"caf\xe9.svg\n"


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("prepared/prepared.json", "interrupted before training began; repeat the command\n"),
        ("metrics.jsonl", "interrupted; resume with: "),
        ("checkpoints/update-00000010", "interrupted; resume with: "),
    ],
)
def test_an_interrupted_run_names_the_command_that_resumes_it(
    file: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / file).mkdir(parents=True)

    with pytest.raises(KeyboardInterrupt), hint_to_resume(tmp_path):
        raise KeyboardInterrupt

    message = capsys.readouterr().err
    assert message.startswith(hint)
    assert message.endswith(f"--resume --out {tmp_path}\n") == hint.endswith(": ")
