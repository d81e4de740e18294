"""`{commands}`: every command's own --help, asked of the program while the site is built."""

import io
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from unittest.mock import patch

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.main import get_command

from transduce.cli import main
from transduce.cli.app import app as transduce

_WIDTH = "88"


def command_names() -> list[str]:
    """Every command as it is typed, sub-commands behind their group, in the program's order."""
    return list(_below(get_command(transduce), ()))


def help_of(command: str) -> str:
    """What `transduce COMMAND --help` prints."""
    output = io.StringIO()
    with patch.dict(os.environ, {"COLUMNS": _WIDTH, "TERM": "dumb"}), redirect_stdout(output):
        code = main([*command.split(), "--help"])
    assert code == 0, command
    return output.getvalue().strip("\n")


def _below(group: object, above: tuple[str, ...]) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        yield " ".join((*above, name))
        yield from _below(command, (*above, name))


class Commands(SphinxDirective):
    """A section a command."""

    def run(self) -> list[nodes.Node]:
        """Return the sections, with the program's own help in them."""
        return [self._section(name) for name in command_names()]

    def _section(self, name: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        self.state.document.note_explicit_target(section)
        section += nodes.title("", f"transduce {name}")
        output = help_of(name)
        section += nodes.literal_block(output, output, language="text")
        return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
