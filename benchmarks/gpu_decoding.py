"""Translation on a GPU: transduce's torch engine beside CTranslate2.

    .venv/bin/python benchmarks/gpu_decoding.py MODEL --source FILE --target FILE

T is the given model, S the paper's base model with its vocabulary and random weights. All systems
translate the same sentences, greedily and with a beam of 5: one at a time, and in batches of up to
512. Text is read and written, tokenization included. Systems take turns; rates are medians. S has
no BLEU; its translations end at 30 pieces.

torch           transduce's torch engine, float32
torch bfloat16  the same with `--compute-type bfloat16`
ct2 float32     CTranslate2, as `--engine ctranslate2` runs it
ct2 float16     the same with `--compute-type float16`
ct2 int8        the same with `--compute-type int8_float16`

Prints a table and writes benchmarks/results/gpu-decoding/record.json. Run nothing else on the GPU.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import sacrebleu
import torch
from record import header, read_lines, write

from gpu import device_name
from transduce.bundle.bundle import Bundle
from transduce.inference.engines.ct2_runtime import Plan
from transduce.inference.translator import Translator
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer

SYSTEMS = {
    "torch": "float32",
    "torch bfloat16": "bfloat16",
    "ct2 float32": "float32",
    "ct2 float16": "float16",
    "ct2 int8": "int8_float16",
}
"""Compute types."""

BATCH = 512
PIECES = 30
"""Of each translation by random weights."""

Row = dict[str, str | int | float | None]


def main() -> None:
    """Measure every system, print the table, write the record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=1024)
    parser.add_argument("--single", type=int, default=40, help="sentences translated one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokenize", default="13a", help="sacreBLEU's tokenizer for BLEU")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    sources = read_lines(arguments.source)[: arguments.lines]
    references = read_lines(arguments.target)[: len(sources)]
    bundle = Bundle.load(arguments.model, device=arguments.device)
    torch.manual_seed(1)
    base = ModelConfig(vocab_size=bundle.model.config.vocab_size)
    random_model = Transformer(base).eval().to(arguments.device)
    with torch.no_grad():  # so that no translation ends before its limit
        random_model.embedding.weight[bundle.tokenizer.EOS] = 0.0
    random_base = replace(bundle, weights=random_model)
    rows = [
        row
        for name, model, truth in (("T", bundle, references), ("S", random_base, None))
        for row in measure(name, model, sources, truth, arguments=arguments)
    ]
    print(table(rows))
    settings = {
        "device": device_name(torch.device(arguments.device)),
        "batch": BATCH,
        "sentences": len(sources),
    }
    command = "python benchmarks/gpu_decoding.py MODEL --source FILE --target FILE"
    if arguments.device == "cuda":
        write("gpu-decoding", {**header(command, "ctranslate2"), **settings, "rows": rows})


def measure(
    name: str,
    bundle: Bundle,
    sources: Sequence[str],
    references: Sequence[str] | None,
    *,
    arguments: argparse.Namespace,
) -> list[Row]:
    """Time a model in all systems, which take turns."""
    translators = {
        system: load(bundle, system, device=arguments.device)
        for system in SYSTEMS
        if arguments.device == "cuda" or SYSTEMS[system] in ("float32", "bfloat16")
    }
    longest = max(len(bundle.tokenizer.encode(line)) for line in sources) + 2
    pieces = 0 if references else PIECES
    rows: list[Row] = []
    for beam in (1, 5):
        rates: dict[tuple[str, int], list[float]] = {}
        texts: dict[str, list[str]] = {}
        for round_number in range(arguments.rounds + 1):  # the first warms up
            for system, translator in translators.items():
                for batch, lines in ((1, sources[: arguments.single]), (BATCH, sources)):
                    run = runner(
                        translator, lines, batch=batch, beam=beam, longest=longest, pieces=pieces
                    )
                    started = time.perf_counter()
                    texts[system] = run()
                    seconds = time.perf_counter() - started
                    if round_number:
                        rates.setdefault((system, batch), []).append(len(lines) / seconds)
        for system in translators:
            bleu = None
            if references is not None:
                scored = sacrebleu.corpus_bleu(
                    texts[system], [list(references)], tokenize=arguments.tokenize
                )
                bleu = round(scored.score, 2)
            for batch in (1, BATCH):
                rate = round(median(rates[system, batch]), 1)
                row: Row = {"model": name, "system": system, "beam": beam, "batch": batch}
                rows.append({**row, "sentences_a_second": rate, "bleu": bleu})
    return rows


def load(bundle: Bundle, system: str, *, device: str) -> Translator:
    """Load a system."""
    compute_type = SYSTEMS[system]
    if system.startswith("torch"):
        return Translator.from_bundle(
            bundle, device=device, engine="torch", compute_type=compute_type
        )
    plan = Plan(compute_type, workers=1, threads=1)  # on a GPU no other is needed
    return Translator.from_bundle(bundle, device=device, engine="ctranslate2", plan=plan)


def runner(
    translator: Translator,
    lines: Sequence[str],
    *,
    batch: int,
    beam: int,
    longest: int,
    pieces: int,
) -> Callable[[], list[str]]:
    """Return a call that translates lines, one by one or in batches of about `batch`.

    Translations have `pieces` pieces, or as many as the search finds for 0.
    """

    def translate(text: str | Sequence[str]) -> list[str]:
        results = translator.translate(
            text,
            num_beams=beam,
            batch_tokens=batch * longest,
            retry_loops=False,
            max_new_tokens=pieces or None,
        )
        return [result.text for result in results]

    def run() -> list[str]:
        return [translate(line)[0] for line in lines] if batch == 1 else translate(lines)

    return run


def table(rows: Sequence[Row]) -> str:
    """Format a line per model, beam and system."""
    lines = [f"{'model':6}{'beam':>5}  {'system':16}{'batch':>6}{'sentences/s':>13}{'BLEU':>8}"]
    lines += [
        f"{row['model']!s:6}{row['beam']!s:>5}  {row['system']!s:16}{row['batch']!s:>6}"
        f"{row['sentences_a_second']:13,.1f}{row['bleu'] or '':>8}"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
