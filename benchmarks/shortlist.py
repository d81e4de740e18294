"""Speed and quality of decoding with a lexical shortlist.

    .venv/bin/python benchmarks/shortlist.py RUN --source FILE --target FILE [--tokenize none]

Learns a shortlist from the run's training pairs, as `transduce export --shortlist` does, and
translates the same sentences with and without it, in float32 and int8, greedily and with the
model's default search. Each round times the full text and then single sentences, in turn; a gain is
the median of the rounds' ratios. Times are CPU seconds of all workers, to exclude other programs.
BLEU with paired bootstrap compares the translations. Writes
benchmarks/results/shortlist/record.json.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.evaluation.significance import System, compare_systems
from transduce.export.shortlist import LearnedShortlist, learn_shortlist
from transduce.inference.engines.base import select_engines
from transduce.inference.engines.ct2_model import vocabulary
from transduce.inference.engines.ct2_runtime import Plan, available_threads
from transduce.inference.engines.interface import Engine
from transduce.inference.translator import Translator
from transduce.pipeline.prepared import open_prepared
from transduce.search.config import Request, SearchConfig

MAX_VALIDATION = 1000  # pairs whose translations select it, as in `transduce export`

Ids = Sequence[int]


class EnginePair(NamedTuple):
    """Engines with the full vocabulary and with the shortlist."""

    full_vocabulary: Engine
    with_shortlist: Engine


class Times(NamedTuple):
    """CPU seconds of a round."""

    text: float
    single: float


def main() -> None:
    """Learn the shortlist, translate in turn, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.run)
    sources, references = read_lines(arguments.source), read_lines(arguments.target)
    token_ids = bundle.tokenizer.encode_all([tidy(source) for source in sources])
    started = time.process_time()
    learned = learn(arguments.run, bundle)
    seconds = time.process_time() - started
    sys.stdout.write(f"{learned}\n")
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vmap.txt"
        file.write_bytes(learned.shortlist.to_text(vocabulary(bundle.tokenizer)).encode())
        for kind in ("float32", "int8"):
            engines = load_engines(bundle, kind, file)
            for config in (replace(bundle.search, beam=1), bundle.search):
                rows.append(
                    {
                        "compute_type": kind,
                        "beam": config.beam,
                        "alpha": config.alpha,
                        **measure_gains(engines, token_ids, config, arguments),
                        **measure_cost(
                            engines, bundle, token_ids, config, references, arguments.tokenize
                        ),
                    }
                )
                sys.stdout.write(f"{json.dumps(rows[-1])}\n")
    record = {
        **header(
            "python benchmarks/shortlist.py RUN --source FILE --target FILE "
            f"--tokenize {arguments.tokenize}",
            "ctranslate2",
            "sacrebleu",
        ),
        "test_set": arguments.source.name,
        "workers": available_threads(),
        "rounds": arguments.rounds,
        "single_sentences": arguments.single,
        "shortlist": {
            "seconds_to_learn": round(seconds),
            "pieces": learned.pieces,
            "pieces_of_a_sentence": round(learned.sentence),
            "pieces_of_a_batch": round(learned.batch),
            "coverage_of_what_the_model_says": round(learned.coverage, 4),
            "coverage_of_references": round(learned.references, 4),
        },
        "rows": rows,
    }
    write("shortlist", record)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("--source", type=Path, required=True, help="text, gzip or not")
    parser.add_argument("--target", type=Path, required=True, help="reference translations")
    parser.add_argument("--tokenize", default="", help="BLEU's tokenizer")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--single", type=int, default=100, help="sentences to time singly")
    return parser.parse_args()


def learn(run: Path, bundle: Bundle) -> LearnedShortlist:
    """Learn a shortlist as `transduce export` does."""
    prepared = open_prepared(run)
    validation = prepared.validation[:MAX_VALIDATION]
    translations = Translator.load(run).translate(
        [pair.source for pair in validation], retry_loops=False, token_scores=False
    )
    return learn_shortlist(
        bundle, prepared.store, validation, [translation.ids for translation in translations]
    )


def load_engines(bundle: Bundle, kind: str, file: Path) -> EnginePair:
    """Load the model with and without the shortlist."""
    plan = Plan(kind, available_threads(), 1)
    return EnginePair(
        *(
            select_engines(bundle, engine="ctranslate2", plan=plan, shortlist=shortlist).engines[0]
            for shortlist in (None, file)
        )
    )


def translate(engine: Engine, token_ids: Sequence[Ids], config: SearchConfig) -> list[Ids]:
    """Return the best translation of each source."""
    results = engine.search(
        [Request(tuple(source)) for source in token_ids], config, token_scores=False
    )
    return [hypotheses[0].ids for hypotheses in results]


def measure_gains(
    engines: EnginePair,
    token_ids: Sequence[Ids],
    config: SearchConfig,
    arguments: argparse.Namespace,
) -> dict[str, object]:
    """Measure the speed-up by the shortlist."""
    for engine in engines:
        translate(engine, token_ids[:64], config)
    rounds = [
        [time_round(engine, token_ids, config, arguments.single) for engine in engines]
        for _ in range(arguments.rounds)
    ]
    return {
        "gain_text": round(median(full.text / reduced.text for full, reduced in rounds), 2),
        "gain_single": round(median(full.single / reduced.single for full, reduced in rounds), 2),
        "seconds_text": [[round(side.text, 2) for side in pair] for pair in rounds],
        "seconds_single": [[round(side.single, 2) for side in pair] for pair in rounds],
    }


def time_round(
    engine: Engine, token_ids: Sequence[Ids], config: SearchConfig, single: int
) -> Times:
    """Time the full text, then single sentences."""
    started = time.process_time()
    translate(engine, token_ids, config)
    text_end = time.process_time()
    for source in token_ids[:single]:
        translate(engine, [source], config)
    return Times(text_end - started, time.process_time() - text_end)


def measure_cost(
    engines: EnginePair,
    bundle: Bundle,
    token_ids: Sequence[Ids],
    config: SearchConfig,
    references: Sequence[str],
    tokenize: str,
) -> dict[str, object]:
    """Compute BLEU without and with the shortlist, and the p of the difference."""
    systems = [
        System(
            name,
            [bundle.tokenizer.decode(ids).strip() for ids in translate(engine, token_ids, config)],
        )
        for name, engine in zip(EnginePair._fields, engines, strict=True)
    ]
    table = compare_systems(
        systems, references, metrics=["bleu"], language=bundle.languages.target, tokenize=tokenize
    ).metrics[0]
    full, reduced = table.systems
    return {
        "bleu_whole": round(full.value, 2),
        "bleu_short": round(reduced.value, 2),
        "difference": round(reduced.value - full.value, 2),
        "p": reduced.p,
        "other_lines": sum(a != b for a, b in zip(*(s.lines for s in systems), strict=True)),
        "signature": table.signature,
    }


if __name__ == "__main__":
    main()
