"""A folder is whole or absent, and a reader can tell."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from transduce.bundle.bundle import find_bundle
from transduce.io import lock
from transduce.io.atomic_folder import (
    atomic_file,
    atomic_folder,
    check_folder,
    check_new_folder,
    check_replaceable,
    recover_interrupted,
    sha256,
)

WHAT = "a box"


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return a_box(tmp_path / "box")


def a_box(folder: Path) -> Path:
    with atomic_folder(folder) as fresh:
        (fresh / "a.txt").write_text("some text")
        (fresh / "deep").mkdir()
        (fresh / "deep" / "b.bin").write_bytes(bytes(range(97)))
    return folder


def fail_in_the_middle(folder: Path, failure: BaseException) -> None:
    with atomic_folder(folder) as fresh:
        (fresh / "a.txt").write_text("half of")
        raise failure


def test_what_was_written_is_whole(box: Path):
    check_folder(box, expected=WHAT)

    assert (box / "a.txt").read_text() == "some text"


def test_the_manifest_knows_size_and_checksum_of_the_files(box: Path):
    manifest = json.loads((box / "manifest.json").read_text())

    assert manifest == {
        "a.txt": {"bytes": 9, "sha256": sha256(box / "a.txt")},
        "deep/b.bin": {"bytes": 97, "sha256": sha256(box / "deep" / "b.bin")},
    }


def test_the_readme_is_for_people_who_may_edit_it(tmp_path: Path):
    with atomic_folder(tmp_path / "box") as fresh:
        (fresh / "a.txt").write_text("x")
        (fresh / "README.md").write_text("as written")
    (tmp_path / "box" / "README.md").write_text("as edited")

    check_folder(tmp_path / "box", expected=WHAT)


def test_nothing_else_is_left_beside_it(box: Path):
    assert [path.name for path in box.parent.iterdir()] == ["box"]


def test_a_failure_leaves_nothing(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle(tmp_path / "box", ZeroDivisionError())

    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        fail_in_the_middle(tmp_path / "box", KeyboardInterrupt())

    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_folder_as_it_was(box: Path):
    with pytest.raises(KeyboardInterrupt):
        fail_in_the_middle(box, KeyboardInterrupt())

    check_folder(box, expected=WHAT)
    assert (box / "a.txt").read_text() == "some text"


def test_a_link_stays_and_its_folder_is_replaced(box: Path, tmp_path: Path):
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(box)

    with atomic_folder(link) as fresh:
        (fresh / "new.txt").write_text("new")

    assert link.readlink() == box
    assert [path.name for path in box.iterdir() if path.suffix == ".txt"] == ["new.txt"]
    assert [path.name for path in link.parent.iterdir()] == ["link"]
    assert not [*tmp_path.glob(".box*")]


def test_a_folder_that_was_moved_aside_is_found_through_a_link(box: Path, tmp_path: Path):
    (tmp_path / "link").symlink_to(box)
    box.rename(box.with_name(".box.old-4194399"))

    assert recover_interrupted(tmp_path / "link")
    assert box.is_dir()


def test_a_file_is_written_through_a_link(tmp_path: Path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("file")

    with atomic_file(tmp_path / "link") as stream:
        stream.write(b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_a_folder_is_replaced_as_a_whole(box: Path):
    with atomic_folder(box) as fresh:
        (fresh / "c.txt").write_text("new")

    assert {path.name for path in box.iterdir()} == {"c.txt", "manifest.json"}
    assert [path.name for path in box.parent.iterdir()] == ["box"]


def dead() -> int:
    """The number of a process that is no more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_writer_killed_between_the_renames_lost_nothing(box: Path):
    box.rename(box.with_name(f".box.old-{dead()}"))

    check_folder(box, expected=WHAT)

    assert (box / "a.txt").read_text() == "some text"


def test_a_writer_killed_behind_the_renames_leaves_the_new_folder(box: Path):
    old = box.with_name(f".box.old-{dead()}")
    shutil.copytree(box, old)
    (box / "a.txt").write_text("new text!")

    assert recover_interrupted(box)
    assert old.is_dir()
    with atomic_folder(box) as fresh:
        (fresh / "a.txt").write_text((box / "a.txt").read_text())

    assert (box / "a.txt").read_text() == "new text!"
    assert [path.name for path in box.parent.iterdir()] == ["box"]


def test_what_a_killed_writer_had_not_finished_goes_when_the_next_one_comes(box: Path):
    box.with_name(f".box.new-{dead()}").mkdir()

    with atomic_folder(box) as fresh:
        (fresh / "c.txt").write_text("new")

    assert [path.name for path in box.parent.iterdir()] == ["box"]


def test_a_number_that_comes_again_is_not_taken_for_its_former_owner(tmp_path: Path):
    (tmp_path / f".box.new-{os.getpid()}").mkdir()

    with atomic_folder(tmp_path / "box") as fresh:
        (fresh / "c.txt").write_text("new")

    assert [path.name for path in tmp_path.iterdir()] == ["box"]


