"""A page with a training: the slider's checkpoint is what translates, and what the page shows."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from tests.browsing import expect, translate_in
from tests.clients.conftest import Open

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Translator
from transduce.model.numpy_transformer import NumpyTransformer, Weights
from transduce.model.trace import intermediate_results
from transduce.model.transformer import Transformer, from_numpy
from transduce.web.page import History, write_web

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "the old man reads a book"
UPDATES = [0, 40, 1200]
FINISHED = len(UPDATES)


@pytest.fixture(scope="module")
def history(bundle: Bundle) -> History:
    """Weights of three models that translate differently."""
    weights: dict[int, Weights] = {}
    for update in UPDATES:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(update + 5)
            model = Transformer(bundle.model.config)
            model.embedding.weight *= 3.0
        weights[update] = model.to_numpy().weights
    return History(
        weights=weights,
        training=[(20, 5.5), (40, 4.25), (1200, 1.5)],
        validation=[(40, 4.5, 12.3), (1200, 1.75, None)],
    )


@pytest.fixture(scope="module")
def training_file(
    bundle: Bundle, history: History, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    file = tmp_path_factory.mktemp("training") / "training.html"
    write_web(bundle, file, history=history)
    return file


@pytest.fixture(scope="module")
def models(bundle: Bundle, history: History) -> list[Bundle]:
    """The model of each checkpoint, and the finished one."""
    bundles: list[Bundle] = []
    for weights in history.weights.values():
        model = NumpyTransformer(config=bundle.model.config, weights=weights)
        bundles.append(replace(bundle, model=from_numpy(model).eval()))
    return [*bundles, bundle]


def translation(bundle: Bundle, *, retry: bool = False) -> str:
    """A checkpoint's translation; only the finished model searches repetitive ones again."""
    translator = Translator.from_bundle(bundle, engine="torch")
    return translator.translate([SENTENCE], retry_loops=retry)[0].text


@pytest.fixture
def page(training_file: Path, open_page: Open) -> "Page":
    page = open_page(training_file.as_uri() + "#part=cross&layer=1&head=2")
    page.set_viewport_size({"width": 1280, "height": 2000})
    translate_in(page, SENTENCE)
    return page


def move(page: "Page", key: str) -> None:
    page.locator("#training-update").press(key)


def test_each_checkpoint_translates_as_its_weights_do(models: list[Bundle], page: "Page"):
    expected = [translation(model) for model in models[:FINISHED]]
    expected.append(translation(models[FINISHED], retry=True))
    assert len(set(expected)) == len(expected), "they can be told apart"
    text, slider = page.locator("#training-text"), page.get_by_label("Update", exact=True)

    expect(text).to_have_text(expected[FINISHED])
    expect(slider).to_have_attribute("aria-valuetext", "the finished model")
    move(page, "Home")
    expect(text).to_have_text(expected[0])
    expect(page.locator("#output")).to_have_text(expected[0])
    expect(slider).to_have_attribute("aria-valuetext", "update 0")
    move(page, "ArrowRight")
    expect(text).to_have_text(expected[1])
    expect(page.locator("#training-state")).to_have_text(
        "update 40: validation loss 4.500, chrF2 12.3"
    )
    move(page, "ArrowRight")
    expect(text).to_have_text(expected[2])
    expect(page.locator("#training-state")).to_have_text("update 1,200: validation loss 1.750")
    move(page, "End")
    expect(text).to_have_text(expected[FINISHED])


def test_the_attention_is_that_of_the_checkpoint(models: list[Bundle], page: "Page"):
    page.locator("#beam").select_option("1")
    move(page, "Home")
    move(page, "ArrowRight")
    model, tokenizer = models[1].model, models[1].tokenizer
    translated = Translator.from_bundle(models[1], engine="torch").translate(
        [SENTENCE], num_beams=1, retry_loops=False
    )[0]
    expect(page.locator("#untouched")).to_have_text(translated.text)
    source = [*tokenizer.encode(SENTENCE), 0]
    tensors = intermediate_results(model, source, list(translated.ids))

    for selector in ("#training-head td:not(:empty)", "#step-weights td:not(:empty)"):
        shown = [float(text) for text in page.locator(selector).all_inner_texts()]
        expected = tensors["decoder.0.cross_attention.weights"][1].flatten().tolist()
        assert shown == pytest.approx(expected, abs=0.0051), selector
    expect(page.locator("#training-head-title")).to_have_text("Layer 1, head 2")
    heads = page.locator("#training-heads button")
    expect(heads).to_have_count(model.config.decoder_layers * model.config.heads)
    heads.first.press("Enter")
    expect(page.locator("#training-head-title")).to_have_text("Layer 1, head 1")
    expect(page.locator("#explorer-head")).to_have_value("0")
    expect(heads.first).to_be_focused()
    expect(heads.first).to_have_attribute("aria-pressed", "true")


