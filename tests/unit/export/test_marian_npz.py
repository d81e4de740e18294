"""A bundle becomes a folder of Marian's own, or none. Marian itself reads it in tests/interop."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.exports import CONFIG, bundle_of, one_vocabulary

from transduce.bundle.bundle import Bundle
from transduce.export import marian_npz
from transduce.export.marian_npz import prove_marian_npz, write_marian_npz
from transduce.export.proof import Sample


def test_a_tokenizer_of_ours_is_one_file(plain: Bundle, tmp_path: Path):
    write_marian_npz(plain, tmp_path / "npz")

    names = {path.name for path in (tmp_path / "npz").iterdir()}
    assert names == {"model.npz", "decoder.yml", "vocab.spm", "manifest.json"}
    assert (tmp_path / "npz" / "vocab.spm").read_bytes() == plain.tokenizer.to_bytes()


def test_two_tokenizers_come_with_their_table(foreign: Bundle, tmp_path: Path):
    write_marian_npz(foreign, tmp_path / "npz")

    lines = (tmp_path / "npz" / "vocab.yml").read_text(encoding="utf-8").splitlines()
    table = json.loads(f"{{{','.join(lines)}}}")
    pieces = foreign.tokenizer.pieces(range(foreign.tokenizer.pad))
    assert table == {piece: number for number, piece in enumerate(pieces)}
    assert '"vocabs": ["vocab.yml", "vocab.yml"]' in (tmp_path / "npz" / "decoder.yml").read_text()


def test_arrays_are_single_precision_and_in_row_major_order(plain: Bundle, tmp_path: Path):
    write_marian_npz(plain, tmp_path / "npz")

    with np.load(tmp_path / "npz" / "model.npz", allow_pickle=False) as arrays:
        weights = [arrays[name] for name in arrays if name != "special:model.yml"]
        assert all(array.flags.c_contiguous and array.dtype == np.float32 for array in weights)


def test_what_marian_lacks_is_named_and_nothing_written(tmp_path: Path):
    bundle = bundle_of(replace(CONFIG, radius=3), one_vocabulary())

    with pytest.raises(ValueError, match=r"Marian cannot express model\.radius 3"):
        write_marian_npz(bundle, tmp_path / "npz")

    assert not (tmp_path / "npz").exists()


def test_a_folder_with_other_files_is_refused(plain: Bundle, tmp_path: Path):
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ValueError, match=r"it holds mine\.txt"):
        write_marian_npz(plain, tmp_path)


def test_without_marian_there_is_no_proof(
    plain: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.export.proof.find_spec", lambda name: None)

    assert prove_marian_npz(plain, tmp_path, ["a"]).not_made.endswith("pip install pymarian")


@pytest.mark.parametrize(("length", "factor"), [(5, 3), (20, 5)])
def test_the_proof_has_the_length_limit_of_the_folder_unless_a_sentence_needs_more(
    length: int, factor: int, plain: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    sample = Sample(plain, "a b", (5, 7, 11, 0), (3,) * length, 54)
    jobs: list[dict[str, dict[str, object]]] = []

    def run(program: object, job: dict[str, dict[str, object]], **_: object) -> list[str]:
        jobs.append(job)
        raise InterruptedError

    monkeypatch.setattr(marian_npz, "missing_packages", lambda *_: None)
    monkeypatch.setattr(marian_npz, "samples", lambda *_: [sample])
    monkeypatch.setattr(marian_npz, "run_program", run)

    with pytest.raises(InterruptedError):
        prove_marian_npz(plain, tmp_path, [])
    assert jobs[0]["options"]["max_length_factor"] == factor
