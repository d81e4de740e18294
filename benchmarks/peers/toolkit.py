"""Toolkits with their own command line: write the settings, run the command, read the log.

The toolkits' programs are started as `PYTHON PROGRAM MODEL FOLDER UPDATES` by the Python of the
toolkit's environment, and print a line of JSON. Does not import torch.
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
"""A log line: updates so far; mean target tokens and tokens/s of the last `warm` updates."""

Settings = Mapping[str, object]


def run(
    command: str, *arguments: str, package: str, settings: Callable[[Shape, Path, int], Settings]
) -> None:
    """Train the model's updates and print the speed in the log.

    Args:
        command: The program that the package installs.
        arguments: Precede the name of the settings file.
        package: The package whose version to report.
        settings: Builds the settings from shape, corpus folder and number of updates. Written as
            JSON, which is YAML.
    """
    shape, folder, updates = SHAPES[sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3])
    log_settings = {"report_every": shape.warm, "seed": 1}
    with tempfile.TemporaryDirectory() as out:
        file = Path(out, "settings.yaml")
        file.write_text(
            json.dumps({**settings(shape, folder, shape.warm + updates), **log_settings})
        )
        program = Path(sys.executable).with_name(command)  # in this environment
        program_command = [str(program), *arguments, str(file)]
        result = subprocess.run(program_command, capture_output=True, text=True, cwd=out)
    if result.returncode:
        sys.exit(f"{result.stdout}\n{result.stderr}")
    print(
        json.dumps(
            {
                **read_log(result.stdout + result.stderr, updates // shape.warm),
                "version": version(package),
            }
        )
    )


def read_log(text: str, count: int) -> dict[str, float]:
    """Average the `count` reports after the first; each covers the same number of updates.

    >>> log = "Step 2/ 6; bsz: 9/ 9/1; 7/ 9 tok/s\\nStep 4/ 6; bsz: 9/ 30/1; 9/ 10 tok/s"
    >>> read_log(log + "\\nStep 6/ 6; bsz: 9/ 10/1; 9/ 10 tok/s", 2)
    {'tokens_a_second': 10.0, 'tokens_an_update': 20.0}
    """
    matches = [match.groupdict() for match in REPORT.finditer(text)]
    reports = [(float(match["tokens"]), float(match["rate"])) for match in matches][1:]
    if len(reports) != count:
        sys.exit(f"the log has {len(matches)} reports of tokens/s")
    seconds = sum(tokens / rate for tokens, rate in reports)
    tokens = sum(tokens for tokens, _ in reports)
    return {"tokens_a_second": tokens / seconds, "tokens_an_update": tokens / len(reports)}
