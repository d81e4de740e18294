"""Notebooks as pages: run while the site is built, then read as MyST with what they answered.

What a notebook answered is kept beside the built pages for as long as neither it nor the package
changes.

    python docs/_ext/notebook.py

runs both notebooks (minutes) and writes their outputs into the files, for readers on a forge.
"""

import os
import re
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

import nbformat
from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from nbclient import NotebookClient
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.util import logging

_LOG = logging.getLogger(__name__)
_DOCS = Path(__file__).parents[1]
_KEPT = _DOCS / "_build" / "notebooks"
DARK = "image/svg+xml;dark"
"""The kind of a picture for dark pages; what shows notebooks elsewhere passes it over."""
_SECONDS = 1800


def executed(text: str, folder: Path) -> NotebookNode:
    """Run a notebook from its first cell to its last.

    Raises:
        CellExecutionError: if a cell fails.
    """
    notebook = nbformat.reads(text, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=_SECONDS, resources=where, record_timing=False)
    client.execute()
    return notebook


def with_outputs(notebook: NotebookNode) -> NotebookNode:
    """Make outputs fit to be committed: plots as PNG alone, no paths of this machine.

    The metadata get the hash of the sources that were run.
    """
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                output.data = NotebookNode({"image/png": data["image/png"]})
    notebook.metadata.language_info = NotebookNode(name="python")  # without a version
    notebook.metadata.sources = source_hash(notebook)
    text = re.sub(rf"{re.escape(tempfile.gettempdir())}/\w+-\w+", "WORK", nbformat.writes(notebook))
    return nbformat.reads(text, as_version=4)


def source_hash(notebook: NotebookNode) -> str:
    """Return the SHA-256 of the code cells' sources."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sha256("\0".join(sources).encode()).hexdigest()


def as_myst(notebook: NotebookNode, pictures: Path) -> str:
    """The notebook as one MyST page; its pictures are written to a folder."""
    parts: list[str] = []
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        if "hide" not in cell.metadata.get("tags", []):
            parts.append(f"```python\n{cell.source}\n```")
        for place, output in enumerate(cell.outputs):
            parts += _answer(output, pictures / f"{number}-{place}")
    return "\n\n".join(parts) + "\n"


def _answer(output: NotebookNode, picture: Path) -> list[str]:
    if output.output_type == "stream":
        return [f"```{{code-block}} text\n:class: answer\n\n{output.text.rstrip()}\n```"]
    data = output.get("data", {})
    shown: list[str] = []
    for kind, ending, classes in (
        ("image/svg+xml", "", "only-light"),
        (DARK, "-dark", "only-dark"),
    ):
        if kind in data:
            path = picture.with_name(f"{picture.name}{ending}.svg")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data[kind], encoding="utf-8")
            only = classes if DARK in data else ""
            uri = f"/{path.relative_to(_DOCS)}"
            alt = data.get("text/plain", "a plot of the cell above")
            shown.append(f"```{{image}} {uri}\n:class: {only}\n:alt: {alt}\n```")
    if not shown and "text/markdown" in data:
        return [data["text/markdown"]]
    if not shown and "text/plain" in data:
        return [f"```{{code-block}} text\n:class: answer\n\n{data['text/plain']}\n```"]
    return shown


class NotebookParser(MystParser):
    """Reads .ipynb."""

    supported: ClassVar[tuple[str, ...]] = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Run the notebook, or take what it answered before, and read it as MyST."""
        sources = sorted((_DOCS.parent / "src").rglob("*.py"))
        how = os.environ.get("TRANSDUCE_WALK", "")
        made_from = f"{how}\n{inputstring}".encode()
        made_from += b"".join(path.read_bytes() for path in sources)
        kept = _KEPT / f"{sha256(made_from).hexdigest()[:16]}.ipynb"
        name = document.settings.env.docname
        if not kept.is_file():
            _LOG.info("running %s", name)
            _KEPT.mkdir(parents=True, exist_ok=True)
            nbformat.write(executed(inputstring, _DOCS), kept)
        notebook = nbformat.read(kept, as_version=4)
        super().parse(as_myst(notebook, _KEPT / name), document)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the parser."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for path in sorted(_DOCS.glob("*.ipynb")):
        nbformat.write(with_outputs(executed(path.read_text(encoding="utf-8"), _DOCS)), path)
