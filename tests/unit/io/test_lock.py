"""One process a folder; a lock dies with its owner."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from transduce.io.lock import LOCK_FILE, exclusive_lock

HOLD = """
import sys, time
from pathlib import Path
from transduce.io.lock import exclusive_lock
with exclusive_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the folder until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.stdout.close()
    return process


def test_a_second_process_is_refused_and_told_whose_it_is(tmp_path: Path):
    with holder(tmp_path / "run") as other:
        refusal = pytest.raises(ValueError, match=rf"another process \(PID {other.pid}\): wait")
        with refusal, exclusive_lock(tmp_path / "run"):
            pass
        other.kill()


def test_the_lock_dies_with_its_owner(tmp_path: Path):
    with holder(tmp_path / "run") as other:
        other.send_signal(signal.SIGKILL)
    assert (tmp_path / "run" / LOCK_FILE).exists()

    with exclusive_lock(tmp_path / "run"):
        assert (tmp_path / "run" / LOCK_FILE).read_text() == str(os.getpid())


def test_whoever_holds_a_folder_may_take_it_again(tmp_path: Path):
    with exclusive_lock(tmp_path / "run"):
        with exclusive_lock(tmp_path / "run"):
            pass
        assert (tmp_path / "run" / LOCK_FILE).exists()


def test_another_thread_is_another_owner(tmp_path: Path):
    refused: list[str] = []

    def second() -> None:
        try:
            with exclusive_lock(tmp_path / "run"):
                pass
        except ValueError as error:
            refused.append(str(error))

    with exclusive_lock(tmp_path / "run"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()

    assert len(refused) == 1


def test_folders_that_stay_empty_go_again(tmp_path: Path):
    with exclusive_lock(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b").is_dir()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays(tmp_path: Path):
    with exclusive_lock(tmp_path):
        pass

    assert tmp_path.is_dir()
    assert list(tmp_path.iterdir()) == []


def test_what_lies_in_the_folder_stays(tmp_path: Path):
    with exclusive_lock(tmp_path / "run"):
        (tmp_path / "run" / "a.txt").write_text("x")

    assert [path.name for path in (tmp_path / "run").iterdir()] == ["a.txt"]


def test_a_file_is_no_folder(tmp_path: Path):
    (tmp_path / "run").write_text("")

    with (
        pytest.raises(ValueError, match=r"run is a file: name a folder"),
        exclusive_lock(tmp_path / "run"),
    ):
        pass
