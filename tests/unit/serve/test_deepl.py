"""The shape of DeepL's API."""

import asyncio
import threading
import time
from pathlib import Path

import httpx
import pytest
from tests.served import Serve, Served

from transduce.serve import deepl_glossaries
from transduce.serve.documents import DocumentJob
from transduce.serve.settings import APIKey, ServerSettings

HELLO = {"text": ["Hello there."], "target_lang": "DE"}


def message(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["message"]
    return response.json()["message"]


def test_texts_are_translated_in_their_order(served: Served) -> None:
    response = served.post(
        "/v2/translate", text=["One.", "Two."], target_lang="DE", source_lang="EN"
    )

    assert response.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "ONE."},
            {"detected_source_language": "EN", "text": "TWO."},
        ]
    }


def test_a_form_repeats_its_text(served: Served) -> None:
    result = served.ask(
        "POST", "/v2/translate", data={"text": ["One.", "Two."], "target_lang": "DE"}
    )

    assert [translation["text"] for translation in result.json()["translations"]] == [
        "ONE.",
        "TWO.",
    ]


def test_characters_are_said_on_demand_and_counted(served: Served) -> None:
    response = served.post("/v2/translate", **HELLO, show_billed_characters=True)

    assert response.json()["translations"][0]["billed_characters"] == 12
    usage = served.ask("GET", "/v2/usage").json()
    assert usage["character_count"] == 12
    assert usage["character_limit"] > 10**9


def test_the_source_is_found_out(serve: Serve) -> None:
    served = serve("en-fr", "de-fr")
    text = "Das ist ein Haus mit einem Garten."

    response = served.post("/v2/translate", text=[text], target_lang="FR")

    assert response.json()["translations"][0]["detected_source_language"] == "DE"


@pytest.mark.parametrize("handling", ["html", "xml"])
def test_tags_stay_where_they_are(served: Served, handling: str) -> None:
    text = "<p>A <b>red</b> hat</p>"

    response = served.post("/v2/translate", text=[text], target_lang="DE", tag_handling=handling)

    assert response.json()["translations"][0]["text"] == "<p>A <b>RED</b> HAT</p>"


@pytest.mark.parametrize(
    ("code", "loaded"),
    [("EN-GB", "en"), ("en-us", "en"), ("PT-BR", "pt"), ("PT-PT", "pt"), ("PT-PT", "pt_BR")],
)
def test_variants_take_what_is_loaded(serve: Serve, code: str, loaded: str) -> None:
    served = serve(f"de-{loaded}")

    assert served.post("/v2/translate", text=["x"], target_lang=code).status_code == 200
    assert served.loud[f"de-{loaded}"].received == ["x"]


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
    result = serve("en-de", "fr-de").ask("GET", "/v2/languages")

    assert result.json() == [
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
    response = served.post("/v2/translate", text=["Break down."], target_lang="DE")

    assert message(response, 500).startswith("internal error, request ")


PAIR = {"source_lang": "EN", "target_lang": "DE"}
WORDS = {"name": "mine", "entries": "Apple\tApfel\nred dog\tHund", "entries_format": "tsv", **PAIR}


def made_glossary(served: Served) -> str:
    response = served.post("/v2/glossaries", **WORDS)
    assert response.status_code == 201, response.text
    return response.json()["glossary_id"]


def test_a_glossary_of_one_pair_is_kept_and_shown(served: Served) -> None:
    key = made_glossary(served)

    shown = served.ask("GET", f"/v2/glossaries/{key}").json()

    assert shown.items() >= {"name": "mine", "source_lang": "en", "entry_count": 2}.items()
    assert served.ask("GET", "/v2/glossaries").json() == {"glossaries": [shown]}
    assert served.ask("GET", f"/v2/glossaries/{key}/entries").text == WORDS["entries"]
    assert served.ask("GET", "/v2/glossary-language-pairs").json() == {
        "supported_languages": [{"source_lang": "en", "target_lang": "de"}]
    }
    assert served.ask("DELETE", f"/v2/glossaries/{key}").status_code == 204
    assert message(served.ask("GET", f"/v2/glossaries/{key}"), 404)


def test_a_glossary_of_several_pairs_is_changed_by_pair(serve: Serve) -> None:
    served = serve("en-de", "de-en")
    back = {"source_lang": "DE", "target_lang": "EN", "entries": "Hund,dog,de,en"}
    both = [{**PAIR, "entries": "dog\tHund\ncat\tKatze"}, {**back, "entries_format": "csv"}]
    key = served.post("/v3/glossaries", name="both", dictionaries=both).json()["glossary_id"]
    path = f"/v3/glossaries/{key}"

    added = {"name": "ours", "dictionaries": [{**PAIR, "entries": "dog\tKöter\nbird\tVogel"}]}
    changed = served.ask("PATCH", path, json=added).json()
    entries = served.ask("GET", f"{path}/entries", params=PAIR).json()["dictionaries"][0]["entries"]
    put = served.ask("PUT", f"{path}/dictionaries", json={**PAIR, "entries": "a\tb"}).json()

    assert (changed["name"], len(changed["dictionaries"])) == ("ours", 2)
    assert entries == "dog\tKöter\ncat\tKatze\nbird\tVogel"
    assert put == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    assert message(served.ask("GET", f"/v2/glossaries/{key}"), 400)
    assert served.ask("DELETE", f"{path}/dictionaries", params=PAIR).status_code == 204
    assert message(served.ask("GET", f"{path}/entries", params=PAIR), 404)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"target_lang": "XX"}, "available: en-de"),
        ({"entries": "alone"}, "line 1 is not"),
        ({"entries": "a\tb\na\tc"}, "line 2 repeats"),
        ({"entries": 'a,"b', "entries_format": "csv"}, "malformed CSV"),
        ({"entries": "\n"}, "no term"),
        ({"entries_format": "xml"}, "'entries_format'"),
        ({"name": ""}, "'name'"),
        ({"name": None}, "'name'"),
    ],
)
def test_a_wrong_glossary_is_refused_by_what_is_wrong(
    served: Served, wrong: dict[str, object], named: str
) -> None:
    assert named in message(served.post("/v2/glossaries", **WORDS | wrong), 400)


