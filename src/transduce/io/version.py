"""The version of this program, and its commit in a git checkout."""

import subprocess
from pathlib import Path

VERSION = "0.1.0"


def commit() -> str:
    """Return the commit of this source if git tracks it, else an empty string."""
    source_file = Path(__file__)
    try:
        for arguments in (["ls-files", "--error-unmatch", source_file.name], ["rev-parse", "HEAD"]):
            process = subprocess.run(
                ["git", *arguments],
                cwd=source_file.parent,
                capture_output=True,
                text=True,
                check=True,
            )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return process.stdout.strip()
