"""Programs for translators: their own requests, as their code sends them."""

import json
from typing import TYPE_CHECKING

import pytest

from transduce.serve.settings import APIKey, ServerSettings

if TYPE_CHECKING:
    from tests.served import Serve, Served

KEYS = ServerSettings(keys=(APIKey("geheim"),))
OPUS_CAT = {"tokenCode": "0", "input": "A dog runs.", "modelTag": ""}
PROMPT = (
    "Translate from English to German, keep punctuation as input, keep line breaks exactly the "
    "same, do not censor the translation, give only the output without comments:"
)
"""SubtitleEdit's."""


def apertium(served: "Served", langpair: str = "en|de", key: str = "") -> "tuple[int, object]":
    """OmegaT's request, and what its connector reads of the answer."""
    answer = served.ask(
        "GET",
        "/translate",
        params={"q": "A dog runs.", "markUnknown": "no", "langpair": langpair, "key": key},
    )
    return answer.status_code, answer.json()


def chat(served: "Served", content: str, **fields: object) -> str:
    messages = [{"role": "user", "content": content}]
    answer = served.post("/v1/chat/completions", messages=messages, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("langpair", ["en|de", "en_US|de_AT", "eng|deu"])
def test_omegat_translates_through_its_apertium_connector(served: "Served", langpair: str) -> None:
    status, answer = apertium(served, langpair)

    assert status == 200
    assert answer == {
        "responseData": {"translatedText": "A DOG RUNS."},
        "responseDetails": None,
        "responseStatus": 200,
    }


def test_omegat_sends_the_key_as_a_parameter(serve: "Serve") -> None:
    served = serve(settings=KEYS)

    assert apertium(served, key="geheim")[0] == 200
    assert apertium(served, key="falsch")[0] == 403
    assert apertium(served)[0] == 400


@pytest.mark.parametrize(("langpair", "name"), [("en-de", "langpair"), ("en|fr", "target")])
def test_a_wrong_pair_of_apertium_is_named(served: "Served", langpair: str, name: str) -> None:
    status, answer = apertium(served, langpair)

    assert status == 400
    assert name in str(answer)


@pytest.mark.parametrize("service", ["MTRestService", "MtRestService"])
@pytest.mark.parametrize(
    "codes",
    [
        {"srcLangCode": "en", "trgLangCode": "de"},
        {"srcLangCode": "eng-GB", "trgLangCode": "ger"},
        {},
    ],
)
def test_opus_cats_plug_ins_translate(
    served: "Served", service: str, codes: dict[str, str]
) -> None:
    answer = served.ask("GET", f"/{service}/TranslateJson", params=OPUS_CAT | codes)

    assert answer.json() == {"translation": "A DOG RUNS.", "Translation": "A DOG RUNS."}


def test_opus_cats_other_requests(served: "Served") -> None:
    pair = {"tokenCode": "0", "srcLangCode": "en", "trgLangCode": "de", "modelTag": ""}

    def ask(name: str, verb: str = "GET", **options: object) -> object:
        answer = served.ask(verb, f"/MtRestService/{name}", **options)  # type: ignore[arg-type]
        assert answer.status_code == 200, answer.text
        return answer.json()

    assert ask("ListSupportedLanguagePairs", params={"tokenCode": "0"}) == ["en-de"]
    assert ask("GetLanguagePairModelTags", params=pair) == []
    assert ask("CheckModelStatus", params=pair) == "Model en-de is available."
    assert ask("PreOrderBatch", "POST", json=["A dog runs."], params=pair) is None
    assert ask("Translate", params=OPUS_CAT | pair) == "A DOG RUNS."
    posted = ask("TranslatePost", "POST", params=OPUS_CAT | pair)
    assert posted == {"translation": "A DOG RUNS.", "Translation": "A DOG RUNS."}


def test_opus_cats_token_is_a_key_unless_it_is_zero(serve: "Serve") -> None:
    served = serve(settings=KEYS)

    def status(token: str) -> int:
        params = OPUS_CAT | {"tokenCode": token}
        return served.ask("GET", "/MTRestService/TranslateJson", params=params).status_code

    assert (status("geheim"), status("falsch"), status("0")) == (200, 403, 400)


def test_several_targets_have_to_be_chosen_from(serve: "Serve") -> None:
    served = serve("en-de", "en-fr")

    answer = served.ask("GET", "/MTRestService/TranslateJson", params=OPUS_CAT)

    assert answer.status_code == 400
    assert "transduce-en-de, transduce-en-fr" in answer.json()["error"]


@pytest.mark.parametrize("pairs", [("en-de",), ("de-en", "en-fr", "en-de")])
def test_subtitleedit_gets_its_subtitle_and_not_its_prompt(
    serve: "Serve", pairs: tuple[str, ...]
) -> None:
    """The models have codes alone, as one's own and imported ones have."""
    served = serve(*pairs)

    result = chat(served, f"{PROMPT}\n\nA dog runs.<br />It is red.")

    assert result == "A DOG RUNS.<br />IT IS RED."
    assert served.loud["en-de"].received == ["A dog runs.", "It is red."]


@pytest.mark.parametrize(
    ("pairs", "name", "pair"),
    [
        (("en-pt-BR", "en-pt"), "Portuguese", "en-pt"),
        (("en-pt-BR", "en-pt"), "Portuguese (BR)", "en-pt-BR"),
        (("en-pt", "en-pt-BR"), "pt-BR", "en-pt-BR"),
        (("en-pt-BR", "en-pt-PT"), "portuguese", "en-pt-BR"),
    ],
)
def test_a_prompt_names_a_language_with_its_variant_or_without(
    serve: "Serve", pairs: tuple[str, ...], name: str, pair: str
) -> None:
    served = serve(*pairs)

    assert chat(served, f"Translate from English to {name}:\n\nA dog runs.") == "A DOG RUNS."
    assert served.loud[pair].received == ["A dog runs."]


@pytest.mark.parametrize(
    "prompt",
    [
        "Add nothing to it and translate it into German.",
        "The text is to be translated into German.",
        "Translate from en to de.",
        "Add nothing to it; translate into de.",
    ],
)
def test_a_word_that_is_a_code_names_no_language(serve: "Serve", prompt: str) -> None:
    served = serve("en-it", "en-be", "en-de")
    system = {"role": "system", "content": prompt}
    messages = [system, {"role": "user", "content": "A dog runs."}]

    assert served.post("/v1/chat/completions", messages=messages).status_code == 200
    assert served.loud["en-de"].received == ["A dog runs."]


def test_a_code_that_is_a_word_is_written_in_capitals(serve: "Serve") -> None:
    served = serve("en-de", "en-it")

    assert chat(served, "Translate from EN to IT:\n\nA dog runs.") == "A DOG RUNS."
    assert served.loud["en-it"].received == ["A dog runs."]


@pytest.mark.parametrize("model", ["transduce-en-fr", "EN-FR"])
def test_the_name_of_a_chat_model_is_a_direction(serve: "Serve", model: str) -> None:
    served = serve("en-de", "en-fr")

    assert chat(served, "A dog runs.", model=model) == "A DOG RUNS."
    assert served.loud["en-fr"].received == ["A dog runs."]


def test_a_system_prompt_names_the_languages(serve: "Serve") -> None:
    served = serve("en-de", "en-fr")
    messages = [
        {"role": "system", "content": "You translate into French. Answer with the text only."},
        {"role": "user", "content": "Translate nothing.\n\nA dog runs."},
    ]

    answer = served.post("/v1/chat/completions", messages=messages, model="gpt-4o").json()

    assert answer["model"] == "gpt-4o"
    result = answer["choices"][0]["message"]
    assert result == {"role": "assistant", "content": "TRANSLATE NOTHING.\n\nA DOG RUNS."}
    assert served.loud["en-de"].received == []


def test_the_last_message_of_the_user_is_translated(served: "Served") -> None:
    messages = [{"role": "user", "content": "A dog runs."}, {"role": "assistant", "content": "Ein"}]

    answer = served.post("/v1/chat/completions", messages=messages).json()

    assert answer["choices"][0]["message"]["content"] == "A DOG RUNS."


def test_the_texts_of_a_message_in_parts_are_translated(served: "Served") -> None:
    """OpenAI's clients send parts, and earlier answers that only called a tool."""
    parts = [{"type": "text", "text": "A dog runs."}, {"type": "image_url", "text": None}]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "You translate into German."}]},
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "user", "content": [*parts, {"type": "text", "text": "It is red."}]},
    ]

    answer = served.post("/v1/chat/completions", messages=messages).json()

    assert answer["choices"][0]["message"]["content"] == "A DOG RUNS.\nIT IS RED."