def test_a_glossary_is_applied(served: Served) -> None:
    wish = {**PAIR, "glossary_id": made_glossary(served)}

    response = served.post("/v2/translate", text=["Apple", "My apple."], **wish)

    assert [translation["text"] for translation in response.json()["translations"]] == [
        "Apfel",
        "MY APPLE.",
    ]
    assert [term.target for term in served.loud["en-de"].glossary] == ["Apfel", "Hund"]


def test_each_key_has_its_own_space_for_glossaries(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepl_glossaries, "MAX_BYTES", 1300)
    served = serve(settings=ServerSettings(keys=(APIKey("secret"), APIKey("other"))))

    def ask(verb: str, path: str, key: str, **fields: object) -> httpx.Response:
        headers = {"authorization": f"DeepL-Auth-Key {key}"}
        return served.ask(verb, path, json=fields, headers=headers)

    first = ask("POST", "/v2/glossaries", "secret", **WORDS).json()["glossary_id"]

    assert "exceed 1,300 bytes" in message(ask("POST", "/v2/glossaries", "secret", **WORDS), 400)
    assert ask("POST", "/v2/glossaries", "other", **WORDS).status_code == 201
    assert ask("PATCH", f"/v3/glossaries/{first}", "secret", name="ours").status_code == 200


def test_a_glossary_has_a_maximum_size(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl_glossaries, "MAX_GLOSSARY_BYTES", 300)
    path = f"/v3/glossaries/{made_glossary(served)}"
    dictionary = {**PAIR, "entries": "\n".join(f"dog {i}\tHund {i}" for i in range(9))}

    refused = served.ask("PATCH", path, json={"dictionaries": [dictionary]})

    assert "exceeds 300 bytes" in message(refused, 400)
    assert served.ask("GET", path).json()["dictionaries"][0]["entry_count"] == 2


