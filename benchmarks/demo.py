"""Time of a newcomer's first commands: `transduce demo` and `transduce --help`.

    .venv/bin/python benchmarks/demo.py

Without the installation. Writes benchmarks/results/demo/record.json. Run nothing else at the same
time.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record import header, write

from transduce.demo.corpus import read_cases, score_pronouns

TRANSDUCE = [sys.executable, "-m", "transduce"]


def main() -> None:
    """Time both commands, print two lines, write the record."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = time_command("demo", "--out", f"{folder}/demo")
        results = json.loads(Path(folder, "demo", "results.json").read_text())
        accuracy = score_demo(Path(folder, "demo"))
    help_seconds = statistics.median(time_command("--help") for _ in range(5))
    record = {
        **header("python benchmarks/demo.py"),
        "demo_seconds": round(seconds, 1),
        "help_seconds": round(help_seconds, 3),
        **accuracy,
        "test": results["test"],
    }
    write("demo", record)
    print(f"demo    {seconds:6.1f} s\n--help  {help_seconds:6.2f} s")
    print(json.dumps(accuracy, indent=2))


def score_demo(run: Path) -> dict[str, object]:
    """Score the demo's test set: exact match, and pronouns compared with two baselines."""
    lines = [
        path.read_text().splitlines() for path in (run / "hypotheses.de", run / "corpus/test.de")
    ]
    correct = sum(hypothesis == reference for hypothesis, reference in zip(*lines, strict=True))
    pronouns = score_pronouns(lines[0], read_cases(run / "corpus"))
    return {
        "exact_match": round(correct / len(lines[1]), 4),
        "pronouns": {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in pronouns._asdict().items()
        },
    }


def time_command(*options: str) -> float:
    """Measure the seconds of a command in a subprocess."""
    started = time.perf_counter()
    subprocess.run([*TRANSDUCE, *options], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
