"""`{exercises}`: the mutations of tests/paper/mutations.py as tasks, their solutions folded."""

import importlib.util
import sys
from html import escape
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).parents[2] / "tests" / "paper" / "mutations.py"


def mutations() -> ModuleType:
    """Load the file without importing the tests."""
    spec = importlib.util.spec_from_file_location("mutations", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def exercise(claim: str, file: str, change: tuple[str, str], test: str) -> str:
    """One task as HTML: what to change, and folded, which test notices."""
    old, new = (escape(text.strip()) for text in change)
    number, _, title = claim.partition(" ")
    block = "<div class=highlight><pre>{}</pre></div>"
    return (
        f"<p><b>Claim {escape(number)}, {escape(title)}.</b> In "
        f"<code class=literal>{escape(file)}</code> replace</p>"
        f"{block.format(old)}<p>by</p>{block.format(new)}"
        f"<details><summary>Solution</summary><p>This test fails, and its name says why: "
        f"<code class=literal>{escape(test)}</code></p></details>"
    )


class Exercises(SphinxDirective):
    """All mutations, in the order of the claims."""

    def run(self) -> list[nodes.Node]:
        """Return one list item per mutation."""
        self.env.note_dependency(str(FILE))
        items = nodes.enumerated_list()
        for mutation in mutations().MUTATIONS:
            file = f"src/transduce/{mutation.file}"
            text = exercise(mutation.claim, file, (mutation.old, mutation.new), mutation.test)
            items += nodes.list_item("", nodes.raw("", text, format="html"))
        return [items]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("exercises", Exercises)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
