"""`transduce doctor`, as a person or a program calls it."""

import json
from pathlib import Path

import pytest
from tests.conftest import Transduce

import transduce.train.step as step


def broken(*_: object, **__: object) -> None:
    raise ImportError("a library is damaged")


def test_a_sound_installation_is_told_on_stdout_with_exit_code_0(transduce: Transduce):
    result = transduce("doctor")

    assert (result.code, result.err) == (0, ""), result.out
    assert result.out.isascii()
    assert result.out.endswith("\nno faults\n")
    headings = [line for line in result.out.split("\n") if line[:1].isupper()]
    assert headings == ["Versions", "Machine", "System", "Self-test"]


def test_it_shows_no_path_of_the_machine(transduce: Transduce):
    assert str(Path.cwd()) not in transduce("doctor").out


def test_a_fault_is_exit_code_1_and_a_word(transduce: Transduce, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(step, "train_step", broken)

    result = transduce("doctor")

    assert (result.code, result.err) == (1, "")
    assert "  FAULT  a tiny model" in result.out
    assert result.out.endswith("\n1 fault (see FAULT)\n")


def test_json_is_one_object_that_counts_its_faults(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(step, "train_step", broken)

    result = transduce("doctor", "--json")

    report = json.loads(result.out)
    last = report["checks"][-1]
    assert result.code == report["faults"] == 1
    assert (last["heading"], last["name"], last["finding"]["state"]) == (
        *("Self-test", "a tiny model"),
        "FAULT",
    )
