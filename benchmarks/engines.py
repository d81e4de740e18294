"""Agreement of both engines on a test set, token by token, and the cost of int8.

    .venv/bin/python benchmarks/engines.py MODEL --source F --target F [--tokenize none]

torch and CTranslate2 in single precision, greedy, with the paper's beam of 4 and α 0.6, and as the
model searches where it is told nothing. A line whose pieces differ is shown with its first
differing piece and both scores: within 1e-4 it is a tie. Then CTranslate2's int8 against its
float32: BLEU of both and a paired bootstrap; and how far ln p of each piece of the references is
off. Beside it the same with weights that CTranslate2 rounds by itself, whose products some
processors cut off (inference/engines/ct2_model.py).
Written to benchmarks/results/NAME/record.json, NAME being "engines" unless `--name` says another.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.evaluation.significance import System, compare_systems
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import vocabulary, write_ctranslate2
from transduce.inference.engines.ct2_runtime import Ct2Model, Plan, Plans
from transduce.inference.translator import Translation, Translator
from transduce.search.config import SearchConfig

GREEDY, PAPER = SearchConfig(beam=1, alpha=0.6), SearchConfig(beam=4, alpha=0.6)
TIE = 1e-4
INT8 = Plan("int8", 1, 1)


class Loaded(NamedTuple):
    """One way to compute."""

    torch: Translator
    float32: Translator
    int8: Translator
    own_int8: Translator
    """With weights rounded by CTranslate2."""


def main() -> None:
    """Translate with every engine and search, print what differs, write one record."""
    arguments = parse()
    sources, references = read_lines(arguments.source), read_lines(arguments.target)
    bundle = Bundle.load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        plain, rounded = Path(folder) / "float32", Path(folder) / "int8"
        write_ctranslate2(bundle, plain)
        write_ctranslate2(bundle, rounded, quantization="int8")
        off = log_probs_off(bundle, plain, rounded, sources, references)
        ways = Loaded(
            Translator.load(arguments.model, engine="torch"),
            Translator.load(arguments.model, engine="ctranslate2"),
            Translator.load(arguments.model, engine="ctranslate2", compute_type="int8"),
            rounds_itself(bundle),
        )
        found = {
            f"beam {config.beam}, alpha {config.alpha}" if config.beam > 1 else "greedy": searched(
                ways, config, sources, references, arguments.tokenize, bundle.languages.target
            )
            for config in (GREEDY, PAPER, bundle.search)
        }
    record = {
        **header(
            "python benchmarks/engines.py MODEL --source F --target F "
            f"--tokenize {arguments.tokenize} --name {arguments.name}",
            "ctranslate2",
            "sacrebleu",
        ),
        "test_set": arguments.source.name,
        "mean_log_prob_off": off,
        "searches": found,
    }
    write(arguments.name, record)


def searched(
    ways: Loaded,
    config: SearchConfig,
    sources: list[str],
    references: list[str],
    tokenize: str,
    language: str,
) -> dict[str, object]:
    """What every way says in one search."""
    torch, float32, int8, own_int8 = (
        way.translate(
            sources, num_beams=config.beam, length_penalty=config.alpha, retry_loops=False
        )
        for way in ways
    )
    apart = differences(torch, float32)
    found: dict[str, object] = {
        "lines": len(sources),
        "same_pieces": len(sources) - len(apart),
        "differences": apart,
        "largest_score_gap": max(
            abs(a.score - b.score) for a, b in zip(torch, float32, strict=True)
        ),
        "int8": quantization(float32, int8, references, language, tokenize),
        "int8_rounded_by_ctranslate2": quantization(
            float32, own_int8, references, language, tokenize
        ),
    }
    sys.stdout.write(f"{config}: {json.dumps(found, indent=2, ensure_ascii=False)}\n")
    return found


def rounds_itself(bundle: Bundle) -> Translator:
    """CTranslate2 in 8 bits from a model in single precision, as people use it."""
    engine = Ct2Engine(bundle, plan=Plan("float32", 1, 1))
    engine.plans = Plans(INT8, INT8)
    return Translator([engine], bundle.tokenizer, model=bundle.model, search=bundle.search)


def log_probs_off(
    bundle: Bundle, plain: Path, rounded: Path, sources: list[str], references: list[str]
) -> dict[str, object]:
    """How far 8 bits move ln p of each piece of the references, in the mean."""
    encode, eos = bundle.tokenizer.encode, bundle.tokenizer.EOS
    pairs = [
        (tuple(encode(tidy(source))), (*encode(tidy(said)), eos))
        for source, said in zip(sources, references, strict=True)
    ]

    def log_probs(folder: Path, plan: Plan) -> list[float]:
        calls = Ct2Model(folder, plan, pieces=vocabulary(bundle.tokenizer))
        return [one for line in calls.score(pairs) for one in line]

    exact = log_probs(plain, Plan("float32", 1, 1))
    off = {
        name: round(
            fmean(abs(a - b) for a, b in zip(exact, log_probs(folder, INT8), strict=True)), 4
        )
        for name, folder in (("int8", rounded), ("int8_rounded_by_ctranslate2", plain))
    }
    return {"pieces": len(exact), **off}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path, help="a bundle, or a run's folder")
    parser.add_argument("--source", type=Path, required=True, help="text, gzip or not")
    parser.add_argument("--target", type=Path, required=True, help="its references")
    parser.add_argument("--tokenize", default="", help="BLEU's tokeniser")
    parser.add_argument("--name", default="engines", help="of the record")
    if len(sys.argv) == 1:
        parser.error("name a model, and the test set by --source and --target")
    return parser.parse_args()


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
