"""A trained run leaves the house: exported with a proof, and never over what is no export."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Run, Transduce, refuses
from tests.exports import model_of

from transduce.bundle.bundle import Bundle


@pytest.mark.parametrize("quantize", [(), ("--quantize", "int8")])
def test_ctranslate2_gets_a_folder_and_a_proof(
    run: Run, tmp_path: Path, transduce: Transduce, quantize: tuple[str, ...]
):
    out = tmp_path / "model.ct2"

    result = transduce("export", run.folder, "--to", "ctranslate2", "--out", out, *quantize)

    assert (result.code, result.out) == (0, f"ctranslate2: {out}\n")
    assert "sentences identical" in result.err
    assert {"model.bin", "tokenizer.model"} <= {path.name for path in out.iterdir()}


def test_what_is_written_in_full_is_the_same_model(run: Run, tmp_path: Path, transduce: Transduce):
    result = transduce("export", run.folder, "--to", "ctranslate2", "--out", tmp_path / "m")

    equal, _, count = result.err.partition(": ")[2].split()[:3]
    assert equal == count != "0"


def test_a_format_refuses_by_name_what_it_cannot_express(
    run: Run, tmp_path: Path, transduce: Transduce
):
    bundle = Bundle.load(run.folder)
    shape = replace(bundle.model.config, positions="learned")
    replace(bundle, model=model_of(shape)).save(tmp_path / "learned")

    result = transduce(
        "export", tmp_path / "learned", "--to", "huggingface", "--out", tmp_path / "m"
    )

    refuses(result, 'model.positions "learned"', "ctranslate2 instead")
    assert not (tmp_path / "m").exists()


def test_a_folder_of_something_else_is_not_replaced(run: Run, tmp_path: Path, transduce: Transduce):
    (tmp_path / "thesis.tex").write_text("years of work")

    result = transduce("export", run.folder, "--to", "ctranslate2", "--out", tmp_path)

    refuses(result, "it holds thesis.tex", "name another folder")
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


def test_an_import_of_what_is_no_model_is_one_line(tmp_path: Path, transduce: Transduce):
    result = transduce("import", tmp_path, "--out", tmp_path / "bundle")

    refuses(result, "config.json")
    assert not (tmp_path / "bundle").exists()


def test_a_bundle_can_be_calibrated_with_text_of_ones_own(
    run: Run, tmp_path: Path, transduce: Transduce
):
    shutil.copytree(run.folder / "model", tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("my own words")
    source, target = (run.corpus / f"train.{side}" for side in ("src", "rev"))

    result = transduce("calibrate", tmp_path / "model", "--source", source, "--target", target)

    assert result.code == 0, result.err
    assert Bundle.load(tmp_path / "model").confidence is not None
    assert (tmp_path / "model" / "README.md").read_text() == "my own words"
