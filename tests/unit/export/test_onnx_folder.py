"""What keeps an ONNX folder from being written. onnxruntime reads it in tests/interop."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.exports import CONFIG, bundle_of, one_vocabulary

from transduce.bundle.bundle import Bundle
from transduce.export.onnx_folder import prove_onnx, write_onnx


def test_what_the_runtimes_lack_is_named_and_nothing_written(tmp_path: Path):
    bundle = bundle_of(replace(CONFIG, d_k=5), one_vocabulary())

    with pytest.raises(ValueError, match="do not support d_k 5"):
        write_onnx(bundle, tmp_path / "onnx")

    assert not (tmp_path / "onnx").exists()


def test_without_the_packages_one_line_says_what_to_install(
    plain: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for module in ("onnx_folder", "proof"):
        monkeypatch.setattr(f"transduce.export.{module}.find_spec", lambda name: None)

    with pytest.raises(ValueError, match=r"onnx is not installed: pip install 'transduce\[onnx\]'"):
        write_onnx(plain, tmp_path / "onnx")
    assert "pip install onnxruntime tokenizers" in prove_onnx(plain, tmp_path, ["a"]).not_made