ELSEWHERE = """
import os, sys
from pathlib import Path
from transduce.io.atomic_folder import {writer}
os.getpid = lambda: 4194399  # as in another container: no process here has this number
with {writer}(Path(sys.argv[1])) as fresh:
    print("writing", flush=True)
    sys.stdin.read()
    {write}
"""


@contextmanager
def writing_elsewhere(path: Path, *, writer: str, write: str = "") -> Iterator[Popen[str]]:
    """A writer whose PID says nothing here, in the middle of its work until its input ends."""
    code = ELSEWHERE.format(writer=writer, write=write)
    with Popen([sys.executable, "-c", code, path], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        yield process


def test_a_reader_leaves_a_writer_of_another_container_alone(tmp_path: Path):
    box = a_box(tmp_path / "best")
    write = "(fresh / 'a.txt').write_text('newer')"
    with writing_elsewhere(box, writer="atomic_folder", write=write) as process:
        assert find_bundle(box.parent) == box
        process.communicate("")

    assert process.returncode == 0
    assert (box / "a.txt").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_a_reader_waits_for_an_exchange(box: Path, monkeypatch: pytest.MonkeyPatch):
    """It must not take the folder that was moved aside from a writer that lives."""
    monkeypatch.setattr(lock, "_WRITING", 0.05)
    with writing_elsewhere(box, writer="atomic_folder", write="1/0") as process:
        aside = box.rename(box.with_name(".box.old-4194399"))

        assert not recover_interrupted(box)
        assert aside.is_dir()
        process.kill()

    assert recover_interrupted(box)


@pytest.mark.parametrize("writer", ["atomic_folder", "atomic_file"])
def test_a_second_writer_is_refused_and_leaves_the_first_alone(
    tmp_path: Path, writer: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lock, "_WRITING", 0.05)
    with writing_elsewhere(tmp_path / "made", writer=writer) as process:
        second_writer = {"atomic_folder": atomic_folder, "atomic_file": atomic_file}[writer]
        refusal = pytest.raises(ValueError, match=r"made is being written to by another process")
        with refusal, second_writer(tmp_path / "made"):
            pass
        process.communicate("")

    assert process.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_file_is_whole_or_absent(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("old")

    with suppress(ZeroDivisionError), atomic_file(file) as stream:
        stream.write(b"half of")
        raise ZeroDivisionError

    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.txt", "old")]


def test_folders_above_are_made(tmp_path: Path):
    with atomic_folder(tmp_path / "one" / "two" / "box") as fresh:
        (fresh / "a.txt").write_text("x")

    check_folder(tmp_path / "one" / "two" / "box", expected=WHAT)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^.*box is not a box: it does not exist$"):
        check_folder(tmp_path / "box", expected=WHAT)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"is not a box: it has no manifest\.json$"):
        check_folder(tmp_path, expected=WHAT)


def test_a_missing_file_is_named(box: Path):
    (box / "deep" / "b.bin").unlink()

    with pytest.raises(ValueError, match=r"b\.bin is missing: .* is damaged"):
        check_folder(box, expected=WHAT)


def test_a_cut_file_is_named_with_both_sizes(box: Path):
    (box / "deep" / "b.bin").write_bytes(bytes(range(89)))

    with pytest.raises(ValueError, match=r"b\.bin has 89 bytes instead of 97"):
        check_folder(box, expected=WHAT)


def test_a_file_of_another_folder_of_the_same_size_is_named(box: Path):
    (box / "a.txt").write_text("ogre text")

    with pytest.raises(ValueError, match=r"a\.txt does not match its checksum"):
        check_folder(box, expected=WHAT)


@pytest.mark.parametrize(
    "manifest",
    [
        "",
        "{}",
        "[]",
        "7",
        '{"a.txt": 3}',
        '{"a.txt": {"bytes": 9}}',
        '{"a.txt": {"bytes": "x", "sha256": "y"}}',
        '{"../a.txt": {"bytes": 9, "sha256": "y"}}',
        '{"/a.txt": {"bytes": 9, "sha256": "y"}}',
    ],
)
def test_a_manifest_that_says_nothing_or_points_outside_is_refused(box: Path, manifest: str):
    (box / "manifest.json").write_text(manifest)

    with pytest.raises(ValueError, match=r"manifest\.json is damaged or not a manifest"):
        check_folder(box, expected=WHAT)


def test_a_manifest_that_is_no_text_is_refused(box: Path):
    (box / "manifest.json").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ValueError, match=r"manifest\.json is damaged or not a manifest"):
        check_folder(box, expected=WHAT)


@pytest.mark.parametrize("folder", [".", "..", "/", "box/.."])
def test_a_folder_without_a_name_of_its_own_is_refused(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    for check in (check_new_folder, lambda path: check_replaceable(path, ())):
        with pytest.raises(ValueError, match=r"name a folder that is not the current one"):
            check(Path(folder))


def test_the_checksum_is_sha_256(tmp_path: Path):
    (tmp_path / "abc").write_bytes(b"abc")

    digest = sha256(tmp_path / "abc")

    assert digest == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
