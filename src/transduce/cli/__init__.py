"""The command line: one call per command. Only this room exits, and only it writes to stdout.

stdout is data and stderr is talk. Rooms are imported inside the commands, so that `--help` answers
before torch would have been read.
"""

from transduce.cli import judge, learn, use
from transduce.cli.entry import main

__all__ = ["judge", "learn", "main", "use"]
