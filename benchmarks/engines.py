"""Do both engines say the same? All lines of a test set, piece by piece; and what int8 costs.

    .venv/bin/python benchmarks/engines.py MODEL --source F --target F [--tokenize none]

torch and CTranslate2 in single precision, greedy and with the paper's beam of 4 and α 0.6. A line
whose pieces differ is shown with its first differing piece and both scores: within 1e-4 it is a
tie. Then CTranslate2's int8 against its float32: BLEU of both and a paired bootstrap. Written to
benchmarks/results/engines/record.json.
"""

import argparse
import gzip
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from quality import RESULTS, commit, machine, now

from transduce.bundle import Bundle
from transduce.judge.compare import System, compare_systems
from transduce.translate.translation import Translation
from transduce.translate.translator import Extras, Translator

SEARCHES = {"greedy": (1, 0.6), "beam 4, alpha 0.6": (4, 0.6)}
TIE = 1e-4


class Loaded(NamedTuple):
    """One way to compute."""

    torch: Translator
    float32: Translator
    int8: Translator


def main() -> None:
    """Translate with every engine and search, print what differs, write one record."""
    arguments = parse()
    sources, references = read(arguments.source), read(arguments.target)
    language = Bundle.load(arguments.model).languages.target
    ways = Loaded(
        Translator.load(arguments.model, engine="torch"),
        Translator.load(arguments.model, engine="ctranslate2"),
        Translator.load(arguments.model, engine="ctranslate2", compute_type="int8"),
    )
    found: dict[str, object] = {}
    for name, (beam, alpha) in SEARCHES.items():
        torch, float32, int8 = (
            way.translate(sources, beam=beam, alpha=alpha, extras=Extras(mend=False))
            for way in ways
        )
        apart = differences(torch, float32)
        print(f"{name}: {len(sources) - len(apart)} of {len(sources)} lines are the same pieces")
        for one in apart:
            print(f"  {one}")
        quantized = quantization(float32, int8, references, language, arguments.tokenize)
        print(f"  int8: {quantized}")
        found[name] = {
            "lines": len(sources),
            "same_pieces": len(sources) - len(apart),
            "differences": apart,
            "largest_score_gap": max(
                abs(a.score - b.score) for a, b in zip(torch, float32, strict=True)
            ),
            "int8": quantized,
        }
    record = {
        "command": "python benchmarks/engines.py MODEL --source F --target F "
        + f"--tokenize {arguments.tokenize}",
        "date": now(),
        "commit": commit(),
        "machine": machine(),
        "versions": {
            name: version(name) for name in ("transduce", "torch", "ctranslate2", "sacrebleu")
        },
        "test_set": arguments.source.name,
        "searches": found,
    }
    out = RESULTS / "engines" / "record.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a bundle, or a run's folder")
    parser.add_argument("--source", type=Path, required=True, help="text, gzip or not")
    parser.add_argument("--target", type=Path, required=True, help="its references")
    parser.add_argument("--tokenize", default="", help="BLEU's tokeniser")
    if len(sys.argv) == 1:
        parser.error("name a model, and the test set by --source and --target")
    return parser.parse_args()


def read(file: Path) -> list[str]:
    """The lines of a file, gzip or not."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    return data.decode().removesuffix("\n").split("\n")


def differences(ours: list[Translation], theirs: list[Translation]) -> list[dict[str, object]]:
    """The first differing piece of every line that differs, and whether the two are a tie."""
    apart: list[dict[str, object]] = []
    for line, (a, b) in enumerate(zip(ours, theirs, strict=True), 1):
        if a.pieces != b.pieces:
            both = zip([*a.pieces, ""], [*b.pieces, ""], strict=False)
            place = next(place for place, (x, y) in enumerate(both) if x != y)
            gap = abs(a.score - b.score)
            apart.append(
                {
                    "line": line,
                    "place": place,
                    "torch": a.pieces[place : place + 1],
                    "ctranslate2": b.pieces[place : place + 1],
                    "score_gap": gap,
                    "tie": gap < TIE,
                }
            )
    return apart


def quantization(
    exact: list[Translation],
    quantized: list[Translation],
    references: list[str],
    language: str,
    tokenize: str,
) -> dict[str, object]:
    """BLEU in float32 and int8, the difference, and its p by a paired bootstrap."""
    systems = [
        System(name, [one.text for one in lines])
        for name, lines in (("float32", exact), ("int8", quantized))
    ]
    table = compare_systems(
        systems, references, metrics=["bleu"], language=language, tokenize=tokenize
    ).metrics[0]
    first, second = table.systems
    return {
        "float32": round(first.value, 2),
        "int8": round(second.value, 2),
        "difference": round(second.value - first.value, 2),
        "p": second.p,
        "other_lines": sum(a != b for a, b in zip(*(s.lines for s in systems), strict=True)),
        "signature": table.signature,
    }


if __name__ == "__main__":
    main()
