"""Runs JavaScript in Node.js, which the engine of the web page is tested with."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import transduce

ENGINE = Path(transduce.__file__).parent / "web" / "engine"


def run_node(script: str, payload: object) -> Any:
    """Run a module that has `payload` and `engine`, the folder, and calls `answer(value)`.

    Without Node.js the test is skipped; TRANSDUCE_NODE=required makes that a failure.
    """
    node = shutil.which("node")
    if node is None:
        if os.environ.get("TRANSDUCE_NODE") == "required":
            pytest.fail("Node.js is not installed")
        pytest.skip("Node.js is not installed")
    preamble = (
        'import { readFileSync } from "node:fs";\n'
        f"const engine = {json.dumps(ENGINE.as_uri())};\n"
        'const payload = JSON.parse(readFileSync(0, "utf8"));\n'
        "const answer = (value) => process.stdout.write(JSON.stringify(value));\n"
    )
    done = subprocess.run(
        [node, "--input-type=module", "-e", preamble + script],
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
