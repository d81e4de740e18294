"""Gain and cost of a lexical shortlist.

    .venv/bin/python benchmarks/shortlist.py RUN --source FILE --target FILE [--tokenize none]

Learns one from the run's training pairs, as `transduce export --shortlist` does, and translates the
same sentences with it and without, in float32 and int8, greedily and as the model searches where it
is told nothing. Each round times one after the other, the whole text and then single sentences;
a gain is the median of the rounds' ratios. Seconds are the processor's, all workers together, so
that other programs on the machine do not count. BLEU and a paired bootstrap compare what is said.
Written to benchmarks/results/shortlist/record.json.
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

HELD = 1000  # validation pairs that it is learned by, at most, as in `transduce export`

Ids = Sequence[int]


class Both(NamedTuple):
    """The whole vocabulary, and what the shortlist leaves of it."""

    whole: Engine
    short: Engine


class Times(NamedTuple):
    """The processor's seconds, of one round."""

    text: float
    single: float


def main() -> None:
    """Learn, translate in turn, write one record."""
    arguments = parse()
    bundle = Bundle.load(arguments.run)
    sources, references = read_lines(arguments.source), read_lines(arguments.target)
    asked = bundle.tokenizer.encode_all([tidy(source) for source in sources])
    begun = time.process_time()
    learned = learn(arguments.run, bundle)
    seconds = time.process_time() - begun
    sys.stdout.write(f"{learned}\n")
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vmap.txt"
        file.write_bytes(learned.shortlist.to_text(vocabulary(bundle.tokenizer)).encode())
        for kind in ("float32", "int8"):
            engines = both(bundle, kind, file)
            for config in (replace(bundle.search, beam=1), bundle.search):
                rows.append(
                    {
                        "compute_type": kind,
                        "beam": config.beam,
                        "alpha": config.alpha,
                        **gains(engines, asked, config, arguments),
                        **cost(engines, bundle, asked, config, references, arguments.tokenize),
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
    parser.add_argument("--target", type=Path, required=True, help="its references")
    parser.add_argument("--tokenize", default="", help="BLEU's tokeniser")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--single", type=int, default=100, help="sentences timed one by one")
    return parser.parse_args()


def learn(run: Path, bundle: Bundle) -> LearnedShortlist:
    """Learn as `transduce export` does."""
    prepared = open_prepared(run)
    held = prepared.validation[:HELD]
    said = Translator.load(run).translate(
        [pair.source for pair in held], retry_loops=False, token_scores=False
    )
    return learn_shortlist(bundle, prepared.store, held, [one.ids for one in said])


def both(bundle: Bundle, kind: str, file: Path) -> Both:
    """Load the model twice; nothing differs but the shortlist."""
    plan = Plan(kind, available_threads(), 1)
    return Both(
        *(
            select_engines(bundle, engine="ctranslate2", plan=plan, shortlist=shortlist).engines[0]
            for shortlist in (None, file)
        )
    )


def say(engine: Engine, asked: Sequence[Ids], config: SearchConfig) -> list[Ids]:
    """The best translation of each."""
    found = engine.search([Request(tuple(one)) for one in asked], config, token_scores=False)
    return [hypotheses[0].ids for hypotheses in found]


def gains(
    engines: Both, asked: Sequence[Ids], config: SearchConfig, arguments: argparse.Namespace
) -> dict[str, object]:
    """How many times as quick the shortlist is, and the seconds that say so."""
    for engine in engines:
        say(engine, asked[:64], config)
    rounds = [
        [times(engine, asked, config, arguments.single) for engine in engines]
        for _ in range(arguments.rounds)
    ]
    return {
        "gain_text": round(median(whole.text / short.text for whole, short in rounds), 2),
        "gain_single": round(median(whole.single / short.single for whole, short in rounds), 2),
        "seconds_text": [[round(side.text, 2) for side in one] for one in rounds],
        "seconds_single": [[round(side.single, 2) for side in one] for one in rounds],
    }


def times(engine: Engine, asked: Sequence[Ids], config: SearchConfig, single: int) -> Times:
    """Time the whole text, then some sentences one by one."""
    begun = time.process_time()
    say(engine, asked, config)
    between = time.process_time()
    for one in asked[:single]:
        say(engine, [one], config)
    return Times(between - begun, time.process_time() - between)


def cost(
    engines: Both,
    bundle: Bundle,
    asked: Sequence[Ids],
    config: SearchConfig,
    references: Sequence[str],
    tokenize: str,
) -> dict[str, object]:
    """BLEU without and with the shortlist, and the p of the difference."""
    systems = [
        System(name, [bundle.tokenizer.decode(ids).strip() for ids in say(engine, asked, config)])
        for name, engine in zip(Both._fields, engines, strict=True)
    ]
    table = compare_systems(
        systems, references, metrics=["bleu"], language=bundle.languages.target, tokenize=tokenize
    ).metrics[0]
    whole, short = table.systems
    return {
        "bleu_whole": round(whole.value, 2),
        "bleu_short": round(short.value, 2),
        "difference": round(short.value - whole.value, 2),
        "p": short.p,
        "other_lines": sum(a != b for a, b in zip(*(s.lines for s in systems), strict=True)),
        "signature": table.signature,
    }


if __name__ == "__main__":
    main()
