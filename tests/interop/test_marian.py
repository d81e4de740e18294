"""Transformers loads what we write, as Marian or as Pegasus, and computes what we compute."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.exports import (
    CONFIG,
    ENGLISH,
    GERMAN,
    ODD,
    SENTENCES,
    bundle_of,
    one_vocabulary,
    two_vocabularies,
)

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.export.marian import write_huggingface
from transduce.export.proof import prove_huggingface

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install -e .[test-interop]"
)
pytest.importorskip(
    "sacremoses", reason="sacremoses is not installed: pip install -e .[test-interop]"
)


def made(kind: str) -> Bundle:
    if kind == "plain":
        return bundle_of(CONFIG, one_vocabulary())
    if kind == "pre-norm":
        return bundle_of(replace(CONFIG, norm="pre"), one_vocabulary())
    if kind == "bytes":
        spelled = one_vocabulary(byte_fallback=True)
        return bundle_of(replace(CONFIG, vocab_size=spelled.vocab_size), spelled)
    if kind == "characters":
        characters = one_vocabulary(kind="char")
        return bundle_of(replace(CONFIG, vocab_size=characters.vocab_size), characters)
    tokenizer = two_vocabularies()
    norm = "pre" if kind == "pre-norm as imported" else "post"
    config = replace(CONFIG, vocab_size=tokenizer.vocab_size, activation="silu", norm=norm)
    return bundle_of(replace(config, attention_bias=True, output_bias=True), tokenizer)


@pytest.fixture(
    scope="module",
    params=["plain", "pre-norm", "bytes", "characters", "as imported", "pre-norm as imported"],
)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    return made(request.param)


@pytest.fixture(scope="module")
def folder(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "marian"
    write_huggingface(bundle, path)
    return path


def test_the_tokenizers_give_the_same_ids_for_odd_text(bundle: Bundle, folder: Path):
    reference = transformers.MarianTokenizer.from_pretrained(folder)

    for text in map(tidy, (*ODD, *SENTENCES)):
        assert reference(text).input_ids == [*bundle.tokenizer.encode(text), 0], text


def test_the_tokenizers_give_the_same_ids_for_text_of_the_target(bundle: Bundle, folder: Path):
    reference = transformers.MarianTokenizer.from_pretrained(folder)

    for text in map(tidy, (*ODD, "ein kleines Haus")):
        ids = reference(text_target=text).input_ids
        assert ids == [*bundle.tokenizer.target.encode(text), 0], text


def test_the_tokenizers_join_pieces_to_the_same_text(bundle: Bundle, folder: Path):
    reference = transformers.MarianTokenizer.from_pretrained(folder)
    ids = bundle.tokenizer.target.encode("ein kleines Haus am Fluss")

    text = reference.decode([*ids, 0], skip_special_tokens=True)

    assert text == bundle.tokenizer.decode(ids) == "ein kleines Haus am Fluss"


def test_the_logits_are_equal(bundle: Bundle, folder: Path):
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    source = torch.tensor([[5, 7, 11, 0, bundle.tokenizer.pad], [13, 17, 19, 23, 0]])
    target = torch.tensor([[bundle.tokenizer.pad, 2, 3, 5], [bundle.tokenizer.pad, 7, 0, 11]])
    kept = source != bundle.tokenizer.pad

    with torch.no_grad():
        expected = model(source, attention_mask=kept.long(), decoder_input_ids=target).logits
        logits = bundle.model(source, kept[:, None, None], target)

    torch.testing.assert_close(expected, logits, rtol=0, atol=1e-4)
    assert logits.std() > 0.5


def test_greedy_search_says_the_same(bundle: Bundle, folder: Path):
    proof = prove_huggingface(bundle, folder, SENTENCES)

    assert proof.holds, proof
    assert proof.sentences == len(SENTENCES)
    assert proof.gap is not None
    assert proof.gap < 1e-4


def test_another_model_is_found_out(tmp_path: Path):
    exported, other = (bundle_of(CONFIG, one_vocabulary()) for _ in range(2))
    with torch.no_grad():
        other.model.embedding.weight[:-1].roll(1, 0)
        other.model.embedding.weight[:-1] *= -1.0
    write_huggingface(other, tmp_path / "marian")

    proof = prove_huggingface(exported, tmp_path / "marian", SENTENCES)

    assert not proof.holds
    assert proof.gap is not None
    assert proof.gap > 0.1


def test_a_sample_of_several_directions_names_the_target(tmp_path: Path):
    size = TokenizerConfig(vocab_size=81)
    tokenizer = Tokenizer.train((*ENGLISH, *GERMAN), size, tags=["<2de>", "<2en>"])
    bundle = bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)
    write_huggingface(bundle, tmp_path / "marian")

    proof = prove_huggingface(bundle, tmp_path / "marian", [f"<2de> {line}" for line in SENTENCES])

    assert proof.holds, proof
