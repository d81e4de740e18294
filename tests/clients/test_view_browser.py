"""The attention view in a real browser, at `/` and from a file: it shows the weights it is told."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlencode

from tests.browsing import expect
from tests.clients.conftest import Open
from tests.conftest import Run, Transduce

from transduce.visualization.attention_view import group_words

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "the old man reads a book"


class Looks(TypedDict):
    """What the server tells of a sentence, as far as it is looked at here."""

    source_pieces: list[str]
    target_pieces: list[str]
    encoder: list[list[list[list[float]]]]
    cross: list[list[list[list[float]]]]


def looking(open_page: Open, address: str, q: str = SENTENCE) -> "tuple[Page, Looks]":
    """The page with its view drawn, and what it should show."""
    query = {"source": "en", "target": "de", "q": q}
    page = open_page(f"{address}?{urlencode(query)}")
    page.locator(".heat rect.ground").wait_for()
    result = page.locator("#alternatives .best .text").inner_text()
    data = {"text": q, "translation": result, "source": "en", "target": "de"}
    return page, page.request.post(f"{address}api/attention", data=data).json()


def shown(page: "Page", row: int, column: int) -> str:
    """What is said of a cell that is pointed at."""
    page.mouse.move(1, 1)
    page.locator(f'.cells rect[data-row="{row}"][data-column="{column}"]').hover()
    return page.locator("#attention .readout").inner_text()


def test_layer_head_and_kind_are_switched(open_page: Open, address: str):
    page, looks = looking(open_page, address)
    attention, layer, head = (
        page.get_by_role("combobox", name=name) for name in ("Attention", "Layer", "Head")
    )
    source, target = looks["source_pieces"], looks["target_pieces"]

    last = [heads[1][2] for heads in looks["cross"][-1]]
    assert shown(page, 1, 2) == f"{target[1]} attends to {source[2]}: {sum(last) / len(last):.3f}"
    layer.select_option(label="1")
    head.select_option(label="2")
    assert shown(page, 1, 2).endswith(f": {looks['cross'][0][1][1][2]:.3f}")
    attention.select_option(value="encoder")
    layer.select_option(label="2")
    expected = f"{source[3]} attends to {source[0]}: {looks['encoder'][1][1][3][0]:.3f}"
    assert shown(page, 3, 0) == expected


def test_a_small_picture_chooses_its_head(open_page: Open, address: str):
    page, looks = looking(open_page, address)

    page.get_by_role("radio", name="Layer 1, head 3").click()

    expect(page.get_by_role("combobox", name="Layer")).to_have_value("0")
    expect(page.get_by_role("combobox", name="Head")).to_have_value("2")
    assert shown(page, 0, 1).endswith(f": {looks['cross'][0][2][0][1]:.3f}")


def test_a_piece_that_is_pointed_at_has_its_lines_alone(open_page: Open, address: str):
    page, looks = looking(open_page, address)
    rows = "[...new Set([...document.querySelectorAll('.links path')].map((p) => p.dataset.row))]"
    assert len(page.evaluate(rows)) == len(looks["target_pieces"])

    page.locator(".lines .row button").nth(2).hover()

    assert page.evaluate(rows) == ["2"]
    assert page.locator("#attention .readout").inner_text().startswith(looks["target_pieces"][2])
    page.mouse.move(1, 1)
    assert len(page.evaluate(rows)) == len(looks["target_pieces"])


def test_a_pinned_piece_keeps_its_lines_until_it_is_let_go(open_page: Open, address: str):
    page, _ = looking(open_page, address)
    columns = (
        "[...new Set([...document.querySelectorAll('.links path')].map((p) => p.dataset.column))]"
    )
    piece = page.locator(".lines .column button").nth(1)

    piece.click()
    page.mouse.move(1, 1)
    page.get_by_role("combobox", name="Layer").select_option(label="1")

    expect(piece).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(columns) == ["1"]
    page.keyboard.press("Escape")
    expect(piece).to_have_attribute("aria-pressed", "false")


def test_pieces_become_words_with_summed_and_averaged_weights(open_page: Open, address: str):
    page, looks = looking(open_page, address, "the garden")
    page.get_by_role("combobox", name="Head").select_option(label="1")
    rows, columns = group_words(looks["target_pieces"]), group_words(looks["source_pieces"])
    assert len(columns) < len(looks["source_pieces"])

    page.get_by_label("Whole words").check()

    expect(page.locator(".lines .column button")).to_have_text([word.text for word in columns])
    matrix = looks["cross"][-1][0]
    sums = [
        sum(matrix[row][piece_index] for piece_index in columns[1].piece_indices)
        for row in rows[0].piece_indices
    ]
    assert shown(page, 0, 1).endswith(f": {sum(sums) / len(sums):.3f}")
    expect(page.locator("#attention .about")).to_contain_text("summed")


def test_the_ends_of_the_sentence_are_hidden(open_page: Open, address: str):
    page, looks = looking(open_page, address)
    assert page.locator(".heat text.column").count() == len(looks["source_pieces"])

    page.get_by_label("Hide </s>").check()

    expect(page.locator(".heat text.column")).to_have_count(len(looks["source_pieces"]) - 1)
    expect(page.locator(".lines")).not_to_contain_text("</s>")


def test_arrow_keys_go_from_cell_to_cell_and_from_piece_to_piece(open_page: Open, address: str):
    page, looks = looking(open_page, address)
    source, target = looks["source_pieces"], looks["target_pieces"]
    readout = page.locator("#attention .readout")

    page.get_by_role("group", name="Heat map").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(readout).to_contain_text(f"{target[1]} attends to {source[1]}: ")

    page.locator(".lines .row button").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(readout).to_contain_text(f"{source[1]} is attended to most by")


def test_all_weights_and_a_picture_can_be_taken_away(open_page: Open, address: str, tmp_path: Path):
    page, looks = looking(open_page, address)

    with page.expect_download() as weights:
        page.get_by_role("button", name="Save JSON").click()
    with page.expect_download() as picture:
        page.get_by_role("button", name="Save SVG").click()

    weights.value.save_as(tmp_path / "weights")
    picture.value.save_as(tmp_path / "picture")
    assert json.loads((tmp_path / "weights").read_text()) == looks
    drawn = (tmp_path / "picture").read_text()
    assert drawn.startswith("<svg")
    assert drawn.count("<rect") == 2 + len(looks["source_pieces"]) * len(looks["target_pieces"])
    assert picture.value.suggested_filename == "attention-cross-layer2-mean.svg"


def test_a_file_opens_without_a_server(
    run: Run, tmp_path: Path, transduce: Transduce, open_page: Open, keep: Callable[..., None]
):
    out = tmp_path / "map.html"
    result = transduce("view", run.folder, "1 2 3", "--translation", "3 2 1", "--out", out)
    assert result.code == 0, result.err

    page = open_page(out.as_uri(), wide=390)
    page.get_by_role("combobox", name="Attention").select_option(value="decoder")
    page.locator(".lines .row button").nth(1).hover()

    expect(page.locator(".readout")).to_contain_text(re.compile("▁3 attends most to .*<start> 0"))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    keep(page, "map-390")


def test_a_file_says_something_without_javascript(
    run: Run, tmp_path: Path, transduce: Transduce, open_page: Open
):
    out = tmp_path / "map.html"
    transduce("view", run.folder, "1 2 3", "--translation", "3 2 1", "--out", out)

    page = open_page(out.as_uri(), script=False)

    expect(page.locator(".heat svg")).to_be_visible()
    expect(page.get_by_text("mean of 2 heads")).to_be_visible()
    expect(page.get_by_role("table").first).to_contain_text("attends most to")


def test_it_is_pinned_at_the_start_and_every_head_answers_for_it(open_page: Open, address: str):
    page, looks = looking(open_page, address, "she buys it because it is red")
    words = group_words(looks["source_pieces"])
    it = next(word for word in words if word.text == "it").piece_indices[0]

    expect(page.get_by_role("combobox", name="Attention")).to_have_value("encoder")
    expect(page.locator(".lines .row [aria-pressed=true]")).to_have_attribute("data-index", str(it))
    answers = page.locator(".answers button")
    heads = {
        (layer, head): max(matrix[it])
        for layer, matrices in enumerate(looks["encoder"], start=1)
        for head, matrix in enumerate(matrices, start=1)
    }
    expect(answers).to_have_count(len(heads))
    for answer in answers.all():
        words = answer.inner_text().replace(",", "").split()
        weight, layer, head = words[-5], int(words[-3]), int(words[-1])
        assert weight == f"{heads[layer, head]:.4f}"

    answers.first.click()
    expect(answers.first).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("combobox", name="Head")).not_to_have_value("mean")


def test_a_kind_that_was_chosen_stays_with_the_next_sentence(open_page: Open, address: str):
    page, _ = looking(open_page, address, "she buys it")
    page.get_by_role("combobox", name="Attention").select_option(value="decoder")

    page.get_by_label("Text to translate").fill("he has it")

    expect(page.locator(".lines")).to_contain_text("input so far")
    expect(page.get_by_role("combobox", name="Attention")).to_have_value("decoder")


def test_labels_of_the_heat_map_are_hovered_and_pinned(open_page: Open, address: str):
    page, looks = looking(open_page, address)
    name = looks["target_pieces"][1]
    label = page.locator(".heat text.row").nth(1)

    label.hover()
    expect(page.locator("#attention .readout")).to_contain_text(f"{name} attends most to")
    label.click()
    page.mouse.move(1, 1)

    expect(page.locator("#attention .readout")).to_contain_text("pinned")
    expect(page.locator(".answers h4")).to_have_text(f"What each head attends to most for {name}")
