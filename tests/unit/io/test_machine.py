"""What a process may use is what it is allowed, not what is there."""

import os
from pathlib import Path

import pytest

from transduce.io import machine


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("limit", "cores"),
    [("50000 100000\n", 0.5), ("max 100000\n", 3), ("900000 100000\n", 3), ("", 3)],
)
def test_a_container_may_use_fewer_cores_than_there_are(limit: str, cores: float, container: Path):
    (container / "cpu.max").write_text(limit)

    assert machine.usable_cores() == cores


def test_without_a_container_all_cores_that_are_allowed(container: Path):
    assert machine.cgroup_limit("cpu.max") == ["max"]
    assert machine.usable_cores() == 3


def test_where_nobody_says_what_is_allowed_all_cores(
    container: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)

    assert machine.usable_cores() == 1


def test_a_processor_that_nobody_names_has_no_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")

    assert machine.processor_name() == ""


def test_a_processor_is_named_as_linux_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    text = "processor\t: 0\nmodel name\t: A Processor 7\nmodel name\t: Another\n"
    monkeypatch.setattr(Path, "read_text", lambda _: text)

    assert machine.processor_name() == "A Processor 7"
