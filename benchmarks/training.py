"""Training throughput in target tokens per second, against peer toolkits.

    .venv/bin/python benchmarks/training.py --folder CORPUS

CORPUS has Multi30k as tokenized files (tok/train.lc.norm.tok.en.gz etc.), encoded by a joint BPE
vocabulary of 10,000. All systems train the same shapes on all threads: updates of about 4,096
target tokens in sentences of similar length, dropout and label smoothing 0.1, Adam.

ours            an update of `transduce train`: products in bfloat16 if the processor supports it,
                with weights in float32; and in float32 only
transformers    Hugging Face's MarianMTModel in a plain loop
torch           torch.nn.Transformer in a plain loop
eole            `eole train`, by its log
opennmt         `onmt_train` of OpenNMT-py, by its log

The loops read the same prepared batches from a file; the two toolkits read the same corpus as
tokens and form batches by tokens themselves. Peers are measured with their defaults, in float32;
with environment variables that make glibc keep freed memory, as transduce does by itself; and the
loops also with torch's autocast to bfloat16, which users would have to add. Every measurement is a
subprocess, which passes the timed batches once before: bfloat16 products are compiled for each
shape. (The toolkits form their own batches and have a few untimed updates.) Systems are measured in
turn, and medians of the rounds reported. The share of the ceiling relates the arithmetic of the
tokens (`shapes.flops`) to the fastest matrix product of 2,048 cubed in the same precision in this
run. `learning.py` compares what the systems learn from equal tokens.

On a processor without bfloat16 units, measure the settings in float32 and keep another record:

    … --settings "as it comes" float32 "memory kept" --record training-float32

Peers from PyPI get virtual environments below --environments, created once. Prints a table per
model and writes benchmarks/results/training/record.json. Run nothing else at the same time.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from peers.environments import NotInstalled, python_of
from peers.report import (
    KEEP_MEMORY,
    LOOP_SETTINGS,
    OWN,
    OWN_SETTINGS,
    SETTINGS,
    TOOLKIT_SETTINGS,
    Measurement,
    Variant,
    compute_gains,
    format_table,
    summarize,
)
from peers.running import PROGRAMS, Failed, arrange, run, run_own
from peers.shapes import BETAS, DROPOUT, EPSILON, SHAPES, SMOOTHING, TOKENS, flops
from record import ROOT, header, write

LOOPS, TOOLKITS = ("transformers", "torch"), ("eole", "opennmt")
PEERS = (*LOOPS, *TOOLKITS)
PRECISIONS = ("float32", "bfloat16")
Ceilings = dict[str, float]
"""GFLOP/s by precision."""


def main() -> None:
    """Measure all systems, print the tables, write the record."""
    arguments = parse()
    arrange(arguments.threads)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        results = measure_all(arguments, work)
        record = {
            **header("python " + " ".join(sys.argv)),
            "minutes": round((time.perf_counter() - started) / 60, 1),
            **results,
        }
        hide = {str(arguments.folder): "CORPUS", str(arguments.environments): "ENVIRONMENTS"}
        if not arguments.dry:
            write(arguments.record, record, hide={**hide, work: "WORK", str(ROOT): "."})
    for model, model_results in results["models"].items():
        print(format_table(model, model_results, gflops=results["ceiling_gflops"]))
    for name, reason in results["failures"].items():
        print(f"{name}: {reason}")


def measure_all(arguments: argparse.Namespace, work: str) -> dict[str, object]:
    """Measure all systems on all models; return the fields of the record."""
    variants, failures = list_variants(arguments.peers, arguments.environments)
    variants = [variant for variant in variants if variant.settings in arguments.settings]
    updates = {model: arguments.updates or SHAPES[model].updates for model in arguments.models}
    rounds = dict(zip(arguments.models, rounds_per_model(arguments), strict=True))
    report_progress("preparing the corpus")
    corpus_info = run_own("prepare.py", str(arguments.folder), work, str(max(updates.values())))
    ceilings = [measure_ceilings()]
    measurements: dict[str, dict[Variant, list[Measurement]]] = {}
    for model in arguments.models:
        model_arguments = (model, work, str(updates[model]))
        measurements[model] = measure(variants, model_arguments, rounds[model], failures, ceilings)
    best = {name: max(round_ceilings[name] for round_ceilings in ceilings) for name in PRECISIONS}
    return {
        "threads": run_own("ceiling.py")["threads"],
        "corpus": "Multi30k en-de, tokenised",
        **corpus_info,
        "tokens_an_update_about": TOKENS,
        "dropout": DROPOUT,
        "label_smoothing": SMOOTHING,
        "adam": {"betas": BETAS, "epsilon": EPSILON},
        "memory_kept": KEEP_MEMORY,
        "ceiling_gflops": best,
        "ceilings_gflops": ceilings,
        "models": {
            model: {
                **SHAPES[model]._asdict(),
                "updates": updates[model],
                "rounds": rounds[model],
                **arithmetic(model, corpus_info["vocabulary"], measurements[model], gflops=best),
            }
            for model in arguments.models
        },
        "failures": failures,
    }


def arithmetic(
    model: str,
    vocabulary: float,
    measurements: dict[Variant, list[Measurement]],
    *,
    gflops: Ceilings,
) -> dict[str, object]:
    """Compute the arithmetic per token, the rows and the gains of a model."""
    token_flops = flops(SHAPES[model], vocabulary=round(vocabulary))
    rows = summarize(
        measurements, ceilings={name: 1e9 * rate / token_flops for name, rate in gflops.items()}
    )
    return {
        "mflop_a_token": round(token_flops / 1e6, 2),
        "rows": rows,
        "gains": compute_gains(rows),
    }


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    defaults = ", ".join(f"{shape.updates} of {model}" for model, shape in SHAPES.items())
    parser.add_argument("--folder", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--models", nargs="+", choices=SHAPES, default=["T", "S"])
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument(
        "--environments",
        type=Path,
        default=ROOT / "runs" / "peers",
        help="environments of peers from PyPI",
    )
    parser.add_argument(
        "--rounds", type=int, nargs="+", default=[3, 1], help="rounds: one number, or one per model"
    )
    parser.add_argument(
        "--updates", type=int, default=0, help=f"timed updates per round, even (0 = {defaults})"
    )
    parser.add_argument("--threads", type=int, default=0, help="threads of every process (0 = all)")
    parser.add_argument(
        "--settings",
        nargs="+",
        choices=SETTINGS,
        default=list(SETTINGS),
        help="settings to measure, such as those in float32 on a processor without bfloat16",
    )
    parser.add_argument("--record", default="training", help="folder below results")
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def rounds_per_model(arguments: argparse.Namespace) -> list[int]:
    """Return the number of rounds of each model."""
    last = arguments.rounds[-1]
    return [*arguments.rounds, *[last] * len(arguments.models)][: len(arguments.models)]


def list_variants(peers: Sequence[str], environments: Path) -> tuple[list[Variant], dict[str, str]]:
    """List the variants to measure, and why peers are not available."""
    own_command = (sys.executable, str(PROGRAMS / "bench_transduce.py"))
    variants, failures = [Variant(OWN, settings, own_command) for settings in OWN_SETTINGS], {}
    for peer in peers:
        try:
            is_local = peer == "torch" or (peer == "transformers" and find_spec(peer))
            python = sys.executable if is_local else str(python_of(peer, environments.absolute()))
        except NotInstalled as error:
            failures[peer] = str(error)
            continue
        command = (python, str(PROGRAMS / f"bench_{peer}.py"))
        settings = LOOP_SETTINGS if peer in LOOPS else TOOLKIT_SETTINGS
        variants += [Variant(peer, setting, command) for setting in settings]
    return variants, failures


def measure(
    variants: Sequence[Variant],
    model_arguments: tuple[str, str, str],
    rounds: int,
    failures: dict[str, str],
    ceilings: list[Ceilings],
) -> dict[Variant, list[Measurement]]:
    """Run every variant once per round, in reverse order in every other round."""
    measurements: dict[Variant, list[Measurement]] = {variant: [] for variant in variants}
    for number in range(rounds):
        for variant in reversed(variants) if number % 2 else variants:
            name = f"{model_arguments[0]}, {variant.system}, {variant.settings}"
            if name in failures:
                continue
            environment, options = SETTINGS[variant.settings]
            try:
                measurement = Measurement.of(
                    *run((*variant.command, *model_arguments, *options), environment)
                )
            except Failed as error:
                failures[name] = str(error)
                report_progress(f"{name}: {error}")
                continue
            measurements[variant].append(measurement)
            speed = f"{measurement.tokens_a_second:,.0f} tokens/s"
            report_progress(f"round {number + 1} of {rounds}: {name}: {speed}")
        ceilings.append(measure_ceilings())
    return measurements


def measure_ceilings() -> Ceilings:
    """Measure the current speed of matrix products in each precision."""
    return {name: round(run_own("ceiling.py", name)["gflops"], 1) for name in PRECISIONS}


def report_progress(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
