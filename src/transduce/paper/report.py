"""Files of the reports on the paper's tables and figures: JSON, and Markdown made from it.

The page of a table is a template in pages/, filled from the table's record alone, so that a page
can be written again from a record of an earlier run.
"""

import json
import platform
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from transduce.io.atomic_folder import atomic_file
from transduce.io.machine import VERSION, commit
from transduce.visualization.template import open_template

PAGES: Final = Path(__file__).parent / "pages"


def render_page(name: str, record: Mapping[str, object], **further: object) -> str:
    """Fill the template pages/`name`.md; its variables are the record's members, and `further`."""
    return open_template(PAGES / f"{name}.md").render(record, **further)


def published_rows(table: str) -> list[Any]:
    """Return the rows of a table of the paper from pages/published.toml."""
    return tomllib.loads((PAGES / "published.toml").read_text(encoding="utf-8"))[table]


def provenance() -> dict[str, object]:
    """Return the versions and the commit that a record begins with."""
    return {"versions": versions("torch"), "commit": commit()}


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of this program, Python and some packages, for a record."""
    installed = {name: version(name) for name in packages}
    return {"transduce": VERSION, "python": platform.python_version(), **installed}


def json_text(record: Mapping[str, object], *, indent: int = 2) -> str:
    """Format a record as a JSON file."""
    return f"{json.dumps(record, indent=indent, ensure_ascii=False)}\n"


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write files by name into a folder, which is made if missing; each is written atomically.

    Raises:
        OSError: if a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with atomic_file(folder / name) as stream:
            stream.write(text.encode())
