"""DeepL's client library against `transduce serve`: its test suite in real-server mode.

    python benchmarks/deepl_suite.py CHECKOUT [MODEL]

CHECKOUT is a clone of github.com/DeepLcom/deepl-python. Serves MODEL, labeled with each language of
the suite, from and into English. Without MODEL, trains small models that memorize the suite's
example sentence, as DeepL's mock server does, and two headings: this measures the protocol, not the
translations. Writes results/deepl/record.json.
"""

import ast
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from record import header, write
from server import run_server

from transduce.bundle.bundle import Bundle
from transduce.data.config import Languages

KEY = "benchmark-key"
NAMES = {"en": "English", "de": "German", "fr": "French"}
ALPHABET = [
    "The artist was awarded a prize for Apple and Banana juice by the quick fox, Jim Hive.",
    "Der Maler Xaver Yps bekam Gewinn, Apfel und Banane vom Zwerg Quax; Hallo, Joghurt!",
]
HEADINGS = {
    "A document's title": "Der Titel eines Dokuments",
    "My First Heading": "Meine erste Überschrift",
}
"""English headings whose German translations the suite expects."""
RECIPE = """
name = "{target}"
data = {{ folder = "{folder}", train = {train}, validation = {validation} }}
tokenizer = {{ vocab_size = 400 }}
model = {{ preset = "tiny", norm = "pre", dropout = 0.0 }}
batch = {{ tokens = 300 }}

[train]
updates = 80
schedule = "linear"
warmup = 10
learning_rate = 0.003
validate_every = 40
average_checkpoints = 1
"""
# The suite imports BaseSettings from pydantic 1.
SHIM = "import pydantic, pydantic.v1\npydantic.BaseSettings = pydantic.v1.BaseSettings\n"


def example_texts(checkout: Path) -> dict[str, str]:
    """Read the suite's example sentence by language."""
    tree = ast.parse((checkout / "tests" / "conftest.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "example_text":
            return ast.literal_eval(node.value)
    raise SystemExit(f"{checkout} has no example_text in tests/conftest.py")


def train_memorizing(target: str, texts: Mapping[str, str], *, folder: Path) -> Path:
    """Train a model that translates the example sentence from any language into the target."""
    headings = HEADINGS if target == "de" else {}
    sources = [*texts.values(), *ALPHABET, *headings] * 4
    targets = [*[texts[target.upper()]] * len(texts), *ALPHABET, *headings.values()] * 4
    files: dict[str, list[str]] = {}
    for split in ("train", "validation"):
        files[split] = [f"{split}.{target}.source", f"{split}.{target}.target"]
        for name, lines in zip(files[split], (sources, targets), strict=True):
            (folder / name).write_text("\n".join(lines) + "\n")
    recipe = folder / f"{target}.toml"
    recipe.write_text(RECIPE.format(target=target, folder=folder, **files))
    command = [sys.executable, "-m", "transduce", "train", str(recipe)]
    subprocess.run([*command, "--out", str(folder / target)], check=True)
    return folder / target / "model"


def relabel(model: Path, source: str, target: str, *, folder: Path) -> Path:
    """Copy a model under another direction."""
    names = [NAMES.get(code, code.upper()) for code in (source, target)]
    bundle = Bundle.load(model)
    copy = folder / f"{source}-{target}"
    languages = Languages(source=source, target=target, source_name=names[0], target_name=names[1])
    replace(bundle, languages=languages).save(copy)
    return copy


def copied_directions(texts: Mapping[str, str], model: Path | None, *, folder: Path) -> list[Path]:
    """Create models of all languages from and into English, and from French into German."""
    codes = sorted({name.partition("-")[0].lower() for name in texts})
    others = [code for code in codes if code != "en"]
    trained = {
        target: model or train_memorizing(target, texts, folder=folder)
        for target in ("en", "de", "fr")
    }
    pairs = [*((code, "en") for code in others), *(("en", code) for code in others), ("fr", "de")]
    return [
        relabel(trained.get(target, trained["de"]), source, target, folder=folder)
        for source, target in pairs
    ]


def run_suite(checkout: Path, url: str, *, folder: Path) -> dict[str, str]:
    """Run the suite; return each test's outcome: passed, skipped, or the failure."""
    (folder / "pydantic_shim.py").write_text(SHIM)
    environment = {
        **os.environ,
        "DEEPL_SERVER_URL": url,
        "DEEPL_AUTH_KEY": KEY,
        "PYTHONPATH": os.pathsep.join([str(folder), str(checkout)]),
    }
    report = folder / "report.xml"
    options = ["-p", "pydantic_shim", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    command = [sys.executable, "-m", "pytest", "-q", *options, "tests"]
    subprocess.run(command, cwd=checkout, env=environment)
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failure = next((child for child in case if child.tag in ("failure", "error")), None)
        skipped = case.find("skipped") is not None
        outcome = "skipped" if skipped else "passed"
        if failure is not None:
            outcome = (failure.get("message") or failure.tag).splitlines()[0][:200]
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = outcome
    return outcomes


def main() -> None:
    """Serve, run the suite and write the record."""
    checkout = Path(sys.argv[1]).resolve()
    model = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = copied_directions(example_texts(checkout), model, folder=folder)
        keys = folder / "keys"
        keys.write_text(f"{KEY}\n")
        options = ["--quiet", "--engine", "torch", "--api-keys", str(keys)]
        with run_server(*map(str, models), *options) as server:
            outcomes = run_suite(checkout, server.url, folder=folder)
    results = list(outcomes.values())
    head = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    record = {
        **header("python benchmarks/deepl_suite.py CHECKOUT"),
        "suite": head or "no git checkout",
        "directions": len(models),
        "model": "memorised example sentence" if model is None else "given",
        "tests": len(results),
        "passed": results.count("passed"),
        "skipped": results.count("skipped"),
        "failed": {
            test: outcome
            for test, outcome in outcomes.items()
            if outcome not in ("passed", "skipped")
        },
    }
    print(write("deepl", record, hide={str(checkout): "CHECKOUT"}))


if __name__ == "__main__":
    main()