def test_attention_of_an_earlier_sentence_is_not_kept(page: "Page"):
    attention = page.locator("#training-attention")
    expect(attention).to_be_visible()

    translate_in(page, f"{SENTENCE} " * 10)
    expect(page.locator("#explorer-state")).to_contain_text("Choose a shorter sentence")
    expect(attention).to_be_hidden()

    translate_in(page, SENTENCE)
    expect(attention).to_be_visible()
    expect(page.locator("#explorer-content")).to_be_visible()


def test_playing_goes_through_all_checkpoints_and_can_be_paused(page: "Page"):
    play = page.locator("#training-play")
    states: list[str] = []
    page.expose_function("reached", lambda state: states.append(state))
    page.evaluate(
        """() => new MutationObserver(([{ target }]) => reached(target.textContent))
          .observe(document.getElementById("training-state"), { childList: true })"""
    )

    play.click()
    expect(play).to_contain_text("Pause")
    expect(play).to_contain_text("Play")
    assert [state.split(":")[0] for state in states] == [
        *("update 0", "update 40", "update 1,200", "the finished model")
    ]
    play.click()
    play.click()
    expect(play).to_contain_text("Play")
    paused = page.locator("#training-state").inner_text()
    page.wait_for_timeout(700)
    assert page.locator("#training-state").inner_text() == paused != "the finished model"


def test_every_checkpoint_s_translation_in_a_table(models: list[Bundle], page: "Page"):
    page.locator("#training-comparison summary").click()

    cells = page.locator("#training-texts td")
    expect(cells).to_have_count(len(UPDATES))
    assert cells.all_inner_texts() == [translation(model) for model in models[:FINISHED]]
    page.get_by_role("button", name="update 40").click()
    expect(page.locator("#training-text")).to_have_text(translation(models[1]))
    translate_in(page, "two red balls")
    expect(cells.first).not_to_have_text(translation(models[0]))


def test_a_comparison_waits_for_the_translation(page: "Page"):
    page.evaluate(
        """() => {
          document.getElementById("beam").dispatchEvent(new Event("change"));
          document.getElementById("training-comparison").open = true;
        }"""
    )

    expect(page.locator("#training-texts td")).to_have_count(len(UPDATES))
    expect(page.locator("#state")).to_contain_text("on this device")


def test_a_translation_that_is_stopped_ends_playing(page: "Page"):
    page.evaluate(
        """() => {
          document.getElementById("training-play").click();
          document.getElementById("stop").click();
        }"""
    )

    assert "Play" in page.locator("#training-play").inner_text()
    expect(page.locator("#state")).to_have_text("Stopped.")


def test_an_address_leads_to_a_checkpoint(
    models: list[Bundle], training_file: Path, open_page: Open
):
    address = f"{training_file.as_uri()}#update=40&sentence={SENTENCE.replace(' ', '+')}"
    page = open_page(address)
    expect(page.locator("#training-text")).to_have_text(translation(models[1]))

    page.locator("#explorer-tokens button").nth(1).click()
    assert "update=40" in page.url, "another selection keeps it"
    page.locator("#tour a").first.click()
    expect(page).to_have_url(re.compile("step=embedding&update=40"))
    move(page, "ArrowRight")
    assert "update=1200" in page.url
    move(page, "End")
    assert "update=" not in page.url


def test_a_page_without_training_does_not_show_the_panel(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    translate_in(page, SENTENCE)

    expect(page.locator("#training")).to_be_hidden()


def test_the_training_is_accessible(page: "Page", findings: Callable[["Page"], list[str]]):
    move(page, "Home")
    page.locator("#training-comparison summary").click()
    expect(page.locator("#training-texts td")).to_have_count(len(UPDATES))

    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert findings(page) == []
