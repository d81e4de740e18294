"""Output of many lines goes on where an earlier run ended, and is the same bytes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.io.resumable import resumable_output

LINES = [f"line {number}" for number in range(7)]
SETTINGS = {"beam": "4"}


class Killed(Exception):
    """Ends a run like a kill."""


def shout(
    folder: Path, lines: list[str], *, kill_at: int = 99, settings: dict[str, str] = SETTINGS
) -> list[str]:
    """Write each line in capitals, and its length to a second file; return what was worked on."""
    worked: list[str] = []
    given: Iterator[str] = iter(lines)
    with resumable_output([folder / "out", folder / "sizes"], given, settings=settings) as output:
        for number, line in enumerate(given, output.done):
            output.write(f"{line.upper()}\n")
            if number == kill_at:
                raise Killed
            output.write(f"{len(line)}\n", stream=1)
            output.commit([line])
            worked.append(line)
    return worked


def begin(folder: Path) -> None:
    with pytest.raises(Killed):
        shout(folder, LINES, kill_at=3)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    (tmp_path / "other").mkdir()
    shout(tmp_path / "other", LINES)
    return files(tmp_path / "other")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


def test_an_undisturbed_run_leaves_only_its_files(undisturbed: dict[str, bytes]):
    assert undisturbed.keys() == {"out", "sizes"}


def test_a_second_run_goes_on_and_writes_the_same_bytes(
    folder: Path, undisturbed: dict[str, bytes]
):
    begin(folder)
    assert not (folder / "out").exists()

    assert shout(folder, LINES) == LINES[3:]
    assert files(folder) == undisturbed


def test_a_resumed_output_has_the_last_line_before(folder: Path):
    begin(folder)
    paths = [folder / "out", folder / "sizes"]

    with resumable_output(paths, iter(LINES), settings=SETTINGS) as output:
        assert output.last_line == LINES[2]
        output.commit(["new"])
        assert output.last_line == "new"


def test_two_outputs_in_one_file_are_refused(folder: Path):
    paths = [folder / "out", folder / "." / "out"]

    with (
        pytest.raises(ValueError, match="out is named for two outputs"),
        resumable_output(paths, iter(LINES), settings=SETTINGS),
    ):
        pass

    assert files(folder) == {}


def test_a_finished_output_is_written_anew(folder: Path, undisturbed: dict[str, bytes]):
    shout(folder, LINES[:2])

    assert shout(folder, LINES) == LINES
    assert files(folder) == undisturbed


@pytest.mark.parametrize(
    ("lines", "settings", "message"),
    [
        (["other", *LINES[1:]], SETTINGS, "out was begun with another input: repeat that command"),
        (LINES[:2], SETTINGS, "out was begun with another input: repeat that command"),
        (LINES, {"beam": "5"}, "out was begun with another beam: repeat that command"),
        (LINES, {}, "or delete .*/.out.progress to begin anew"),
    ],
)
def test_what_does_not_go_together_is_refused(
    folder: Path, lines: list[str], settings: dict[str, str], message: str
):
    begin(folder)
    before = files(folder)

    with pytest.raises(ValueError, match=message):
        shout(folder, lines, settings=settings)

    assert files(folder) == before


def test_lines_after_the_last_commit_may_be_others(folder: Path):
    begin(folder)

    assert shout(folder, [*LINES[:3], "new"]) == ["new"]
    assert (folder / "out").read_text() == "LINE 0\nLINE 1\nLINE 2\nNEW\n"


@pytest.mark.parametrize("name", [".out.partial", ".sizes.partial", ".out.progress"])
@pytest.mark.parametrize("size", [0, 5])
def test_a_damaged_beginning_is_begun_anew(
    folder: Path, undisturbed: dict[str, bytes], name: str, size: int
):
    begin(folder)
    (folder / name).write_bytes(b"x" * size)

    assert shout(folder, LINES) == LINES
    assert files(folder) == undisturbed


def test_an_error_before_the_first_commit_leaves_nothing(folder: Path):
    with pytest.raises(Killed):
        shout(folder, LINES, kill_at=0)

    assert files(folder) == {}
