"""An installation without torch: its size, the first sentence from the shell, a server's memory.

    .venv/bin/python benchmarks/runtime.py [MODEL] [--dry]

Builds the wheel, installs it without extras into an empty environment (with the versions of
constraints.txt), and translates one sentence in a process of its own: with transduce, with plain
CTranslate2 and SentencePiece on the exported model, and, where this environment has Argos Translate
(`make test-interop`), with that on the exported package. All in turn, after one round that fills
the caches; times are from the start of the process to its end. Then a server of the same
environment, with the extra `serve`, answers one request. Without MODEL, a bundle or a run's
folder, an untrained model of the tiny shape with 5,000 pieces is used, whose translations end at
32 pieces. Prints one table and writes benchmarks/results/runtime/record.json. Nothing else should
run meanwhile. PIP_OPTIONS is passed on to pip.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from record import ROOT, header, write

from transduce.bundle.bundle import Bundle, Provenance, find_bundle
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import PRESETS, ModelConfig
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig

SENTENCE = "A dog runs across the green grass."
LIMIT = 32
"""Pieces of a translation, at most."""
ALLOWED_MB = 350
ALLOWED_SECONDS, ALLOWED_PEAK_MB = 1.0, 120
PLAIN = """
import sys
import ctranslate2, sentencepiece
folder, sentence, limit = sys.argv[1], sys.argv[2], int(sys.argv[3])
translator = ctranslate2.Translator(folder, intra_threads=1)
pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
source = pieces.encode(sentence, out_type=str)
result = translator.translate_batch([source], beam_size=4, max_decoding_length=limit)[0]
print(pieces.decode(result.hypotheses[0]))
"""
LAUNCHER = """
import os, sys, time
started = time.perf_counter()
pid = os.fork()
if not pid:
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    os.execvp(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - started, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""
"""A small process, since the peak of a child is at least what its parent had."""
MB = 1e6


class Finished(NamedTuple):
    """What one process took."""

    seconds: float
    peak_mb: float


def main() -> None:
    """Measure everything, print one table, write one record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["TRANSDUCE_CACHE"] = str(folder / "cache")
        model = arguments.model.resolve() if arguments.model else untrained(folder / "model")
        python, wheel, sizes = installed(folder)
        rows = first_sentence(model, python, folder, rounds=arguments.rounds)
        server = served(model, python, wheel)
    ours = rows[0]
    print(f"{'':44}{'seconds':>9}{'least':>8}{'peak MB':>9}")
    for row in rows:
        print(f"{row['what']:44}{row['seconds']:9.3f}{row['least']:8.3f}{row['peak_mb']:9.1f}")
    print(f"installed: {sizes['installed_mb']:.0f} MB, {sizes['packages']} packages, no torch")
    print(f"server: {server['resident_mb']:.0f} MB resident, peak {server['peak_mb']:.0f} MB")
    targets = {
        f"installed at most {ALLOWED_MB} MB": sizes["installed_mb"] <= ALLOWED_MB,
        f"first sentence within {ALLOWED_SECONDS} s": ours["seconds"] <= ALLOWED_SECONDS,
        f"first sentence within {ALLOWED_PEAK_MB} MB": ours["peak_mb"] <= ALLOWED_PEAK_MB,
    }
    for target, met in targets.items():
        print(f"{target}: {'met' if met else 'MISSED'}")
    if not arguments.dry:
        record = {
            **header("python benchmarks/runtime.py", "ctranslate2", "sentencepiece"),
            "model": "given" if arguments.model else "untrained, tiny, 5,000 pieces",
            "parameters": Bundle.load(find_bundle(model)).weights.size if arguments.model else None,
            "rounds": arguments.rounds,
            "unit": "seconds of a process from its start to its end; resident memory in MB (1e6)",
            **sizes,
            "rows": rows,
            "server": server,
            "targets": targets,
        }
        write("runtime", record)


def installed(folder: Path) -> tuple[Path, Path, dict[str, float]]:
    """Install the wheel without extras; return its Python, the wheel, and the sizes."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (folder / "source").mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "source" / "src", ignore=unwanted)
    pip(Path(sys.executable), "wheel", folder / "source", "--no-deps", "-w", folder / "wheel")
    (wheel,) = (folder / "wheel").glob("transduce-*.whl")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    before = packages(python)
    pip(python, "install", "-c", ROOT / "constraints.txt", wheel)
    added = packages(python) - before
    assert "torch" not in added, "the installation has torch"
    (site,) = (folder / "venv").glob("lib/python3*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    own = ("pip", "setuptools", "pkg_resources")  # come with any environment
    size -= sum(p.stat().st_size for name in own for p in (site / name).rglob("*") if p.is_file())
    return python, wheel, {"installed_mb": round(size / MB, 1), "packages": len(added)}


def pip(python: Path, *words: object) -> None:
    """Run pip in an environment; its message is shown if it fails."""
    options = shlex.split(os.environ.get("PIP_OPTIONS", ""))
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words, *options]
    run([str(word) for word in command])


def packages(python: Path) -> set[str]:
    """Names of the distributions of an environment."""
    script = "from importlib.metadata import distributions as d; print(*{x.name for x in d()})"
    return set(run([str(python), "-c", script]).split())


def run(words: list[str]) -> str:
    """Run a command outside this checkout; return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", env=kept, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def first_sentence(
    model: Path, python: Path, folder: Path, *, rounds: int
) -> list[dict[str, object]]:
    """Time one sentence, in turn, with each program."""
    transduce = str(python.with_name("transduce"))
    ct2 = str(folder / "ct2")
    (folder / "sample.txt").write_text(f"{SENTENCE}\n")
    sample = ["--sample", str(folder / "sample.txt")]
    run([transduce, "export", str(model), "--to", "ctranslate2", "--out", ct2, *sample])
    asked = [transduce, "translate", str(model), SENTENCE, "--as-is", "--max-length", str(LIMIT)]
    commands = {
        "transduce translate": asked,
        "CTranslate2 + SentencePiece": [str(python), "-c", PLAIN, ct2, SENTENCE, str(LIMIT)],
    }
    if find_spec("argostranslate"):
        commands["Argos Translate"] = argos(model, transduce, folder)
    results: dict[str, list[Finished]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, words in commands.items():
            finished = measured(words)
            if number:
                results[name].append(finished)
    return [
        {
            "what": name,
            "seconds": round(statistics.median(one.seconds for one in runs), 3),
            "least": round(min(one.seconds for one in runs), 3),
            "peak_mb": round(statistics.median(one.peak_mb for one in runs), 1),
        }
        for name, runs in results.items()
    ]


def argos(model: Path, transduce: str, folder: Path) -> list[str]:
    """Export a package, and return the command that translates with it in this environment."""
    package, job = folder / "model.argosmodel", folder / "job.json"
    run([transduce, "export", str(model), "--to", "argos", "--out", str(package)])
    languages = Bundle.load(model).languages
    settings = {
        "package": str(package),
        "source": languages.source,
        "target": languages.target,
        "sentences": [SENTENCE],
        "output": str(folder / "argos.json"),
    }
    job.write_text(json.dumps(settings))
    runner = str(ROOT / "src" / "transduce" / "export" / "argos_runner.py")
    places = [f"{name}={folder / 'home'}" for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")]
    return ["env", *places, sys.executable, "-W", "ignore", runner, str(job)]


def measured(words: list[str]) -> Finished:
    """Run a process; return its time and the most memory that it had."""
    seconds, kilobytes, code = run([sys.executable, "-S", "-c", LAUNCHER, *words]).split()
    if int(code):
        raise SystemExit(f"{' '.join(words)}: exit code {code}")
    return Finished(float(seconds), int(kilobytes) * 1024 / MB)


def served(model: Path, python: Path, wheel: Path) -> dict[str, float]:
    """Start a server, translate one sentence, and read its memory."""
    pip(python, "install", "-c", ROOT / "constraints.txt", f"{wheel}[serve]")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [str(python.with_name("transduce")), "serve", str(model), "--port", address[10:]]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    languages = Bundle.load(model).languages
    fields = {"q": SENTENCE, "source": languages.source, "target": languages.target}
    kind = {"Content-Type": "application/json"}
    body = json.dumps(fields).encode()
    request = urllib.request.Request(f"http://{address}/translate", body, kind)
    try:
        while True:
            try:
                urllib.request.urlopen(request, timeout=60).read()
                break
            except urllib.error.HTTPError as error:
                raise SystemExit(error.read().decode()) from None
            except urllib.error.URLError:  # it is still starting
                if server.poll() is not None:
                    raise SystemExit("the server ended") from None
                time.sleep(0.1)
        status = Path(f"/proc/{server.pid}/status").read_text().split("\n")
    finally:
        server.terminate()
        server.wait()
    kilobytes = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Vm")}
    return {
        "resident_mb": round(int(kilobytes["VmRSS"]) * 1024 / MB, 1),
        "peak_mb": round(int(kilobytes["VmHWM"]) * 1024 / MB, 1),
    }


def untrained(folder: Path) -> Path:
    """A bundle of the tiny shape that learned nothing, with 5,000 pieces of made-up words."""
    torch.manual_seed(0)
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklmnopqrst", k=6)) for _ in range(4000)]
    lines = [SENTENCE, *(" ".join(chance.choices(words, k=8)) for _ in range(4000))]
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=5000))
    Bundle(
        model=Transformer(ModelConfig(vocab_size=tokenizer.vocab_size, **PRESETS["tiny"])),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(),
        provenance=Provenance.current(),
    ).save(folder)
    return folder


if __name__ == "__main__":
    main()
