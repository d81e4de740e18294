"""The built wheel works where there is no checkout: `make test-wheel`.

TRANSDUCE_WHEEL=alone        install every dependency too, with the versions of constraints.txt
                             (PIP_OPTIONS is passed on to pip); otherwise the dependencies are
                             lent by the environment that runs the tests, which is quicker
TRANSDUCE_MULTI30K=FOLDER    a copy of the corpus; otherwise a tiny one stands in its files
"""

import gzip
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.conftest import Run

ROOT = Path(__file__).parents[2]
PARTS = ("pyproject.toml", "README.md", "LICENSE", "src")
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")

CLIENTS = """
import sys, time, urllib.request
import deepl
from libretranslatepy import LibreTranslateAPI
for _ in range(600):
    try:
        urllib.request.urlopen(sys.argv[1] + "/health")
        break
    except OSError:
        time.sleep(0.1)
print(LibreTranslateAPI(sys.argv[1] + "/").translate("1 2 3", "source", "target"))
client = deepl.Translator("none", server_url=sys.argv[1])
print(client.translate_text("1 2 3", source_lang="source", target_lang="target").text)
"""

pytestmark = pytest.mark.slow


def outside(**more: str) -> Mapping[str, str]:
    """The surroundings of a shell that knows nothing of this checkout."""
    variables = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in variables} | more


def call(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=outside(),
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, for a build leaves things in the folder it is made from."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PARTS:
        if (ROOT / name).is_dir():
            unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=unwanted)
        else:
            shutil.copy(ROOT / name, source / name)
    options = shlex.split(os.environ.get("PIP_OPTIONS", ""))
    done = call(sys.executable, *PIP, "wheel", source, "--no-deps", "-w", out, *options, cwd=out)
    assert done.returncode == 0, done.stderr
    (result,) = out.glob("transduce-*.whl")
    return result


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`transduce` as it stands in an environment of its own."""
    place = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    alone = os.environ.get("TRANSDUCE_WHEEL") == "alone"
    options = ["--no-deps"]
    if alone:
        options = ["-c", str(ROOT / "constraints.txt")]
        options += shlex.split(os.environ.get("PIP_OPTIONS", ""))
    requirement = f"{wheel}[train,serve]" if alone else wheel
    done = call(python, *PIP, "install", requirement, *options, cwd=place)
    assert done.returncode == 0, done.stderr
    if not alone:
        lender = Path(pytest.__file__).parents[1]
        (own,) = place.glob("lib/python3*/site-packages")
        (own / "lent.pth").write_text(
            f"{lender}\n"
        )  # behind its own; .pth files there are not read
    return place / "bin" / "transduce"


@pytest.fixture(scope="module")
def runtime(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`transduce` with what it needs and the server's packages, but no torch."""
    if os.environ.get("TRANSDUCE_WHEEL") != "alone":
        pytest.skip("TRANSDUCE_WHEEL=alone installs every dependency")
    place = tmp_path_factory.mktemp("runtime") / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    clients = ["libretranslatepy", "deepl"]
    options = ["-c", str(ROOT / "constraints.txt")]
    options += shlex.split(os.environ.get("PIP_OPTIONS", ""))
    done = call(python, *PIP, "install", f"{wheel}[serve]", *clients, *options, cwd=place)
    assert done.returncode == 0, done.stderr
    return place / "bin" / "transduce"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """The folder of Multi30k, or of something as small as it can be in files of the same names."""
    if given := os.environ.get("TRANSDUCE_MULTI30K"):
        return Path(given).absolute()
    chance = random.Random(7)
    for name, size in (("train", 301), ("val", 29), ("test_2016_flickr", 31)):
        lines = [" ".join(chance.choices("abcdefg", k=chance.randint(3, 9))) for _ in range(size)]
        for language in ("en", "de"):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    (tmp_path / "nowhere").mkdir()
    return tmp_path / "nowhere"


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path):
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "transduce").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("transduce/")}

    assert held == expected
    data = {"recipes/tiny.toml", "demo/words.toml", "demo/scenes.toml"}
    assert {"transduce/py.typed", *(f"transduce/{name}" for name in data)} <= held


