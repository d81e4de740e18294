"""The page's files fit together, and ask nothing of any other host."""

import re
from html.parser import HTMLParser

import pytest

from transduce.serve.app import INDEX, PAGE_POLICY, page_responses

FILES = page_responses()
SCRIPTS = sorted(name for name in FILES if name.endswith(".js"))
STYLES = sorted(name for name in FILES if name.endswith(".css"))


def text(name: str) -> str:
    return FILES[name].body.decode()


class Elements(HTMLParser):
    """Every element's name and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def elements() -> list[tuple[str, dict[str, str | None]]]:
    parser = Elements()
    parser.feed(text(INDEX))
    return parser.elements


def test_every_file_says_what_it_is():
    kinds = {name: file.media_type.partition(";")[0] for name, file in FILES.items()}

    assert kinds[INDEX] == "text/html"
    assert {kinds[name] for name in SCRIPTS} == {"text/javascript"}
    assert {kinds[name] for name in STYLES} == {"text/css"}
    assert len(FILES) == 1 + len(SCRIPTS) + len(STYLES)


def test_what_the_page_loads_is_served():
    links = [attributes.get("src") or attributes.get("href") for _, attributes in elements()]
    names = {link for link in links if link and link.startswith("page/")}

    imported = {
        f"page/{item}" for name in SCRIPTS for item in re.findall(r'from "\./(.+?)"', text(name))
    }

    assert names | imported == {f"page/{name}" for name in FILES if name != INDEX}


@pytest.mark.parametrize("name", FILES)
def test_no_other_host_is_named(name: str):
    result = text(name).replace("http://www.w3.org/2000/svg", "")

    assert re.findall(r"https?:|[\"'(]//\w|@import", result) == []


def test_nothing_is_inline_that_the_policy_forbids():
    for tag, attributes in elements():
        assert "style" not in attributes, tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert tag != "style"
        if tag == "script":
            assert attributes.get("src")
    assert "unsafe" not in PAGE_POLICY


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_set_no_markup_and_no_inline_style(name: str):
    # Texts of people and models must stay text; the policy would drop inline styles silently.
    assert (
        re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text(name))
        == []
    )
    assert re.findall(r"style: [\"'`]|\"style\",", text(name)) == []


def test_every_element_that_the_page_script_asks_for_is_there():
    ids = {attributes["id"] for _, attributes in elements() if "id" in attributes}
    names = set(re.findall(r'\$\("([\w-]+)"\)', text("page.js")))

    assert names - ids == set()


def test_every_field_has_a_label():
    labelled = {attributes.get("for") for tag, attributes in elements() if tag == "label"}
    fields = {
        attributes["id"]
        for tag, attributes in elements()
        if tag in ("select", "textarea", "input") and "id" in attributes
    }

    assert fields - labelled == set()


@pytest.mark.parametrize("name", STYLES)
def test_every_colour_that_is_used_is_defined(name: str):
    defined = set(re.findall(r"(--[\w-]+):", text("colours.css")))
    by_script = {"--w", "--columns", "--doubt", "--share"}

    assert set(re.findall(r"var\((--[\w-]+)", text(name))) - by_script - defined == set()


def test_the_page_gives_way_on_a_phone_and_to_those_who_want_no_motion():
    assert "@media (max-width" in text("translation.css")
    assert "prefers-reduced-motion" in text("translation.css")