def test_glossaries_are_parsed_in_a_thread(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[tuple[str, threading.Thread]] = []

    def record_threads(name: str) -> None:
        function = getattr(deepl_glossaries, name)

        def recorded(*values: object) -> object:
            threads.append((name, threading.current_thread()))
            return function(*values)

        monkeypatch.setattr(deepl_glossaries, name, recorded)

    for name in ("_terms", "_parsed", "_tsv"):
        record_threads(name)
    key = made_glossary(served)
    dictionary = {**PAIR, "entries": "a\tb"}
    served.ask("PATCH", f"/v3/glossaries/{key}", json={"dictionaries": [dictionary]})
    served.ask("PUT", f"/v3/glossaries/{key}/dictionaries", json=dictionary)
    served.ask("GET", f"/v3/glossaries/{key}/entries", params=PAIR)
    served.ask("GET", f"/v2/glossaries/{key}/entries")
    served.post("/v2/translate", text=["Apple"], **PAIR, glossary_id=key)

    assert [name for name, _ in threads].count("_terms") == 3
    assert {name for name, _ in threads} == {"_terms", "_parsed", "_tsv"}
    assert threading.current_thread() not in {thread for _, thread in threads}


def test_parallel_changes_of_a_glossary_are_all_kept(served: Served) -> None:
    path = f"/v3/glossaries/{made_glossary(served)}"
    changes = [{"dictionaries": [{**PAIR, "entries": f"dog {i}\tHund {i}"}]} for i in range(5)]

    async def change_all() -> None:
        async with served.client() as client:
            await asyncio.gather(*[client.patch(path, json=change) for change in changes])

    asyncio.run(change_all())

    assert served.ask("GET", path).json()["dictionaries"][0]["entry_count"] == 2 + 5


def test_parallel_changes_in_several_processes_are_all_kept(serve: Serve, tmp_path: Path) -> None:
    settings = ServerSettings(store_path=tmp_path / "clients.sqlite")
    both = [serve(settings=settings), serve(settings=settings)]
    path = f"/v3/glossaries/{made_glossary(both[0])}"
    changes = [{"dictionaries": [{**PAIR, "entries": f"dog {i}\tHund {i}"}]} for i in range(10)]

    async def change_all() -> None:
        async with both[0].client() as first, both[1].client() as second:
            clients = [first, second] * 5
            pairs = zip(clients, changes, strict=True)
            await asyncio.gather(*[client.patch(path, json=change) for client, change in pairs])

    asyncio.run(change_all())

    assert both[0].ask("GET", path).json()["dictionaries"][0]["entry_count"] == 2 + 10


def test_a_store_that_fails_is_unavailable(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.app.state.store.close()

    glossary = served.post("/v2/glossaries", **WORDS)
    (document,) = documents(served, PAIR)

    for response in (glossary, document):
        assert "store cannot be used" in message(response, 503)
    assert caplog.text.count("WARNING: temporary file: Cannot operate on a closed database") == 2
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("handling", "given", "expected"),
    [
        ({"ignore_tags": ["x"]}, "<p>A <x>red</x> hat</p>", "<p>A <x>red</x> HAT</p>"),
        ({"ignore_tags": "y,x"}, "<p>A <x>red</x> hat</p>", "<p>A <x>red</x> HAT</p>"),
        ({"splitting_tags": ["x"]}, "<x>A hat</x><x>A b</x>", "<x>A HAT</x><x>A B</x>"),
        ({}, "<p>A <code/> hat</p>", "<p>A <code/> HAT</p>"),
    ],
)
def test_tags_mean_what_the_client_says(
    served: Served, handling: dict[str, object], given: str, expected: str
) -> None:
    fields = {"text": [given], "target_lang": "DE", "tag_handling": "xml", **handling}

    response = served.post("/v2/translate", **fields)

    assert response.json()["translations"][0]["text"] == expected
    assert "x-ignored-parameters" not in response.headers


@pytest.mark.parametrize(
    ("handling", "sentences"),
    [
        ({}, ["A hat", "a cat"]),
        ({"non_splitting_tags": ["p"]}, ["A hat a cat"]),
        ({"outline_detection": False}, ["A hat a cat"]),
        ({"outline_detection": False, "splitting_tags": ["p"]}, ["A hat", "a cat"]),
    ],
)
def test_which_tags_split_is_the_client_s_wish(
    served: Served, handling: dict[str, object], sentences: list[str]
) -> None:
    fields = {"text": ["<p>A hat</p> <p>a cat</p>"], "target_lang": "DE", "tag_handling": "xml"}

    served.post("/v2/translate", **fields, **handling)

    assert [text for text in served.loud["en-de"].received if text in sentences] == sentences


def test_what_has_no_effect_is_named(served: Served) -> None:
    wish = {"context": "A story.", "split_sentences": "0", "ignore_tags": ["x"], "colour": "red"}

    response = served.post("/v2/translate", **HELLO, **wish, formality="default")

    named = "context, split_sentences, ignore_tags, colour"
    assert response.headers["x-ignored-parameters"] == named


@pytest.mark.parametrize(
    ("wished", "used", "beam"),
    [
        ("latency_optimized", "latency_optimized", 1),
        ("quality_optimized", "quality_optimized", None),
        ("prefer_quality_optimized", "quality_optimized", None),
    ],
)
def test_the_type_of_model_is_the_beam(
    served: Served, wished: str, used: str, beam: int | None
) -> None:
    response = served.post("/v2/translate", **HELLO, model_type=wished)

    assert response.json()["translations"][0]["model_type_used"] == used
    assert served.loud["en-de"].beams == [beam]


def test_every_path_wants_the_key_and_each_key_has_its_own(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("secret"), APIKey("other"))))

    def ask(verb: str, path: str, key: str, **fields: object) -> httpx.Response:
        headers = {"authorization": f"DeepL-Auth-Key {key}"}
        return served.ask(verb, path, json=fields or None, headers=headers)

    paths = served.ask("GET", "/openapi.json").json()["paths"]
    for path, ways in paths.items():
        for verb in ways if path.startswith(("/v2/", "/v3/")) else ():
            assert message(ask(verb.upper(), path, "wrong"), 403) == "Invalid API key"
            assert message(served.ask(verb.upper(), path), 403)
    key = ask("POST", "/v2/glossaries", "secret", **WORDS).json()["glossary_id"]
    ask("POST", "/v2/translate", "secret", **HELLO)

    assert message(ask("GET", f"/v2/glossaries/{key}", "other"), 404)
    assert ask("GET", "/v2/usage", "secret").json()["character_count"] == 12
    assert ask("GET", "/v2/usage", "other").json()["character_count"] == 0


