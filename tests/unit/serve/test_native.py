"""The server's own API: what a translation is made of."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.served import Serve, Served, bundle_of, direction_of

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.translator import Translator
from transduce.model.transformer import Transformer
from transduce.serve.app import make_app
from transduce.serve.model_registry import ModelRegistry, load_models
from transduce.serve.native import model_info
from transduce.serve.settings import APIKey, ServerSettings
from transduce.visualization.attention_page import trace_attention

DOG = "the old man reads a book"


def error(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def test_models_say_what_is_loaded(serve: Serve) -> None:
    (single,) = serve(settings=ServerSettings(char_limit=70)).ask("GET", "/api/models").json()

    assert single["name"] == "en-de"
    assert single["source"] == {"code": "en", "name": "English"}
    assert single["target"] == {"code": "de", "name": "German"}
    assert single["engine"] == "a loud voice"
    assert single["beam"] >= 1
    assert single["parameters"] > 1000
    assert single["calibrated"] is False
    assert single["limits"] == {"characters": 70}


def test_the_limit_of_texts_is_that_of_the_key_if_there_are_keys(serve: Serve) -> None:
    settings = ServerSettings(char_limit=70, keys=(APIKey("secret", 5000),))
    (single,) = serve(settings=settings).ask("GET", "/api/models").json()

    assert single["limits"] == {"characters": -1}


def test_a_model_names_its_explorer(serve: Serve) -> None:
    (single,) = serve(settings=ServerSettings(explorer=True)).ask("GET", "/api/models").json()

    assert single["explorer"] == "explore/en-de"


def test_the_demo_s_example_is_its_sentence(
    tokenizer: Tokenizer, untrained: Transformer, translator: Translator
) -> None:
    examples = []
    for source, recipe in (("en", 'name = "demo"\n'), ("en_GB", 'name = "x"'), ("tlh", "")):
        bundle = bundle_of(source, "de", tokenizer=tokenizer, model=untrained, recipe=recipe)
        direction = direction_of(bundle, translator, ServerSettings())
        examples.append(model_info(direction, ServerSettings())["example"])
        direction.batcher.close()

    assert examples[0] == "The animal didn't cross the street because it was too tired."
    assert examples[1].endswith(".")
    assert examples[2] == ""


def test_a_translation_is_told_in_full(served: Served) -> None:
    body = served.post("/api/translate", text="It rains. We go {name}.", nbest=2).json()

    assert (body["source"], body["target"]) == ("en", "de")
    assert body["detected"]["language"] == "en"
    assert body["lost"] == []
    assert [sentence["source"] for sentence in body["sentences"]] == ["It rains.", "We go {name}."]
    first = body["sentences"][0]
    assert first["text"] == "IT RAINS."
    assert first["others"] == [{"text": "IT RAINS. 2", "score": -2.0}]
    assert first["alignment"] == [[0, 0], [1, 1]]
    assert first["pieces"] == [
        {"piece": "▁x", "log_prob": -0.5},
        {"piece": "</s>", "log_prob": -1.0},
    ]
    assert (first["score"], first["parts"], first["mended"]) == (-1.5, 1, False)
    assert first["recased"] == ""


def test_a_prefix_begins_the_first_sentence_alone(served: Served) -> None:
    body = served.post("/api/translate", text="One. Two.", prefix="Nun", markup="none").json()

    assert body["text"] == "Nun ONE. TWO."


def test_a_language_that_was_named_is_not_detected(served: Served) -> None:
    body = served.post("/api/translate", text="One.", source="en", target="de").json()

    assert body["detected"] is None


def test_a_text_in_the_target_language_has_no_sentences(serve: Serve) -> None:
    response = serve("en-de", "de-en").post("/api/translate", text="Ja.", source="de", target="de")

    assert (response.json()["text"], response.json()["sentences"]) == ("Ja.", [])


def test_the_target_must_be_named_where_there_are_several(serve: Serve) -> None:
    response = serve("en-de", "en-fr").post("/api/translate", text="One.")

    assert error(response, 400) == "target: name one of de, fr"


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": 7}, "text"),
        ({"text": "a", "txt": "b"}, "txt"),
        ({"text": "a", "beam": 0}, "beam"),
        ({"text": "a", "beam": True}, "beam"),
        ({"text": "a", "beam": 10**30}, "beam"),
        ({"text": "a", "beam": 1.5}, "beam"),
        ({"text": "a", "alpha": -1}, "alpha"),
        ({"text": "a", "alpha": "0.6"}, "alpha"),
        ({"text": "a", "nbest": 4}, "nbest"),
        ({"text": "a", "markup": "tex"}, "markup"),
        ({"text": "a", "source": "zz"}, "zz"),
        ({"text": "a", "target": "zz"}, "zz"),
    ],
)
def test_what_is_wrong_is_named(served: Served, fields: dict[str, object], part: str) -> None:
    assert part in error(served.post("/api/translate", **fields), 400)


def test_a_form_is_no_json(served: Served) -> None:
    result = served.ask("POST", "/api/translate", data={"text": "a"})

    assert error(result, 400) == "Invalid JSON format"


def test_the_character_limit_holds_here_too(serve: Serve) -> None:
    served = serve(settings=ServerSettings(char_limit=3))

    for path in ("translate", "alternatives", "attention"):
        assert "(4) exceeds text limit (3)" in error(served.post(f"/api/{path}", text="1234"), 400)


def test_keys_are_wanted_here_too(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("secret"),)))

    assert served.post("/api/translate", text="a", api_key="secret").status_code == 200
    for path in ("translate", "alternatives", "attention"):
        error(served.post(f"/api/{path}", text="a", api_key="wrong"), 403)


@pytest.fixture
def translator(tokenizer: Tokenizer, untrained: Transformer) -> Translator:
    """The small untrained model."""
    search = bundle_of("en", "de", tokenizer=tokenizer, model=untrained).search
    return Translator.from_parts(untrained, tokenizer, search=search)


@pytest.fixture
def real(tokenizer: Tokenizer, untrained: Transformer, translator: Translator) -> Iterator[Served]:
    """A server of it."""
    bundle = bundle_of("en", "de", tokenizer=tokenizer, model=untrained)
    settings = ServerSettings()
    registry = ModelRegistry([direction_of(bundle, translator, settings)])
    served = Served(app=make_app(registry, settings), loud={})
    yield served
    registry.close()
    served.app.state.store.close()


def test_a_real_model_says_what_it_says_offline(real: Served, translator: Translator) -> None:
    (offline,) = translator.translate([DOG])

    body = real.post("/api/translate", text=DOG, markup="none").json()

    (single,) = body["sentences"]
    assert single["text"] == offline.text
    assert [piece["piece"] for piece in single["pieces"]] == list(offline.pieces)
    assert [piece["log_prob"] for piece in single["pieces"]] == pytest.approx(offline.log_probs)
    assert single["confidence"] is None


def test_alternatives_are_the_translator_s(real: Served, translator: Translator) -> None:
    body = real.post("/api/alternatives", text=DOG, count=3).json()["alternatives"]

    offline = translator.alternatives(DOG, "", count=3)
    assert [item["piece"] for item in body] == [item.piece for item in offline]
    assert [item["text"] for item in body] == [item.text for item in offline]
    assert [item["probability"] for item in body] == pytest.approx(
        [item.probability for item in offline]
    )


def test_attention_is_the_model_s(
    real: Served, tokenizer: Tokenizer, untrained: Transformer
) -> None:
    bundle = bundle_of("en", "de", tokenizer=tokenizer, model=untrained)

    body = real.post("/api/attention", text=DOG, translation="ein Haus").json()

    traced = trace_attention(bundle, DOG, "ein Haus")
    assert body["source_pieces"] == list(traced.source_pieces)
    assert body["target_pieces"] == list(traced.target_pieces)
    assert body["cross"][0][0][0] == pytest.approx(traced.cross[0][0][0], abs=1e-3)
    assert (len(body["encoder"]), len(body["decoder"])) == (2, 1)


def test_capitals_are_looked_into_as_they_were_translated(
    real: Served, translator: Translator, tokenizer: Tokenizer, untrained: Transformer
) -> None:
    (offline,) = translator.translate([DOG.upper()])

    (single,) = real.post("/api/translate", text=DOG.upper()).json()["sentences"]
    attention = real.post("/api/attention", text=DOG.upper()).json()

    assert single["recased"] == offline.recased != ""
    bundle = bundle_of("en", "de", tokenizer=tokenizer, model=untrained)
    traced = trace_attention(bundle, offline.recased)
    assert attention["source"] == offline.recased
    assert attention["source_pieces"] == list(traced.source_pieces)
    assert attention["target_pieces"] == list(traced.target_pieces)


def test_attention_and_explorer_are_those_of_a_direction(both_ways: Path) -> None:
    settings = ServerSettings(explorer=True)
    registry = load_models([both_ways], settings, engine="torch")
    served = Served(app=make_app(registry, settings), loud={})
    try:
        attention = served.post("/api/attention", text=DOG, source="de", target="en").json()
        models = served.ask("GET", "/api/models").json()
    finally:
        registry.close()
        served.app.state.store.close()

    traced = trace_attention(Bundle.load(both_ways), f"<2en>{DOG}")
    assert attention["source_pieces"] == list(traced.source_pieces)
    assert attention["source"] == DOG
    assert [model["explorer"] for model in models] == ["", ""]  # a page chooses no target


@pytest.mark.parametrize("path", ["alternatives", "attention"])
@pytest.mark.parametrize("text", [" ", "a " * 200])
def test_a_sentence_that_cannot_be_looked_into_is_refused(
    real: Served, path: str, text: str
) -> None:
    assert error(real.post(f"/api/{path}", text=text), 400).startswith("Invalid request: ")


def test_many_at_once_get_each_his_own(served: Served) -> None:
    async def go() -> list[httpx.Response]:
        async with served.client() as client:
            responses = (
                client.post("/api/translate", json={"text": f"Text {n}."}) for n in range(31)
            )
            return await asyncio.gather(*responses)

    result = asyncio.run(go())

    assert [item.json()["text"] for item in result] == [f"TEXT {n}." for n in range(31)]
