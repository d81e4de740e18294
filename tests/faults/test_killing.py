"""A run that is killed and gone on with ends as if it had never been: a few of many points."""

import subprocess
import sys
from pathlib import Path

HARNESS = Path(__file__).with_name("killing.py")


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
