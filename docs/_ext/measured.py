"""`{measured}` and `{drawn}`: results and plots of `transduce paper`; nothing is typed into a page.

Records lie in benchmarks/results/ and are committed; quick figures are drawn while the site is
built. What is not there yet is said to be missing, with the command that makes it.
"""

import json
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from os.path import relpath
from pathlib import Path
from typing import ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

_LOG = logging.getLogger(__name__)
_ROOT = Path(__file__).parents[2]
_RECORDS = _ROOT / "benchmarks" / "results"
_DRAWN = _ROOT / "docs" / "_build" / "paper"
_FEW = ("masks", "order", "waves", "rate")
_QUICK = {
    "figures": (".", [word for name in _FEW for word in ("--only", name)]),
    "model": ("model.svg", []),
}
"""What of `transduce paper` takes moments, so that building the site can run it."""


def plot_named(name: str) -> Path | None:
    """The SVG of a plot for light pages: as drawn for this site, else as committed."""
    plots = sorted(_DRAWN.glob(f"*/{name}.svg")) or sorted(_RECORDS.glob(f"paper-*/{name}.svg"))
    return plots[0] if plots else None


def plots_of(folder: Path) -> list[Path]:
    """The plots for light pages in a folder."""
    return sorted(path for path in folder.glob("*.svg") if not path.stem.endswith("-dark"))


def table_of(text: str) -> str:
    """A record's page within another: its title goes, other titles are words, plots come later."""
    kept = [line for line in text.splitlines() if not line.startswith(("# ", "!["))]
    return "\n".join(re.sub(r"^##+ (.*)$", _strong, line) for line in kept)


def _strong(title: re.Match[str]) -> str:
    return f"**{title[1].replace('*', chr(92) + '*')}**"


class Finding(NamedTuple):
    """What a figure's program concluded, and where from."""

    text: str
    source: str


def finding_of(plot: Path) -> Finding:
    """Return what a plot's numbers say in words, and the record that holds them."""
    drawn, record = plot.with_suffix(".json"), plot.with_name("record.json")
    if drawn.is_file():
        figure = json.loads(drawn.read_text(encoding="utf-8"))
        return Finding(figure["found"], "Computed when this site was built.")
    content = json.loads(record.read_text(encoding="utf-8"))
    figure = content["found"][plot.stem]
    model = f", model `{figure['model'][:12]}`" if figure.get("model") else ""
    source = (
        f"Record: `benchmarks/results/{plot.parent.name}`, by `{content['command']}` on "
        f"{content['date'][:10]}, {content['machine']['processor']}{model}."
    )
    return Finding(figure["found"], source)


def draw_quick(app: Sphinx) -> None:
    """Let `transduce paper` draw what it draws quickly, unless its code is as it was."""
    from commands import command_names

    folders = [_ROOT / "src" / "transduce" / name for name in ("paper", "model", "demo", "cli")]
    code = b"".join(path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py")))
    made_from = sha256(code).hexdigest()
    for name in _QUICK.keys() & {command.removeprefix("paper ") for command in command_names()}:
        stamp = _DRAWN / f"{name}.stamp"
        if not stamp.is_file() or stamp.read_text() != made_from:
            stamp.write_text(made_from if _draw(name) else "")


def _draw(name: str) -> bool:
    """Run one command; what it prints, a table, is kept beside its plots. False if it failed."""
    _LOG.info("transduce paper %s", name)
    folder = _DRAWN / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file, options = _QUICK[name]
    words = [sys.executable, "-m", "transduce", "paper", name, *options, "--out", folder / file]
    finished = subprocess.run(words, capture_output=True, text=True, check=False)
    if finished.returncode:
        _LOG.warning("transduce paper %s: %s", name, finished.stderr.strip()[-500:])
    (folder / f"{name}.md").write_text(finished.stdout, encoding="utf-8")
    return finished.returncode == 0


def _plain(text: str) -> str:
    """Escape what a sentence of a record does not mean as markup."""
    return re.sub(r"([*_$<])", r"\\\1", text)


class _Shown(SphinxDirective):
    """What both directives need: a plot in light and in dark, and a note for what is missing."""

    def plot(self, light: Path, alt: str) -> nodes.container:
        """The plot for either kind of page."""
        place = nodes.container(classes=["plot"])
        dark = light.with_name(f"{light.stem}-dark.svg")
        kinds = [(light, "only-light"), (dark, "only-dark")] if dark.is_file() else [(light, "")]
        for path, kind in kinds:
            self.env.note_dependency(str(path))
            uri = relpath(path, Path(str(self.env.doc2path(self.env.docname))).parent)
            place += nodes.image(uri=uri, alt=alt, classes=[kind] if kind else [])
        return place

    def missing(self, text: str) -> list[nodes.Node]:
        """Return a note."""
        return [nodes.note("", *self.parse_text_to_nodes(text))]


class Measured(_Shown):
    """The tables and plots of a committed record: `{measured} paper-table1`."""

    required_arguments = 1
    option_spec: ClassVar = {"command": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the record's pages and its plots, or a note that there are none."""
        name = self.arguments[0]
        folder = _RECORDS / name
        tables = sorted(folder.glob("*.md"))
        if not tables:
            command = self.options["command"]
            return self.missing(f"No record of this is kept here: `{command}` computes it.")
        shown: list[nodes.Node] = []
        for table in tables:
            self.env.note_dependency(str(table))
            shown += self.parse_text_to_nodes(table_of(table.read_text(encoding="utf-8")))
        alt = f"The plot of {name}: the table above as a picture"
        shown += [self.plot(path, alt) for path in plots_of(folder)]
        record = f"Record: `benchmarks/results/{name}`, by `{self.options['command']}`."
        return [*shown, *self.parse_text_to_nodes(record)]


class Drawn(_Shown):
    """One plot by its name: the directive's content, and what the plot's program concluded."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"table": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the plot with its text, or a note that there is none."""
        self.assert_has_content()
        light = plot_named(self.arguments[0])
        text = " ".join(self.content)
        if light is None:
            return self.missing(f"No record of this plot is kept here: {text}")
        place = self.plot(light, text.replace("`", "").replace("$", "").replace("*", ""))
        place += self.parse_content_to_nodes()
        if "table" in self.options:
            shown = table_of(light.with_suffix(".md").read_text(encoding="utf-8"))
            return [place, *self.parse_text_to_nodes(shown)]
        finding = finding_of(light)
        return [place, *self.parse_text_to_nodes(f"{_plain(finding.text)}\n\n{finding.source}")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives, and draw before pages are read."""
    app.add_directive("measured", Measured)
    app.add_directive("drawn", Drawn)
    app.connect("builder-inited", draw_quick)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
