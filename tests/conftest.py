"""What every kind of test may use: a small model and store, the command line, one trained run."""

import io
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from transduce.cli import main
from transduce.data.config import AugmentConfig, BatchConfig, TokenizerConfig
from transduce.data.corpus import NumberedPair, Pair
from transduce.data.loader import Loader
from transduce.data.sampler import Sampler
from transduce.data.store import Store
from transduce.data.tokenizer import Tokenizer
from transduce.model.attention import Attention, KeyValue, attention_weights
from transduce.model.config import ModelConfig
from transduce.model.local_attention import neighbourhood
from transduce.model.transformer import Transformer

# Tests are small and many: on busy cores two threads wait for each other far longer than they work.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"  # in the processes that tests start
# Converted models of tests are nothing to fill a person's cache with.
os.environ["TRANSDUCE_CACHE"] = tempfile.mkdtemp(prefix="transduce-tests-")

SHAPE = ModelConfig(
    vocab_size=19,
    encoder_layers=2,
    decoder_layers=3,
    d_model=14,
    d_ff=23,
    heads=3,
    d_k=5,
    d_v=7,
    dropout=0.0,
)
"""Every axis has another size, so that a swapped axis cannot pass."""

SMALL = (
    *("--set", "tokenizer.vocab_size=15", "--set", "data.held_out=19"),
    *("--set", "model.encoder_layers=1", "--set", "model.decoder_layers=1"),
    *("--set", "model.d_model=32", "--set", "model.d_ff=48"),
    *("--set", "model.heads=2", "--set", "model.d_k=16", "--set", "model.d_v=16"),
    *("--set", "train.optimizer=adam", "--set", "train.updates=90", "--set", "train.warmup=7"),
    *(
        "--set",
        "train.validate_every=30",
        "--set",
        "train.average_checkpoints=2",
        "--set",
        "batch.tokens=300",
    ),
    *("--set", "train.intra_op_threads=1"),
    # So few updates learn too little with R-Drop, which a small corpus has by default.
    *("--set", "train.r_drop=0", "--set", "model.dropout=0.3"),
)
"""Settings of a run that takes seconds."""


def made(config: ModelConfig) -> Transformer:
    """A model of that shape, the same at every call, that costs nobody a random number."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Transformer(config)


def weights_of(attention: Attention, x: Tensor, kv: KeyValue, mask: Tensor) -> Tensor:
    """The weights that an attention gives to its memory, by equation (1)."""
    if attention.radius:
        size = x.size(1), kv.keys.size(2)
        mask = mask & neighbourhood(*size, radius=attention.radius, device=x.device)
    queries = attention.query(x).unflatten(-1, (attention.heads, -1)).transpose(1, 2)
    return attention_weights(queries, kv.keys, mask)


@pytest.fixture
def config() -> ModelConfig:
    return SHAPE


@pytest.fixture
def tiny(config: ModelConfig) -> Transformer:
    return made(config).eval()


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A small store and the tokenizer that encoded it."""

    store: Store
    tokenizer: Tokenizer

    def loader(
        self,
        *,
        tokens: int = 101,
        micro_tokens: int = 4096,
        sampling: float = 0.0,
        augment: AugmentConfig | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> Loader:
        """A loader of it, made anew as a new process does."""
        batches = BatchConfig(tokens=tokens, micro_tokens=micro_tokens, subword_sampling=sampling)
        return Loader(
            self.store,
            sampler=Sampler(self.store.lengths, config=batches, seed=1, world=world),
            tokenizer=self.tokenizer,
            sampling=sampling,
            augment=augment,
            seed=1,
            rank=rank,
        )


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Words and the same words backwards, in 37 pieces."""
    draw = random.Random(0)
    pairs: list[NumberedPair] = []
    for line in range(1, 60):
        words = draw.choices(["one", "two", "three", "four", "five"], k=draw.randint(1, 6))
        pairs.append(NumberedPair(line, Pair(" ".join(words), " ".join(reversed(words)))))
    text = [side for _, pair in pairs for side in pair]
    tokenizer = Tokenizer.train(text, TokenizerConfig(vocab_size=37))
    folder = tmp_path_factory.mktemp("corpus") / "store"
    written = Store.write(folder, pairs, tokenizer=tokenizer, max_pieces=50)
    return Corpus(store=written, tokenizer=tokenizer)


@pytest.fixture
def store(corpus: Corpus) -> Store:
    return corpus.store


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command answered."""

    code: int
    out: str
    err: str


Transduce = Callable[..., CommandResult]


def refuses(result: CommandResult, *parts: object) -> None:
    """One line on stderr with all these parts, nothing on stdout, exit code 2."""
    assert result.code == 2, result
    assert result.out == ""
    assert result.err.startswith("transduce: ")
    assert result.err.endswith("\n")
    assert result.err.count("\n") == 1, result.err
    for part in parts:
        assert str(part) in result.err


@pytest.fixture
def transduce(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Transduce:
    """The command line, called in this process; bytes given as `stdin` are piped in."""
    monkeypatch.setattr(
        "transduce.inference.engines.forking._enabled", False
    )  # put back what a command lets

    def call(*argv: object, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        code = main([str(word) for word in argv])
        result = capfd.readouterr()
        return CommandResult(code=code, out=result.out, err=result.err)

    return call


def in_a_process(
    *argv: object, cwd: Path, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """The command line as a shell would start it."""
    return subprocess.run(
        [sys.executable, "-m", "transduce", *map(str, argv)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=False,
        env=os.environ | {"COLUMNS": "100", "TERM": "dumb"},
    )


def write_corpus(folder: Path) -> None:
    """Digits and the same digits in reverse: 500 pairs to train on and 40 to test, none twice."""
    chance = random.Random(11)
    lines: dict[str, None] = {}
    while len(lines) < 540:
        lines[" ".join(str(chance.randrange(5)) for _ in range(chance.randint(2, 5)))] = None
    for name, some in (("train", list(lines)[:500]), ("test", list(lines)[500:])):
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in some))
        (folder / f"{name}.rev").write_text("".join(f"{line[::-1]}\n" for line in some))


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run and what its command said. Tests must not write to it."""

    folder: Path
    corpus: Path
    process: subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A small run, trained by the real command."""
    corpus = tmp_path_factory.mktemp("digits")
    write_corpus(corpus)
    test = 'data.test=["test.src", "test.rev"]'
    files = ("--source", "train.src", "--target", "train.rev", "--set", test)
    result = in_a_process("train", *files, *SMALL, "--out", "run", cwd=corpus)
    assert result.returncode == 0, result.stderr.decode()
    return Run(folder=corpus / "run", corpus=corpus, process=result)
