"""The page of `export --to web` in a real browser: what it translates, shows and refuses."""

import functools
import http.server
import random
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.browsing import expect, translate_in
from tests.chromium import PLAIN_HOST
from tests.clients.conftest import Open
from tests.unit.conftest import LINES

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Translator
from transduce.web.page import run_in_node, write_web

SENTENCES = [
    "the old man reads a book",
    "two children 👨‍👩‍👧 play 🎈",
    "שלום the garden مرحبا",
    "a red ball " * 11 + "a dog",
]


def test_it_translates_as_python_does_without_a_server(
    bundle: Bundle, page_file: Path, open_page: Open
):
    page = open_page(page_file.as_uri())
    expected = Translator.from_bundle(bundle, engine="torch").translate(SENTENCES)

    expect(page).to_have_title("English → German")
    for sentence, translation in zip(SENTENCES, expected, strict=True):
        assert translate_in(page, sentence) == translation.text


def test_lines_and_blank_lines_stay(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    single, other = translate_in(page, SENTENCES[0]), translate_in(page, SENTENCES[2])

    assert translate_in(page, f"{SENTENCES[0]}\n\n{SENTENCES[2]}") == f"{single}\n\n{other}"


def test_an_abbreviation_ends_no_sentence(bundle: Bundle, page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    sentences = ["the dog of Dr. Ho runs.", "It barks."]
    expected = Translator.from_bundle(bundle, engine="torch").translate(sentences)

    text = translate_in(page, " ".join(sentences))

    assert text == " ".join(translation.text for translation in expected)


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


def test_typing_overtakes_and_escape_stops(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    usual = translate_in(page, SENTENCES[0])
    long = "\n".join(SENTENCES[3] for _ in range(300))

    page.locator("#q").fill(long)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("Stopped.")
    page.locator("#q").fill(long)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    assert translate_in(page, SENTENCES[0]) == usual


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
    assert translate_in(open_page(folder_address), SENTENCES[0])


def test_the_weights_are_checked_over_plain_http_too(
    folder_address: str, tmp_path: Path, open_page: Open
):
    address = folder_address.replace("127.0.0.1", PLAIN_HOST)
    page = open_page(address)
    assert page.evaluate("[isSecureContext, crypto.subtle]") == [False, None]
    assert translate_in(page, SENTENCES[0])

    (part,) = (tmp_path / "site").glob("weights-*.bin")
    weights = bytearray(part.read_bytes())
    weights[-1] ^= 1
    part.write_bytes(weights)
    expect(open_page(address).get_by_role("alert")).to_contain_text("damaged or incomplete")


def test_what_the_browser_kept_of_an_unfinished_upload_is_fetched_anew(
    folder_address: str, tmp_path: Path, open_page: Open
):
    (part,) = (tmp_path / "site").glob("weights-*.bin")
    weights = part.read_bytes()
    part.write_bytes(weights[:-100])
    page = open_page(folder_address)
    expect(page.get_by_role("alert")).to_contain_text("damaged or incomplete")

    part.write_bytes(weights)
    page.goto(folder_address)

    assert translate_in(page, SENTENCES[0])


def test_a_missing_part_is_named(folder_address: str, tmp_path: Path, open_page: Open):
    (part,) = (tmp_path / "site").glob("weights-*.bin")
    part.unlink()

    expect(open_page(folder_address).get_by_role("alert")).to_contain_text(
        f"{part.name} is missing"
    )


def test_a_part_cut_short_translates_nothing(folder_address: str, tmp_path: Path, open_page: Open):
    (part,) = (tmp_path / "site").glob("weights-*.bin")
    part.write_bytes(part.read_bytes()[:-100])

    page = open_page(folder_address)

    expect(page.get_by_role("alert")).to_contain_text("damaged or incomplete")
    page.locator("#q").fill(SENTENCES[0])
    page.wait_for_timeout(300)
    assert page.locator("#output").inner_text() == ""


def random_sentences(seed: int, count: int) -> list[str]:
    """Words of the corpus among emoji, right-to-left text, unusual spaces and lone marks."""
    generator = random.Random(seed)
    words = " ".join(LINES).split()
    odd = ["👨‍👩‍👧", "🇩🇪", "שלום", "مرحبا", "\u202e", "\u200f", "\u00a0", "e\u0301"]
    odd += ["日本語", "½", "<b>", "𝔘", "%s"]
    return [
        generator.choice(["", " "]).join(
            generator.choice([words, odd])[generator.randrange(13)] + generator.choice(["", " "])
            for _ in range(generator.randrange(1, 5))
        )
        for _ in range(count)
    ]


def test_any_text_is_translated_as_in_python(bundle: Bundle, page_file: Path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    longest = ("the old man reads 👨‍👩‍👧 a small red book " * 300)[:10_000]
    sentences = [*random_sentences(0, 200), longest]
    translator = Translator.from_bundle(bundle, engine="torch")
    expected = translator.translate(sentences, num_beams=1)

    answer = run_in_node(node, page_file, {"sentences": sentences, "beam": 1, "retry": True})

    assert len(longest) == 10_000
    assert any(translation.mended for translation in expected), "a search without repetition"
    for sentence, expected_line, actual_line in zip(
        sentences, expected, answer["translations"], strict=True
    ):
        assert actual_line["source"] == bundle.tokenizer.encode(sentence)
        assert actual_line["text"] == expected_line.text


def test_a_few_logits_are_read_as_they_are(bundle: Bundle, page_file: Path, tmp_path: Path):
    """Node reads a file of under 4 KiB into memory that other buffers share."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed")
    source, target_in = [5, 6, 0], [bundle.tokenizer.pad]
    logits = bundle.weights.to_numpy()(np.array([source]), None, np.array([target_in]))
    file = tmp_path / "logits"
    file.write_bytes(logits.tobytes())
    job = {"sentences": [], "samples": [(source, target_in)], "logits": str(file)}

    assert file.stat().st_size < 4096
    assert run_in_node(node, page_file, job)["gap"] < 1e-4


def test_ten_thousand_characters_do_not_freeze_the_page(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    text = " ".join(random_sentences(2, 1500))[:10_000]

    page.locator("#q").fill(text)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#state")).to_have_text("Stopped.")
    assert translate_in(page, SENTENCES[0])
    assert translate_in(page, SENTENCES[0] * 10)
    expect(page.locator("#explorer-state")).to_contain_text("Choose a shorter sentence")
