"""Decoding throughput and latency: transduce's engines against CTranslate2 and Hugging Face.

    .venv/bin/python benchmarks/decoding.py MODEL --source FILE --target FILE --tokenize none

All systems translate the same tokenized sentences, greedily and with a beam of 5 (transduce with
the model's length penalty), in turn and several times, each in its own process; reported are
medians. Systems in bfloat16 are left out on a processor without units for it. T is the given
bundle; S is the paper's base model with the bundle's vocabulary and random weights. Prints a table
per shape and writes benchmarks/results/decoding/record.json, or another folder's (`--record`). Run
nothing else at the same time.

ours, torch               `--engine torch`, a batch of 64 on each core
ours, torch bfloat16      the same with `--compute-type bfloat16`
ours, native              as `--engine auto` chooses: float32
ours, native int8         the same with `--compute-type int8`, if the processor has it
ours, native int8, shortlist  also with `--shortlist`, if the benchmark is given one
ours, ctranslate2         `--engine ctranslate2`: float32, workers and threads by measurement
ours, int8                the same with `--compute-type int8`
ours, int8, shortlist     also with `--shortlist`
student, int8             a distilled model in int8, if the benchmark is given one, and with a
                          shortlist; with it also a beam of 3 beside the others' 5
CTranslate2 at its best   the converted model; threads, workers and `max_batch_size` by the same
                          measurement; one thread for one sentence
CTranslate2 int8          the same, with `compute_type="int8"`
CTranslate2 as it comes   the same with its defaults
Hugging Face              `generate`, batches of 64. Where Marian and Pegasus cannot express the
                          model, weights are random and translations have the sources' mean length
Hugging Face bfloat16     the same model, `.to(torch.bfloat16)`

Throughput is measured on all sentences at once, latency on single sentences. The share relates
`flops` of the translations to the fastest product of 2,048 x 2,048 matrices in the same precision,
measured first. BLEU has the difference from CTranslate2 at its best with the same beam, and from it
with a beam of 5, each with the p-value of a paired bootstrap.
"""

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from decoders import BATCH, BEAMS, BEST, STUDENT_BEAM, SYSTEMS, Ids, Task, run_system
from peers.shapes import SHAPES
from record import ROOT, header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.evaluation.significance import System, compare_systems
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.precision import bfloat16_units

CEILINGS = {"ours, torch": "float32", "ours, torch bfloat16": "bfloat16"}
"""Systems whose share of a ceiling is reported, and the ceiling's precision."""

Row = dict[str, object]


def main() -> None:
    """Time all systems on all shapes, print the tables, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.model)
    sources = bundle.tokenizer.encode_all(read_lines(arguments.source)[: arguments.lines])
    references = read_lines(arguments.target)[: len(sources)]
    ceilings = {kind: measure_ceiling(kind) for kind in CEILINGS.values()}
    shapes: dict[str, Row] = {}
    for name in arguments.shapes.split(","):
        is_bundle = name == "T"
        selected = sources if is_bundle else sources[:: max(1, len(sources) // arguments.lines_s)]
        single = arguments.single if is_bundle else arguments.single_s
        shapes[name] = measure_shape(
            bundle if is_bundle else random_bundle(bundle, name),
            selected,
            references if is_bundle else None,
            single=single,
            rounds=arguments.rounds,
            ceilings=ceilings,
            tokenize=arguments.tokenize,
            shortlist=arguments.shortlist if is_bundle else None,
            student=Bundle.load(arguments.student) if is_bundle and arguments.student else None,
        )
        print(
            f"\n{name}: {shapes[name]['model']}\n{format_table(shapes[name]['rows'])}", flush=True
        )
    if not arguments.dry:
        head = header("python " + " ".join(sys.argv), "ctranslate2", "transformers")
        hide = {arguments.model: "MODEL", arguments.source: "SOURCES", arguments.target: "TARGETS"}
        if arguments.shortlist:
            hide[str(arguments.shortlist)] = "SHORTLIST"
        if arguments.student:
            hide[arguments.student] = "STUDENT"
        write(arguments.record, {**head, "ceiling_gflops": ceilings, "shapes": shapes}, hide=hide)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="sentences, one per line; may be .gz")
    parser.add_argument("--target", required=True, help="reference translations")
    parser.add_argument(
        "--shapes", default="T,S", help="T: the given model, S: the paper's base model"
    )
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--single", type=int, default=40, help="sentences to time singly")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines-s", type=int, default=64, help="sentences for S")
    parser.add_argument("--single-s", type=int, default=6, help="sentences to time singly for S")
    parser.add_argument(
        "--tokenize", default="13a", help="BLEU's tokenizer; none for tokenized text"
    )
    parser.add_argument(
        "--shortlist", type=Path, help="vmap.txt of `transduce export --to ctranslate2 --shortlist`"
    )
    parser.add_argument("--student", help="a model of `transduce distill` with this vocabulary")
    parser.add_argument("--record", default="decoding", help="folder below results")
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def random_bundle(bundle: Bundle, name: str) -> Bundle:
    """Build a bundle of a shape with the given bundle's vocabulary and random weights."""
    shape = SHAPES[name]
    config = ModelConfig(
        vocab_size=bundle.model.config.vocab_size,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        heads=shape.heads,
        d_k=shape.d_model // shape.heads,
        d_v=shape.d_model // shape.heads,
    )
    torch.manual_seed(1)
    return replace(bundle, model=Transformer(config).eval())