def test_it_is_not_the_checkout_that_answers(command: Path, nowhere: Path):
    result = call(
        command.with_name("python"),
        "-c",
        "import transduce; print(transduce.__file__)",
        cwd=nowhere,
    )

    assert Path(result.stdout.strip()).is_relative_to(command.parents[1])


def test_help_and_version_are_said(command: Path, nowhere: Path):
    result = call(command, "--help", cwd=nowhere)

    assert (result.returncode, result.stderr) == (0, "")
    assert "transduce translate runs/mine" in result.stdout
    assert call(command, "--version", cwd=nowhere).stdout.startswith("transduce ")


def test_nothing_is_at_fault(command: Path, nowhere: Path):
    result = call(command, "doctor", cwd=nowhere)

    assert result.returncode == 0, result.stdout


def test_a_corpus_elsewhere_is_learned_and_translated(command: Path, nowhere: Path, corpus: Path):
    settings = [f"data.folder={corpus}", "train.updates=3", "train.warmup=2"]
    settings += ["search.beam=1", "search.extra=1"]  # what knows nothing yet would never end
    if "TRANSDUCE_MULTI30K" not in os.environ:
        settings += ["tokenizer.vocab_size=40"]
    words = [word for setting in settings for word in ("--set", setting)]

    actual = call(command, "train", "multi30k", *words, cwd=nowhere)
    assert actual.returncode == 0, actual.stderr
    (nowhere / "in.txt").write_text("a b c\n")
    result = call(command, "translate", "runs/multi30k", "-i", "in.txt", cwd=nowhere)

    assert actual.stdout.endswith("model: runs/multi30k/model\n")
    assert (result.returncode, result.stdout.count("\n")) == (0, 1)


def test_a_runtime_has_no_torch_and_serves_clients(runtime: Path, nowhere: Path, run: Run):
    """The model was made elsewhere, with torch."""
    python, model = runtime.with_name("python"), run.folder / "model"
    listed = call(python, "-m", "pip", "list", "--format=freeze", cwd=nowhere).stdout
    (nowhere / "in.txt").write_text("1 2 3\n")
    (nowhere / "ref.txt").write_text("3 2 1\n")
    pair = ("--source", "in.txt", "--target", "ref.txt")

    assert "\ntorch==" not in listed
    commands = [
        ("translate", model, "-i", "in.txt"),
        ("score", model, *pair),
        ("evaluate", model, *pair),
        ("view", model, "1 2 3", "--out", "map.html"),
        *(("export", model, "--to", kind, "--out", f"{kind}.html") for kind in ("web",)),
        ("export", model, "--to", "ctranslate2", "--out", "ct2", "--sample", "in.txt"),
        ("doctor",),
    ]
    for words in commands:
        done = call(runtime, *words, cwd=nowhere)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    refused = call(runtime, "train", *pair, "--out", "run", cwd=nowhere)
    hint = "transduce: transduce train needs PyTorch: pip install 'transduce[train]'\n"
    assert (refused.returncode, refused.stderr) == (2, hint)
    server = subprocess.Popen(
        [str(runtime), "serve", str(model), "--port", "8765"], cwd=nowhere, env=outside(), stderr=-1
    )
    try:
        result = call(python, "-c", CLIENTS, "http://127.0.0.1:8765", cwd=nowhere)
    finally:
        server.terminate()
        server.communicate()
    assert result.returncode == 0, result.stderr
    translated = call(runtime, "translate", model, "-i", "in.txt", cwd=nowhere).stdout.strip()
    assert result.stdout.split("\n")[:2] == [translated, translated]


def test_the_demo_begins_to_learn(command: Path, nowhere: Path):
    """The whole demo takes minutes; that it writes its corpus and makes updates is seen sooner."""
    demo = subprocess.Popen(
        [str(command), "demo"], cwd=nowhere, env=outside(), stderr=-1, text=True
    )
    metrics, patience = nowhere / "runs" / "demo" / "metrics.jsonl", time.monotonic() + 600
    while demo.poll() is None and not metrics.exists() and time.monotonic() < patience:
        time.sleep(0.5)
    demo.send_signal(signal.SIGTERM)
    _, errors = demo.communicate()

    assert metrics.exists(), errors
    assert demo.returncode == 128 + signal.SIGTERM
