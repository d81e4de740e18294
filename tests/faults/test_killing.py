"""What is killed and gone on with ends as if it had never been: a run at a few of many points."""

import itertools
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from tests.faults.test_full_disk import in_a_child

from transduce.io.atomic_folder import atomic_folder
from transduce.pipeline.adapt import roll_back

HARNESS = Path(__file__).with_name("killing.py")
BUNDLES = ("model", "adaptation/previous")


def test_runs_killed_anywhere_end_in_the_same_bytes():
    """`make faults` tries fifty points."""
    ended = subprocess.run(
        [sys.executable, str(HARNESS), "--points", "3", "--seed", "3"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 of 3 ended in the bytes" in ended.stdout


def roll_back_until(touch: int, model: Path) -> int:
    """Roll back, and die just before the rename or deletion of that number."""
    touches = itertools.count(1)

    def die(event: str, _: object) -> None:
        if event in ("os.rename", "os.remove", "os.rmdir") and next(touches) == touch:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(die)
    roll_back(model)
    return 0


def texts(model: Path) -> list[str]:
    return [file.read_text() for name in BUNDLES for file in model.glob(f"{name}/weights")]


def test_a_killed_roll_back_is_finished_by_the_next(tmp_path: Path):
    """Killed everywhere, so between the two renames that exchange a folder, too."""
    code, unfinished = -signal.SIGKILL, 0
    for touch in itertools.count(1):
        model = tmp_path / str(touch)
        for name, text in zip(BUNDLES, ("adapted", "earlier"), strict=True):
            with atomic_folder(model / name) as folder:
                (folder / "weights").write_text(text)

        code = in_a_child(partial(roll_back_until, touch, model), tmp_path / "log")
        if code == -signal.SIGKILL and texts(model) != ["earlier", "adapted"]:
            unfinished += 1
            roll_back(model)

        assert texts(model) == ["earlier", "adapted"], touch
        if code != -signal.SIGKILL:
            break
    assert (code, unfinished > 5) == (0, True), (tmp_path / "log").read_text()