def documents(
    served: Served,
    wish: dict[str, str | list[str]],
    *,
    name: str = "a.txt",
    headers: dict[str, str] | None = None,
) -> list[httpx.Response]:
    """Upload a document and ask for its state until it is done, then for the result."""

    async def go() -> list[httpx.Response]:
        async with served.client() as client:
            client.headers.update(headers or {})
            files = {"file": (name, b"Apple\nA dog.\n")}
            response = [await client.post("/v2/document", data=wish, files=files)]
            if response[0].status_code != 200:
                return response
            path = f"/v2/document/{response[0].json()['document_id']}"
            key = {"document_key": response[0].json()["document_key"]}
            while len(response) < 2 or response[-1].json()["status"] == "translating":
                await asyncio.sleep(0.001)
                response.append(await client.post(path, json=key))
            wrong = {"document_key": "F" * 64}
            response += [await client.post(f"{path}/result", json=item) for item in (key, wrong)]
            return response

    return asyncio.run(go())


def test_a_document_is_translated_and_fetched_with_its_key(served: Served) -> None:
    key = made_glossary(served)

    *_, state, result, denied = documents(served, {**PAIR, "glossary_id": key})

    assert (state.json()["status"], state.json()["billed_characters"]) == ("done", 13)
    assert result.content == b"Apfel\nA DOG.\n"
    assert message(denied, 404)
    assert served.ask("GET", "/v2/usage").json()["character_count"] == 13


def test_a_document_that_fails_says_why(serve: Serve) -> None:
    served = serve("en-de", "de-en")

    *_, state, result, _ = documents(served, {"source_lang": "EN", "target_lang": "EN"})

    assert state.json()["status"] == "error"
    assert state.json()["error_message"].startswith("Source and target language")
    assert message(result, 404)


def test_a_document_that_fails_costs_nothing(serve: Serve) -> None:
    settings = ServerSettings(keys=(APIKey("secret", daily_characters=99),))
    served = serve("en-de", "de-en", settings=settings)
    key = {"Authorization": "DeepL-Auth-Key secret"}

    *_, state, _, _ = documents(served, {"source_lang": "EN", "target_lang": "EN"}, headers=key)

    assert state.json()["status"] == "error"
    assert served.ask("GET", "/v2/usage", headers=key).json()["character_count"] == 0


def test_a_document_that_is_cancelled_costs_nothing(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("secret", daily_characters=99),)))
    key = {"Authorization": "DeepL-Auth-Key secret"}
    loud = served.loud["en-de"]
    loud.go.clear()

    async def go() -> None:
        async with served.client() as client:
            files = {"file": ("a.txt", b"A dog.")}
            await client.post("/v2/document", data=PAIR, files=files, headers=key)
            await asyncio.to_thread(loud.started.wait, 5)
            used = (await client.get("/v2/usage", headers=key)).json()
            assert used["character_count"] == 6

    asyncio.run(go())  # the end of its loop cancels the work
    loud.go.set()

    assert served.ask("GET", "/v2/usage", headers=key).json()["character_count"] == 0


def test_a_document_of_a_killed_process_fails_when_its_time_is_over(served: Served) -> None:
    job = DocumentJob(document_id="A", key="B", characters=1, deadline=time.time() - 1)
    served.app.state.store.put("job", "A", job.model_dump_json().encode())

    state = served.post("/v2/document/A", document_key="B").json()

    assert state["status"] == "error"
    assert "upload the document again" in state["error_message"]
    assert message(served.post("/v2/document/A/result", document_key="B"), 404)


@pytest.mark.parametrize(
    ("wish", "name", "named"),
    [
        ({}, "a.exe", "Invalid file"),
        ({"output_format": "html"}, "a.txt", "'output_format'"),
        ({"target_lang": "ZZ"}, "a.txt", "'target_lang'"),
        ({"formality": "more"}, "a.txt", "'formality'"),
    ],
)
def test_a_document_that_cannot_be_is_refused(
    served: Served, wish: dict[str, str | list[str]], name: str, named: str
) -> None:
    (result,) = documents(served, {**PAIR, **wish}, name=name)

    assert named in message(result, 400)
