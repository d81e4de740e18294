"""Marian's own program reads what we write."""

from pathlib import Path

import pytest
from tests.conftest import Transduce
from tests.exports import CONFIG, SENTENCES, bundle_of, one_vocabulary

from transduce.export.marian_npz import prove_marian_npz, write_marian_npz

pytest.importorskip("pymarian", reason="pymarian is not installed: pip install -e .[test-interop]")


def test_another_model_is_found_out(tmp_path: Path):
    exported, other = (bundle_of(CONFIG, one_vocabulary()) for _ in range(2))
    other.model.embedding.weight.data[:-1] *= -1.0
    write_marian_npz(other, tmp_path / "npz")

    proof = prove_marian_npz(exported, tmp_path / "npz", SENTENCES[:2])

    assert not proof.holds
    assert proof.gap is not None
    assert proof.gap > 0.1


def test_an_error_of_marian_is_passed_on(tmp_path: Path):
    bundle = bundle_of(CONFIG, one_vocabulary())
    write_marian_npz(bundle, tmp_path / "npz")
    (tmp_path / "npz" / "model.npz").write_bytes(b"no archive")

    with pytest.raises(ValueError, match=r"Marian failed to translate with .*: .*[Ee]rror"):
        prove_marian_npz(bundle, tmp_path / "npz", SENTENCES[:1])


def test_the_command_writes_it_and_reports_the_proof(tmp_path: Path, transduce: Transduce):
    bundle_of(CONFIG, one_vocabulary()).save(tmp_path / "bundle")
    (tmp_path / "sample").write_text("a small house\n")

    done = transduce(
        *("export", tmp_path / "bundle", "--to", "marian-npz", "--out", tmp_path / "npz"),
        *("--sample", tmp_path / "sample"),
    )

    assert done.code == 0, done
    assert "marian-npz: 1 of 1 sentences identical; largest logit difference" in done.err
