"""`transduce serve` as a shell starts it, on a free port, with a small untrained model."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tests.conftest import SHAPE, made
from tests.served import bundle_of
from tests.unit.conftest import LINES

from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.inference.translator import Translator


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that runs."""

    url: str
    """With a slash at its end."""
    translator: Translator
    """What it should say."""
    log: Path

    def says(self, text: str) -> str:
        """The translation of one sentence."""
        return self.translator.translate([text])[0].text


@contextmanager
def running(folder: Path, *options: str, pairs: Sequence[str] = ("en-de",)) -> Iterator[Running]:
    """Start a server, wait until it answers, and stop it at the end."""
    tokenizer = Tokenizer.train(LINES, TokenizerConfig(vocab_size=97))
    model = made(replace(SHAPE, vocab_size=tokenizer.vocab_size, decoder_layers=1)).eval()
    with torch.no_grad():
        model.embedding.weight *= 3.0  # it prefers some pieces clearly
    for pair in pairs:
        bundle = bundle_of(*pair.split("-"), tokenizer=tokenizer, model=model)
        bundle.save(folder / pair)
    log = folder / "log.txt"
    folders = [str(folder / pair) for pair in pairs]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "transduce", "serve", *folders),
                *("--port", "0", "--engine", "torch", *options),
            ],
            stderr=stderr,
            env=os.environ | {"COLUMNS": "200", "TERM": "dumb"},
        )
    try:
        yield Running(
            url=_ready(process, log),
            translator=Translator.load(folder / pairs[0], engine="torch"),
            log=log,
        )
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    assert code == 0, log.read_text()


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where it answers, as it says when it is ready."""
    for _ in range(600):
        _, result, rest = log.read_text().partition("ready at ")
        if result and "/:" in rest:
            return rest.partition("/:")[0] + "/"
        assert process.poll() is None, log.read_text()
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"no server in a minute: {log.read_text()}")
