"""What the export of a page replaces, and which models fit one page."""

from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses
from tests.faults.damaging import tiny_bundle

from transduce.web import page
from transduce.web.page import fits_one_page, write_web


def test_a_folder_that_is_no_earlier_export_is_left_alone(tmp_path: Path):
    bundle, site = tiny_bundle(), tmp_path / "site"
    write_web(bundle, site)
    write_web(bundle, site, precision="float16")
    (site / "letter.txt").write_text("dear")

    with pytest.raises(ValueError, match=r"site is not replaced, it holds letter\.txt: move it"):
        write_web(bundle, site)
    with pytest.raises(ValueError, match=r"letter\.txt is a file: name another folder"):
        write_web(bundle, site / "letter.txt")

    assert (site / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("manifest", [None, '{"name": "Mine", "index.html": {}}', "[]", "{"])
def test_a_site_of_a_person_is_left_alone(tmp_path: Path, manifest: str | None):
    files = {"index.html": "<title>Mine</title>"}
    if manifest is not None:  # of a web app
        files["manifest.json"] = manifest
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ValueError, match=r"is not replaced, it holds index\.html: move it away"):
        write_web(tiny_bundle(), tmp_path)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == files


def test_a_page_that_a_person_put_into_a_web_app_is_left_alone(tmp_path: Path):
    write_web(tiny_bundle(), tmp_path / "index.html")
    (tmp_path / "manifest.json").write_text('{"name": "Mine"}')

    with pytest.raises(ValueError, match=r"is not replaced, it holds index\.html: move it away"):
        write_web(tiny_bundle(), tmp_path)


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    tiny_bundle().save(tmp_path / "model")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")

    for out in (".", "..", "../empty/.."):
        for to in ("web", "ctranslate2"):
            result = transduce("export", "../model", "--to", to, "--out", out)
            refuses(result, f"{Path(out)} cannot be replaced: name a folder that is not the")

    assert not [*Path.cwd().iterdir()]


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
