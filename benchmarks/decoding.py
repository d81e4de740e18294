"""Decoding throughput and latency: our engines against CTranslate2 and Hugging Face.

    .venv/bin/python benchmarks/decoding.py MODEL --source FILE --target FILE --tokenize none

All systems translate the same sentences, already cut into pieces, greedily and with a beam of 5
(ours with the model's own length penalty), in turn and several times, each in a process of its own;
quoted are medians. T is the given bundle, S the paper's base with its vocabulary and random
weights. Prints a table a shape and writes benchmarks/results/decoding/record.json. Nothing else
should run meanwhile.

ours, torch               `--engine torch`, a batch of 64 on each core at one time
ours, torch bfloat16      the same with `--compute-type bfloat16`
ours, ctranslate2         as `--engine auto` chooses: float32, workers and threads by measurement
ours, int8                the same with `--compute-type int8`
CTranslate2 at its best   the converted model, a worker with one thread a core, `max_batch_size` 64;
                          one thread for one sentence
CTranslate2 as it comes   the same with its defaults
Hugging Face              `generate`, batches of 64. Where Marian and Pegasus cannot express the
                          model, weights are random and translations as long as sources on average
Hugging Face bfloat16     the same model, `.to(torch.bfloat16)`

Texts are timed for all sentences at once, single sentences one by one. The share is that of the
best product of 2,048 x 2,048 matrices in the same precision, measured first, by `flops` of what was
said.
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

import sacrebleu
import torch
from decoders import BATCH, SYSTEMS, Ids, Task, answer
from peers.shapes import SHAPES
from record import ROOT, header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer

BEAMS = (1, 5)
SHARED = {"ours, torch": "float32", "ours, torch bfloat16": "bfloat16"}
"""Whose share of a ceiling is said, and of which."""

Row = dict[str, object]


def main() -> None:
    """Time every system on every shape, print the tables, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.model)
    sources = bundle.tokenizer.encode_all(read_lines(arguments.source)[: arguments.lines])
    references = read_lines(arguments.target)[: len(sources)]
    ceilings = {kind: measured_ceiling(kind) for kind in SHARED.values()}
    shapes: dict[str, Row] = {}
    for name in arguments.shapes.split(","):
        given = name == "T"
        some = sources if given else sources[:: max(1, len(sources) // arguments.lines_s)]
        counts = (arguments.single, arguments.rounds) if given else (arguments.single_s, 2)
        shapes[name] = timed_shape(
            bundle if given else of_shape(bundle, name),
            some,
            references if given else None,
            counts=counts,
            ceilings=ceilings,
            tokenize=arguments.tokenize,
        )
        print(f"\n{name}: {shapes[name]['model']}\n{table(shapes[name]['rows'])}", flush=True)
    if not arguments.dry:
        head = header("python " + " ".join(sys.argv), "ctranslate2", "transformers")
        hide = {arguments.model: "MODEL", arguments.source: "SOURCES", arguments.target: "TARGETS"}
        write("decoding", {**head, "ceiling_gflops": ceilings, "shapes": shapes}, hide=hide)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="sentences, one a line; may be .gz")
    parser.add_argument("--target", required=True, help="their references")
    parser.add_argument("--shapes", default="T,S", help="T is the model itself")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--single", type=int, default=40, help="sentences timed one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines-s", type=int, default=64, help="sentences for S")
    parser.add_argument("--single-s", type=int, default=6, help="of which one by one")
    parser.add_argument("--tokenize", default="13a", help="of BLEU; none for tokenised text")
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def of_shape(bundle: Bundle, name: str) -> Bundle:
    """A bundle with the given one's vocabulary and random weights."""
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


def timed_shape(
    bundle: Bundle,
    sources: Sequence[Ids],
    references: Sequence[str] | None,
    *,
    counts: tuple[int, int],
    ceilings: Mapping[str, float],
    tokenize: str,
) -> Row:
    """Everything about one model; without references its weights are random."""
    single, rounds = counts
    with tempfile.TemporaryDirectory() as folder:
        systems: dict[str, Apart] = {}
        for name in SYSTEMS:
            place = Path(folder) / name
            place.mkdir()
            task = Task(bundle=bundle, sources=sources, folder=place, random=references is None)
            systems[name] = Apart(name, task)
        rows = [row for beam in BEAMS for row in measured(systems, sources, beam, single, rounds)]
        for system in systems.values():
            system.end()
    for row in rows:
        said, says = row.pop("said"), row.pop("says")
        if row["system"] in SHARED:
            work = 1e-9 * sum(
                flops(bundle.model.config, len(source) + 1, len(one), row["beam"])
                for source, one in zip(sources, said, strict=True)
            )
            rate = work / len(sources) * row["sentences_a_second"]
            row["share_of_ceiling"] = round(rate / ceilings[SHARED[row["system"]]], 3)
        if references is not None and says:
            texts = [bundle.tokenizer.decode(ids) for ids in said]
            score = sacrebleu.corpus_bleu(texts, [references], tokenize=tokenize, force=True)
            row["bleu"] = round(score.score, 2)
        row["pieces_said"] = round(statistics.mean(map(len, said)), 1)
    names = ("vocab_size", "encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "norm")
    return {
        "model": {name: getattr(bundle.model.config, name) for name in names},
        "sentences": len(sources),
        "pieces_a_sentence": round(statistics.mean(map(len, sources)), 1),
        "single_sentences": single,
        "rounds": rounds,
        "systems": {name: system.how for name, system in systems.items()},
        "rows": rows,
    }


class Apart:
    """A system in a process of its own."""

    def __init__(self, name: str, task: Task) -> None:
        alone = multiprocessing.get_context("spawn")  # none of this process's threads
        self._line, theirs = alone.Pipe()
        self._process = alone.Process(target=answer, args=(theirs, name, task))
        self._process.start()
        theirs.close()  # so that its end is seen here
        self.how, self.says = self._line.recv()

    def timed(self, sources: Sequence[Ids], beam: int) -> tuple[float, list[list[int]]]:
        """How long it takes, the sending not counted, and what it says."""
        self._line.send((sources, beam))
        return self._line.recv()

    def end(self) -> None:
        """Let the process end."""
        self._line.send(None)
        self._process.join()


def measured(
    systems: Mapping[str, Apart], sources: Sequence[Ids], beam: int, single: int, rounds: int
) -> list[Row]:
    """Time the systems in turn, after one warm-up each."""
    many: dict[str, list[float]] = {name: [] for name in systems}
    one: dict[str, list[float]] = {name: [] for name in systems}
    said: dict[str, list[list[int]]] = {}
    for system in systems.values():
        system.timed(sources[:BATCH], beam)
    for _ in range(rounds):
        for name, system in systems.items():
            seconds, said[name] = system.timed(sources, beam)
            many[name].append(len(sources) / seconds)
        for name, system in systems.items():
            for source in sources[:single]:
                seconds, _ = system.timed([source], beam)
                one[name].append(1000 * seconds)
    return [
        {
            "system": name,
            "beam": beam,
            "sentences_a_second": round(statistics.median(many[name]), 1),
            "each_round": [round(rate, 1) for rate in many[name]],
            "milliseconds_a_sentence": round(statistics.median(one[name]), 2),
            "said": said[name],
            "says": system.says,
        }
        for name, system in systems.items()
    ]


def flops(config: ModelConfig, source: int, target: int, beam: int) -> int:
    """Floating-point operations of one sentence's translation, EOS counted on both sides.

    Counted are the products with weights, a multiplication and an addition for each: the source
    passes the encoder and the decoder's maps to keys and values once, each piece of the target
    passes the rest of the decoder and the output matrix, `beam` times. Not counted are the scores
    of attention (a few per cent at 14 pieces), softmax and normalisation.

    >>> t = SHAPES["T"]
    >>> wide = t.d_model // t.heads
    >>> config = ModelConfig(vocab_size=10_000, encoder_layers=4, decoder_layers=4, d_model=128,
    ...                      d_ff=256, heads=4, d_k=wide, d_v=wide)
    >>> flops(config, 14, 14, 1)
    72540160
    """
    keys, values = (config.d_model * config.heads * wide for wide in (config.d_k, config.d_v))
    attention, feed_forward = 2 * keys + 2 * values, 2 * config.d_model * config.d_ff
    read = config.encoder_layers * (attention + feed_forward)
    read += config.decoder_layers * (keys + values)
    said = config.decoder_layers * (attention + keys + values + feed_forward)
    said += config.vocab_size * config.d_model
    return 2 * (source * read + beam * target * said)


def measured_ceiling(kind: str) -> float:
    """GFLOP/s of this machine's matrix products, on all threads, in a process of its own."""
    program = [sys.executable, str(ROOT / "benchmarks" / "peers" / "ceiling.py"), kind]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    return round(json.loads(done.stdout)["gflops"], 1)


def table(rows: Sequence[Row]) -> str:
    """One line a system and beam, with its gain over Hugging Face."""
    theirs = {row["beam"]: row for row in rows if row["system"] == "Hugging Face"}
    written = [
        "beam  system                   sentences/s   gain  share   ms/sentence   gain   BLEU"
    ]
    for row in rows:
        beside = theirs[row["beam"]]
        rate, single = row["sentences_a_second"], row["milliseconds_a_sentence"]
        bleu = f"{row['bleu']:5.2f}" if "bleu" in row else "    –"
        share = f"{row['share_of_ceiling']:5.1%}" if "share_of_ceiling" in row else "    –"
        gain, sooner = (
            rate / beside["sentences_a_second"],
            beside["milliseconds_a_sentence"] / single,
        )
        written.append(
            f"{row['beam']:4}  {row['system']:23}  {rate:11.1f}  {gain:5.2f}"
            f"  {share}  {single:12.2f}  {sooner:5.2f}  {bleu}"
        )
    return "\n".join(written)


if __name__ == "__main__":
    sys.exit(main())