def measure_shape(
    bundle: Bundle,
    sources: Sequence[Ids],
    references: Sequence[str] | None,
    *,
    single: int,
    rounds: int,
    ceilings: Mapping[str, float],
    tokenize: str,
    shortlist: Path | None,
    student: Bundle | None,
) -> Row:
    """Measure all systems on a model; without references its weights are random."""
    available = {
        "shortlist": shortlist is not None,
        "student": student is not None,
        "bfloat16": bfloat16_units(torch.device("cpu")),
    }
    missing = [word for word, is_available in available.items() if not is_available]
    left_out = {name for name in SYSTEMS if any(word in name for word in missing)}
    with tempfile.TemporaryDirectory() as folder:
        systems: dict[str, SystemProcess] = {}
        for name in SYSTEMS:
            if name in left_out:
                continue
            system_folder = Path(folder) / name
            system_folder.mkdir()
            task = Task(
                bundle=bundle,
                sources=sources,
                folder=system_folder,
                shortlist=shortlist,
                student=student,
                random=references is None,
            )
            systems[name] = SystemProcess(name, task)
        rows: list[Row] = []
        for beam in BEAMS:
            timed = {name: s for name, s in systems.items() if beam > 1 or name != STUDENT_BEAM}
            rows += time_systems(timed, sources, beam, single, rounds)
        for system in systems.values():
            system.stop()
    if references is not None:
        score_rows(rows, references, bundle, tokenize=tokenize)
    for row in rows:
        outputs = row.pop("outputs")
        del row["same_weights"]
        if row["system"] in CEILINGS:
            work = 1e-9 * sum(
                flops(bundle.model.config, len(source) + 1, len(output), row["beam"])
                for source, output in zip(sources, outputs, strict=True)
            )
            rate = work / len(sources) * row["sentences_a_second"]
            row["share_of_ceiling"] = round(rate / ceilings[CEILINGS[row["system"]]], 3)
        row["pieces_generated"] = round(statistics.mean(map(len, outputs)), 1)
    names = ("vocab_size", "encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "norm")
    return {
        "model": {name: getattr(bundle.model.config, name) for name in names},
        "sentences": len(sources),
        "pieces_a_sentence": round(statistics.mean(map(len, sources)), 1),
        "single_sentences": single,
        "rounds": rounds,
        "systems": {name: system.setup for name, system in systems.items()},
        "rows": rows,
    }


def score_rows(
    rows: Sequence[Row], references: Sequence[str], bundle: Bundle, *, tokenize: str
) -> None:
    """Add BLEU, and its differences from CTranslate2 at its best, to the rows that have the model.

    Args:
        rows: of both beams, with the translations.
        references: of all sentences.
        bundle: for its vocabulary and target language.
        tokenize: BLEU's tokenizer.
    """
    texts = {
        (row["system"], row["beam"]): [bundle.tokenizer.decode(ids) for ids in row["outputs"]]
        for row in rows
        if row["same_weights"]
    }
    names = {key: f"{key[0]}, beam {key[1]}" for key in texts}
    for beam in BEAMS:
        baseline = (BEST, beam)
        others = [
            key for key in texts if key != baseline and (key[1] == beam or beam == max(BEAMS))
        ]
        systems = [System(names[key], texts[key]) for key in (baseline, *others)]
        table = compare_systems(
            systems,
            references,
            metrics=["bleu"],
            language=bundle.languages.target,
            tokenize=tokenize,
        ).metrics[0]
        values = dict(zip((baseline, *others), table.systems, strict=True))
        for row in rows:
            if (result := values.get((row["system"], row["beam"]))) is None:
                continue
            row["bleu"] = round(result.value, 2)
            if result.p is not None:
                difference = round(result.value - values[baseline].value, 2)
                suffix = "" if row["beam"] == beam else f"_beam_{beam}"
                row[f"bleu_difference{suffix}"], row[f"p{suffix}"] = difference, result.p


class SystemProcess:
    """A system in a subprocess."""

    def __init__(self, name: str, task: Task) -> None:
        context = multiprocessing.get_context("spawn")  # inherits no threads
        self._connection, child_connection = context.Pipe()
        self._process = context.Process(target=run_system, args=(child_connection, name, task))
        self._process.start()
        child_connection.close()  # to notice the end of the process
        self.setup, self.same_weights = self._connection.recv()

    def translate(self, sources: Sequence[Ids], beam: int) -> tuple[float, list[list[int]]]:
        """Translate; return the seconds, without communication, and the translations."""
        self._connection.send((sources, beam))
        return self._connection.recv()

    def stop(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def time_systems(
    systems: Mapping[str, SystemProcess],
    sources: Sequence[Ids],
    beam: int,
    single: int,
    rounds: int,
) -> list[Row]:
    """Time the systems in turn, after a warm-up of each."""
    throughputs: dict[str, list[float]] = {name: [] for name in systems}
    latencies: dict[str, list[float]] = {name: [] for name in systems}
    outputs: dict[str, list[list[int]]] = {}
    for system in systems.values():
        system.translate(sources[:BATCH], beam)
    for _ in range(rounds):
        for name, system in systems.items():
            seconds, outputs[name] = system.translate(sources, beam)
            throughputs[name].append(len(sources) / seconds)
        for name, system in systems.items():
            for source in sources[:single]:
                seconds, _ = system.translate([source], beam)
                latencies[name].append(1000 * seconds)
    return [
        {
            "system": name,
            "beam": beam,
            "sentences_a_second": round(statistics.median(throughputs[name]), 1),
            "each_round": [round(rate, 1) for rate in throughputs[name]],
            "milliseconds_a_sentence": round(statistics.median(latencies[name]), 2),
            "outputs": outputs[name],
            "same_weights": system.same_weights,
        }
        for name, system in systems.items()
    ]


def flops(config: ModelConfig, source: int, target: int, beam: int) -> int:
    """Count the floating-point operations of translating a sentence, with EOS on both sides.

    Counts the multiplications and additions of products with weights: the source passes the encoder
    and the decoder's key and value projections once; each target token passes the rest of the
    decoder and the output matrix `beam` times. Leaves out attention scores (a few percent at 14
    tokens), softmax and normalization.

    >>> t = SHAPES["T"]
    >>> d_k = t.d_model // t.heads
    >>> config = ModelConfig(vocab_size=10_000, encoder_layers=4, decoder_layers=4, d_model=128,
    ...                      d_ff=256, heads=4, d_k=d_k, d_v=d_k)
    >>> flops(config, 14, 14, 1)
    72540160
    """
    keys, values = (config.d_model * config.heads * width for width in (config.d_k, config.d_v))
    attention, feed_forward = 2 * keys + 2 * values, 2 * config.d_model * config.d_ff
    encoder_flops = config.encoder_layers * (attention + feed_forward)
    encoder_flops += config.decoder_layers * (keys + values)
    decoder_flops = config.decoder_layers * (attention + keys + values + feed_forward)
    decoder_flops += config.vocab_size * config.d_model
    return 2 * (source * encoder_flops + beam * target * decoder_flops)


def measure_ceiling(kind: str) -> float:
    """Measure this machine's GFLOP/s of matrix products on all threads, in a subprocess."""
    program = [sys.executable, str(ROOT / "benchmarks" / "peers" / "ceiling.py"), kind]
    result = subprocess.run(program, capture_output=True, text=True, check=True)
    return round(json.loads(result.stdout)["gflops"], 1)


def format_table(rows: Sequence[Row]) -> str:
    """Format a line per system and beam, with the gain over Hugging Face."""
    baselines = {row["beam"]: row for row in rows if row["system"] == "Hugging Face"}
    lines = ["beam  system                   sentences/s   gain  share   ms/sentence   gain   BLEU"]
    for row in rows:
        baseline = baselines[row["beam"]]
        rate, single = row["sentences_a_second"], row["milliseconds_a_sentence"]
        bleu = f"{row['bleu']:5.2f}" if "bleu" in row else "    –"
        share = f"{row['share_of_ceiling']:5.1%}" if "share_of_ceiling" in row else "    –"
        gain, speedup = (
            rate / baseline["sentences_a_second"],
            baseline["milliseconds_a_sentence"] / single,
        )
        lines.append(
            f"{row['beam']:4}  {row['system']:23}  {rate:11.1f}  {gain:5.2f}"
            f"  {share}  {single:12.2f}  {speedup:5.2f}  {bleu}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
