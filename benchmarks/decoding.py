"""How quickly is a text translated, and one sentence of it? Our engines beside what people use.

    .venv/bin/python benchmarks/decoding.py MODEL --source FILE --target FILE

All engines translate the same sentences, already cut into pieces, with the same weights, greedily
and with a beam of 5 (ours with the model's own length penalty), in turn and several times; quoted
are medians. Prints two tables and writes benchmarks/results/decoding/record.json. Nothing else
should run meanwhile.

ours, ctranslate2     as `--engine auto` chooses: float32, workers and threads by measurement
ours, int8            the same with `--compute-type int8`
ours, torch           `--engine torch`, batches of 64
plain ctranslate2     the same converted model with its defaults, `max_batch_size` 64
Hugging Face          `MarianMTModel.generate`, batches of 64. Where Marian cannot express the
                      model, weights are random and translations as long as sources on average

Texts are timed for all sentences at once, single sentences one by one.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ctranslate2
import sacrebleu
import torch
from record import header, read_lines, write

from transduce.bundle import Bundle
from transduce.engines.choose import choose
from transduce.engines.ct2_model import vocabulary, write_ctranslate2
from transduce.engines.engine import Engine
from transduce.export.marian import why_not, write_marian
from transduce.search.config import SearchConfig
from transduce.search.request import Request

BATCH = 64
BEAMS = (1, 5)

Ids = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to translate."""

    name: str
    translate: Callable[[Sequence[Ids], int], list[list[int]]]
    """Takes sources and a beam, gives the best translation of each."""

    says: bool = True
    """Whether what it says means anything."""

    how: str = ""


def main() -> None:
    """Time every system, print the tables, write the record."""
    arguments = parse()
    bundle = Bundle.load(arguments.model)
    sources = bundle.tokenizer.encode_all(read_lines(arguments.source)[: arguments.lines])
    references = read_lines(arguments.target)[: len(sources)]
    with tempfile.TemporaryDirectory() as folder:
        systems = list(all_systems(bundle, sources, Path(folder)))
        rows = [
            {"beam": beam, **row}
            for beam in BEAMS
            for row in measured(systems, sources, beam, arguments)
        ]
    for row in rows:
        said = row.pop("said")
        texts = [bundle.tokenizer.decode(ids) for ids in said]
        score = sacrebleu.corpus_bleu(texts, [references], tokenize=arguments.tokenize, force=True)
        row["bleu"] = round(score.score, 2) if row.pop("says") else None
    record = {
        **header(
            "python benchmarks/decoding.py MODEL --source FILE --target FILE",
            "ctranslate2",
            "transformers",
        ),
        "model": shape(bundle),
        "sentences": len(sources),
        "pieces_a_sentence": round(statistics.mean(map(len, sources)), 1),
        "single_sentences": arguments.single,
        "rounds": arguments.rounds,
        "systems": {system.name: system.how for system in systems},
        "rows": rows,
    }
    print(table(rows))
    if arguments.dry:
        return
    write("decoding", record)


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a bundle or a run's folder")
    parser.add_argument("--source", required=True, help="sentences, one a line; may be .gz")
    parser.add_argument("--target", required=True, help="their references")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--single", type=int, default=100, help="sentences timed one by one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokenize", default="13a", help="of BLEU; none for tokenised text")
    parser.add_argument("--dry", action="store_true", help="write no record")
    return parser.parse_args()


def all_systems(bundle: Bundle, sources: Sequence[Ids], folder: Path) -> Iterator[System]:
    """Every way to translate, loaded."""
    for name, kind in (("ours, ctranslate2", "float32"), ("ours, int8", "int8")):
        choice = choose(bundle, engine="ctranslate2", compute_type=kind)
        (engine,) = choice.engines
        plans = getattr(engine, "plans")  # noqa: B009
        yield System(
            name=name, translate=by(engine, bundle.search, at_once=None), how=str(tuple(plans))
        )
    (engine,) = choose(bundle, engine="torch").engines
    threads = f"{torch.get_num_threads()} threads"
    yield System(
        name="ours, torch", translate=by(engine, bundle.search, at_once=BATCH), how=threads
    )
    yield plain_ctranslate2(bundle, folder / "ctranslate2")
    yield hugging_face(bundle, sources, folder / "marian")


def by(
    engine: Engine, search: SearchConfig, *, at_once: int | None
) -> Callable[[Sequence[Ids], int], list[list[int]]]:
    """An engine of ours; one that gathers batches itself gets all sentences together."""

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        config = replace(search, beam=beam)

        def some(batch: Sequence[Ids]) -> list[list[int]]:
            found = engine.search([Request(tuple(one)) for one in batch], config, detail=False)
            return [list(hypotheses[0].ids) for hypotheses in found]

        return in_batches(sources, some, size=at_once or len(sources))

    return translate


def plain_ctranslate2(bundle: Bundle, folder: Path) -> System:
    """As its documentation shows."""
    write_ctranslate2(bundle, folder)
    translator = ctranslate2.Translator(str(folder), device="cpu")
    pieces = vocabulary(bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(pieces)}

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        named = [[pieces[one] for one in source] for source in sources]
        found = translator.translate_batch(named, beam_size=beam, max_batch_size=BATCH)
        return [[ids[piece] for piece in one.hypotheses[0]] for one in found]

    return System(name="plain ctranslate2", translate=translate, how="its defaults")


