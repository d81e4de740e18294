"""Which source this program is: its version, and the commit where git follows it."""

import subprocess
from pathlib import Path

VERSION = "0.1.0"


def commit() -> str:
    """The commit of this source, if it is a checkout that git follows; else nothing."""
    here = Path(__file__)
    try:
        for words in (["ls-files", "--error-unmatch", here.name], ["rev-parse", "HEAD"]):
            done = subprocess.run(
                ["git", *words], cwd=here.parent, capture_output=True, text=True, check=True
            )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
