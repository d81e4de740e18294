"""Training throughput in target tokens per second, against peer toolkits.

    .venv/bin/python benchmarks/training.py --folder CORPUS

CORPUS holds Multi30k as tokenised files (tok/train.lc.norm.tok.en.gz and so on), which become ids
of a joint BPE of 10,000 pieces. All systems train the same shapes on all threads: updates of about
4,096 target tokens of sentences of like length, dropout and label smoothing 0.1, Adam.

ours            what `transduce train` does for an update: products in bfloat16 where the processor
                has units for it, beside weights in float32; and told to stay in float32
transformers    Hugging Face's MarianMTModel in a plain loop
torch           torch.nn.Transformer in a plain loop
eole            `eole train`, its own log read
opennmt         `onmt_train` of OpenNMT-py, its own log read

The loops read the same ready-made batches from a file; the two toolkits read the same corpus as
pieces, and make batches by tokens themselves. Peers are measured as they come, in float32; with
settings in the environment that make glibc keep memory, as ours asks for by itself; and the loops
with torch's autocast to bfloat16 besides, which their user would have to write. Every measurement
is a process of its own, whose first updates are not timed; systems take turns, and medians of the
rounds are quoted. The share of the ceiling is the arithmetic of the tokens (`shapes.flops`) by that
of a matrix product of 2,048 cubed in the same precision, the best of all in this run. Whether the
systems learn the same at equal tokens is another program's question (`learning.py`).

Peers that pip has to fetch get environments of their own below --environments, once. Prints a
table for each model and writes benchmarks/results/training/record.json. Nothing else should run
meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from peers.environments import NotInstalled, python_of
from peers.report import (
    KEEPING,
    OF_LOOPS,
    OF_OURS,
    OF_TOOLKITS,
    OURS,
    SETTINGS,
    Found,
    Way,
    gains,
    rows_of,
    table,
)
from peers.running import PROGRAMS, Failed, arrange, run, with_ours
from peers.shapes import BETAS, DROPOUT, EPSILON, SHAPES, SMOOTHING, TOKENS, flops
from record import ROOT, header, write

LOOPS, TOOLKITS = ("transformers", "torch"), ("eole", "opennmt")
PEERS = (*LOOPS, *TOOLKITS)
PRECISIONS = ("float32", "bfloat16")
Ceilings = dict[str, float]
"""GFLOP/s by precision."""


def main() -> None:
    """Measure, print the tables, write the record."""
    arguments = parse()
    arrange(arguments.threads)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        found = everything(arguments, work)
        record = {
            **header("python " + " ".join(sys.argv)),
            "minutes": round((time.perf_counter() - began) / 60, 1),
            **found,
        }
        hide = {str(arguments.folder): "CORPUS", str(arguments.environments): "ENVIRONMENTS"}
        if not arguments.dry:
            write("training", record, hide={**hide, work: "WORK", str(ROOT): "."})
    for model, measured in found["models"].items():
        print(table(model, measured, gflops=found["ceiling_gflops"]))
    for name, reason in found["failures"].items():
        print(f"{name}: {reason}")


def everything(arguments: argparse.Namespace, work: str) -> dict[str, object]:
    """Measure all models and systems; what the record says of them."""
    ways, failures = ways_of(arguments.peers, arguments.environments)
    timed = {model: arguments.updates or SHAPES[model].updates for model in arguments.models}
    rounds = dict(zip(arguments.models, per_model(arguments), strict=True))
    tell("preparing the corpus")
    longest = max(SHAPES[model].warm + updates for model, updates in timed.items())
    made = with_ours("prepare.py", str(arguments.folder), work, str(longest))
    ceilings = [measured_ceilings()]
    found: dict[str, dict[Way, list[Found]]] = {}
    for model in arguments.models:
        words = (model, work, str(timed[model]))
        found[model] = measure(ways, words, rounds[model], failures, ceilings)
    best = {name: max(one[name] for one in ceilings) for name in PRECISIONS}
    return {
        "threads": arguments.threads or os.cpu_count(),
        "corpus": "Multi30k en-de, tokenised",
        **made,
        "tokens_an_update_about": TOKENS,
        "dropout": DROPOUT,
        "label_smoothing": SMOOTHING,
        "adam": {"betas": BETAS, "epsilon": EPSILON},
        "memory_kept": KEEPING,
        "ceiling_gflops": best,
        "ceilings_gflops": ceilings,
        "models": {
            model: {
                **SHAPES[model]._asdict(),
                "updates": timed[model],
                "rounds": rounds[model],
                **arithmetic(model, made["vocabulary"], found[model], gflops=best),
            }
            for model in arguments.models
        },
        "failures": failures,
    }


def arithmetic(
    model: str, vocabulary: float, found: dict[Way, list[Found]], *, gflops: Ceilings
) -> dict[str, object]:
    """What a token costs, the rows, and what they come to."""
    cost = flops(SHAPES[model], vocabulary=round(vocabulary))
    rows = rows_of(found, most={name: 1e9 * rate / cost for name, rate in gflops.items()})
    return {"mflop_a_token": round(cost / 1e6, 2), "rows": rows, "gains": gains(rows)}


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    defaults = ", ".join(f"{shape.updates} of {model}" for model, shape in SHAPES.items())
    parser.add_argument("--folder", type=Path, required=True, help="of Multi30k")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["T", "S"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument(
        "--environments", type=Path, default=ROOT / "runs" / "peers", help="for peers from PyPI"
    )
    parser.add_argument(
        "--rounds", type=int, nargs="+", default=[3, 1], help="one number, or one for each model"
    )
    parser.add_argument(
        "--updates", type=int, default=0, help=f"timed ones of a round: even; 0: {defaults}"
    )
    parser.add_argument("--threads", type=int, default=0, help="of every process; 0: all")
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def per_model(arguments: argparse.Namespace) -> list[int]:
    """The rounds of each model."""
    last = arguments.rounds[-1]
    return [*arguments.rounds, *[last] * len(arguments.models)][: len(arguments.models)]


def ways_of(peers: Sequence[str], environments: Path) -> tuple[list[Way], dict[str, str]]:
    """What can be measured here, and why the rest cannot."""
    ours = (sys.executable, str(PROGRAMS / "bench_transduce.py"))
    ways, failures = [Way(OURS, settings, ours) for settings in OF_OURS], {}
    for peer in peers:
        try:
            here = peer == "torch" or (peer == "transformers" and find_spec(peer))
            python = sys.executable if here else str(python_of(peer, environments.absolute()))
        except NotInstalled as error:
            failures[peer] = str(error)
            continue
        command = (python, str(PROGRAMS / f"bench_{peer}.py"))
        settings = OF_LOOPS if peer in LOOPS else OF_TOOLKITS
        ways += [Way(peer, each, command) for each in settings]
    return ways, failures


def measure(
    ways: Sequence[Way],
    words: tuple[str, str, str],
    rounds: int,
    failures: dict[str, str],
    ceilings: list[Ceilings],
) -> dict[Way, list[Found]]:
    """Run every way once a round, every other round from the last to the first."""
    found: dict[Way, list[Found]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in reversed(ways) if number % 2 else ways:
            name = f"{words[0]}, {way.system}, {way.settings}"
            if name in failures:
                continue
            environment, more = SETTINGS[way.settings]
            try:
                once = Found.of(*run((*way.command, *words, *more), environment))
            except Failed as error:
                failures[name] = str(error)
                tell(f"{name}: {error}")
                continue
            found[way].append(once)
            tell(f"round {number + 1} of {rounds}: {name}: {once.tokens_a_second:,.0f} tokens/s")
        ceilings.append(measured_ceilings())
    return found


def measured_ceilings() -> Ceilings:
    """How quickly the machine multiplies matrices at this moment."""
    return {name: round(with_ours("ceiling.py", name)["gflops"], 1) for name in PRECISIONS}


def tell(text: str) -> None:
    """Say how far it is."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
