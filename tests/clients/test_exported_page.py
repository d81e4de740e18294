"""The page of `export --to web` in a real browser: what it translates, shows and refuses."""

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.browsing import expect
from tests.clients.conftest import Open
from tests.conftest import SHAPE, made
from tests.served import bundle_of
from tests.unit.conftest import LINES

from transduce.bundle.bundle import Bundle
from transduce.data.config import TokenizerConfig
from transduce.data.tokenizer import Tokenizer
from transduce.inference.translator import Translator
from transduce.model.layers import Positions
from transduce.web.page import write_web

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCES = [
    "the old man reads a book",
    "two children 👨‍👩‍👧 play 🎈",
    "שלום the garden مرحبا",
    "a red ball " * 11 + "a dog",
]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    config = TokenizerConfig(vocab_size=400, byte_fallback=True)
    tokenizer = Tokenizer.train(LINES, config)
    shape = replace(SHAPE, vocab_size=tokenizer.vocab_size, d_model=16, d_ff=24, d_k=4, d_v=8)
    model = made(shape).eval()
    with torch.no_grad():
        model.embedding.weight *= 3.0  # it prefers some pieces clearly
    return bundle_of("en", "de", tokenizer=tokenizer, model=model)


@pytest.fixture(scope="module")
def page_file(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "translator.html"
    write_web(bundle, file)
    return file


def translate(page: "Page", text: str) -> str:
    """Enter a text and return the translation."""
    state = page.locator("#state")
    page.locator("#q").fill("")
    expect(state).to_have_text("")
    page.locator("#q").fill(text)
    expect(state).to_contain_text("on this device")
    return page.locator("#output").inner_text()


def test_it_translates_as_python_does_without_a_server(
    bundle: Bundle, page_file: Path, open_page: Open
):
    page = open_page(page_file.as_uri())
    expected = Translator.from_bundle(bundle, engine="torch").translate(
        SENTENCES, retry_loops=False
    )

    expect(page).to_have_title("English → German")
    for sentence, translation in zip(SENTENCES, expected, strict=True):
        assert translate(page, sentence) == translation.text


def test_lines_and_blank_lines_stay(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    one, other = translate(page, SENTENCES[0]), translate(page, SENTENCES[2])

    assert translate(page, f"{SENTENCES[0]}\n\n{SENTENCES[2]}") == f"{one}\n\n{other}"


def test_damaged_weights_are_refused(page_file: Path, tmp_path: Path, open_page: Open):
    text = page_file.read_text(encoding="utf-8")
    weights = re.search('id="weights">(.*?)</script>', text)
    assert weights is not None
    damaged = tmp_path / "damaged.html"
    for changed in (weights[1][:-400], weights[1][:5000] + "AAAA" + weights[1][5004:]):
        damaged.write_text(text.replace(weights[1], changed), encoding="utf-8")
        page = open_page(damaged.as_uri())

        expect(page.get_by_role("alert")).to_contain_text("damaged or incomplete")
        page.locator("#q").fill(SENTENCES[0])
        page.wait_for_timeout(300)
        assert page.locator("#output").inner_text() == ""


def test_a_switch_shows_the_translation_without_a_part(
    bundle: Bundle, page_file: Path, open_page: Open
):
    page = open_page(page_file.as_uri())
    usual = translate(page, SENTENCES[0])
    page.get_by_label("positions").check()
    switched = page.locator("#switched")
    positions = bundle.model.positions
    assert isinstance(positions, Positions)
    table = positions.table.clone()
    positions.table.zero_()
    translator = Translator.from_bundle(bundle, engine="torch")
    (expected,) = translator.translate([SENTENCES[0]], num_beams=1, retry_loops=False)
    positions.table.copy_(table)

    assert expected.text != usual
    expect(switched).to_have_text(expected.text)
    page.get_by_label("positions").uncheck()
    expect(switched).to_have_text(usual)


def test_an_address_leads_to_a_step(page_file: Path, open_page: Open):
    page = open_page(f"{page_file.as_uri()}#part=cross&layer=2&head=3&step=weights")
    translate(page, SENTENCES[0])
    table = page.locator("#step-weights table")

    expect(page.locator("#explorer-layer")).to_have_value("1")
    expect(page.locator("#explorer-head")).to_have_value("2")
    rows = table.locator("tr").all()
    weights = [[float(cell.inner_text()) for cell in row.locator("td").all()] for row in rows[1:]]
    assert all(sum(row) == pytest.approx(1, abs=0.1) for row in weights)
    expect(page.locator("#step-mask")).to_have_count(0)
    page.locator("#explorer-part").select_option("decoder")
    expect(page.locator("#step-mask")).to_contain_text("−∞")


def test_every_head_answers_for_a_token(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    translate(page, SENTENCES[0])

    page.get_by_role("button", name="man", exact=True).click()

    expect(page.locator("#step-ranking h3")).to_have_text("What does “man” look at?")
    expect(page.locator("#step-ranking li")).to_have_count(SHAPE.encoder_layers * SHAPE.heads)


def test_typing_overtakes_and_escape_stops(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    usual = translate(page, SENTENCES[0])
    long = "\n".join(SENTENCES[3] for _ in range(300))

    page.locator("#q").fill(long)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("Stopped.")
    page.locator("#q").fill(long)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    assert translate(page, SENTENCES[0]) == usual


@pytest.fixture
def folder_address(bundle: Bundle, tmp_path: Path) -> Iterator[str]:
    """A larger model's folder, behind a plain web server."""
    write_web(bundle, tmp_path / "site", precision="float16")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_folder_is_loaded_from_a_web_server(folder_address: str, open_page: Open):
    assert translate(open_page(folder_address), SENTENCES[0])


def test_a_missing_part_is_named(folder_address: str, tmp_path: Path, open_page: Open):
    (part,) = (tmp_path / "site").glob("weights-*.bin")
    part.unlink()

    expect(open_page(folder_address).get_by_role("alert")).to_contain_text(
        f"{part.name} is missing"
    )