def hugging_face(bundle: Bundle, sources: Sequence[Ids], folder: Path) -> System:
    """`generate`, with our weights if Marian can hold them."""
    from transformers import MarianConfig, MarianMTModel

    reason, shape = why_not(bundle), bundle.model.config
    if reason:
        config = MarianConfig(
            vocab_size=shape.vocab_size,
            d_model=shape.d_model,
            encoder_layers=shape.encoder_layers,
            decoder_layers=shape.decoder_layers,
            encoder_ffn_dim=shape.d_ff,
            decoder_ffn_dim=shape.d_ff,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            pad_token_id=shape.pad,
            eos_token_id=0,
            decoder_start_token_id=shape.pad,
            forced_eos_token_id=None,
        )
        torch.manual_seed(1)
        model = MarianMTModel(config).eval()
        length = round(statistics.mean(map(len, sources))) + 1
        limits = {"min_new_tokens": length, "max_new_tokens": length}
    else:
        write_marian(bundle, folder)
        model = MarianMTModel.from_pretrained(folder).eval()
        limits = {"max_new_tokens": max(map(len, sources)) + 50}

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        def some(batch: Sequence[Ids]) -> list[list[int]]:
            longest = max(map(len, batch)) + 1
            rows = [[*one, 0, *[shape.pad] * (longest - len(one) - 1)] for one in batch]
            ids = torch.tensor(rows)
            with torch.inference_mode():
                said = model.generate(
                    ids, attention_mask=(ids != shape.pad).long(), num_beams=beam, **limits
                )
            return [[one for one in row if one not in (0, shape.pad)] for row in said.tolist()]

        return in_batches(sources, some, size=BATCH)

    how = f"random weights, as Marian cannot express {reason}" if reason else "our weights"
    return System(name="Hugging Face", translate=translate, says=not reason, how=how)


def in_batches(
    sources: Sequence[Ids], some: Callable[[Sequence[Ids]], list[list[int]]], *, size: int
) -> list[list[int]]:
    """Translate like lengths together, and give all back in their order."""
    order = sorted(range(len(sources)), key=lambda at: -len(sources[at]))
    said: list[list[int]] = [[]] * len(sources)
    for first in range(0, len(order), size):
        places = order[first : first + size]
        for at, one in zip(places, some([sources[at] for at in places]), strict=True):
            said[at] = one
    return said


def measured(
    systems: Sequence[System], sources: Sequence[Ids], beam: int, arguments: argparse.Namespace
) -> list[dict[str, object]]:
    """Time the systems in turn, after one warm-up each."""
    many: dict[str, list[float]] = {system.name: [] for system in systems}
    one: dict[str, list[float]] = {system.name: [] for system in systems}
    said = {}
    for system in systems:
        system.translate(sources[: 2 * BATCH], beam)
    for _ in range(arguments.rounds):
        for system in systems:
            seconds, said[system.name] = timed(system, sources, beam)
            many[system.name].append(len(sources) / seconds)
        for system in systems:
            for source in sources[: arguments.single]:
                seconds, _ = timed(system, [source], beam)
                one[system.name].append(1000 * seconds)
    return [
        {
            "system": system.name,
            "sentences_a_second": round(statistics.median(many[system.name]), 1),
            "each_round": [round(rate, 1) for rate in many[system.name]],
            "milliseconds_a_sentence": round(statistics.median(one[system.name]), 2),
            "said": said[system.name],
            "says": system.says,
        }
        for system in systems
    ]


def timed(system: System, sources: Sequence[Ids], beam: int) -> tuple[float, list[list[int]]]:
    """How long a system takes, and what it says."""
    begun = time.perf_counter()
    said = system.translate(sources, beam)
    return time.perf_counter() - begun, said


def shape(bundle: Bundle) -> dict[str, object]:
    """What of a model decides its speed."""
    config = bundle.model.config
    names = ("vocab_size", "encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "norm")
    return {name: getattr(config, name) for name in names}


def table(rows: Sequence[dict[str, object]]) -> str:
    """One line a system and beam, with its gain over plain CTranslate2."""
    plain = {row["beam"]: row for row in rows if row["system"] == "plain ctranslate2"}
    written = ["beam  system              sentences/s   gain   ms/sentence   gain    BLEU"]
    for row in rows:
        beside = plain[row["beam"]]
        rate, single = row["sentences_a_second"], row["milliseconds_a_sentence"]
        gain = rate / beside["sentences_a_second"]
        bleu = "    –" if row["bleu"] is None else f"{row['bleu']:5.2f}"
        written.append(
            f"{row['beam']:4}  {row['system']:18}  {rate:11.1f}  {gain:5.2f}"
            f"  {single:12.2f}  {beside['milliseconds_a_sentence'] / single:5.2f}   {bleu}"
        )
    return "\n".join(written)


if __name__ == "__main__":
    sys.exit(main())
