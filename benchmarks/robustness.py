"""Rough text: BLEU on upper case, title case, typing errors and missing final punctuation.

    .venv/bin/python benchmarks/robustness.py before=runs/plain after=runs/augmented \
        --source CORPUS/test_2016_flickr.en.gz --target CORPUS/test_2016_flickr.de.gz

Each NAME=FOLDER is a model, such as one trained as it comes and one with the settings of `augment`.
The test pairs are varied as training varies them (data/augmentation.py): upper and title case on
both sides, a typing error in one word of ten of the source, final punctuation left out of both. Per
model and variation: BLEU, BLEU without regard to case, and their differences from clean text. The
record is benchmarks/results/robustness/record.json.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from record import header, read_lines, write

from transduce.data.augmentation import vary
from transduce.data.config import AugmentConfig
from transduce.data.corpus import Pair, tidy
from transduce.evaluation.metrics import bleu
from transduce.inference.translator import Translator

VARIATIONS = {
    "clean": AugmentConfig(),
    "upper case": AugmentConfig(upper_case=1.0),
    "title case": AugmentConfig(title_case=1.0),
    "typing errors": AugmentConfig(typing_errors=1.0),
    "no final punctuation": AugmentConfig(no_end_punctuation=1.0),
}


def main() -> None:
    """Translate every variation with every model, write one record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--language", default="de", help="of the target, for BLEU")
    parser.add_argument("--limit", type=int, default=0, help="pairs; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the typing errors")
    parser.add_argument("--name", default="robustness", help="folder below results")
    arguments = parser.parse_args()
    texts = [map(tidy, read_lines(file)) for file in (arguments.source, arguments.target)]
    pairs = [Pair(*sides) for sides in zip(*texts, strict=True)][: arguments.limit or None]
    models = [name.split("=", 1) for name in arguments.models]
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "pairs": len(pairs),
        "models": {name: measure(folder, pairs, arguments) for name, folder in models},
    }
    hidden = {folder: name.upper() for name, folder in models}
    hidden[str(arguments.source.parent)] = "CORPUS"
    sys.stdout.write(write(arguments.name, record, hide=hidden))


def measure(
    folder: str, pairs: Sequence[Pair], arguments: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """The scores of one model on each variation."""
    translator, rows = Translator.load(folder), dict[str, dict[str, float]]()
    for name, config in VARIATIONS.items():
        varied = [
            vary(pair, config, Random(f"{arguments.seed}/{line}"))
            for line, pair in enumerate(pairs)
        ]
        sources, references = zip(*varied, strict=True)
        texts = [translation.text for translation in translator.translate(sources)]
        scores = {
            key: bleu(texts, references, language=arguments.language, lower_case=lower).value
            for key, lower in (("bleu", False), ("bleu_lower_case", True))
        }
        clean = rows.get("clean", scores)
        change = {f"{key}_against_clean": round(scores[key] - clean[key], 2) for key in scores}
        rows[name] = {**{key: round(value, 2) for key, value in scores.items()}, **change}
    return rows


if __name__ == "__main__":
    main()
