"""A server's settings: what is refused, where keys are read, and who beats whom."""

import math
import os
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses

from transduce.serve.settings import APIKey, ServerSettings, read_keys


def test_the_defaults_are_libretranslates() -> None:
    settings = ServerSettings()

    assert (settings.host, settings.port) == ("127.0.0.1", 5000)
    assert {settings.char_limit, settings.alternatives_limit} == {-1}
    assert settings.frontend_timeout == 500


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("port", 65536), ("char_limit", -2), ("queue", 0), ("beam", 0), ("time_limit_s", 0.0)),
        *(("drain_s", math.inf), ("keep_alive_s", math.inf)),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .*, not {value}$"):
        ServerSettings(**{name: value})


def test_keys_are_read_a_line_each_with_their_limits(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("\ufeff# ours\n\nalpha\nbeta 500\r\n gamma -1 60 9000\n", encoding="utf-8")

    keys = read_keys(file)

    assert keys == (APIKey("alpha"), APIKey("beta", 500), APIKey("gamma", -1, 60, 9000))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("alpha\nbeta 5 6 7 8", "line 2"),
        ("alpha five", "line 1"),
        ("alpha 5 six", "request limit"),
        ("alpha\n\nalpha 3", "line 3"),
    ],
)
def test_a_broken_line_is_named_by_its_number(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)

    with pytest.raises(ValueError, match=line) as error:
        read_keys(file)

    assert "alpha" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"# none\n", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys"
    file.write_bytes(content)

    with pytest.raises(ValueError, match="API key"):
        read_keys(file)


def test_the_environment_is_read_and_the_command_line_beats_it(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LT_PORT", "70000")

    refuses(transduce("serve", tmp_path), "port must be from 0 to 65535, not 70000")
    refuses(transduce("serve", tmp_path, "--port", "-7"), "not -7")


def test_a_wrong_word_in_the_environment_is_named(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LT_CHAR_LIMIT", "many")

    refuses(transduce("serve", tmp_path), "LT_CHAR_LIMIT", "not a whole number")


def test_without_the_packages_of_a_server_the_command_says_what_to_install(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(
        "transduce.cli.serve.find_spec", lambda name: None if name == "uvicorn" else name
    )

    refuses(transduce("serve", tmp_path), "uvicorn", "pip install 'transduce[serve]'")


def test_processes_share_the_cores_by_a_limit_that_all_engines_read(
    transduce: Transduce, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    works: list[partial[int]] = []

    def record(work: partial[int], settings: ServerSettings) -> int:
        works.append(work)
        return settings.processes - 4

    monkeypatch.setattr("transduce.cli.serve._serve", record)
    monkeypatch.setattr("transduce.cli.serve.usable_cores", lambda: 8.0)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    assert transduce("serve", tmp_path, "--processes", "4").code == 0

    assert os.environ["OMP_NUM_THREADS"] == "2"
    (load,) = works[0].args
    assert load.keywords["plan"] == (None, None)  # a plan is refused without CTranslate2
