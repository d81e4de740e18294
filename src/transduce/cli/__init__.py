"""The command line: one call per command. Only this room exits, and only it writes to stdout.

stdout is data and stderr is talk. Rooms are imported inside the commands, so that `--help` answers
before torch would have been read.
"""

from transduce.cli import ask, distill, judge, learn, paper, serve, ship, translate, use
from transduce.cli.app import app
from transduce.cli.entry import main

__all__ = ["ask", "distill", "judge", "learn", "main", "paper", "serve", "ship", "translate", "use"]

_AS_THEY_ARE_NEEDED = (
    *("demo", "check", "prepare", "train", "average", "distill"),
    *("translate", "alternatives", "score", "evaluate", "compare", "calibrate"),
    *("serve", "view", "export", "import", "doctor"),
)
app.registered_commands.sort(
    key=lambda command: _AS_THEY_ARE_NEEDED.index(
        command.name or getattr(command.callback, "__name__", "")
    )
)
