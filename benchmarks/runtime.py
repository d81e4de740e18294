"""An installation without torch: size, time of the first sentence, memory of a server.

    .venv/bin/python benchmarks/runtime.py [MODEL] [--dry]

Builds the wheel, installs it without extras into an empty environment (with the versions of
constraints.txt), and translates one sentence in a subprocess: with transduce; with plain
CTranslate2 and SentencePiece and the exported model; and, if this environment has Argos Translate
(`make test-interop`), with Argos Translate and the exported package. All in turn, after a warm-up
round; times are from the start of the process to its end. Then a server of the same environment,
with the extra `serve`, handles one request. Without MODEL, a bundle or a run's folder, uses an
untrained model of the tiny shape with a vocabulary of 5,000, whose translations end after 32
tokens. Prints a table and writes benchmarks/results/runtime/record.json. Run nothing else at the
same time. PIP_OPTIONS is passed on to pip.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from record import ROOT, header, write
from server import run_server
from startup import create_untrained

from transduce.bundle.bundle import Bundle, find_bundle

SENTENCE = "A dog runs across the green grass."
LIMIT = 32
"""Maximum length of a translation in tokens."""
ALLOWED_MB = 350
ALLOWED_SECONDS, ALLOWED_PEAK_MB = 1.0, 120
PLAIN = """
import sys
import ctranslate2, sentencepiece
folder, sentence = sys.argv[1:3]
limit, beam = map(int, sys.argv[3:])
translator = ctranslate2.Translator(folder, intra_threads=1)
pieces = sentencepiece.SentencePieceProcessor(model_file=f"{folder}/tokenizer.model")
source = pieces.encode(sentence, out_type=str)
result = translator.translate_batch([source], beam_size=beam, max_decoding_length=limit)[0]
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
"""A small parent process, because the peak memory of a child includes its parent's at the fork."""
MB = 1e6


class Usage(NamedTuple):
    """Time and peak memory of a process."""

    seconds: float
    peak_mb: float


def main() -> None:
    """Measure installation, translation and server, print a table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", type=Path, help="a bundle or a run's folder")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="write no record")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["TRANSDUCE_CACHE"] = str(folder / "cache")
        model = arguments.model.resolve() if arguments.model else untrained_model(folder / "model")
        python, wheel, sizes = install_runtime(folder)
        rows = first_sentence(model, python, folder, rounds=arguments.rounds)
        server = measure_server(model, python, wheel)
    own_row = rows[0]
    print(f"{'':44}{'seconds':>9}{'least':>8}{'peak MB':>9}")
    for row in rows:
        print(f"{row['what']:44}{row['seconds']:9.3f}{row['least']:8.3f}{row['peak_mb']:9.1f}")
    print(f"installed: {sizes['installed_mb']:.0f} MB, {sizes['packages']} packages, no torch")
    print(f"server: {server['resident_mb']:.0f} MB resident, peak {server['peak_mb']:.0f} MB")
    targets = {
        f"installed at most {ALLOWED_MB} MB": sizes["installed_mb"] <= ALLOWED_MB,
        f"first sentence within {ALLOWED_SECONDS} s": own_row["seconds"] <= ALLOWED_SECONDS,
        f"first sentence within {ALLOWED_PEAK_MB} MB": own_row["peak_mb"] <= ALLOWED_PEAK_MB,
    }
    for target, reached in targets.items():
        print(f"{target}: {'met' if reached else 'MISSED'}")
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


def install_runtime(folder: Path) -> tuple[Path, Path, dict[str, float]]:
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
    previous = packages(python)
    pip(python, "install", "-c", ROOT / "constraints.txt", wheel)
    added = packages(python) - previous
    assert "torch" not in added, "the installation has torch"
    (site,) = (folder / "venv").glob("lib/python3*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    preinstalled = ("pip", "setuptools", "pkg_resources")  # part of every environment
    size -= sum(
        p.stat().st_size for name in preinstalled for p in (site / name).rglob("*") if p.is_file()
    )
    return python, wheel, {"installed_mb": round(size / MB, 1), "packages": len(added)}


def pip(python: Path, *arguments: object) -> None:
    """Run pip in an environment; show its output if it fails."""
    options = shlex.split(os.environ.get("PIP_OPTIONS", ""))
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments, *options]
    run_command([str(word) for word in command])


def packages(python: Path) -> set[str]:
    """Return the names of the distributions in an environment."""
    script = "from importlib.metadata import distributions as d; print(*{x.name for x in d()})"
    return set(run_command([str(python), "-c", script]).split())


def run_command(command: list[str]) -> str:
    """Run a command outside this checkout; return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        command, capture_output=True, text=True, cwd="/", env=environment, check=False
    )
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def first_sentence(
    model: Path, python: Path, folder: Path, *, rounds: int
) -> list[dict[str, object]]:
    """Time the translation of a sentence by each program, in turn."""
    transduce = str(python.with_name("transduce"))
    ct2, beam = str(folder / "ct2"), str(Bundle.load(model).search.beam)
    (folder / "sample.txt").write_text(f"{SENTENCE}\n")
    sample = ["--sample", str(folder / "sample.txt")]
    run_command([transduce, "export", str(model), "--to", "ctranslate2", "--out", ct2, *sample])
    translate_command = [
        transduce,
        "translate",
        str(model),
        SENTENCE,
        "--as-is",
        "--max-length",
        str(LIMIT),
    ]
    commands = {
        "transduce translate": translate_command,
        "CTranslate2 + SentencePiece": [str(python), "-c", PLAIN, ct2, SENTENCE, str(LIMIT), beam],
    }
    if find_spec("argostranslate"):
        commands["Argos Translate"] = argos_command(model, transduce, folder)
    results: dict[str, list[Usage]] = {name: [] for name in commands}
    for round_number in range(rounds + 1):
        for name, command in commands.items():
            usage = measure_process(command)
            if round_number:
                results[name].append(usage)
    return [
        {
            "what": name,
            "seconds": round(statistics.median(usage.seconds for usage in runs), 3),
            "least": round(min(usage.seconds for usage in runs), 3),
            "peak_mb": round(statistics.median(usage.peak_mb for usage in runs), 1),
        }
        for name, runs in results.items()
    ]


