"""Every export format, decoded by its target program and compared with transduce.

    .venv/bin/python benchmarks/exports.py --train SOURCE TARGET --test SOURCE TARGET

Trains two small models, post-norm and pre-norm, on the same lines, and exports each to every
format; the target program and transduce translate the same test lines greedily. The record has the
number of translations with equal tokens, the largest difference of two logits (of log-probabilities
for marian-npz), and the first differing translation. Nothing is timed. Needs
`pip install -e '.[test-interop]'` and Node.js. Writes results/exports/record.json.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from record import header, read_lines, write

from transduce.bundle.bundle import Bundle
from transduce.evaluation.scoring import bleu
from transduce.export.argos import write_argos
from transduce.export.marian import write_huggingface
from transduce.export.marian_npz import prove_marian_npz, write_marian_npz
from transduce.export.onnx_folder import prove_onnx, write_onnx
from transduce.export.proof import (
    Proof,
    prove_argos,
    prove_ctranslate2,
    prove_huggingface,
    prove_web,
)
from transduce.inference.engines.ct2_model import write_ctranslate2
from transduce.inference.translator import Translator
from transduce.web.page import write_web

Write, Prove = Callable[[Bundle, Path], None], Callable[[Bundle, Path, Sequence[str]], Proof]
FORMATS: dict[str, tuple[Write, Prove, str]] = {
    "ctranslate2": (write_ctranslate2, prove_ctranslate2, "ct2"),
    "huggingface": (write_huggingface, prove_huggingface, "huggingface"),
    "marian-npz": (write_marian_npz, prove_marian_npz, "npz"),
    "onnx": (write_onnx, prove_onnx, "onnx"),
    "argos": (write_argos, prove_argos, "en_de.argosmodel"),
    "web": (write_web, prove_web, "page.html"),
}
SHAPE = {
    **{"model.encoder_layers": 2, "model.decoder_layers": 2, "model.d_model": 64},
    **{"model.d_ff": 128, "model.heads": 4, "model.d_k": 16, "model.d_v": 16},
    **{"tokenizer.vocab_size": 3000, "batch.tokens": 2000, "train.intra_op_threads": 1},
}


def train(norm: str, arguments: argparse.Namespace, folder: Path) -> Bundle:
    """Train a small model."""
    settings = SHAPE | {"model.norm": norm, "train.updates": arguments.updates}
    set_options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    source, target = arguments.train
    command = [sys.executable, "-m", "transduce", "train", "tiny", "--out", str(folder)]
    command += ["--source", str(source), "--target", str(target)]
    command += ["--source-lang", "en", "--target-lang", "de", *set_options]
    subprocess.run(command, check=True)
    return Bundle.load(folder)


def compare(norm: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Train a model, export it to every format, and compare."""
    lines, references = (read_lines(file)[: arguments.lines] for file in arguments.test)
    with tempfile.TemporaryDirectory() as scratch:
        bundle = train(norm, arguments, Path(scratch) / "run")
        texts = [
            t.text for t in Translator.load(Path(scratch) / "run").translate(lines, num_beams=1)
        ]
        rows: dict[str, object] = {}
        for name, (write_format, prove, file_name) in FORMATS.items():
            try:
                write_format(bundle, Path(scratch) / file_name)
            except ValueError as error:
                rows[name] = {"refused": str(error)}
                continue
            proof = asdict(prove(bundle, Path(scratch) / file_name, lines))
            rows[name] = {key: value for key, value in proof.items() if key != "format"}
            print(norm, name, rows[name], flush=True)
        return {
            "parameters": bundle.weights.size,
            "bleu": round(bleu(texts, references).value, 1),
            "formats": rows,
        }


def main() -> None:
    """Compare both norms and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("train", "test"):
        parser.add_argument(f"--{name}", nargs=2, type=Path, required=True, metavar="FILE")
    parser.add_argument("--lines", type=int, default=300)
    parser.add_argument("--updates", type=int, default=400)
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])  # inherited by subprocesses
    record = {
        **header(
            "python benchmarks/exports.py --train FILE FILE --test FILE FILE",
            *("argostranslate", "ctranslate2", "onnxruntime", "pymarian", "transformers"),
        ),
        "lines": arguments.lines,
        "updates": arguments.updates,
        "models": {norm: compare(norm, arguments) for norm in ("post", "pre")},
    }
    print(write("exports", record))


if __name__ == "__main__":
    main()
