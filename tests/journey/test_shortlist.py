"""A run learns its shortlist, and translates by it where that is asked for."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from tests.conftest import Run, Transduce, refuses
from tests.exports import CONFIG, ENGLISH, GERMAN, bundle_of, one_vocabulary
from tests.faults.damaging import tiny_bundle

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.pair_tokenizer import PairTokenizer

export = import_module("transduce.cli.export")


@pytest.fixture
def exported(run: Run, tmp_path: Path, transduce: Transduce) -> Path:
    out = tmp_path / "model.ct2"
    result = transduce("export", run.folder, "--to", "ctranslate2", "--out", out, "--shortlist")
    assert result.code == 0, result.err
    assert "pieces per sentence" in result.err
    assert "sentences identical" in result.err
    return out


def test_an_export_brings_one_that_translates(run: Run, exported: Path, transduce: Transduce):
    text, shortlist = run.corpus / "test.src", exported / "vmap.txt"

    result = transduce("translate", run.folder, "-i", text, "--shortlist", shortlist)

    assert result.code == 0, result.err
    assert ", shortlist\n" in result.err
    assert len(result.out.splitlines()) == 40


def test_what_it_leaves_out_is_not_said(run: Run, tmp_path: Path, transduce: Transduce):
    text, shortlist = run.corpus / "test.src", tmp_path / "vmap.txt"
    shortlist.write_text("\t</s> <unk> ▁ ▁0 ▁1 0 1\n")

    # Loops would be translated again, and a beam too wide for seven pieces: by torch, with all.
    narrow = ("--beam", "1", "--as-is", "--shortlist", shortlist)
    result = transduce("translate", run.folder, "-i", text, *narrow)

    assert set(result.out) <= set("01 \n⁇")
    assert set(transduce("translate", run.folder, "-i", text).out) > set("01 \n")


@pytest.mark.parametrize("program", ["marian-npz", "argos"])
def test_other_programs_have_none(run: Run, tmp_path: Path, transduce: Transduce, program: str):
    result = transduce(
        "export", run.folder, "--to", program, "--out", tmp_path / "m", "--shortlist"
    )

    refuses(result, "only ctranslate2 supports a shortlist", program)


def test_a_model_alone_has_no_pairs_to_learn_from(run: Run, tmp_path: Path, transduce: Transduce):
    model, out = run.folder / "model", tmp_path / "m"

    result = transduce("export", model, "--to", "ctranslate2", "--out", out, "--shortlist")

    refuses(result, "learned from training pairs", "name a run's folder")
    assert not out.exists()


def separate() -> Bundle:
    tokenizer = PairTokenizer.train_pair(ENGLISH, GERMAN, TokenizerConfig(vocab_size=47))
    return bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (tiny_bundle, (), "does not support d_k 3"),
        (lambda: bundle_of(CONFIG, one_vocabulary()), ("--quantize", "int7"), "'int7'"),
        (separate, (), "a shortlist needs a vocabulary of both sides"),
    ],
)
def test_what_cannot_be_written_is_refused_before_one_is_learned(
    make: Callable[[], Bundle],
    options: tuple[str, ...],
    message: str,
    tmp_path: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
):
    make().save(tmp_path / "run" / "model")
    (tmp_path / "run" / "prepared").mkdir()
    (tmp_path / "sample").write_text("a dog\n")
    monkeypatch.setattr(export, "_learn_shortlist", lambda *_: pytest.fail("one was learned"))

    result = transduce(
        *("export", tmp_path / "run", "--to", "ctranslate2", "--out", tmp_path / "m"),
        *("--shortlist", "--sample", tmp_path / "sample", *options),
    )

    refuses(result, message)


def test_a_shortlist_of_another_model_is_refused(run: Run, tmp_path: Path, transduce: Transduce):
    (tmp_path / "vmap.txt").write_text("\t</s> ▁Haus\n")

    result = transduce(
        "translate", run.folder, "--shortlist", tmp_path / "vmap.txt", stdin=b"1 2\n"
    )

    refuses(result, "line 1", "no piece '▁Haus'")
