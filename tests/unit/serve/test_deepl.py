"""The shape of DeepL's API."""

import httpx
import pytest
from tests.served import Serve, Served

from transduce.serve.settings import APIKey, ServerSettings

HELLO = {"text": ["Hello there."], "target_lang": "DE"}


def message(said: httpx.Response, status: int) -> str:
    assert said.status_code == status, said.text
    assert list(said.json()) == ["message"]
    return said.json()["message"]


def test_texts_are_translated_in_their_order(served: Served) -> None:
    said = served.post("/v2/translate", text=["One.", "Two."], target_lang="DE", source_lang="EN")

    assert said.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "ONE."},
            {"detected_source_language": "EN", "text": "TWO."},
        ]
    }


def test_a_form_repeats_its_text(served: Served) -> None:
    said = served.ask("POST", "/v2/translate", data={"text": ["One.", "Two."], "target_lang": "DE"})

    assert [one["text"] for one in said.json()["translations"]] == ["ONE.", "TWO."]


def test_characters_are_said_on_demand_and_counted(served: Served) -> None:
    said = served.post("/v2/translate", **HELLO, show_billed_characters=True)

    assert said.json()["translations"][0]["billed_characters"] == 12
    usage = served.ask("GET", "/v2/usage").json()
    assert usage["character_count"] == 12
    assert usage["character_limit"] > 10**9


def test_the_source_is_found_out(serve: Serve) -> None:
    served = serve("en-fr", "de-fr")
    text = "Das ist ein Haus mit einem Garten."

    said = served.post("/v2/translate", text=[text], target_lang="FR")

    assert said.json()["translations"][0]["detected_source_language"] == "DE"


@pytest.mark.parametrize("handling", ["html", "xml"])
def test_tags_stay_where_they_are(served: Served, handling: str) -> None:
    text = "<p>A <b>red</b> hat</p>"

    said = served.post("/v2/translate", text=[text], target_lang="DE", tag_handling=handling)

    assert said.json()["translations"][0]["text"] == "<p>A <b>RED</b> HAT</p>"


@pytest.mark.parametrize(
    ("said", "loaded"), [("EN-GB", "en"), ("en-us", "en"), ("PT-BR", "pt"), ("PT-PT", "pt")]
)
def test_variants_take_what_is_loaded(serve: Serve, said: str, loaded: str) -> None:
    served = serve(f"de-{loaded}")

    assert served.post("/v2/translate", text=["x"], target_lang=said).status_code == 200
    assert served.loud[f"de-{loaded}"].asked == ["x"]


@pytest.mark.parametrize(
    "wish",
    [
        {"split_sentences": "nonewlines"},
        {"preserve_formatting": True},
        {"preserve_formatting": "1"},
        {"formality": "default"},
        {"formality": "prefer_less"},
        {"context": "A story."},
        {"model_type": "quality_optimized"},
    ],
)
def test_hints_are_taken(served: Served, wish: dict[str, object]) -> None:
    assert served.post("/v2/translate", **HELLO, **wish).status_code == 200


@pytest.mark.parametrize(
    "wish",
    [
        {"formality": "more"},
        {"glossary_id": "g"},
        {"glossary_ids": ["g"]},
        {"custom_instructions": ["Be kind."]},
        {"tag_handling": "tex"},
        {"split_sentences": "2"},
        {"preserve_formatting": "perhaps"},
        {"target_lang": "ZZ"},
        {"target_lang": None},
        {"target_lang": 7},
        {"source_lang": "FR"},
        {"text": []},
        {"text": [7]},
        {"text": None},
        {"text": 7},
    ],
)
def test_what_cannot_be_met_is_refused_by_its_name(served: Served, wish: dict[str, object]) -> None:
    (name,) = wish

    assert f"'{name}'" in message(served.post("/v2/translate", **HELLO | wish), 400)


def test_languages_are_those_of_the_sources(serve: Serve) -> None:
    said = serve("en-de", "fr-de").ask("GET", "/v2/languages")

    assert said.json() == [
        {"language": "EN", "name": "English"},
        {"language": "FR", "name": "French"},
    ]


@pytest.mark.parametrize("verb", ["GET", "POST"])
def test_languages_of_targets_know_no_formality(served: Served, verb: str) -> None:
    expected = [{"language": "DE", "name": "German", "supports_formality": False}]

    assert served.ask(verb, "/v2/languages", data={"type": "target"}).json() == expected
    assert served.ask(verb, "/v2/languages", params={"type": "target"}).json() == expected


def test_languages_of_nothing_are_refused(served: Served) -> None:
    assert message(served.ask("GET", "/v2/languages", params={"type": "x"}), 400)


def test_over_128_kib_is_413(served: Served) -> None:
    assert message(served.post("/v2/translate", text=["x" * 131072], target_lang="DE"), 413)


def test_the_key_stands_in_the_header(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("secret"),)))

    def ask(key: str) -> httpx.Response:
        headers = {"authorization": f"DeepL-Auth-Key {key}"}
        return served.ask("POST", "/v2/translate", json=HELLO, headers=headers)

    assert ask("secret").status_code == 200
    assert message(ask("wrong"), 403) == "Invalid API key"
    assert message(served.post("/v2/translate", **HELLO), 403)


def test_an_unknown_path_is_said_in_its_shape(served: Served) -> None:
    assert message(served.ask("GET", "/v2/nowhere"), 404)
    assert message(served.ask("GET", "/v2/translate"), 405)


def test_a_bug_is_said_in_its_shape(served: Served) -> None:
    said = served.post("/v2/translate", text=["Break down."], target_lang="DE")

    assert message(said, 500).startswith("internal error, request ")
