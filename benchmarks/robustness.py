"""Rough text: BLEU on upper case, title case, typing errors and missing final punctuation.

    .venv/bin/python benchmarks/robustness.py 1=runs/full-1 2=runs/full-2 3=runs/full-3 \
        --source CORPUS/test_2016_flickr.en.gz --target CORPUS/test_2016_flickr.de.gz

Each NAME=FOLDER is a model of another seed. The test pairs are augmented as in training
(data/augmentation.py): upper and title case on both sides, typing errors in one of ten source
words, final punctuation removed from both sides. Per model and variation: BLEU and case-insensitive
BLEU, without (`before`) and with the recasing of `transduce translate` (`after`). Each model's
outcome is a file in results/robustness/outcomes, which can be committed and completed on another
machine. Writes results/robustness/record.json, with the means.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean

from record import RESULTS, header, outcome, read_lines, write

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
    """Translate every variation with every model, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--language", default="de", help="target language, for BLEU")
    parser.add_argument("--limit", type=int, default=0, help="test pairs (0 = all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the typing errors")
    parser.add_argument("--name", default="robustness", help="folder below results")
    parser.add_argument("--note", default="", help="note in the record, such as: what was trained")
    arguments = parser.parse_args()
    texts = [map(tidy, read_lines(file)) for file in (arguments.source, arguments.target)]
    pairs = [Pair(*sides) for sides in zip(*texts, strict=True)][: arguments.limit or None]
    settings = {"pairs": len(pairs), "seed": arguments.seed, "set": arguments.source.name}
    models = {}
    for name, folder in (model.split("=", 1) for model in arguments.models):
        file = RESULTS / arguments.name / "outcomes" / f"{name}.json"
        models[name] = outcome(
            file, settings, lambda folder=folder: measure(folder, pairs, arguments)
        )
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "note": arguments.note,
        **settings,
        "mean": {name: mean([model[name] for model in models.values()]) for name in VARIATIONS},
        "models": models,
    }
    hidden = {model.split("=", 1)[1]: "MODEL" for model in arguments.models}
    hidden[str(arguments.source.parent)] = "CORPUS"
    sys.stdout.write(write(arguments.name, record, hide=hidden))


def measure(
    folder: str, pairs: Sequence[Pair], arguments: argparse.Namespace
) -> dict[str, dict[str, dict[str, float]]]:
    """Score a model on each variation, before and after recasing."""
    translator, rows = Translator.load(folder), dict[str, dict[str, dict[str, float]]]()
    for name, config in VARIATIONS.items():
        variants = [
            vary(pair, config, Random(f"{arguments.seed}/{line}"))
            for line, pair in enumerate(pairs)
        ]
        sources, references = zip(*variants, strict=True)
        rows[name] = {}
        for moment, recase in (("before", False), ("after", True)):
            translations = translator.translate(sources, recase=recase, token_scores=False)
            texts = [translation.text for translation in translations]
            rows[name][moment] = {
                key: round(
                    bleu(texts, references, language=arguments.language, lower_case=lower).value, 2
                )
                for key, lower in (("bleu", False), ("bleu_lower_case", True))
            }
            rows[name][moment]["recased"] = sum(bool(line.recased) for line in translations)
            rows[name][moment]["flagged"] = sum(bool(line.flag) for line in translations)
    return rows


def mean(rows: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Average each score over the models, before and after recasing."""
    return {
        moment: {key: round(fmean(row[moment][key] for row in rows), 2) for key in scores}
        for moment, scores in rows[0].items()
    }


if __name__ == "__main__":
    main()
