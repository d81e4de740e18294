"""Toolkits that train by a command line of their own: write its file, run it, read its log.

A program beside this file is started as `PYTHON PROGRAM MODEL FOLDER UPDATES` by the Python of the
toolkit's own environment, and prints one line of JSON. Free of torch.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from shapes import SHAPES, Shape

REPORT = re.compile(
    r"Step +(?P<step>\d+)/.*bsz: +\d+/ *(?P<tokens>\d+)/.*; +\d+/ *(?P<rate>\d+) tok/s"
)
"""Updates so far; of the last `warm` updates the mean of their target tokens, and tokens/s."""

Settings = Mapping[str, object]


def run(
    command: str, *words: str, package: str, settings: Callable[[Shape, Path, int], Settings]
) -> None:
    """Train as long as the model's updates take and print what the log says.

    Args:
        command: the program that the package installs.
        words: come before the name of the file.
        package: whose version counts.
        settings: makes the content of its file from model, corpus and all updates. YAML takes JSON.
    """
    shape, folder, updates = SHAPES[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])
    every = {"report_every": shape.warm, "seed": 1}
    with tempfile.TemporaryDirectory() as out:
        file = Path(out, "settings.yaml")
        file.write_text(json.dumps({**settings(shape, folder, shape.warm + updates), **every}))
        program = Path(sys.executable).with_name(command)  # of this environment
        line = [str(program), *words, str(file)]
        done = subprocess.run(line, capture_output=True, text=True, cwd=out)
    if done.returncode:
        sys.exit(f"{done.stdout}\n{done.stderr}")
    print(
        json.dumps(
            {
                **read_log(done.stdout + done.stderr, updates // shape.warm),
                "version": version(package),
            }
        )
    )


def read_log(text: str, count: int) -> dict[str, float]:
    """Sum up the `count` reports after the first one, which are about as many updates each.

    >>> log = "Step 2/ 6; bsz: 9/ 9/1; 7/ 9 tok/s\\nStep 4/ 6; bsz: 9/ 30/1; 9/ 10 tok/s"
    >>> read_log(log + "\\nStep 6/ 6; bsz: 9/ 10/1; 9/ 10 tok/s", 2)
    {'tokens_a_second': 10.0, 'tokens_an_update': 20.0}
    """
    found = [match.groupdict() for match in REPORT.finditer(text)]
    reports = [(float(one["tokens"]), float(one["rate"])) for one in found][1:]
    if len(reports) != count:
        sys.exit(f"the log has {len(found)} reports of tokens/s")
    seconds = sum(tokens / rate for tokens, rate in reports)
    tokens = sum(tokens for tokens, _ in reports)
    return {"tokens_a_second": tokens / seconds, "tokens_an_update": tokens / len(reports)}
