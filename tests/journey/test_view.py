"""`transduce view`: one page, whole or not at all; one line for what is wrong."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.conftest import Run, Transduce, refuses
from tests.unit.visualization.test_page import parsed


def test_a_page_is_written_and_its_place_is_said(run: Run, tmp_path: Path, transduce: Transduce):
    out = tmp_path / "map.html"

    result = transduce("view", run.folder, "1 2 3", "--out", out)

    assert (result.code, result.out, result.err) == (0, f"page: {out}\n", "")
    assert "1 2 3" in parsed(out.read_text(encoding="utf-8")).text
    assert list(tmp_path.iterdir()) == [out]


def test_a_page_can_show_a_translation_that_is_not_the_models(
    run: Run, tmp_path: Path, transduce: Transduce
):
    out = tmp_path / "map.html"

    result = transduce("view", run.folder, "1 2 3", "--translation", "4 4", "--out", out)

    assert result.code == 0, result.err
    assert "4 4" in parsed(out.read_text(encoding="utf-8")).text


def test_the_name_says_that_weights_are_wanted(run: Run, tmp_path: Path, transduce: Transduce):
    out = tmp_path / "map.json"

    result = transduce("view", run.folder, "1 2 3", "--translation", "4 4", "--out", out)

    held = json.loads(out.read_text(encoding="utf-8"))
    assert (result.code, result.out) == (0, f"weights: {out}\n")
    assert (held["source"], held["text"]) == ("1 2 3", "4 4")
    assert len(held["cross"][0][0]) == len(held["target_pieces"])


def test_the_name_says_that_a_picture_is_wanted(run: Run, tmp_path: Path, transduce: Transduce):
    out = tmp_path / "map.SVG"

    result = transduce("view", run.folder, "1 2 3", "--out", out)

    assert (result.code, result.out) == (0, f"picture: {out}\n")
    assert ElementTree.fromstring(out.read_text(encoding="utf-8")).tag.endswith("svg")


def test_a_name_that_says_nothing_is_refused(run: Run, tmp_path: Path, transduce: Transduce):
    result = transduce("view", run.folder, "1 2 3", "--out", tmp_path / "map.png")

    refuses(result, ".html", ".svg", ".json", "map.png")


def test_a_folder_is_not_overwritten(run: Run, tmp_path: Path, transduce: Transduce):
    result = transduce("view", run.folder, "1 2 3", "--out", tmp_path)

    refuses(result, f"{tmp_path} is a folder", "map.html")


def test_a_folder_that_is_not_there_is_named(run: Run, tmp_path: Path, transduce: Transduce):
    result = transduce("view", run.folder, "1 2 3", "--out", tmp_path / "none" / "map.html")

    refuses(result, f"{tmp_path / 'none'} is not a folder")


@pytest.mark.parametrize(
    ("words", "message"),
    [(("",), "the sentence is blank"), (("1 2", "--translation", " "), "the target is blank")],
)
def test_blank_text_is_refused_and_an_older_page_kept(
    run: Run, tmp_path: Path, transduce: Transduce, words: tuple[str, ...], message: str
):
    out = tmp_path / "map.html"
    out.write_text("older")

    result = transduce("view", run.folder, *words, "--out", out)

    refuses(result, message)
    assert out.read_text() == "older"


def test_a_missing_model_is_named(tmp_path: Path, transduce: Transduce):
    result = transduce("view", tmp_path / "none", "1 2", "--out", tmp_path / "map.html")

    refuses(result, str(tmp_path / "none"))
