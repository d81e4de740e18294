"""Train by eole's own command line for a given time and translate a test set.

    PYTHON train_eole.py TEXT OUT

TEXT has train, validation and test files, OUT `pieces.model`, `pieces.vocab` and `shape.json`
(sizes, seconds); `OUT/translations` is written. Printed is one line of JSON. The regime is that of
eole's recipe for English to German (Noam's schedule, 4,000 updates of warmup, label smoothing,
batches of 5,000 tokens), without accumulation. `eole train` is stopped when the time is over; its
last complete checkpoint is used.
"""

import json
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sentencepiece

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import read_lines

CHECKPOINT = 50
"""Updates between checkpoints: what is lost at the end is less."""
BEAM = 5


def main() -> None:
    """Train, translate, print what was done."""
    text, out = map(Path, sys.argv[1:3])
    shape = json.loads((out / "shape.json").read_text())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "pieces.model"))
    cut_into_pieces(text, out, pieces)
    (out / "settings.yaml").write_text(json.dumps(settings(shape, out)))  # YAML takes JSON
    seconds, log = train(out, shape["seconds"])
    checkpoints = sorted(
        out.glob("model/step_*"), key=lambda path: int(path.name.partition("_")[2]), reverse=True
    )
    # The newest may be incomplete: training was killed.
    used = next((path for path in checkpoints if translate(out, path, pieces)), None)
    if used is None:
        sys.exit(f"no complete checkpoint, which are {CHECKPOINT} updates apart: allow more time")
    counted = re.search(r"number of parameters: *(\d+)", log)
    print(
        json.dumps(
            {
                "trained_seconds": round(seconds, 1),
                "updates": int(used.name.partition("_")[2]),
                "parameters": int(counted[1]) if counted else None,
                "decoding": f"beam {BEAM}",
                "version": version("eole"),
            }
        )
    )


def cut_into_pieces(text: Path, out: Path, pieces: Any) -> None:
    """Write every file as pieces, blanks between them, and the vocabulary, a piece a line."""
    for file in text.iterdir():
        encoded = pieces.encode(read_lines(file), out_type=str)
        (out / file.name).write_text("".join(f"{' '.join(line)}\n" for line in encoded))
    names = [pieces.id_to_piece(id) for id in range(4, pieces.get_piece_size())]
    (out / "vocabulary").write_text("".join(f"{name}\n" for name in names))


def settings(shape: dict[str, Any], out: Path) -> dict[str, object]:
    """The content of eole's file."""
    return {
        "src_vocab": f"{out}/vocabulary",
        "share_vocab": True,
        "seed": 1,
        "report_every": 100,
        "transforms": [],
        "data": {
            "corpus": {"path_src": f"{out}/train.en", "path_tgt": f"{out}/train.de"},
            "valid": {"path_src": f"{out}/validation.en", "path_tgt": f"{out}/validation.de"},
        },
        "model": {
            "architecture": "transformer",
            "layers": shape["encoder_layers"],
            "hidden_size": shape["d_model"],
            "transformer_ff": shape["d_ff"],
            "heads": shape["heads"],
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "embeddings": {"word_vec_size": shape["d_model"], "position_encoding": True},
        },
        "training": {
            "model_path": f"{out}/model",
            "keep_checkpoint": 2,
            "save_checkpoint_steps": CHECKPOINT,
            "valid_steps": 20 * CHECKPOINT,
            "train_steps": 10_000_000,  # the time ends training
            "bucket_size": 262_144,
            "num_workers": 0,
            "batch_type": "tokens",
            "batch_size": 5000,
            "valid_batch_size": 4096,
            "batch_size_multiple": 8,
            "normalization": "tokens",
            "compute_dtype": "fp32",
            "optim": "adam",
            "adam_beta2": 0.998,
            "learning_rate": 2,
            "decay_method": "noam",
            "warmup_steps": 4000,
            "max_grad_norm": 0,
            "param_init_method": "xavier_uniform",
            "dropout": [shape["dropout"]],
            "attention_dropout": [0.1],
            "label_smoothing": 0.1,
        },
    }


def train(out: Path, seconds: float) -> tuple[float, str]:
    """Run `eole train` and stop it when the time is over; return how long it ran, and its log."""
    began = time.monotonic()
    with (out / "log").open("w") as log:
        process = subprocess.Popen(
            [program(), "train", "-config", str(out / "settings.yaml")], stdout=log, stderr=log
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        else:
            sys.exit(f"eole ended: {(out / 'log').read_text()[-2000:]}")
    return time.monotonic() - began, (out / "log").read_text()


def translate(out: Path, checkpoint: Path, pieces: Any) -> bool:
    """Run `eole predict` on the test set's pieces; write text. False if the checkpoint is bad."""
    command = [program(), "predict", "-model_path", str(checkpoint), "-src", str(out / "test.en")]
    command += ["-output", str(out / "predicted"), "-beam_size", str(BEAM), "-batch_size", "64"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        return False
    texts = [pieces.decode(line.split()) for line in read_lines(out / "predicted")]
    (out / "translations").write_text("".join(f"{line}\n" for line in texts))
    return True


def program() -> str:
    """The command of this environment."""
    return str(Path(sys.executable).with_name("eole"))


if __name__ == "__main__":
    main()
