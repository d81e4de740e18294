"""String Catalogs get a language, and otherwise stay byte for byte."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.archives import STRING_CATALOG, same, translated

from transduce.documents.document import Document
from transduce.documents.formats import read_document

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


def read(content: str, target: str = "de") -> Document:
    return read_document("a.xcstrings", content.encode(), target=target)


def texts(content: str, target: str = "de") -> list[str]:
    return [segment.text for segment in read(content, target).segments]


def with_strings(**strings: object) -> str:
    return json.dumps({"sourceLanguage": "en", "strings": strings, "version": "1.0"})


def unit(value: str, state: str = "translated") -> dict[str, object]:
    return {"stringUnit": {"state": state, "value": value}}


def filled(content: str, target: str = "de") -> dict[str, object]:
    """The localizations of the target, by keys, with texts in upper case."""
    strings = json.loads(translated(read(content, target)))["strings"]
    return {
        key: entry["localizations"][target]
        for key, entry in strings.items()
        if target in entry.get("localizations", {})
    }


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_added_as_xcode_writes_them(end: str) -> None:
    added = """      "localizations" : {
        "de" : {
          "stringUnit" : {
            "state" : "needs_review",
            "value" : "A DOG %@"
          }
        }
      }
"""
    plural = """        "de" : {
          "variations" : {
            "plural" : {
              "one" : {
                "stringUnit" : {
                  "state" : "needs_review",
                  "value" : "%lld CAT"
                }
              },
              "other" : {
                "stringUnit" : {
                  "state" : "needs_review",
                  "value" : "%lld CATS"
                }
              }
            }
          }
        },
"""
    content = STRING_CATALOG.replace("\n", end)

    assert translated(read(content)).decode() == (
        STRING_CATALOG.replace('"A dog %@" : {\n\n', f'"A dog %@" : {{\n{added}')
        .replace('        "en" : {\n          "var', f'{plural}        "en" : {{\n          "var')
        .replace('"new",\n            "value" : ""', '"needs_review",\n            "value" : "OLD"')
        .replace("\n", end)
    )


@pytest.mark.parametrize("indent", [None, 2])
def test_a_language_stands_where_the_alphabet_puts_it(indent: int | None) -> None:
    languages = {code: unit("Hund") for code in ("cs", "en", "fr")}
    content = with_strings(hi={"comment": "a", "localizations": languages}, ho={"zebra": True})
    separators = (",", " : " if indent else ":")
    content = json.dumps(json.loads(content), indent=indent, separators=separators)
    for target, place in (("ab", 0), ("de", 1), ("zh", 3)):
        made = translated(read(content, target)).decode()

        assert re.findall('"(cs|en|fr|ab|de|zh)"', made)[1:].index(target) == place
        assert re.search(r'"ho"[\s:]*{\s*"localizations"', made)
        assert json.dumps(json.loads(made), indent=indent, separators=separators) == made


def test_the_source_is_the_source_language_or_the_key() -> None:
    content = with_strings(
        key={"localizations": {"en": unit("A dog", "new")}}, **{"Key as text": {}}
    )

    assert texts(content) == ["A dog", "Key as text"]


def test_what_is_translated_or_not_to_be_is_kept() -> None:
    content = with_strings(
        a={"localizations": {"de": unit("x", "needs_review")}},
        b={"localizations": {"de": unit("x")}},
        c={"shouldTranslate": False},
        d={"localizations": {"en": unit("%lld. %#@dogs@ – %arg")}},
        e={"localizations": {"de-DE": unit("x")}},
    )

    assert texts(content) == []
    assert same(read(content)) == content.encode()


def test_a_code_of_three_letters_is_the_same_language() -> None:
    content = with_strings(
        a={"localizations": {"de": unit("x")}}, b={"localizations": {"de-DE": unit("x", "new")}}
    )

    assert json.loads(translated(read(content, "deu")))["strings"] == {
        "a": {"localizations": {"de": unit("x")}},
        "b": {"localizations": {"de-DE": unit("B", "needs_review")}},
    }


def test_a_new_text_of_a_plural_is_filled_from_the_same_form_or_other() -> None:
    plural = {form: unit(f"{form} dogs") for form in ("one", "other")}
    old = {"one": unit("1", "new"), "few": unit("", "new"), "other": unit("kept")}
    content = with_strings(
        dogs={
            "localizations": {
                "de": {"variations": {"plural": old}},
                "en": {"variations": {"plural": plural}},
            }
        }
    )

    assert filled(content)["dogs"] == {
        "variations": {
            "plural": {
                "one": unit("ONE DOGS", "needs_review"),
                "few": unit("OTHER DOGS", "needs_review"),
                "other": unit("kept"),
            }
        }
    }


def test_substitutions_devices_and_variables_stay() -> None:
    substitution = {"argNum": 2, "variations": {"plural": {"other": unit("%arg dogs")}}}
    english = {**unit("Feed %1$#@the.dogs@, %2$@"), "substitutions": {"the.dogs": substitution}}
    devices = {"variations": {"device": {"mac": unit("click"), "other": unit("-")}}}
    content = with_strings(
        a={"localizations": {"en": english}}, b={"localizations": {"en": devices}}
    )

    german = filled(content)

    assert json.dumps(german["a"]) == (
        json.dumps(english)
        .replace("Feed", "FEED")
        .replace(" dogs", " DOGS")
        .replace("translated", "needs_review")
    )
    assert german["b"] == {
        "variations": {
            "device": {"mac": unit("CLICK", "needs_review"), "other": unit("-", "needs_review")}
        }
    }


def test_half_of_a_character_stays_escaped() -> None:
    content = '{"sourceLanguage":"en","strings":{"\\ud83d dög":{}}}'

    assert '"value":"\\ud83d dög"' in same(read(content)).decode()


@given(ANY_TEXT)
def test_a_catalog_can_hold_any_text(text: str) -> None:
    made = json.loads(read(STRING_CATALOG).rebuild([text] * 4))

    strings = made["strings"]
    assert strings["A dog %@"]["localizations"]["de"] == unit(text, "needs_review")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "no String Catalog: expected sourceLanguage and strings"),
        ('{"sourceLanguage": "en", "strings": []}', "no String Catalog"),
        ('{"sourceLanguage": "DE", "strings": {}}', "its source language is DE"),
        (
            '{"sourceLanguage": "en", "strings": ' + '{"a":' * 50 + "1" + "}" * 51,
            "nested more than 50 deep",
        ),
        ('{"sourceLanguage": "en",\n}', r", line \d: not JSON"),
    ],
)
def test_what_is_no_catalog_is_refused(content: str, reason: str) -> None:
    with pytest.raises(ValueError, match=rf"^a\.xcstrings.*{reason}") as caught:
        read(content)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "entry",
    ["1", "[]", '{"localizations": 1}', '{"localizations": {"de": 1}}', '{"localizations": null}'],
)
def test_values_of_other_kinds_stay(entry: str) -> None:
    content = f'{{"sourceLanguage": "en", "strings": {{"a": {entry}}}}}'

    assert translated(read(content)).decode() == content