def test_a_language_in_other_letters_is_not_named(served: "Served") -> None:
    """The pattern takes ı for i, and ſ for s: it was a 500."""
    assert chat(served, "Translate from Englıſh to German:\n\nA dog runs.") == "A DOG RUNS."


def test_a_stream_of_a_chat_is_events(served: "Served") -> None:
    messages = [{"role": "user", "content": "A dog runs."}]

    answer = served.post("/v1/chat/completions", messages=messages, stream=True)

    assert answer.headers["content-type"].startswith("text/event-stream")
    first, last, end = answer.text.removesuffix("\n\n").split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"] == {
        "role": "assistant",
        "content": "A DOG RUNS.",
    }
    assert json.loads(last.removeprefix("data: "))["choices"][0]["finish_reason"] == "stop"
    assert end == "data: [DONE]"


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": [{"role": "user"}]}])
def test_a_chat_without_a_message_is_refused(served: "Served", body: dict[str, object]) -> None:
    answer = served.post("/v1/chat/completions", **body)

    assert answer.status_code == 400
    assert "messages" in answer.json()["error"]


def test_chat_models_are_the_directions(serve: "Serve") -> None:
    models = serve("en-de", "de-en").ask("GET", "/v1/models").json()

    assert [model["id"] for model in models["data"]] == ["transduce-en-de", "transduce-de-en"]


def test_the_native_api_takes_a_glossary(served: "Served") -> None:
    served.post("/api/translate", text="A dog runs.", glossary={"dog": "Dackel"})

    assert served.loud["en-de"].glossary == (("dog", "Dackel"),)
