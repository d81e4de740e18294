"""Table 1, written to a folder.

table1.json      settings, versions, and every number
table1.md        the tables as Markdown, beside the paper's
table1-*.svg     and .png, for light pages and dark ones: the same drawn
"""

import json
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from transduce.io.atomic_folder import atomic_file
from transduce.paper.table1.measure import Sizes, Tell, measure
from transduce.paper.table1.page import markdown
from transduce.paper.table1.plots import draw_all
from transduce.paper.table1.recall import Recall


def table1(out: Path, sizes: Sizes, recall: Recall | None, *, tell: Tell) -> str:
    """Measure, draw, and write all of it.

    Args:
        out: gets the files; those of before are replaced.
        sizes: what is measured.
        recall: the learning experiment; None leaves it out.
        tell: told a line now and then.

    Returns:
        the page.

    Raises:
        ValueError: if matplotlib is not installed.
        OSError: if something cannot be written.
    """
    if find_spec("matplotlib") is None:  # to be told before ten minutes of work, not after
        raise ValueError("plots need matplotlib: pip install 'transduce[plot]'")
    out.mkdir(parents=True, exist_ok=True)
    found = measure(sizes, recall, tell=tell)
    page = markdown(found)
    numbers = json.dumps(asdict(found), indent=1)
    for name, text in (("table1.json", f"{numbers}\n"), ("table1.md", page)):
        with atomic_file(out / name) as stream:
            stream.write(text.encode())
    draw_all(found, out)
    return page
