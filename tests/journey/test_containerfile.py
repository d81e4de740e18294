"""The Containerfile's steps, in a folder instead of an image: no image registry is needed."""

import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.faults.test_serving_faults import model as model
from tests.journey.test_wheel import ROOT, outside
from tests.journey.test_wheel import wheel as wheel

pytestmark = pytest.mark.slow

CONTAINERFILE = ROOT / "deploy" / "Containerfile"


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its arguments; lines that go on are joined."""
    lines = [line for line in CONTAINERFILE.read_text().split("\n") if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip()) for word, _, rest in (ln.partition(" ") for ln in text.split("\n"))
    ]


def test_the_steps_install_a_server_that_starts_and_stops(
    wheel: Path, model: Path, tmp_path: Path
) -> None:
    inside = {"/opt/transduce": str(tmp_path / "opt"), "/build": str(tmp_path / "build")}
    (tmp_path / "build").mkdir()
    for path in (wheel, ROOT / "constraints.txt"):  # COPY
        (tmp_path / "build" / path.name).write_bytes(path.read_bytes())

    def moved(text: str) -> str:
        for old, new in inside.items():
            text = text.replace(old, new)
        return text

    (step,) = [rest for word, rest in instructions() if word == "RUN"]
    # Dependencies are lent by the environment of the tests, which saves a download of torch.
    alone = os.environ.get("TRANSDUCE_WHEEL") == "alone"
    options = os.environ.get("PIP_OPTIONS", "") if alone else "--no-deps"
    step = moved(step).replace("python -m venv", f"{shlex.quote(sys.executable)} -m venv")
    environment = outside(PIP_OPTIONS=options)
    subprocess.run(["sh", "-ec", step], check=True, env=environment, cwd=tmp_path / "build")
    if not alone:
        (packages,) = (tmp_path / "opt").glob("lib/python*/site-packages")
        (packages / "lent.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")

    settings = dict(instructions())
    options = {name: value for name, value in re.findall(r"(\w+)=(\S+)", settings["ENV"])}
    options |= {"PATH": f"{tmp_path / 'opt/bin'}:{os.environ['PATH']}", "LT_PORT": "0"}
    command = [*re.findall(r'"(.*?)"', settings["ENTRYPOINT"]), str(model)]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=outside(**options), cwd=tmp_path)
    try:
        end = time.monotonic() + 120
        while not (result := re.search(r"ready at http://localhost:(\d+)/", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://localhost:{result[1]}/health") as answer:
            assert answer.status == 200
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
