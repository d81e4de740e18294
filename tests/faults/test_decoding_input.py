"""What a decoder is asked wrongly is one line and exit code 2, and nothing is half-written."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import CommandResult, Run, Transduce, refuses

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.model.transformer import Transformer

LINES = b"1 2 3\n4 0 1 2\n"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for what is written; it has to stay empty."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.fixture
def translated(run: Run, transduce: Transduce, out: Path) -> Transduce:
    """Translate LINES with the trained model, into a file."""

    def call(*words: object, stdin: bytes = LINES) -> CommandResult:
        return transduce("translate", run.folder, "-o", out / "text", *words, stdin=stdin)

    return call


@pytest.mark.parametrize(
    ("glossary", "parts"),
    [
        (b"1\t2\n3 4\n", ("line 2: 1 columns instead of 2",)),
        (b"1\t2\n1\t3\n", ("line 2: '1' is '3' here, but '2' on line 1", "keep one")),
        (b"1\t\n", ("line 1: the target is empty",)),
        (b"1\tf\xfcnf\n", ("line 1: not UTF-8",)),
    ],
)
def test_a_glossary_with_a_broken_line_is_refused_by_its_number(
    translated: Transduce, out: Path, tmp_path: Path, glossary: bytes, parts: tuple[str, ...]
):
    (tmp_path / "terms.tsv").write_bytes(glossary)

    result = translated("--glossary", tmp_path / "terms.tsv")

    refuses(result, tmp_path / "terms.tsv", *parts)
    assert [*out.iterdir()] == []


def test_a_glossary_that_is_not_there_is_named(translated: Transduce, out: Path, tmp_path: Path):
    refuses(translated("--glossary", tmp_path / "terms.tsv"), tmp_path / "terms.tsv")
    assert [*out.iterdir()] == []


def test_a_term_that_the_vocabulary_cannot_write_is_named(
    translated: Transduce, out: Path, tmp_path: Path
):
    (tmp_path / "terms.tsv").write_text("1\tone\n")

    result = translated("--glossary", tmp_path / "terms.tsv")

    assert result.code == 2
    assert "transduce: the term 1 → one cannot be applied" in result.err.splitlines()[-1]
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--prefix", "1 2 3 4", "--max-length", 3), ("a prefix of", "raise max-length")),
        (("--min-length", 99), ("min-length 99", "lower min-length")),
        (("--prefix", "eins"), ("no translation can begin with 'eins'",)),
    ],
)
def test_constraints_that_cannot_be_met_are_named_and_nothing_is_written(
    translated: Transduce, out: Path, words: tuple[object, ...], parts: tuple[str, ...]
):
    result = translated(*words)

    assert (result.code, result.out) == (2, "")
    assert all(part in result.err.splitlines()[-1] for part in parts), result.err
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--min-length", 9, "--max-length", 9), ("max-length must be above min-length: 9",)),
        (("--no-repeat", -1), ("no-repeat must not be negative, not -1",)),
        (("--nbest", 5, "--beam", 3), ("nbest must be from 1 to the beam, which is 3, not 5",)),
        (("--nbest", 0), ("--nbest must be at least 1, not 0",)),
        (("--beam", 0), ("beam must be at least 1, not 0",)),
        (("--sample", "--top-p", 0), ("top-p must be above 0 and at most 1, not 0",)),
        (("--sample", "--top-k", -1), ("top-k must not be negative, not -1",)),
        (("--sample", "--temperature", 0), ("the temperature must be above 0, not 0",)),
        (("--sample", "--engine", "ctranslate2"), ("ctranslate2 does not support sampling",)),
        (("--prefix", "1", "--engine", "ctranslate2"), ("a prefix with a beam above 1",)),
        (("--engine", "onnx"), ("onnx", "auto", "torch", "ctranslate2")),
        (("--compute-type", "int7"), ("there is no compute type 'int7': choose auto or one of",)),
        (("--compute-type", "int8", "--engine", "torch"), ("choose ctranslate2",)),
        (("--workers", 0), ("--workers must be at least 1, not 0",)),
        (("--threads", -2), ("--threads must be at least 1, not -2",)),
        (("--batch-tokens", 0), ("batch_tokens must be at least 1, not 0",)),
    ],
)
def test_a_setting_that_cannot_be_is_named(
    translated: Transduce, out: Path, words: tuple[object, ...], parts: tuple[str, ...]
):
    result = translated(*words)

    assert (result.code, result.out) == (2, "")
    assert all(part in result.err.splitlines()[-1] for part in parts), result.err
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("--top-k", 5), ("--top-k", "add --sample")),
        (("--seed", 5), ("--seed", "add --sample")),
        (("--mbr", "--nbest", 2), ("--mbr gives one translation per line", "leave out --nbest")),
        (("--nbest", 2, "--confidence"), ("leave one out, or add --json",)),
    ],
)
def test_no_option_is_taken_and_ignored(
    translated: Transduce, out: Path, words: tuple[object, ...], parts: tuple[str, ...]
):
    refuses(translated(*words), *parts)
    assert [*out.iterdir()] == []


def test_a_glossary_is_no_work_for_the_quick_engine_alone(
    translated: Transduce, out: Path, tmp_path: Path
):
    (tmp_path / "terms.tsv").write_text("dog\t2\n")

    result = translated("--glossary", tmp_path / "terms.tsv", "--engine", "ctranslate2")

    refuses(result, "a glossary needs the torch engine: choose engine auto or torch")
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--nbest", 5, "--beam", 3), "nbest must be from 1 to the beam"),
        (("--sample", "--engine", "ctranslate2"), "ctranslate2 does not support sampling"),
    ],
)
def test_a_wrong_setting_is_wrong_even_where_there_is_nothing_to_translate(
    translated: Transduce, words: tuple[object, ...], part: str
):
    refuses(translated(*words, stdin=b""), part)


def test_models_of_other_vocabularies_are_no_ensemble(
    run: Run, translated: Transduce, out: Path, tmp_path: Path
):
    other = Bundle.load(run.folder)
    other.tokenizer = Tokenizer.train(["a b c d e f g h"], TokenizerConfig(vocab_size=18))
    vocab_size = other.tokenizer.vocab_size
    other.model = Transformer(replace(other.model.config, vocab_size=vocab_size))
    other.save(tmp_path / "other")

    result = translated("--with", tmp_path / "other")

    refuses(result, tmp_path / "other", "another vocabulary", "need the same tokenizer.model")
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--engine", "ctranslate2"), "an ensemble needs the torch engine"),
        (("--compute-type", "int8"), "leave out compute types, plans"),
        (("--confidence",), "leave out --with"),
    ],
)
def test_what_an_ensemble_cannot_do_is_refused(
    run: Run, translated: Transduce, out: Path, words: tuple[str, ...], part: str
):
    refuses(translated("--with", run.folder, *words), part)
    assert [*out.iterdir()] == []


def test_a_model_cut_short_is_refused(run: Run, transduce: Transduce, out: Path, tmp_path: Path):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - 7)

    for words in (
        ("translate", tmp_path / "model", "-o", out / "text"),
        ("export", tmp_path / "model", "--to", "ctranslate2", "--out", out / "ct2"),
        ("alternatives", tmp_path / "model", "1 2"),
    ):
        refuses(transduce(*words, stdin=LINES), weights, "damaged, copy it again")
    assert [*out.iterdir()] == []


def test_confidence_that_the_manifest_does_not_vouch_for_is_refused(
    run: Run, transduce: Transduce, out: Path, tmp_path: Path
):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    manifest = tmp_path / "model" / "manifest.json"
    facts = json.loads(manifest.read_text())
    facts.pop("confidence.json", None)
    manifest.write_text(json.dumps(facts))
    (tmp_path / "model" / "confidence.json").write_text('{"words": null, "sentences": null}')

    result = transduce("translate", tmp_path / "model", "-o", out / "text", stdin=LINES)

    refuses(result, manifest, "has no checksum for confidence.json")
    assert [*out.iterdir()] == []


def test_a_converted_model_cut_short_is_made_anew(
    run: Run, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRANSDUCE_CACHE", str(tmp_path / "cache"))
    first = transduce("translate", run.folder, "--engine", "ctranslate2", stdin=LINES)
    (weights,) = (tmp_path / "cache").glob("ct2-*/model.bin")
    content = weights.read_bytes()
    os.truncate(weights, len(content) // 2)

    again = transduce("translate", run.folder, "--engine", "ctranslate2", stdin=LINES)

    assert (again.code, again.out) == (0, first.out)
    assert again.err.startswith("engine: ctranslate2")
    assert weights.read_bytes() == content


def test_an_export_is_no_bundle_to_translate_with(run: Run, transduce: Transduce, tmp_path: Path):
    assert transduce("export", run.folder, "--to", "ctranslate2", "--out", tmp_path / "m").code == 0

    result = transduce("translate", tmp_path / "m", stdin=LINES)

    refuses(result, tmp_path / "m")


def test_an_export_of_a_kind_of_numbers_that_is_none_leaves_nothing(
    run: Run, transduce: Transduce, out: Path
):
    for to, name in (("ctranslate2", "m"), ("argos", "en_de.argosmodel")):
        result = transduce(
            *("export", run.folder, "--to", to, "--out", out / name, "--quantize", "int7"),
            *("--source-lang", "en", "--target-lang", "de"),
        )

        refuses(result, "int7")
        assert [*out.iterdir()] == []


def test_a_sample_without_a_sentence_proves_nothing(
    run: Run, transduce: Transduce, out: Path, tmp_path: Path
):
    (tmp_path / "sample").write_text("\n \n")

    result = transduce(
        *("export", run.folder, "--to", "ctranslate2", "--out", out / "m"),
        *("--sample", tmp_path / "sample"),
    )

    refuses(result, tmp_path / "sample", "has no sentence")
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"model_type": "mbart"}, "model_type 'mbart'"),
        ({"normalize_before": True}, "normalize_before true"),
        ({"activation_function": "gelu_new"}, "activation_function"),
        ({"rope_theta": 1e4}, "rope_theta"),
        ({"decoder_layers": None}, "decoder_layers"),
    ],
)
def test_a_foreign_model_with_a_block_that_has_no_place_is_refused_by_name(
    transduce: Transduce, out: Path, tmp_path: Path, changed: dict[str, object], part: str
):
    config = {
        **{"model_type": "marian", "vocab_size": 41, "d_model": 8, "pad_token_id": 40},
        **{"encoder_layers": 1, "decoder_layers": 1, "eos_token_id": 0},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2},
        **{"encoder_ffn_dim": 13, "decoder_ffn_dim": 13, "decoder_start_token_id": 40},
    }
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "config.json").write_text(json.dumps(config | changed))

    result = transduce("import", tmp_path / "foreign", "--out", out / "bundle")

    refuses(result, tmp_path / "foreign" / "config.json", part)
    assert [*out.iterdir()] == []


def test_sides_of_unequal_length_are_not_scored(run: Run, transduce: Transduce, tmp_path: Path):
    (tmp_path / "source").write_text("1 2\n3\n")
    (tmp_path / "target").write_text("2 1\n")

    pair = ("--source", tmp_path / "source", "--target", tmp_path / "target")

    refuses(transduce("score", run.folder, *pair), "2 source lines but 1 targets", "line n")
    refuses(transduce("calibrate", run.folder, *pair), "2 lines", "has 1", "line n")


def test_a_folder_that_calibrate_may_not_replace_costs_no_translation(
    run: Run, transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    (tmp_path / "model" / "notes").touch()
    (tmp_path / "text").write_text("1 2\n")
    translate = "transduce.evaluation.scoring.translate_with"
    monkeypatch.setattr(translate, lambda *_: pytest.fail("it was translated"))
    pair = ("--source", tmp_path / "text", "--target", tmp_path / "text")

    result = transduce("calibrate", tmp_path / "model", *pair)

    refuses(result, "it holds notes: move it away, or name another folder")


def test_too_little_text_to_calibrate_with_leaves_the_model_as_it_was(
    run: Run, transduce: Transduce, tmp_path: Path
):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    for side in ("source", "target"):
        (tmp_path / side).write_text("1 2\n" * 17)

    result = transduce(
        *("calibrate", tmp_path / "model"),
        *("--source", tmp_path / "source", "--target", tmp_path / "target"),
    )

    refuses(result, "17 lines are too few to calibrate", "at least 100")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before


@pytest.mark.parametrize(
    ("sentence", "words", "part"),
    [
        ("", (), "a sentence of 1 to"),
        ("1 2", ("--count", 0), "next pieces must be at least 1"),
        ("1 2", ("--after", "eins"), "no translation can begin with 'eins'"),
    ],
)
def test_what_cannot_be_looked_into_is_refused(
    run: Run, transduce: Transduce, sentence: str, words: tuple[object, ...], part: str
):
    refuses(transduce("alternatives", run.folder, sentence, *words), part)


def test_alignments_for_a_folder_that_is_not_there_cost_no_translation(
    translated: Transduce, out: Path, tmp_path: Path
):
    result = translated("--align", tmp_path / "missing" / "links")

    refuses(result, f"{tmp_path / 'missing'} is not a folder: make it, or name another file")
    assert [*out.iterdir()] == []
