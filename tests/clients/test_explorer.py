"""The explorer of an exported page: each number and each switch is what torch computes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import numpy as np
import pytest
import torch
from tests.browsing import expect, translate_in
from tests.clients.conftest import Open
from tests.conftest import SHAPE, made
from tests.switched import greedy, probabilities, switched

from transduce.bundle.bundle import Bundle
from transduce.inference.translator import Translator
from transduce.model.numpy_transformer import NumpyTransformer
from transduce.model.trace import intermediate_results
from transduce.web.page import write_web

if TYPE_CHECKING:
    from playwright.sync_api import Page

SENTENCE = "the old man reads a book"
QUERY = 2  # the token that is followed
LAYER, HEAD = 1, 2  # what the address below selects
SELF, CROSS = f"decoder.{LAYER}.self_attention", f"decoder.{LAYER}.cross_attention"
ADDRESS = f"#part=cross&layer={LAYER + 1}&head={HEAD + 1}&token={QUERY + 1}"


def source_of(bundle: Bundle, sentence: str) -> list[int]:
    return [*bundle.tokenizer.encode(sentence), 0]


def translated(
    bundle: Bundle, switches: Mapping[str, Any], sentence: str = SENTENCE
) -> tuple[str, list[float]]:
    """The translation under these switches, and the best probabilities after the followed token."""
    source = source_of(bundle, sentence)
    with switched(bundle.model, switches):
        target = greedy(bundle.model, source, len(source) - 1 + bundle.search.extra)
        best = probabilities(bundle.model, source, target)[QUERY].topk(10).values
    return bundle.tokenizer.decode(target), best.tolist()


def numbers_of(page: "Page", selector: str) -> list[float]:
    return [float(text.replace("−", "-")) for text in page.locator(selector).all_inner_texts()]


def assert_shows(page: "Page", expected: tuple[str, Sequence[float]]) -> None:
    """Compare the translation beside the untouched one, and the next pieces."""
    text, best = expected
    expect(page.locator("#explorer-compare")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("#switched")).to_have_text(text)
    assert numbers_of(page, "#step-next td") == pytest.approx(best, abs=1e-4)


@pytest.fixture
def page(page_file: Path, open_page: Open) -> "Page":
    """The explorer with a sentence, translated greedily."""
    page = open_page(page_file.as_uri() + ADDRESS)
    # Set while it is hidden: choosing it after the translation would compute all a second time,
    # and a test could begin before that.
    page.locator("#beam").evaluate("select => { select.value = '1'; }")
    page.locator("#q").fill(SENTENCE)
    expect(page.locator("#step-search")).to_be_visible()
    return page


SWITCHES: dict[str, dict[str, Any]] = {
    "division by √dk": {"noScaling": True},
    "without positions": {"noPositions": True},
    "decoder's mask": {"noMask": True},
    "without this head": {"heads": [{"attention": CROSS, "head": HEAD}]},
    "without this layer": {"layer": f"decoder.{LAYER}"},
    "residual connections": {"residual": f"decoder.{LAYER}"},
}


def test_every_switch_shows_what_torch_computes(bundle: Bundle, page: "Page"):
    untouched = translated(bundle, {})
    assert_shows(page, untouched)
    for label, switches in SWITCHES.items():
        page.get_by_label(label).first.check()
        expected = translated(bundle, switches)
        assert expected != untouched, "the switch has an effect"
        assert_shows(page, expected)
        assert page.locator("#untouched").inner_text() == untouched[0]
        page.get_by_label(label).first.uncheck()
        assert_shows(page, untouched)


def test_a_switch_follows_the_head_that_is_selected(bundle: Bundle, page: "Page"):
    page.locator("#switch-head").check()
    expected = translated(bundle, SWITCHES["without this head"])
    assert_shows(page, expected)

    page.locator("#step-ranking").get_by_role("button", name="layer 1, head 1").click()
    first = translated(bundle, {"heads": [{"attention": "decoder.0.cross_attention", "head": 0}]})
    assert first != expected
    assert_shows(page, first)
    page.locator("#tour a").nth(7).click()
    expect(page.locator("#explorer-part")).to_have_value("decoder")
    own = {"heads": [{"attention": "decoder.0.self_attention", "head": 0}]}
    assert_shows(page, translated(bundle, own))


def test_several_switches_and_a_temperature(bundle: Bundle, page: "Page"):
    page.get_by_label("Temperature").fill("2.5")
    page.keyboard.press("Enter")
    assert_shows(page, translated(bundle, {"temperature": 2.5}))
    page.get_by_label("without positions").check()
    assert_shows(page, translated(bundle, {"temperature": 2.5, "noPositions": True}))

    page.get_by_role("button", name="Undo all changes").click()

    assert_shows(page, translated(bundle, {}))
    expect(page.get_by_label("Temperature")).to_have_value("1")


def test_two_words_change_places_but_not_in_the_text(bundle: Bundle, page: "Page"):
    untouched = translated(bundle, {})
    page.get_by_label("Swap").select_option(label="man")
    page.locator("#swap-second").select_option(label="book")

    assert_shows(page, translated(bundle, {}, "the old book reads a man"))
    expect(page.locator("#untouched")).to_have_text(untouched[0])
    expect(page.locator("#q")).to_have_value(SENTENCE)
    translate_in(page, "two red balls")
    expect(page.locator("#swap-first")).to_have_value("")


@contextmanager
def edited_cell(page: "Page", row: int, column: int) -> Iterator[None]:
    """Move to a cell of the weights with arrow keys, open it with Enter, and leave it by Enter."""
    page.locator("#step-weights td[tabindex='0']").focus()
    for key, count in (("ArrowUp", 30), ("ArrowLeft", 30), ("ArrowDown", row)):
        for _ in range(count):
            page.keyboard.press(key)
    for _ in range(column):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#step-weights td input")).to_be_focused()
    yield
    page.keyboard.press("Enter")


def test_a_weight_is_edited_with_the_keyboard(bundle: Bundle, page: "Page"):
    untouched = translated(bundle, {})
    with edited_cell(page, QUERY, 3):
        page.keyboard.type("0.8")
    edit = {"attention": CROSS, "head": HEAD, "query": QUERY, "memory": 3, "value": 0.8}
    expected = translated(bundle, {"weights": [edit]})
    assert expected != untouched
    assert_shows(page, expected)
    expect(page.locator("#step-weights td:focus")).to_have_text("0.80")

    with edited_cell(page, QUERY, 0):
        page.keyboard.type("0.15")
    edits = [edit, edit | {"memory": 0, "value": 0.15}]
    assert_shows(page, translated(bundle, {"weights": edits}))
    row = numbers_of(page, f"#step-weights tr:nth-child({QUERY + 2}) td")
    source = source_of(bundle, SENTENCE)
    with switched(bundle.model, {"weights": edits}):
        target = greedy(bundle.model, source, len(source) - 1 + bundle.search.extra)
    usual = intermediate_results(bundle.model, source, target)[f"{CROSS}.weights"][HEAD, QUERY]
    rest = 1 - usual[0].item() - usual[3].item()
    scaled = [weight * 0.05 / rest for weight in usual.tolist()]
    assert row == pytest.approx([0.15, *scaled[1:3], 0.8, *scaled[4:]], abs=0.006)

    undo = page.get_by_role("button", name="Undo: Decoder to encoder, layer 2, head 3")
    expect(undo).to_have_count(2)
    undo.first.press("Enter")
    assert_shows(page, translated(bundle, {"weights": edits[1:]}))
    undo.press("Enter")
    assert_shows(page, untouched)
    expect(page.locator("#edits li")).to_have_count(0)


def test_a_masked_position_keeps_its_weight(bundle: Bundle, page: "Page"):
    page.locator("#explorer-part").select_option("decoder")
    weights = page.locator("#step-weights")

    weights.locator(f"tr:nth-child({QUERY + 2}) td").nth(QUERY + 1).click()
    expect(page.locator("#edit-problem")).to_contain_text("the mask hides it")
    weights.locator("tr:nth-child(2) td").first.click()
    expect(page.locator("#edit-problem")).to_contain_text("no other weight")
    weights.locator(f"tr:nth-child({QUERY + 2}) td").first.click()
    page.locator("#step-weights input").fill("1.5")
    page.keyboard.press("Enter")
    expect(page.locator("#edit-problem")).to_have_text("A weight is a number from 0 to 1.")
    weights.locator(f"tr:nth-child({QUERY + 2}) td").first.click()
    page.locator("#step-weights input").fill("0.9")
    page.keyboard.press("Escape")
    expect(page.locator("#edits li")).to_have_count(0)
    weights.locator(f"tr:nth-child({QUERY + 2}) td").first.click()
    page.locator("#step-weights input").fill("0.9")
    page.keyboard.press("Tab")
    edit = {"attention": SELF, "head": HEAD, "query": QUERY, "memory": 0, "value": 0.9}
    assert_shows(page, translated(bundle, {"weights": [edit]}))


def test_without_the_mask_a_later_position_is_edited(page: "Page"):
    page.locator("#explorer-part").select_option("decoder")
    page.locator("#switch-mask").check()
    expect(page.locator("#explorer-compare")).not_to_have_attribute("aria-busy", "true")

    page.locator("#step-weights tr:nth-child(2) td").nth(1).click()

    expect(page.locator("#step-weights td input")).to_be_visible()


def test_an_edit_is_forgotten_with_its_sentence(page: "Page"):
    with edited_cell(page, QUERY, 3):
        page.keyboard.type("0.8")
    expect(page.locator("#edits li")).to_have_count(1)

    translate_in(page, "two red balls")

    expect(page.locator("#edits li")).to_have_count(0)


def test_an_address_leads_to_a_step(page_file: Path, open_page: Open):
    page = open_page(f"{page_file.as_uri()}#part=cross&layer=2&head=3&step=weights")
    translate_in(page, SENTENCE)
    table = page.locator("#step-weights table")

    expect(page.locator("#explorer-layer")).to_have_value("1")
    expect(page.locator("#explorer-head")).to_have_value("2")
    rows = table.locator("tr").all()
    weights = [[float(cell.inner_text()) for cell in row.locator("td").all()] for row in rows[1:]]
    assert all(sum(row) == pytest.approx(1, abs=0.1) for row in weights)
    expect(page.locator("#step-mask")).to_have_count(0)
    page.locator("#explorer-part").select_option("decoder")
    expect(page.locator("#step-mask")).to_contain_text("−∞")


PAPER = {
    "embedding": "The same matrix serves source, target and output.",
    "positions": "PE(pos, 2i) = sin(pos",
    "norm": "LayerNorm(x + Sublayer(x))",
    "queries": "Q = X WQ section",
    "residual": "x + Sublayer(x) section",
    "feed-forward": "max(0, x W1 + b1)",
    "layer": "residual connection and normalisation",
    "next": "times the embedding matrix, then",
}
OTHER = {
    "embedding": "Source, target and output have a matrix each.",
    "positions": "P[pos]",
    "norm": "X = LayerNorm(x)",
    "queries": "Q = X WQ + bQ",
    "residual": "x + Sublayer(LayerNorm(x))",
    "feed-forward": "GELU(LayerNorm(x) W1 + b1)",
    "mask": "No position sees one more than 3 away.",
    "layer": "The last layer's output is normalised.",
    "next": "times the output matrix plus a bias, then",
}


@pytest.mark.parametrize(("pre_norm", "expected"), [(False, PAPER), (True, OTHER)])
def test_the_steps_are_those_of_the_model(
    pre_norm: bool, expected: Mapping[str, str], bundle: Bundle, tmp_path: Path, open_page: Open
):
    if pre_norm:
        shape = replace(
            bundle.model.config,
            norm="pre",
            activation="gelu",
            positions="learned",
            max_positions=64,
            tie="none",
            attention_bias=True,
            output_bias=True,
            radius=3,
        )
        bundle = replace(bundle, model=made(shape).eval())
    write_web(bundle, tmp_path / "page.html")
    page = open_page((tmp_path / "page.html").as_uri() + "#part=decoder&layer=2")
    translate_in(page, SENTENCE)

    for step, text in expected.items():
        shown = page.locator(f"#step-{step}").evaluate("node => node.textContent")
        assert text in shown, step
    places = page.locator("#steps section").evaluate_all("nodes => nodes.map(node => node.id)")
    before = places.index("step-norm") < places.index("step-queries")
    assert before == pre_norm
    page.locator("#step-norm canvas").press("ArrowRight")
    reading = page.locator("#step-norm .reading").inner_text()
    target = Translator.from_bundle(bundle, engine="torch").translate(
        [SENTENCE], retry_loops=False
    )[0]
    results = intermediate_results(bundle.model, source_of(bundle, SENTENCE), list(target.ids))
    part, name = "decoder.1.self_attention_norm", "residual" if pre_norm else "sum"
    norm = bundle.model.get_submodule(f"{part}.norm")
    vectors = torch.from_numpy(results[f"{part}.{name}"])
    value = float(reading.rpartition(" ")[2].replace("−", "-"))
    assert value == pytest.approx(norm(vectors)[0, 1].item(), abs=1e-4)


@pytest.mark.parametrize(("extra", "state"), [(8, re.compile("repeats itself")), (1, "")])
def test_a_search_that_the_translator_repeats_is_named(
    extra: int, state: str | re.Pattern[str], bundle: Bundle, tmp_path: Path, open_page: Open
):
    bundle = replace(bundle, search=replace(bundle.search, extra=extra))
    (translation,) = Translator.from_bundle(bundle, engine="torch").translate("it")
    write_web(bundle, tmp_path / "page.html")
    page = open_page((tmp_path / "page.html").as_uri())

    translate_in(page, "it")

    assert bool(translation.flag) == bool(state)
    expect(page.locator("#untouched")).not_to_be_empty()
    expect(page.locator("#explorer-state")).to_have_text(state)


def test_the_tour_has_ten_stops_each_at_its_step(page: "Page"):
    links = page.locator("#tour a")
    expect(links).to_have_count(10)
    for link in links.all():
        address = parse_qs((link.get_attribute("href") or "").removeprefix("#"))
        link.click()
        title = page.locator(f"#title-{address['step'][0]}")
        expect(title).to_be_focused()
        expect(title).to_be_in_viewport()
        expect(page.locator("#explorer-part")).to_have_value(address["part"][0])


def test_every_head_answers_for_a_token(page_file: Path, open_page: Open):
    page = open_page(page_file.as_uri())
    translate_in(page, SENTENCE)

    page.get_by_role("button", name="man", exact=True).click()

    expect(page.locator("#step-ranking h3")).to_have_text("What does “man” look at?")
    expect(page.locator("#step-ranking tr")).to_have_count(SHAPE.encoder_layers * SHAPE.heads)


@pytest.mark.parametrize("part", ["cross", "encoder"])
def test_every_head_is_taken_away_in_turn(part: str, bundle: Bundle, page: "Page"):
    page.get_by_label("without positions").check()
    page.locator("#explorer-part").select_option(part)
    page.locator("#explorer-tokens button").nth(QUERY).click()
    page.locator("#ablation-target").select_option(str(QUERY))
    base = {"noPositions": True}
    source = source_of(bundle, SENTENCE)
    limit = len(source) - 1 + bundle.search.extra
    with switched(bundle.model, base):
        target = greedy(bundle.model, source, limit)
        before = probabilities(bundle.model, source, target)[QUERY, target[QUERY]].item()
    model = bundle.weights.to_numpy()
    learned = replace(model.config, positions="learned", max_positions=limit)
    none = {"positions.weight": np.zeros((limit, model.config.d_model), np.float32)}
    blind = NumpyTransformer(learned, {**model.weights, **none})
    usual = intermediate_results(blind, source, target)

    expect(page.locator("#explorer-compare")).not_to_have_attribute("aria-busy", "true")
    page.get_by_role("button", name="Switch every head off in turn").click()

    rows = page.locator("#ablation tr:has(td)")
    stack, kind = ("decoder", "cross") if part == "cross" else ("encoder", "self")
    layers = getattr(SHAPE, f"{stack}_layers")
    expect(rows).to_have_count(layers * SHAPE.heads)
    expect(page.locator("#ablation-state")).to_have_text("")
    changes: list[float] = []
    for row in rows.all():
        layer, head = (int(item) - 1 for item in re.findall(r"\d+", row.locator("th").inner_text()))
        attention = f"{stack}.{layer}.{kind}_attention"
        _, weight, probability, change, text = row.locator("td").all_inner_texts()
        largest = usual[f"{attention}.weights"][head, QUERY].max().item()
        assert float(weight) == pytest.approx(largest, abs=1e-4)
        with switched(bundle.model, base | {"heads": [{"attention": attention, "head": head}]}):
            after = probabilities(bundle.model, source, target)[QUERY, target[QUERY]].item()
            without = greedy(bundle.model, source, limit)
        expected = "the same" if without == target else bundle.tokenizer.decode(without)
        assert text == expected.strip()
        assert float(probability) == pytest.approx(after, abs=1e-4)
        assert float(change.replace("−", "-")) == pytest.approx(after - before, abs=1e-4)
        changes.append(abs(float(change.replace("−", "-"))))
    assert changes == sorted(changes, reverse=True)


# Watched in the page: polling from here would miss all heads on a quick machine. The page shows
# some counts only, since several heads may be done between two of its frames.
CANCEL_AT_THE_FIRST_COUNT = """
new MutationObserver((_, observer) => {
  const state = document.getElementById("ablation-state");
  if (!/^[1-9]\\d* of/.test(state?.textContent ?? "")) return;
  observer.disconnect();
  document.getElementById("ablation-start").click();
}).observe(document.body, { childList: true, subtree: true })
"""


def test_taking_heads_away_can_be_cancelled(page: "Page"):
    page.evaluate(CANCEL_AT_THE_FIRST_COUNT)

    page.get_by_role("button", name="Switch every head off in turn").click()

    expect(page.locator("#ablation-state")).to_contain_text(re.compile(r"Stopped after [1-9] of"))
    assert translate_in(page, SENTENCE)


def test_taking_heads_away_waits_for_the_numbers(bundle: Bundle, page: "Page"):
    page.evaluate(
        """() => {
          document.getElementById("switch-positions").click();
          document.getElementById("ablation-start").click();
        }"""
    )

    assert_shows(page, translated(bundle, {"noPositions": True}))


def test_another_token_does_not_end_a_translation(page: "Page"):
    page.evaluate(
        """() => {
          document.getElementById("ablation-start").click();
          document.getElementById("beam").dispatchEvent(new Event("change"));
          document.querySelector("#explorer-tokens button").click();
        }"""
    )

    expect(page.locator("#state")).to_contain_text("on this device")
