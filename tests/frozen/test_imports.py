"""What a translation does not wait for: modules that are read only where they are used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import made

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.config import ModelConfig
from transduce.search.config import SearchConfig

NEEDLESS = {
    *("sympy", "torch._dynamo", "torch._inductor"),
    *("matplotlib", "pandas", "rich", "sacrebleu", "scipy", "starlette", "transformers"),
    *("transduce.evaluation.metrics", "transduce.pipeline.prepare", "transduce.pipeline.run"),
    *("transduce.train.loop", "transduce.train.optimizer", "transduce.train.step"),
    "transduce.paper",
}
PROGRAM = "import sys; from transduce.cli import main; main(sys.argv[1:]); print(*sys.modules)"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = Tokenizer.train(["a dog runs", "ein Hund rennt"], TokenizerConfig(vocab_size=29))
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        encoder_layers=1,
        decoder_layers=1,
        d_model=16,
        d_ff=16,
        heads=1,
        d_k=16,
        d_v=16,
    )
    folder = tmp_path_factory.mktemp("models") / "small"
    Bundle(
        model=made(config),
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(),
        provenance=Provenance.current(),
    ).save(folder)
    return folder


@pytest.mark.parametrize(
    ("engine", "also"),
    [("torch", {"ctranslate2"}), ("ctranslate2", set[str]()), ("auto", {"torch"})],
)
def test_a_translation_imports_nothing_needless(
    bundle: Path, engine: str, also: set[str], tmp_path: Path
):
    arguments = ["translate", str(bundle), "--engine", engine, "--output", str(tmp_path / "out")]

    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=b"a dog runs\n",
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    read = set(result.stdout.decode().split())

    assert (tmp_path / "out").read_text().count("\n") == 1
    assert "transduce.inference.translator" in read
    assert read & (NEEDLESS | also) == set()
