"""Run a command of `transduce paper` and keep its result as a record.

    .venv/bin/python benchmarks/paper.py table1
    .venv/bin/python benchmarks/paper.py figures --only heads

Runs `transduce paper NAME …` in a subprocess, with the options that follow the name, and writes
benchmarks/results/paper-NAME/: record.json (command, machine, duration, and the numbers of the
command's NAME.json), and the command's pages and plots. `--as OTHER` writes paper-OTHER instead;
`--work DIR` is the command's working folder, to resume runs, whose duration is null. Run nothing
else at the same time.

Rows of Table 3 are kept in paper-table3/outcomes/ as they finish, so that an interrupted or killed
run can be resumed on any machine.

    .venv/bin/python benchmarks/paper.py --pages

rewrites the pages of all committed records of tables and the plots of figures from the records,
after changes of wording or colors, without measuring again.
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

KEPT_SUFFIXES = (".md", ".svg", ".png")
"""Files of the command's folder to keep, in addition to the numbers."""

OUTCOMES = "outcomes"
"""Folder of finished rows, in the command's folder and in the record's."""

_POLL_SECONDS = 5.0
"""Interval of looking for finished rows."""

PAGES = {
    "table1": "transduce.paper.table1.report",
    "table2": "transduce.paper.table2.report",
    "table3": "transduce.paper.table3.report",
    "table4": "transduce.paper.table4.run",
}
"""Modules whose `page` formats a table's page from its record."""


def main() -> None:
    """Run the command and keep its record."""
    if sys.argv[1:] == ["--pages"]:
        for page, text in pages().items():
            page.write_text(text, encoding="utf-8")
        for plot, (draw, height) in plots().items():
            save_plot(plot.parent, plot.stem, draw, height=height)
        return
    arguments, options = parse(sys.argv[1:])
    record_name = f"paper-{arguments.record_name or arguments.name}"
    with tempfile.TemporaryDirectory() as scratch:
        out = (arguments.work or Path(scratch) / arguments.name).resolve()
        paper_command = ["paper", arguments.name, *options]
        outcomes = RESULTS / record_name / OUTCOMES, out / OUTCOMES
        copy_missing(*outcomes)
        # A resumed call goes on from results of calls whose durations nothing records.
        resumed = any(out.glob("*"))
        started = time.perf_counter()
        command = [sys.executable, "-m", "transduce", *paper_command, "--out", str(out)]
        with subprocess.Popen(command) as process:
            try:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_SECONDS)
                    copy_missing(*reversed(outcomes))
            finally:  # an interrupted run has finished rows, too
                copy_missing(*reversed(outcomes))
        if process.returncode:
            raise SystemExit(process.returncode)
        record = {
            **header(f"transduce {' '.join(paper_command)}", "numpy", "matplotlib"),
            "seconds": None if resumed else round(time.perf_counter() - started, 1),
            "found": read_numbers(out, arguments.name),
        }
        write(
            record_name,
            record,
            hide={**placeholders(options), str(out): "OUT", str(Path.home()): "HOME"},
        )
        copy_outputs(out, RESULTS / record_name)
    print(f"kept in benchmarks/results/{record_name}", file=sys.stderr)


def parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; return the options for `transduce paper` separately."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("name", help="table1, table3, figures, model, …")
    parser.add_argument("--as", dest="record_name", help="another name for the record")
    parser.add_argument(
        "--work", type=Path, help="the command's working folder [default: temporary]"
    )
    return parser.parse_known_args(argv)


def pages() -> Mapping[Path, str]:
    """Return the page of every committed record of a table."""
    texts: dict[Path, str] = {}
    for record in sorted(RESULTS.glob("paper-table*/record.json")):
        results = json.loads(record.read_text(encoding="utf-8"))["found"]
        for name in PAGES.keys() & {page.stem for page in record.parent.glob("*.md")}:
            texts[record.with_name(f"{name}.md")] = import_module(PAGES[name]).page(results)
    return texts


def plots() -> Mapping[Path, tuple[Draw, float]]:
    """Return a function that draws each committed plot from its record, and its height."""
    draws: dict[Path, tuple[Draw, float]] = {}
    for name in ("table1", "table3"):
        for record in sorted(RESULTS.glob(f"paper-{name}*/record.json")):
            results = json.loads(record.read_text(encoding="utf-8"))["found"]
            for plot, drawing in import_module(PAGES[name]).plots(results).items():
                draws[record.with_name(f"{plot}.svg")] = drawing
    for record in sorted(RESULTS.glob("paper-figures*/record.json")):
        for name, content in json.loads(record.read_text(encoding="utf-8"))["found"].items():
            figure, values = FIGURES[name], measurements(name, content["numbers"])
            draws[record.with_name(f"{name}.svg")] = partial(figure.draw, values), figure.height
    return draws


def placeholders(options: Sequence[str]) -> dict[str, str]:
    """Map the files and folders in the options to their names, to hide their paths."""
    return {option: Path(option).name for option in options if Path(option).exists()}


def copy_missing(source: Path, target: Path) -> None:
    """Copy the files of a folder, if it exists, that another folder lacks.

    Raises:
        SystemExit: if the folders hold rows of another corpus, or of other settings.
    """
    files = [folder / "settings.json" for folder in (source, target)]
    if all(file.is_file() for file in files):
        stored, other = (json.loads(file.read_text(encoding="utf-8")) for file in files)
        # Files of earlier versions lack some.
        if any(stored[name] != other[name] for name in stored.keys() & other.keys()):
            raise SystemExit(
                f"{target} holds rows of another corpus or other settings than {source}: name "
                f"another folder with --work, or another record with --as"
            )
    for file in sorted(source.glob("*.json")):
        if not (target / file.name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / file.name)


def read_numbers(out: Path, name: str) -> object:
    """Read the command's JSON file, or several files by name."""
    main_file = out / f"{name}.json"
    if main_file.is_file():
        return json.loads(main_file.read_text(encoding="utf-8"))
    files = sorted(out.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def copy_outputs(out: Path, results: Path) -> None:
    """Replace the pages and plots of an earlier record."""
    for earlier in results.iterdir():
        if earlier.suffix in KEPT_SUFFIXES:
            earlier.unlink()
    for file in sorted(out.iterdir()):
        if file.is_file() and file.suffix in KEPT_SUFFIXES:
            shutil.copyfile(file, results / file.name)


if __name__ == "__main__":
    main()
