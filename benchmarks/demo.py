"""Time for a newcomer: `transduce demo` from start to end, and `transduce --help`.

    .venv/bin/python benchmarks/demo.py

Installation is not counted. Writes benchmarks/results/demo/record.json. Nothing else should run
meanwhile.
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
    """Time both, print two lines, write the record."""
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed("demo", "--out", f"{folder}/demo")
        results = json.loads(Path(folder, "demo", "results.json").read_text())
        judged = judge(Path(folder, "demo"))
    helped = statistics.median(timed("--help") for _ in range(5))
    record = {
        **header("python benchmarks/demo.py"),
        "demo_seconds": round(seconds, 1),
        "help_seconds": round(helped, 3),
        **judged,
        "test": results["test"],
    }
    write("demo", record)
    print(f"demo    {seconds:6.1f} s\n--help  {helped:6.2f} s")
    print(json.dumps(judged, indent=2))


def judge(run: Path) -> dict[str, object]:
    """What the demo says of its test set: exact match, and the pronoun beside two baselines."""
    lines = [
        path.read_text().splitlines() for path in (run / "hypotheses.de", run / "corpus/test.de")
    ]
    right = sum(found == wanted for found, wanted in zip(*lines, strict=True))
    pronouns = score_pronouns(lines[0], read_cases(run / "corpus"))
    return {
        "exact_match": round(right / len(lines[1]), 4),
        "pronouns": {
            key: round(v, 4) if isinstance(v, float) else v for key, v in pronouns._asdict().items()
        },
    }


def timed(*words: str) -> float:
    """Seconds that a command takes as a process of its own."""
    started = time.perf_counter()
    subprocess.run([*TRANSDUCE, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
