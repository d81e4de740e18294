"""The table of features and formats in docs/exchange.md: each cell is true."""

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.exports import (
    CONFIG,
    ENGLISH,
    GERMAN,
    SENTENCES,
    bundle_of,
    one_vocabulary,
    two_vocabularies,
)

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer
from transduce.data.tokenizer import Tokenizer
from transduce.export.argos import write_argos
from transduce.export.importer import import_marian
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
from transduce.model.config import ModelConfig
from transduce.web.page import write_web

PAGE = Path(__file__).parents[2] / "docs" / "exchange.md"
ROWS = [
    [cell.strip(" `") for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.endswith((" proved |", " refused |", " `web` |")) and line.count("|") == 8
]
FORMATS = ROWS[0][1:]
CELLS = [
    (row[0], format, expected)
    for row in ROWS[1:]
    for format, expected in zip(FORMATS, row[1:], strict=True)
]
FEATURES: dict[str, Callable[[ModelConfig], ModelConfig]] = {
    "the paper's model": lambda config: config,
    "pre-norm": lambda config: replace(config, norm="pre"),
    "learned positions, at most 1,024": lambda config: replace(
        config, positions="learned", max_positions=120
    ),
    "d_k other than d_model / heads": lambda config: replace(config, d_k=5),
    "local self-attention": lambda config: replace(config, radius=3),
    "biases of attention and output": lambda config: replace(
        config, attention_bias=True, output_bias=True
    ),
    "GELU": lambda config: replace(config, activation="gelu"),
    "SiLU": lambda config: replace(config, activation="silu"),
    "two SentencePiece models, one table": lambda config: config,
    "embeddings of source and target apart, `model.tie": lambda config: replace(
        config, tie="decoder"
    ),
    "separate vocabularies": lambda config: replace(config, tie="decoder"),
    "a vocabulary of words, lower-cased": lambda config: config,
    "several directions in one model": lambda config: config,
    "byte fallback": lambda config: config,
}
EXPORTS: dict[str, tuple[Callable[[Bundle, Path], None], Callable[..., Proof], str, str]] = {
    "ctranslate2": (write_ctranslate2, prove_ctranslate2, "model", "ctranslate2"),
    "huggingface": (write_huggingface, prove_huggingface, "model", "transformers"),
    "marian-npz": (write_marian_npz, prove_marian_npz, "model", "pymarian"),
    "onnx": (write_onnx, prove_onnx, "model", "onnx"),
    "argos": (write_argos, prove_argos, "model.argosmodel", "argostranslate"),
    "web": (write_web, prove_web, "model.html", ""),
}


def test_the_table_has_every_feature_and_format():
    assert [row[0] for row in ROWS[1:]] == list(FEATURES)
    assert list(EXPORTS) == FORMATS


@pytest.mark.parametrize(("feature", "format", "expected"), CELLS)
def test_a_cell_is_true(feature: str, format: str, expected: str, tmp_path: Path):
    write, prove, name, module = EXPORTS[format]
    if module and find_spec(module) is None:
        pytest.skip(f"{module} is not installed: pip install -e .[test-interop]")
    tokenizer = one_vocabulary(byte_fallback=feature == "byte fallback")
    if feature == "two SentencePiece models, one table":
        tokenizer = two_vocabularies()
    if feature == "separate vocabularies":
        tokenizer = PairTokenizer.train_pair(ENGLISH, GERMAN, TokenizerConfig(vocab_size=47))
    if feature == "a vocabulary of words, lower-cased":
        words = TokenizerConfig(kind="word", vocab_size=79, lower_case=True)
        tokenizer = Tokenizer.train((*ENGLISH, *GERMAN), words)
    if feature == "several directions in one model":
        size = TokenizerConfig(vocab_size=81)
        tokenizer = Tokenizer.train((*ENGLISH, *GERMAN), size, tags=["<2de>", "<2en>"])
    config = FEATURES[feature](replace(CONFIG, vocab_size=tokenizer.vocab_size))
    bundle = bundle_of(config, tokenizer)

    if expected == "refused":
        named = r"model\.|d_k|separate vocabularies|of words|directions"
        with pytest.raises(ValueError, match=named):
            write(bundle, tmp_path / name)
        assert not (tmp_path / name).exists()
        return
    write(bundle, tmp_path / name)
    proof = prove(bundle, tmp_path / name, SENTENCES[:2] if format == "argos" else SENTENCES)
    assert proof.holds, proof
    assert proof.gap is None or proof.gap < 1e-4


def test_the_tokenizer_of_huggingface_reads_a_target_tag(tmp_path: Path):
    transformers = pytest.importorskip("transformers")
    size = TokenizerConfig(vocab_size=81)
    tokenizer = Tokenizer.train((*ENGLISH, *GERMAN), size, tags=["<2de>", "<2en>"])
    write_huggingface(
        bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer), tmp_path / "model"
    )

    encoded = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")(f">>de<<{ENGLISH[0]}")
    again = import_marian(tmp_path / "model")

    assert encoded["input_ids"] == [*tokenizer.encode(f"<2de> {ENGLISH[0]}"), 0]
    assert again.tokenizer.encode(f">>de<<{ENGLISH[0]}") == encoded["input_ids"][:-1]
    assert [str(pair) for pair in again.directions] == ["en-de"]
