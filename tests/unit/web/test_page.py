"""What the export of a page replaces, and which models fit one page."""

from pathlib import Path

import pytest
from tests.conftest import Transduce
from tests.faults.damaging import tiny_bundle

from transduce.web import page
from transduce.web.page import fits_one_page, write_web


def test_a_folder_that_is_no_earlier_export_is_left_alone(tmp_path: Path):
    bundle, site = tiny_bundle(), tmp_path / "site"
    write_web(bundle, site)
    write_web(bundle, site, precision="float16")
    (site / "letter.txt").write_text("dear")

    with pytest.raises(ValueError, match="site holds other files: name another folder"):
        write_web(bundle, site)
    with pytest.raises(ValueError, match=r"letter\.txt holds other files"):
        write_web(bundle, site / "letter.txt")

    assert (site / "letter.txt").read_text() == "dear"


def test_the_command_replaces_its_page_by_any_name(tmp_path: Path, transduce: Transduce):
    tiny_bundle().save(tmp_path / "model")
    out = ("--out", tmp_path / "page.htm", "--quantize", "int8")

    for _ in range(2):
        result = transduce("export", tmp_path / "model", "--to", "web", *out)
        assert result.code == 0, result.err


def test_a_model_fits_one_page_if_it_is_small(monkeypatch: pytest.MonkeyPatch):
    bundle = tiny_bundle()
    assert fits_one_page(bundle)

    monkeypatch.setattr(page, "_LARGEST_PAGE", 4 * bundle.weights.size - 1)

    assert not fits_one_page(bundle)