def argos_command(model: Path, transduce: str, folder: Path) -> list[str]:
    """Export a package; return the command that translates with it in this environment."""
    package, job = folder / "model.argosmodel", folder / "job.json"
    run_command([transduce, "export", str(model), "--to", "argos", "--out", str(package)])
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
    home_variables = [
        f"{name}={folder / 'home'}" for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    ]
    return ["env", *home_variables, sys.executable, "-W", "ignore", runner, str(job)]


def measure_process(command: list[str]) -> Usage:
    """Run a process; return its time and peak memory."""
    seconds, kilobytes, code = run_command([sys.executable, "-S", "-c", LAUNCHER, *command]).split()
    if int(code):
        raise SystemExit(f"{' '.join(command)}: exit code {code}")
    return Usage(float(seconds), int(kilobytes) * 1024 / MB)


def measure_server(model: Path, python: Path, wheel: Path) -> dict[str, float]:
    """Start a server, translate a sentence, and read its memory."""
    pip(python, "install", "-c", ROOT / "constraints.txt", f"{wheel}[serve]")
    languages = Bundle.load(model).languages
    fields = {"q": SENTENCE, "source": languages.source, "target": languages.target}
    body, headers = json.dumps(fields).encode(), {"Content-Type": "application/json"}
    with run_server(str(model), python=str(python)) as server:
        request = urllib.request.Request(f"{server.url}/translate", body, headers)
        try:
            urllib.request.urlopen(request, timeout=60).read()
        except urllib.error.HTTPError as error:
            raise SystemExit(error.read().decode()) from None
        status = Path(f"/proc/{server.process.pid}/status").read_text().split("\n")
    kilobytes = {line.split(":")[0]: line.split()[1] for line in status if line.startswith("Vm")}
    return {
        "resident_mb": round(int(kilobytes["VmRSS"]) * 1024 / MB, 1),
        "peak_mb": round(int(kilobytes["VmHWM"]) * 1024 / MB, 1),
    }


def untrained_model(folder: Path) -> Path:
    """Create an untrained bundle with a vocabulary of 5,000, of random words."""
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrst", k=6)) for _ in range(4000)]
    lines = [SENTENCE, *(" ".join(rng.choices(words, k=8)) for _ in range(4000))]
    return create_untrained(folder, lines, vocab_size=5000)


if __name__ == "__main__":
    main()
