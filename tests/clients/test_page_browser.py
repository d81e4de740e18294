"""The page at `/` in a real browser: what is typed is translated, and words can be chosen."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from tests.browsing import expect
from tests.clients.conftest import Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, Request, Route

SENTENCE = "the old man reads a book"
SHOT = Callable[["Page", str], None]


class PageTranslation(TypedDict):
    """What the server answers, as far as it is looked at here."""

    text: str
    sentences: list[dict[str, object]]


def page_url(address: str, q: str = SENTENCE, source: str = "en", target: str = "de") -> str:
    return f"{address}?{urlencode({'source': source, 'target': target, 'q': q})}"


def translation(
    page: "Page", address: str, text: str = SENTENCE, **more: object
) -> PageTranslation:
    """What the page should show, asked from the server itself."""
    body = {"text": text, "source": "en", "target": "de", "nbest": 3, **more}
    return page.request.post(f"{address}api/translate", data=body).json()


def shows(page: "Page", text: str) -> None:
    expect(page.locator("#output")).to_have_text(text, use_inner_text=True)


def beginning(offer: "Locator") -> str:
    """What a translation begins with if this is chosen; the word that is shown ends it."""
    begins = (offer.get_attribute("title") or "").removesuffix(" …")
    assert begins.endswith(offer.locator(".next").inner_text())
    return begins


def starting_with(begins: str) -> "re.Pattern[str]":
    return re.compile(rf"^{re.escape(begins)}( |$)")


def test_what_is_typed_is_translated(open_page: Open, address: str):
    page = open_page(address)

    page.get_by_label("Text to translate").fill(SENTENCE)

    shows(page, translation(page, address)["text"])
    expect(page.locator("#count")).to_have_text(f"{len(SENTENCE)} / 500")


def test_the_delay_of_typing_can_be_zero(open_page: Open, address: str):
    page = open_page(address)
    page.add_init_script(
        "window.delays = []; const start = setTimeout;"
        "window.setTimeout = (work, delay, ...rest) => {"
        "  delays.push(delay); return start(work, delay, ...rest); };"
    )
    settings = {"frontendTimeout": 0, "filesTranslation": False, "suggestions": False}
    page.route("**/frontend/settings", lambda route: route.fulfill(json=settings))
    with page.expect_response("**/frontend/settings"):
        page.reload()
    expect(page.locator(".word").first).to_be_visible()

    page.get_by_label("Text to translate").fill(SENTENCE)

    shows(page, translation(page, address)["text"])
    assert page.evaluate("delays.includes(0)")


def test_the_first_visit_shows_an_example(open_page: Open, address: str):
    page = open_page(address)

    box = page.get_by_label("Text to translate")
    expect(box).not_to_have_value("")
    expect(page.locator(".word").first).to_be_visible()
    assert urlsplit(page.url).query == ""


def test_a_reload_keeps_languages_and_text_but_the_address_has_no_text(
    open_page: Open, address: str
):
    page = open_page(page_url(address))
    page.locator("body[data-ready]").wait_for()  # else the page could still fill in the text
    page.get_by_label("Text to translate").fill("she buys bread & milk")

    query = parse_qs(urlsplit(page.url).query)
    page.reload()

    assert query == {"source": ["en"], "target": ["de"]}
    expect(page.get_by_label("Text to translate")).to_have_value("she buys bread & milk")
    expect(page.get_by_label("Translate to")).to_have_value("de")


def test_typing_does_not_change_the_address(open_page: Open, address: str):
    """Browsers refuse to change it many times in a row."""
    page = open_page(page_url(address))
    shows(page, translation(page, address)["text"])
    page.evaluate("() => { history.replaceState = () => { throw new Error('too often'); }; }")

    page.get_by_label("Text to translate").fill("a red ball")

    shows(page, translation(page, address, "a red ball")["text"])
    page.get_by_role("button", name="Clear").click()
    shows(page, "")


def test_a_file_is_translated_and_downloaded(open_page: Open, address: str, tmp_path: Path):
    page = open_page(address)
    page.locator("#file:visible").wait_for()
    file = tmp_path / "letter.txt"
    file.write_text(SENTENCE)

    page.locator("#file-input").set_input_files(file)
    with page.expect_download() as download:
        page.get_by_role("link", name="download letter_de.txt").click()

    assert download.value.suggested_filename == "letter_de.txt"
    assert Path(download.value.path()).read_text() == translation(page, address)["text"]


def test_a_file_that_has_to_wait_is_shown_as_in_translation(
    open_page: Open, address: str, tmp_path: Path
):
    routes: list[Route] = []

    def refuse_first(route: "Route") -> None:
        routes.append(route)  # the second is not answered
        if len(routes) == 1:
            route.fulfill(status=429, headers={"Retry-After": "1"}, json={"error": "Slowdown"})

    page = open_page(address)
    page.locator("#file:visible").wait_for()
    page.route("**/translate_file", refuse_first)
    (tmp_path / "letter.txt").write_text(SENTENCE)

    page.locator("#file-input").set_input_files(tmp_path / "letter.txt")

    expect(page.locator("#file-state")).to_contain_text("Retrying")
    expect(page.locator("#file-state")).to_have_text("Translating letter.txt…")


def test_a_file_of_another_format_is_refused_by_name(open_page: Open, address: str, tmp_path: Path):
    page = open_page(address)
    page.locator("#file:visible").wait_for()
    (tmp_path / "picture.png").write_bytes(b"x")

    page.locator("#file-input").set_input_files(tmp_path / "picture.png")

    expect(page.locator("#file-state")).to_contain_text("picture.png cannot be translated")


def test_names_contain_what_is_visible_and_targets_are_large_enough(open_page: Open, address: str):
    """WCAG 2.5.3 (label in name) and 2.5.8 (24 by 24 pixels, but for words in a line of text)."""
    page = open_page(page_url(address))
    page.locator(".heat rect.ground").wait_for()
    page.locator(".lines .row button").first.click()
    controls = page.locator("button:visible, select:visible, input:visible, summary:visible")

    assert controls.count() > 20
    for control in controls.all():
        name, text, width, height, inline = control.evaluate(
            """element => {
              const box = (element.closest("label") ?? element).getBoundingClientRect();
              const text = element.matches("select") ? "" : element.innerText;
              const inText = element.closest(".note") !== null;
              return [element.ariaLabel ?? text, text, box.width, box.height, inText];
            }"""
        )
        assert text.strip() in name, text
        assert inline or min(width, height) >= 24, (name, width, height)


def test_languages_are_swapped_with_their_texts(open_page: Open, address: str):
    page = open_page(page_url(address))
    result = translation(page, address)["text"]
    shows(page, result)

    page.get_by_role("button", name="Swap languages").click()

    expect(page.get_by_label("Translate from")).to_have_value("de")
    expect(page.get_by_label("Translate to")).to_have_value("en")
    expect(page.get_by_label("Text to translate")).to_have_value(result)


def test_a_translation_is_copied(open_page: Open, address: str):
    page = open_page(page_url(address))
    result = translation(page, address)["text"]
    shows(page, result)

    page.get_by_role("button", name="Copy").click()

    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == result


def test_clearing_leaves_nothing_behind(open_page: Open, address: str):
    page = open_page(page_url(address))
    shows(page, translation(page, address)["text"])
    page.locator(".word").nth(1).click()
    page.get_by_role("menuitem").first.click()
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_visible()

    page.get_by_role("button", name="Clear").click()

    shows(page, "")
    expect(undo).to_be_hidden()
    expect(page.get_by_label("Text to translate")).to_be_focused()
    expect(page.locator("#details")).to_be_hidden()


def test_an_alternative_is_chosen_and_the_translation_begins_with_it(
    open_page: Open, address: str, keep: SHOT
):
    page = open_page(page_url(address))
    result = translation(page, address)["text"]
    shows(page, result)

    page.locator(".word").nth(1).click()
    offers = page.get_by_role("menuitem")
    offers.nth(1).wait_for()
    other = next(offer for offer in offers.all() if not result.startswith(beginning(offer)))
    begins = beginning(other)
    assert re.search(r"\d %", other.locator(".share").inner_text())
    keep(page, "alternatives")
    other.click()

    expect(page.locator("#output")).to_have_text(starting_with(begins))
    shows(page, translation(page, address, prefix=begins)["text"])
    page.get_by_role("button", name="Undo").click()
    shows(page, result)


def test_capitals_are_looked_into_in_the_case_in_which_they_were_translated(
    open_page: Open, address: str
):
    page = open_page(address)
    page.locator("body[data-ready]").wait_for()
    with page.expect_request(
        lambda request: "/api/attention" in request.url and "man" in str(request.post_data)
    ) as attention:
        page.get_by_label("Text to translate").fill(SENTENCE.upper())
        shows(page, translation(page, address, SENTENCE.upper())["text"])
    (sentence,) = translation(page, address, SENTENCE.upper())["sentences"]
    recased = str(sentence["recased"])
    (usual,) = translation(page, address, recased)["sentences"]
    text = str(usual["text"])

    assert recased not in ("", SENTENCE.upper())
    assert sentence["text"] == text.upper()
    request = attention.value.post_data_json
    assert (request["text"], request["translation"]) == (recased, text)
    with page.expect_request("**/api/alternatives") as alternatives:
        page.locator(".word").nth(1).click()
    request = alternatives.value.post_data_json
    assert (request["text"], request["after"]) == (recased, text.split()[0])
    offers = page.get_by_role("menuitem")
    offers.nth(1).wait_for()
    other = next(offer for offer in offers.all() if not text.startswith(beginning(offer)))
    begins = beginning(other)
    other.click()
    shows(page, translation(page, address, recased, prefix=begins)["text"].upper())
    page.get_by_role("button", name="Undo").click()
    best = page.locator("#alternatives button").first
    chosen = best.locator(".text").inner_text()
    best.click()
    shows(page, chosen)


def test_a_new_translation_closes_the_menu_of_the_old(open_page: Open, address: str):
    held: list[Route] = []
    page = open_page(page_url(address))
    shows(page, translation(page, address)["text"])
    page.route("**/api/translate", lambda route: held.append(route))
    with page.expect_request("**/api/translate"):
        page.get_by_label("Text to translate").fill("a red ball")
    page.locator(".word").nth(1).click()
    page.get_by_role("menuitem").first.wait_for()

    held[0].fallback()

    shows(page, translation(page, address, "a red ball")["text"])
    expect(page.locator("#popover")).to_be_hidden()


def test_nothing_can_be_chosen_while_the_languages_change(open_page: Open, address: str):
    page = open_page(page_url(address))
    correct = page.get_by_role("button", name="Correct")
    correct.wait_for()
    page.route("**/api/translate", lambda route: None)
    page.get_by_role("button", name="Swap languages").click()

    page.locator(".word").first.click()
    page.locator("#alternatives button").first.click()
    correct.click()

    expect(page.locator("#popover")).to_be_hidden()
    expect(page.get_by_label("Correct translation")).to_be_hidden()


def test_alternatives_of_a_sentence_without_a_place_in_the_text_are_only_shown(
    open_page: Open, address: str
):
    def answer(route: "Route") -> None:
        response = route.fetch()
        result = response.json()
        result["text"] = f"{result['sentences'][0]['text']} (restored)"
        route.fulfill(json=result)

    page = open_page(address)
    page.locator(".word").first.wait_for()
    page.route("**/api/translate", answer)
    page.get_by_label("Text to translate").fill("she buys bread. the old man reads.")
    alternatives = page.locator("#alternatives")
    expect(alternatives.locator("button").first).to_be_visible()

    page.get_by_role("radio", name="the old man reads.").click()

    expect(alternatives.locator(".plain").first).to_be_visible()
    expect(alternatives.locator("button")).to_have_count(0)


def test_a_keyboard_is_enough(open_page: Open, address: str):
    page = open_page(page_url(address, q=""))
    box = page.get_by_label("Text to translate")
    expect(box).not_to_have_value("")  # the example

    box.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(SENTENCE)
    page.keyboard.press("Control+Enter")
    result = translation(page, address)["text"]
    shows(page, result)
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.word')"):
            break
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowDown")
    begins = beginning(page.locator(".popover :focus"))
    page.keyboard.press("Enter")

    expect(page.locator("#output")).to_have_text(starting_with(begins))


def test_escape_closes_the_list_and_goes_back_to_the_word(open_page: Open, address: str):
    page = open_page(page_url(address))
    word = page.locator(".word").nth(1)
    word.click()
    page.get_by_role("menuitem").first.wait_for()

    page.keyboard.press("Escape")

    expect(page.get_by_role("menuitem")).to_have_count(0)
    expect(word).to_be_focused()


def test_confidence_and_the_other_translations_are_told_in_numbers(open_page: Open, address: str):
    page = open_page(page_url(address))

    (sentence,) = translation(page, address)["sentences"]
    words = json.loads(json.dumps(sentence["words"]))
    others = json.loads(json.dumps(sentence["others"]))
    chips = [f"{word['text']}\n{word['confidence']:.2f}" for word in words]
    expect(page.locator("#confidence .chip")).to_have_text(chips, use_inner_text=True)
    assert page.locator("#alternatives .text").all_inner_texts() == [
        str(sentence["text"]),
        *(item["text"] for item in others),
    ]


def test_one_of_several_sentences_is_looked_into(open_page: Open, address: str):
    page = open_page(page_url(address, q="she buys bread. the old man reads."))
    choices = page.get_by_role("radiogroup", name="Sentence").get_by_role("radio")
    expect(choices).to_have_text(["she buys bread.", "the old man reads."])

    choices.nth(1).click()

    expect(choices.nth(1)).to_be_checked()
    expect(choices.nth(1)).to_be_focused()
    expect(page.locator(".lines .column")).to_contain_text("man")
    expect(page.locator(".lines .column")).not_to_contain_text("bread")


def test_what_is_lost_or_odd_is_said(open_page: Open, address: str):
    def answer(route: "Route") -> None:
        response = route.fetch()
        result = response.json()
        if "error" in result:  # it asked for more translations than the beam is wide
            route.fulfill(response=response)
            return
        result["lost"] = ["{name}"]
        result["sentences"][0] |= {"flag": 'repetition ("ha" ×4)', "mended": False}
        result["sentences"][0]["unfamiliar"] = True
        route.fulfill(json=result)

    page = open_page(address)
    page.route("**/api/translate", answer)
    page.get_by_label("Text to translate").fill(SENTENCE)

    notes = page.locator("#notes li")
    expect(notes).to_contain_text(["{name}", 'may be repetitive: repetition ("ha" ×4)', "unlike"])


@pytest.mark.parametrize(("status", "message"), [(429, "busy"), (503, "not ready"), (0, "reached")])
def test_a_server_that_cannot_answer_now_is_asked_again(
    open_page: Open, address: str, status: int, message: str
):
    tries: list[str] = []

    def refuse_once(route: "Route") -> None:
        tries.append(route.request.url)
        if len(tries) > 1:
            route.fallback()
        elif status:
            route.fulfill(status=status, headers={"Retry-After": "1"}, json={"error": "Slowdown"})
        else:
            route.abort()

    page = open_page(address)
    expect(page.locator(".word").first).to_be_visible()
    page.route("**/api/translate", refuse_once)
    page.get_by_label("Text to translate").fill(SENTENCE)

    expect(page.locator("#state")).to_contain_text(message)
    shows(page, translation(page, address)["text"])
    expect(page.locator("#state")).to_have_text("")


def test_an_exhausted_quota_is_shown_in_the_server_s_words(open_page: Open, address: str):
    quota = {"error": "Quota exceeded: 14 characters per day"}
    refusal = {"status": 429, "headers": {"Retry-After": "86399"}, "json": quota}
    page = open_page(address)
    expect(page.locator(".word").first).to_be_visible()
    page.route("**/api/translate", lambda route: route.fulfill(**refusal))
    page.get_by_label("Text to translate").fill(SENTENCE)

    expect(page.locator("#state")).to_have_text(quota["error"])


def test_a_question_that_is_overtaken_is_given_up(open_page: Open, address: str):
    given_up: list[Request] = []
    page = open_page(address)
    expect(page.locator(".word").first).to_be_visible()
    page.on("requestfailed", lambda request: given_up.append(request))
    page.route(
        "**/api/translate", lambda route: "red" in str(route.request.post_data) or route.fallback()
    )

    page.get_by_label("Text to translate").fill("a red ball")
    with page.expect_event("requestfailed"):
        page.wait_for_timeout(400)
        page.get_by_label("Text to translate").fill(SENTENCE)

    shows(page, translation(page, address)["text"])
    assert [item.post_data_json["text"] for item in given_up] == ["a red ball"]


def test_a_text_that_is_too_long_is_not_sent(open_page: Open, address: str):
    page = open_page(page_url(address))
    expect(page.locator(".word").first).to_be_visible()
    page.route("**/api/translate", lambda route: route.abort())

    page.get_by_label("Text to translate").fill("x" * 501)

    expect(page.locator("#state")).to_contain_text("exceeds the server")
    expect(page.locator("#count")).to_have_text("501 / 500")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("wide", "high"), [(1280, 800), (390, 844)])
def test_it_fits_every_screen_in_light_and_dark(
    open_page: Open, address: str, keep: SHOT, scheme: str, wide: int, high: int
):
    page = open_page(page_url(address), wide=wide, high=high, scheme=scheme)
    page.locator(".heat rect").first.wait_for()
    keep(page, f"page-{wide}-{scheme}")

    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(re.findall(r"\d+", paper)[0])
    assert (red < 60) == (scheme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth") == wide


def test_dark_can_be_chosen_and_is_kept(open_page: Open, address: str):
    page = open_page(address)
    button = page.get_by_role("button", name="colour scheme")

    button.click()
    button.click()
    page.reload()

    expect(button).to_have_text("◐ Dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_score_of_almost_nothing_has_no_sign(open_page: Open, address: str):
    def answer(route: "Route") -> None:
        response = route.fetch()
        result = response.json()
        result["sentences"][0]["score"] = -0.001
        route.fulfill(json=result)

    page = open_page(address)
    page.locator(".word").first.wait_for()
    page.route("**/api/translate", answer)
    page.get_by_label("Text to translate").fill(SENTENCE)

    expect(page.locator("#alternatives .best .score")).to_have_text("0.00")


def test_the_header_names_the_languages_in_words(open_page: Open, address: str):
    page = open_page(page_url(address))

    expect(page.locator("#model")).to_contain_text("English → German: a model with")


@pytest.mark.parametrize("change", ["target", "swap"])
def test_the_header_names_languages_that_were_chosen_after_a_detection(
    open_page: Open, address: str, change: str
):
    page = open_page(page_url(address, source="auto"))
    shows(page, translation(page, address, source="auto")["text"])
    expect(page.locator("#model")).to_contain_text("English → German")
    page.route("**/api/translate", lambda route: None)

    if change == "swap":
        page.get_by_role("button", name="Swap languages").click()
    else:
        page.get_by_label("Translate to").select_option("en")

    expect(page.locator("#model")).to_contain_text("German → English")


def test_the_sentence_can_be_explored_in_every_number(open_page: Open, address: str):
    page = open_page(page_url(address))
    link = page.get_by_role("link", name="Explore every number")
    expect(link).to_be_visible()

    page = open_page(f"{address}{link.get_attribute('href')}")

    expect(page.locator("#q")).to_have_value(SENTENCE)
    expect(page.locator("#output")).not_to_be_empty()
    expect(page.locator("#explorer-content")).to_be_visible()
    page.locator("#explorer-part").select_option("cross")
    assert urlsplit(page.url).fragment.endswith(urlencode({"sentence": SENTENCE}))
    page.locator("#q").fill("a dog")
    page.locator("#explorer-part").select_option("encoder")
    expect(page).not_to_have_url(re.compile("sentence"))


def test_a_correction_is_sent_and_given_back(open_page: Open, address: str):
    page = open_page(page_url(address, "a small boat sails."))
    page.get_by_role("button", name="Correct").click()
    editor = page.get_by_label("Correct translation")
    expect(editor).to_have_value(translation(page, address, "a small boat sails.")["text"])

    editor.fill("Ein kleines Boot segelt.")
    page.get_by_role("button", name="Send correction").click()

    shows(page, "Ein kleines Boot segelt.")
    expect(page.locator("#state")).to_have_text("The correction is stored.")
    expect(page.locator("#notes")).to_have_text("From the translation memory, not from the model.")
    expect(editor).to_be_hidden()
    page.get_by_label("Text to translate").fill("the dog runs. a small boat sails.")
    expect(page.locator("#output")).to_contain_text("Ein kleines Boot segelt.")
    expect(page.locator("#notes")).to_contain_text(
        "1 of 2 sentences come from the translation memory"
    )


def test_a_correction_is_cancelled_with_escape(open_page: Open, address: str):
    page = open_page(page_url(address))
    page.get_by_role("button", name="Correct").click()
    page.get_by_label("Correct translation").fill("no")

    page.keyboard.press("Escape")

    shows(page, translation(page, address)["text"])
    expect(page.get_by_role("button", name="Correct")).to_be_focused()


def test_a_correction_under_way_stays_until_the_text_changes(open_page: Open, address: str):
    page = open_page(page_url(address, "the old man reads."))
    page.get_by_role("button", name="Correct").click()
    editor = page.get_by_label("Correct translation")
    editor.fill("Der Alte liest.")

    page.get_by_role("button", name="Correct", exact=True).click()
    expect(editor).to_have_value("Der Alte liest.")
    page.get_by_label("Text to translate").fill("a red ball")
    expect(editor).to_be_hidden()
    shows(page, translation(page, address, "a red ball")["text"])

    page.get_by_label("Text to translate").fill("the old man reads.")
    shows(page, translation(page, address, "the old man reads.")["text"])
    page.get_by_role("button", name="Correct", exact=True).click()
    editor.fill("Der Alte liest.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#state")).to_have_text("The correction is stored.")
    shows(page, "Der Alte liest.")
