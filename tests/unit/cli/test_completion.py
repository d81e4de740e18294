"""Shell completion, as bash asks for it."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("line", "candidates"),
    [("transduce tra", "train translate"), ("transduce train --res", "--resume")],
)
def test_bash_completes_commands_and_options(line: str, candidates: str):
    words = line.split()
    shell = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}

    done = subprocess.run(
        [sys.executable, "-c", "from transduce.cli import main; main()"],
        env=os.environ | shell | {"_TRANSDUCE_COMPLETE": "complete_bash"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.split() == candidates.split()
