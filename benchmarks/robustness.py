"""Rough text: BLEU on upper case, title case, typing errors and missing final punctuation.

    .venv/bin/python benchmarks/robustness.py 1=runs/full-1 2=runs/full-2 3=runs/full-3 \
        --source CORPUS/test_2016_flickr.en.gz --target CORPUS/test_2016_flickr.de.gz

Each NAME=FOLDER is a model of another seed. The test pairs are varied as training may vary them
(data/augmentation.py): upper and title case on both sides, a typing error in one word of ten of
the source, final punctuation left out of both. Per model and variation: BLEU, and BLEU without
regard to case, of the text as it is (`before`) and of what `transduce translate` recases (`after`).
Each model's outcome is a file in results/robustness/outcomes, which may be committed and completed
on another machine; the record, with the means, is results/robustness/record.json.
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
    """Translate every variation with every model, write one record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--language", default="de", help="of the target, for BLEU")
    parser.add_argument("--limit", type=int, default=0, help="pairs; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the typing errors")
    parser.add_argument("--name", default="robustness", help="folder below results")
    parser.add_argument("--note", default="", help="for the record, such as: what was trained")
    arguments = parser.parse_args()
    texts = [map(tidy, read_lines(file)) for file in (arguments.source, arguments.target)]
    pairs = [Pair(*sides) for sides in zip(*texts, strict=True)][: arguments.limit or None]
    facts = {"pairs": len(pairs), "seed": arguments.seed, "set": arguments.source.name}
    models = {}
    for name, folder in (model.split("=", 1) for model in arguments.models):
        file = RESULTS / arguments.name / "outcomes" / f"{name}.json"
        models[name] = outcome(file, facts, lambda folder=folder: measure(folder, pairs, arguments))
    record = {
        **header("python " + " ".join(sys.argv), "sacrebleu"),
        "note": arguments.note,
        **facts,
        "mean": {name: mean([model[name] for model in models.values()]) for name in VARIATIONS},
        "models": models,
    }
    hidden = {model.split("=", 1)[1]: "MODEL" for model in arguments.models}
    hidden[str(arguments.source.parent)] = "CORPUS"
    sys.stdout.write(write(arguments.name, record, hide=hidden))


def measure(
    folder: str, pairs: Sequence[Pair], arguments: argparse.Namespace
) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of one model on each variation, before and after recasing."""
    translator, rows = Translator.load(folder), dict[str, dict[str, dict[str, float]]]()
    for name, config in VARIATIONS.items():
        varied = [
            vary(pair, config, Random(f"{arguments.seed}/{line}"))
            for line, pair in enumerate(pairs)
        ]
        sources, references = zip(*varied, strict=True)
        rows[name] = {}
        for time, recase in (("before", False), ("after", True)):
            translations = translator.translate(sources, recase=recase, token_scores=False)
            texts = [translation.text for translation in translations]
            rows[name][time] = {
                key: round(
                    bleu(texts, references, language=arguments.language, lower_case=lower).value, 2
                )
                for key, lower in (("bleu", False), ("bleu_lower_case", True))
            }
            rows[name][time]["recased"] = sum(bool(line.recased) for line in translations)
            rows[name][time]["flagged"] = sum(bool(line.flag) for line in translations)
    return rows


def mean(rows: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """The mean over models of each score before and after."""
    return {
        time: {key: round(fmean(row[time][key] for row in rows), 2) for key in scores}
        for time, scores in rows[0].items()
    }


if __name__ == "__main__":
    main()
