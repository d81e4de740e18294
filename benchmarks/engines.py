"""Agreement of both engines on a test set, token by token, and the cost of int8.

    .venv/bin/python benchmarks/engines.py MODEL --source F --target F [--tokenize none]

Compares torch and CTranslate2 in single precision: greedy, with the paper's beam of 4 and α 0.6,
and with the model's default search. A line whose tokens differ is listed with its first differing
token and the difference of the scores: within 1e-4 it is a tie. Then compares CTranslate2's int8
with its float32: BLEU with paired bootstrap, and the error of ln p of each token of the references;
the same with weights that CTranslate2 quantizes by itself, whose products some processors clip
(inference/engines/ct2_model.py). Writes benchmarks/results/NAME/record.json; NAME is "engines"
unless `--name` is given.
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
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator
from transduce.search.config import SearchConfig

GREEDY, PAPER = SearchConfig(beam=1, alpha=0.6), SearchConfig(beam=4, alpha=0.6)
TIE = 1e-4
INT8 = Plan("int8", 1, 1)


class Translators(NamedTuple):
    """The model, loaded by each engine and in each precision."""

    torch: Translator
    float32: Translator
    int8: Translator
    own_int8: Translator
    """With weights quantized by CTranslate2."""


def main() -> None:
    """Translate with every engine and search, print the differences, write the record."""
    arguments = parse()
    sources, references = read_lines(arguments.source), read_lines(arguments.target)
    bundle = Bundle.load(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        plain, rounded = Path(folder) / "float32", Path(folder) / "int8"
        write_ctranslate2(bundle, plain)
        write_ctranslate2(bundle, rounded, quantization="int8")
        log_prob_errors = measure_log_prob_errors(bundle, plain, rounded, sources, references)
        engines = Translators(
            Translator.load(arguments.model, engine="torch"),
            Translator.load(arguments.model, engine="ctranslate2"),
            Translator.load(arguments.model, engine="ctranslate2", compute_type="int8"),
            load_runtime_quantized(bundle),
        )
        results = {
            f"beam {config.beam}, alpha {config.alpha}"
            if config.beam > 1
            else "greedy": compare_search(
                engines, config, sources, references, arguments.tokenize, bundle.languages.target
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
        "mean_log_prob_off": log_prob_errors,
        "searches": results,
    }
    write(arguments.name, record)


def compare_search(
    engines: Translators,
    config: SearchConfig,
    sources: list[str],
    references: list[str],
    tokenize: str,
    language: str,
) -> dict[str, object]:
    """Compare the translations of all engines in one search."""
    torch, float32, int8, own_int8 = (
        translator.translate(
            sources, num_beams=config.beam, length_penalty=config.alpha, retry_loops=False
        )
        for translator in engines
    )
    differing = differences(torch, float32)
    results: dict[str, object] = {
        "lines": len(sources),
        "same_pieces": len(sources) - len(differing),
        "differences": differing,
        "largest_score_gap": max(
            abs(a.score - b.score) for a, b in zip(torch, float32, strict=True)
        ),
        "int8": quantization(float32, int8, references, language, tokenize),
        "int8_rounded_by_ctranslate2": quantization(
            float32, own_int8, references, language, tokenize
        ),
    }
    sys.stdout.write(f"{config}: {json.dumps(results, indent=2, ensure_ascii=False)}\n")
    return results


def load_runtime_quantized(bundle: Bundle) -> Translator:
    """Load a float32 model that CTranslate2 quantizes to int8, as is common."""
    engine = Ct2Engine(bundle, plan=Plan("float32", 1, 1))
    engine.plans = Plans(INT8, INT8)
    return Translator([engine], bundle.tokenizer, model=bundle.model, search=bundle.search)


def measure_log_prob_errors(
    bundle: Bundle, plain: Path, rounded: Path, sources: list[str], references: list[str]
) -> dict[str, object]:
    """Measure the mean absolute error that int8 causes in ln p of each token of the references."""
    encode, eos = bundle.tokenizer.encode, bundle.tokenizer.EOS
    pairs = [
        (tuple(encode(tidy(source))), (*encode(tidy(reference)), eos))
        for source, reference in zip(sources, references, strict=True)
    ]

    def log_probs(folder: Path, plan: Plan) -> list[float]:
        model = Ct2Model(folder, plan, pieces=vocabulary(bundle.tokenizer))
        return [log_prob for line in model.score(pairs) for log_prob in line]

    exact = log_probs(plain, Plan("float32", 1, 1))
    errors = {
        name: round(
            fmean(abs(a - b) for a, b in zip(exact, log_probs(folder, INT8), strict=True)), 4
        )
        for name, folder in (("int8", rounded), ("int8_rounded_by_ctranslate2", plain))
    }
    return {"pieces": len(exact), **errors}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path, help="a bundle, or a run's folder")
    parser.add_argument("--source", type=Path, required=True, help="text, gzip or not")
    parser.add_argument("--target", type=Path, required=True, help="reference translations")
    parser.add_argument("--tokenize", default="", help="BLEU's tokenizer")
    parser.add_argument("--name", default="engines", help="the record's name")
    if len(sys.argv) == 1:
        parser.error("a model is required, and a test set as --source and --target")
    return parser.parse_args()


def differences(
    torch_lines: list[Translation], ct2_lines: list[Translation]
) -> list[dict[str, object]]:
    """List the lines that differ, with their first differing token and whether it is a tie."""
    differing: list[dict[str, object]] = []
    for line, (a, b) in enumerate(zip(torch_lines, ct2_lines, strict=True), 1):
        if a.pieces != b.pieces:
            pieces = zip([*a.pieces, ""], [*b.pieces, ""], strict=False)
            position = next(position for position, (x, y) in enumerate(pieces) if x != y)
            gap = abs(a.score - b.score)
            differing.append(
                {
                    "line": line,
                    "place": position,
                    "torch": a.pieces[position : position + 1],
                    "ctranslate2": b.pieces[position : position + 1],
                    "score_gap": gap,
                    "tie": gap < TIE,
                }
            )
    return differing


def quantization(
    exact: list[Translation],
    quantized: list[Translation],
    references: list[str],
    language: str,
    tokenize: str,
) -> dict[str, object]:
    """Compute BLEU in float32 and int8, the difference, and its p by a paired bootstrap."""
    systems = [
        System(name, [translation.text for translation in lines])
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
