"""Run a command of `transduce paper` and keep its result as a record.

    .venv/bin/python benchmarks/paper.py table1
    .venv/bin/python benchmarks/paper.py figures --only heads

Runs `transduce paper NAME …` in a process of its own, with whatever options follow the name, and
writes benchmarks/results/paper-NAME/: record.json (how and where it was made, how long it took,
the numbers of the command's own NAME.json), and the pages and plots that it left. `--as OTHER`
keeps it under paper-OTHER; `--work DIR` is where the command works, for runs that go on with what
they had begun. Nothing else should run meanwhile.

Rows of Table 3 are kept in paper-table3/outcomes/ as they are finished, so that a run that was
interrupted or killed goes on with the others on any machine.

    .venv/bin/python benchmarks/paper.py --pages

writes the pages and plots of all committed records again, from the records alone: after a change of
wording or colours nothing has to be measured again.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

from record import RESULTS, header, write

from transduce.paper.figures.run import FIGURES, measurements
from transduce.paper.plot import Draw, save_plot

KEPT = (".md", ".svg", ".png")
"""What is kept of the command's folder, beside the numbers."""

OUTCOMES = "outcomes"
"""The folder of finished rows, in the command's folder and in the record's."""

_POLL_SECONDS = 5.0
"""Between looks for finished rows."""

PAGES = {
    "table1": "transduce.paper.table1.report",
    "table2": "transduce.paper.table2.report",
    "table3": "transduce.paper.table3.report",
    "table4": "transduce.paper.table4.run",
}
"""Modules whose `page` writes a table's page from its record."""


def main() -> None:
    """Run the command and keep its record."""
    if sys.argv[1:] == ["--pages"]:
        for page, text in pages().items():
            page.write_text(text, encoding="utf-8")
        for plot, (draw, height) in plots().items():
            save_plot(plot.parent, plot.stem, draw, height=height)
        return
    arguments, options = parse(sys.argv[1:])
    kept_as = f"paper-{arguments.kept_as or arguments.name}"
    with tempfile.TemporaryDirectory() as scratch:
        out = (arguments.work or Path(scratch) / arguments.name).resolve()
        said = ["paper", arguments.name, *options]
        outcomes = RESULTS / kept_as / OUTCOMES, out / OUTCOMES
        copy_missing(*outcomes)
        started = time.perf_counter()
        command = [sys.executable, "-m", "transduce", *said, "--out", str(out)]
        with subprocess.Popen(command) as process:
            try:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_SECONDS)
                    copy_missing(*reversed(outcomes))
            finally:  # an interrupted run too has finished rows
                copy_missing(*reversed(outcomes))
        if process.returncode:
            raise SystemExit(process.returncode)
        record = {
            **header(f"transduce {' '.join(said)}", "numpy", "matplotlib"),
            "seconds": round(time.perf_counter() - started, 1),
            "found": numbers(out, arguments.name),
        }
        write(kept_as, record, hide={**places(options), str(out): "OUT", str(Path.home()): "HOME"})
        keep(out, RESULTS / kept_as)
    print(f"kept in benchmarks/results/{kept_as}", file=sys.stderr)


def parse(given: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """What this program is told, and what it hands on."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("name", help="table1, table3, figures, model, …")
    parser.add_argument("--as", dest="kept_as", help="another name for the record")
    parser.add_argument("--work", type=Path, help="where the command works; else it is thrown away")
    return parser.parse_known_args(given)


def pages() -> Mapping[Path, str]:
    """Return the page of every committed record of a table."""
    texts: dict[Path, str] = {}
    for record in sorted(RESULTS.glob("paper-table*/record.json")):
        found = json.loads(record.read_text(encoding="utf-8"))["found"]
        for name in PAGES.keys() & {page.stem for page in record.parent.glob("*.md")}:
            texts[record.with_name(f"{name}.md")] = import_module(PAGES[name]).page(found)
    return texts


def plots() -> Mapping[Path, tuple[Draw, float]]:
    """Return what draws each committed plot from its record, and its height."""
    drawn: dict[Path, tuple[Draw, float]] = {}
    for name in ("table1", "table3"):
        for record in sorted(RESULTS.glob(f"paper-{name}*/record.json")):
            found = json.loads(record.read_text(encoding="utf-8"))["found"]
            for plot, drawing in import_module(PAGES[name]).plots(found).items():
                drawn[record.with_name(f"{plot}.svg")] = drawing
    for record in sorted(RESULTS.glob("paper-figures*/record.json")):
        for name, content in json.loads(record.read_text(encoding="utf-8"))["found"].items():
            figure, numbers = FIGURES[name], measurements(name, content["numbers"])
            drawn[record.with_name(f"{name}.svg")] = partial(figure.draw, numbers), figure.height
    return drawn


def places(options: Sequence[str]) -> dict[str, str]:
    """Words for the files and folders that options name."""
    return {option: Path(option).name for option in options if Path(option).exists()}


def copy_missing(source: Path, target: Path) -> None:
    """Copy the files of a folder, if there is one, that another lacks."""
    for file in sorted(source.glob("*.json")):
        if not (target / file.name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / file.name)


def numbers(out: Path, name: str) -> object:
    """What the command wrote as JSON; several files by their names."""
    own = out / f"{name}.json"
    if own.is_file():
        return json.loads(own.read_text(encoding="utf-8"))
    files = sorted(out.glob("*.json"))
    return {one.stem: json.loads(one.read_text(encoding="utf-8")) for one in files}


def keep(out: Path, results: Path) -> None:
    """Copy pages and plots; those of an earlier record that have no successor go."""
    for old in results.iterdir():
        if old.suffix in KEPT:
            old.unlink()
    for one in sorted(out.iterdir()):
        if one.is_file() and one.suffix in KEPT:
            shutil.copyfile(one, results / one.name)


if __name__ == "__main__":
    main()
