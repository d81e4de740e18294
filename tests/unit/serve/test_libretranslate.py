"""LibreTranslate's API: names, statuses and messages as its clients know them."""

import asyncio
import json
import sys
import threading
import time

import httpx
import pytest
from tests.served import Serve, Served

from transduce.search.config import SearchConfig
from transduce.search.interruption import interruption_point
from transduce.serve.batcher import Batcher
from transduce.serve.settings import APIKey, ServerSettings
from transduce.serve.text_translation import LONG_TEXT, offload

HELLO = {"q": "Hello there.", "source": "en", "target": "de"}


def error(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def test_a_text_is_translated(served: Served) -> None:
    response = served.post("/translate", **HELLO)

    assert response.status_code == 200
    assert response.json() == {"translatedText": "HELLO THERE."}


def test_a_list_is_translated_in_its_order(served: Served) -> None:
    response = served.post("/translate", q=["one", "two", "three"], source="en", target="de")

    assert response.json() == {"translatedText": ["ONE", "TWO", "THREE"]}


def test_a_list_of_one_is_answered_with_a_list(served: Served) -> None:
    response = served.post("/translate", q=["one"], source="en", target="de")

    assert response.json() == {"translatedText": ["ONE"]}


def test_a_form_does_as_well_as_json(served: Served) -> None:
    result = served.ask("POST", "/translate", data=HELLO)

    assert result.json() == {"translatedText": "HELLO THERE."}


def test_a_multipart_form_does_as_well_as_json(served: Served) -> None:
    fields = {name: (None, value.encode()) for name, value in HELLO.items()}
    result = served.ask("POST", "/translate", files=fields)

    assert result.json() == {"translatedText": "HELLO THERE."}


def test_a_query_string_does_as_well_as_json(served: Served) -> None:
    result = served.ask("POST", "/translate", params={**HELLO, "q": "Über uns"})

    assert result.json() == {"translatedText": "ÜBER UNS"}


def test_line_ends_of_a_form_become_line_feeds(served: Served) -> None:
    result = served.ask("POST", "/translate", data={**HELLO, "q": "one\r\ntwo\rthree"})

    assert result.json() == {"translatedText": "ONE\nTWO\nTHREE"}


def test_several_sentences_come_back_with_their_white_space(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"q": "It rains.  We go home.\n\n\tBye."})

    assert response.json()["translatedText"] == "IT RAINS.  WE GO HOME.\n\n\tBYE."
    assert served.loud["en-de"].received == ["It rains.", "We go home.", "Bye."]


def test_placeholders_come_back_whole(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"q": "Hello {name}, how are you?"})

    assert "{name}" in response.json()["translatedText"]


def test_the_tags_of_html_stay(served: Served) -> None:
    response = served.post(
        "/translate", **HELLO | {"q": "<p>A <b>red</b> hat</p>", "format": "html"}
    )

    assert response.json()["translatedText"] == "<p>A <b>RED</b> HAT</p>"


def test_a_blank_text_comes_back_as_it_is(served: Served) -> None:
    assert served.post("/translate", **HELLO | {"q": " \n "}).json()["translatedText"] == " \n "


def test_nul_counts_as_white_space(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"q": "one\0two"})

    assert response.json()["translatedText"] == "ONE TWO"


@pytest.mark.parametrize("name", ["q", "source", "target"])
@pytest.mark.parametrize("empty", [True, False])
def test_what_is_missing_is_named(served: Served, name: str, empty: bool) -> None:
    fields = {key: value for key, value in HELLO.items() if key != name}
    response = served.post("/translate", **fields, **({name: ""} if empty else {}))

    assert error(response, 400) == f"Invalid request: missing {name} parameter"


@pytest.mark.parametrize("name", ["source", "target"])
def test_an_unknown_language_is_named(served: Served, name: str) -> None:
    assert error(served.post("/translate", **HELLO | {name: "zz"}), 400) == "zz is not supported"


def test_a_direction_that_is_not_loaded_is_named(served: Served) -> None:
    response = served.post("/translate", q="x", source="de", target="en")

    assert (
        error(response, 400)
        == "English (en) is not available as a target language from German (de)"
    )


def test_codes_are_read_in_any_case(served: Served) -> None:
    assert served.post("/translate", q="x", source="EN", target="De").status_code == 200


def test_a_text_in_the_target_language_comes_back_as_it_is(served: Served) -> None:
    response = served.post("/translate", q="Hallo", source="de", target="de")

    assert response.json() == {"translatedText": "Hallo"}


def test_an_unknown_format_is_named(served: Served) -> None:
    response = served.post("/translate", **HELLO, format="xx")

    assert error(response, 400) == "xx format is not supported"


def test_alternatives_are_the_next_best(served: Served) -> None:
    response = served.post("/translate", **HELLO, alternatives=2)

    assert response.json() == {
        "translatedText": "HELLO THERE.",
        "alternatives": ["HELLO THERE. 2", "HELLO THERE. 3"],
    }


def test_alternatives_of_a_list_are_lists(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"q": ["one", "two"]}, alternatives="1")

    assert response.json()["alternatives"] == [["ONE 2"], ["TWO 2"]]


def test_alternatives_of_several_sentences_join_those_of_each(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"q": "One. Two."}, alternatives=1)

    assert response.json()["alternatives"] == ["ONE. 2 TWO. 2"]


def test_more_alternatives_than_the_beam_widen_it(served: Served) -> None:
    response = served.post("/translate", **HELLO, alternatives=6)

    assert len(response.json()["alternatives"]) == 6
    assert served.loud["en-de"].beams == [7]


def test_alternatives_within_the_beam_leave_it(served: Served) -> None:
    served.post("/translate", **HELLO, alternatives=2)

    assert served.loud["en-de"].beams == [None]


def test_the_beam_is_widened_by_direction(serve: Serve) -> None:
    served = serve("en-de", "fr-de")
    served.loud["fr-de"].search = SearchConfig(beam=1)

    response = served.post("/translate", q="Oui.", source="fr", target="de", alternatives=2)

    assert response.json()["alternatives"] == ["OUI. 2", "OUI. 3"]
    assert served.loud["fr-de"].beams == [3]


def test_a_thousand_alternatives_are_nineteen(served: Served) -> None:
    response = served.post("/translate", **HELLO, alternatives=1000)

    assert len(response.json()["alternatives"]) == 19


def test_html_has_no_alternatives(served: Served) -> None:
    response = served.post("/translate", **HELLO, alternatives=2, format="html")

    assert response.json()["alternatives"] == []


@pytest.mark.parametrize("value", ["many", True, [], 1.5, "9" * 5000])
def test_alternatives_must_be_a_number(served: Served, value: object) -> None:
    answer = served.post("/translate", **HELLO, alternatives=value)

    assert error(answer, 400) == "Invalid request: alternatives parameter is not a number"


def test_too_many_alternatives_are_refused(serve: Serve) -> None:
    served = serve(settings=ServerSettings(alternatives_limit=2))

    response = served.post("/translate", **HELLO, alternatives=3)

    assert error(response, 400) == "Invalid request: alternatives parameter must be <= 2"


def test_auto_says_what_was_detected(served: Served) -> None:
    response = served.post("/translate", **HELLO | {"source": "auto"})

    assert response.json()["translatedText"] == "HELLO THERE."
    assert response.json()["detectedLanguage"]["language"] == "en"
    assert 0 <= response.json()["detectedLanguage"]["confidence"] <= 100


def test_auto_detects_each_text_of_a_list(serve: Serve) -> None:
    served = serve("en-fr", "de-fr")
    texts = ["This is a house with a garden.", "Das ist ein Haus mit einem Garten."]

    body = served.post("/translate", q=texts, source="auto", target="fr").json()

    assert [item["language"] for item in body["detectedLanguage"]] == ["en", "de"]
    assert served.loud["de-fr"].received == texts[1:]
    assert body["translatedText"] == [text.upper() for text in texts]


def test_auto_leaves_what_is_in_the_target_language(serve: Serve) -> None:
    served = serve("en-de", "de-en")
    text = "Das ist ein Haus mit einem großen Garten."

    body = served.post("/translate", q=text, source="auto", target="de").json()

    assert body["translatedText"] == text
    assert body["detectedLanguage"]["language"] == "de"


def test_emoji_are_not_translated(served: Served) -> None:
    response = served.post("/translate", q="😀 👍🏽", source="auto", target="de")

    assert response.json() == {
        "translatedText": "😀 👍🏽",
        "detectedLanguage": {"confidence": 0.0, "language": "en"},
    }
    assert served.loud["en-de"].received == []


def test_a_text_over_the_limit_is_refused(serve: Serve) -> None:
    served = serve(settings=ServerSettings(char_limit=5))

    response = served.post("/translate", **HELLO | {"q": ["12345", "123456"]})

    assert error(response, 400) == "Invalid request: request (6) exceeds text limit (5)"


def test_a_list_over_the_limit_is_refused(serve: Serve) -> None:
    served = serve(settings=ServerSettings(batch_limit=2))

    response = served.post("/translate", **HELLO | {"q": ["a", "b", "c"]})

    assert error(response, 400) == "Invalid request: request (3) exceeds text limit (2)"


@pytest.mark.parametrize("q", [7, {"a": "b"}, ["a", 7], [["a"]], True])
def test_what_is_no_text_is_refused(served: Served, q: object) -> None:
    assert error(served.post("/translate", **HELLO | {"q": q}), 400)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"q"',
        b"null",
        b'{"q": NaN}',
        b'{"q": "\xff"}',
        b'{"q": ' + b"9" * 5000 + b"}",
        b'{"q": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"q": "\\ud800", "source": "en", "target": "de"}',
        b'{"q": "a", "source": "en", "target": "\\uDFFF"}',
    ],
)
def test_json_that_is_none_is_refused(served: Served, body: bytes) -> None:
    result = served.ask(
        "POST", "/translate", content=body, headers={"content-type": "application/json"}
    )

    assert error(result, 400).startswith("Invalid JSON format")


@pytest.mark.parametrize("body", [b"q=%ff", b"q=\xff", b"&".join([b"a=b"] * 1500)])
def test_a_form_that_is_none_is_refused(served: Served, body: bytes) -> None:
    result = served.ask(
        "POST",
        "/translate",
        content=body,
        headers={"content-type": "application/x-www-form-urlencoded"},
    )

    assert error(result, 400).startswith("Invalid request: the form ")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"--b\r\nContent-Disposition: form-data; name=q\r\n"),
        ("multipart/form-data; boundary=" + "b" * 500, b"x"),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="q"'
         b"\r\n\r\n\xff\r\n--b--\r\n"),
        ("text/plain", b"q=a"),
    ],
)  # fmt: skip
def test_a_body_of_another_kind_is_refused(served: Served, kind: str, body: bytes) -> None:
    result = served.ask("POST", "/translate", content=body, headers={"content-type": kind})

    assert error(result, 400).startswith("Invalid request: ")


def test_a_large_body_is_refused_before_it_is_read(serve: Serve) -> None:
    served = serve(settings=ServerSettings(body_limit=100))

    assert "larger than 100 bytes" in error(served.post("/translate", q="x" * 200), 413)


def test_a_large_body_of_unknown_length_is_refused(serve: Serve) -> None:
    served = serve(settings=ServerSettings(body_limit=100))
    sent = []

    async def body():
        for _ in range(50):
            sent.append(30)
            yield b"x" * 30

    async def go() -> httpx.Response:
        async with served.client() as client:
            return await client.post("/translate", content=body())

    result = asyncio.run(go())

    error(result, 413)
    assert len(sent) < 10


def test_a_full_queue_is_429_and_says_when_to_come_again(serve: Serve) -> None:
    served = serve(settings=ServerSettings(queue=1))
    loud = served.loud["en-de"]
    loud.go.clear()

    async def go() -> list[httpx.Response]:
        async with served.client() as client:
            first = asyncio.create_task(client.post("/translate", json=HELLO))
            await asyncio.to_thread(loud.started.wait, 5)
            second = asyncio.create_task(client.post("/translate", json=HELLO))
            await asyncio.sleep(0.05)
            third = await client.post("/translate", json=HELLO)
            loud.go.set()
            return [await first, await second, third]

    first, second, third = asyncio.run(go())

    assert (first.status_code, second.status_code) == (200, 200)
    assert error(third, 429).startswith("Slowdown: ")
    assert int(third.headers["retry-after"]) >= 1


def test_a_request_that_takes_too_long_is_504(serve: Serve) -> None:
    served = serve(settings=ServerSettings(time_limit_s=0.05))
    served.loud["en-de"].go.clear()

    response = served.post("/translate", **HELLO)
    served.loud["en-de"].go.set()

    assert "0.05 seconds" in error(response, 504)


def test_a_bug_is_500_and_tells_nothing(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    response = served.post("/translate", **HELLO | {"q": "Break down."})

    name = response.headers["x-request-id"]
    assert error(response, 500) == f"internal error, request {name}"
    assert "a secret of the server" in caplog.text
    assert name in caplog.text


def test_a_client_that_goes_away_is_not_translated_for(serve: Serve) -> None:
    served = serve()
    loud = served.loud["en-de"]
    loud.go.clear()

    async def go() -> None:
        async with served.client() as client:
            first = asyncio.create_task(client.post("/translate", json=HELLO))
            await asyncio.to_thread(loud.started.wait, 5)
            await _ask_and_go(served, b'{"q": "Forget me.", "source": "en", "target": "de"}')
            loud.go.set()
            await first
            await client.post("/translate", json=HELLO)

    asyncio.run(go())

    assert "Forget me." not in loud.received


async def _ask_and_go(served: Served, body: bytes) -> None:
    """Ask as a server would, and say that the client went away while it waits."""
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": body}]
    answers = []

    async def receive():
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        answers.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/translate",
        "raw_path": b"/translate",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "scheme": "http",
        "server": ("localhost", 5000),
    }
    request = asyncio.create_task(served.app(scope, receive, send))
    await asyncio.sleep(0.05)
    gone.set()
    done, _ = await asyncio.wait({request}, timeout=30)
    assert done == {request}
    assert request.exception() is None
    assert answers == []


KEYED = ServerSettings(char_limit=3, keys=(APIKey("secret", 20), APIKey("plain")))


def test_without_a_key_a_request_is_refused(serve: Serve) -> None:
    response = serve(settings=KEYED).post("/translate", **HELLO)

    assert error(response, 400) == "Please contact the server operator to get an API key"


def test_where_keys_are_to_be_had_is_said(serve: Serve) -> None:
    settings = ServerSettings(keys=KEYED.keys, get_api_key_link="https://keys.example")

    response = serve(settings=settings).post("/translate", **HELLO)

    assert error(response, 400) == "Visit https://keys.example to get an API key"


@pytest.mark.parametrize("key", ["wrong", "sécret"])
def test_a_wrong_key_is_403(serve: Serve, key: str) -> None:
    response = serve(settings=KEYED).post("/translate", **HELLO, api_key=key)

    assert error(response, 403) == "Invalid API key"


def test_a_key_may_have_a_limit_of_its_own(serve: Serve) -> None:
    served = serve(settings=KEYED)

    assert served.post("/translate", **HELLO, api_key="secret").status_code == 200
    assert "exceeds" in error(served.post("/translate", **HELLO, api_key="plain"), 400)


def test_a_key_may_come_in_a_header(serve: Serve) -> None:
    headers = {"authorization": "Bearer secret"}

    result = serve(settings=KEYED).ask("POST", "/translate", json=HELLO, headers=headers)

    assert result.status_code == 200


def test_languages_say_what_each_is_translated_into(serve: Serve) -> None:
    result = serve("en-de", "en-fr", "de-en").ask("GET", "/languages")

    assert result.json() == [
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": []},
    ]


def test_languages_may_be_asked_with_a_form(served: Served) -> None:
    assert served.ask("GET", "/languages", data={}).status_code == 200


def test_detect_says_the_only_language_without_a_detector(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lingua", None)

    response = served.post("/detect", q="Hallo Welt")

    assert response.json() == [{"confidence": 0.0, "language": "en"}]


def test_detect_says_the_likeliest_first(serve: Serve) -> None:
    body = serve("en-fr", "de-fr").post("/detect", q="Das ist ein Haus mit einem Garten.").json()

    assert body[0]["language"] == "de"
    assert {item["language"] for item in body} == {"de", "en", "fr"}
    assert body[0]["confidence"] > body[1]["confidence"]


def test_detect_needs_a_text(served: Served) -> None:
    assert error(served.post("/detect"), 400) == "Invalid request: missing q parameter"


def test_the_page_settings_have_libretranslate_s_names(served: Served) -> None:
    result = served.ask("GET", "/frontend/settings").json()

    assert result["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }
    assert {"charLimit": -1, "frontendTimeout": 500, "keyRequired": False}.items() <= result.items()
    assert {".txt", ".srt", ".po", ".html"} <= set(result["supportedFilesFormat"])
    assert {"apiKeys", "suggestions", "filesTranslation"} <= result.keys()


def test_health_is_ok(served: Served) -> None:
    assert served.ask("GET", "/health").json() == {"status": "ok"}


def test_a_server_with_a_full_queue_is_healthy_but_not_ready(serve: Serve) -> None:
    served = serve(settings=ServerSettings(queue=1))
    loud = served.loud["en-de"]
    assert served.ask("GET", "/ready").json() == {"status": "ok"}
    loud.go.clear()

    async def go() -> list[int]:
        async with served.client() as client:
            waiting = [asyncio.create_task(client.post("/translate", json=HELLO))]
            await asyncio.to_thread(loud.started.wait, 10)
            waiting.append(asyncio.create_task(client.post("/translate", json=HELLO)))
            await asyncio.sleep(0.1)
            statuses = [(await client.get(path)).status_code for path in ("/ready", "/health")]
            loud.go.set()
            await asyncio.gather(*waiting)
            return [*statuses, (await client.get("/ready")).status_code]

    assert asyncio.run(go()) == [503, 200, 200]


def test_suggestions_are_off_without_a_memory(served: Served) -> None:
    assert error(served.post("/suggest", q="a", s="b", source="en", target="de"), 403)


@pytest.mark.parametrize(
    ("verb", "path"),
    [("DELETE", "/translate"), ("PUT", "/translate"), ("POST", "/languages"), ("GET", "/detect")],
)
def test_a_wrong_verb_is_405(served: Served, verb: str, path: str) -> None:
    result = served.ask(verb, path)

    assert error(result, 405) == "Method Not Allowed"
    assert "allow" in result.headers


@pytest.mark.parametrize("path", ["/nowhere", "/translate/", "/page/../app.py", "/%00"])
def test_an_unknown_path_is_404(served: Served, path: str) -> None:
    assert error(served.ask("GET", path), 404) == "Not Found"


@pytest.mark.parametrize(
    ("verb", "path"),
    [("GET", "/health"), ("OPTIONS", "/translate"), ("GET", "/nowhere"), ("POST", "/translate")],
)
def test_every_answer_lets_other_hosts_pages_read_it(serve: Serve, verb: str, path: str) -> None:
    served = serve("en-de", settings=ServerSettings(host="0.0.0.0"))

    result = served.ask(verb, path, headers={"origin": "https://elsewhere.example"})

    assert result.headers["access-control-allow-origin"] == "*"
    assert result.headers["access-control-allow-headers"] == "Authorization, Content-Type"
    assert result.headers["access-control-allow-methods"] == "GET, POST, PUT, PATCH, DELETE"
    assert result.headers["access-control-max-age"] == "1728000"
    assert result.headers["x-request-id"]


def test_metrics_are_counted(served: Served) -> None:
    served.post("/translate", **HELLO)

    result = served.ask("GET", "/metrics")

    assert result.headers["content-type"].startswith("text/plain")
    assert 'endpoint="/translate"' in result.text


def test_metrics_may_want_a_token(serve: Serve) -> None:
    served = serve(settings=ServerSettings(metrics_auth_token="t"))

    assert error(served.ask("GET", "/metrics"), 401) == "Unauthorized"
    headers = {"authorization": "Bearer t"}
    assert served.ask("GET", "/metrics", headers=headers).status_code == 200


def test_a_long_text_is_taken_apart_elsewhere_and_put_together(served: Served) -> None:
    text = "It rains.  We go home.\n" * 501

    response = served.post("/translate", **HELLO | {"q": text})

    assert response.json()["translatedText"] == text.upper()


def test_a_list_of_too_many_texts_is_refused_by_default(served: Served) -> None:
    """1.3 million empty texts held the event loop for 15 seconds."""
    refused = served.post("/translate", q=[""] * 1001, source="en", target="de")

    assert refused.status_code == 400
    assert refused.json() == {"error": "Invalid request: request (1001) exceeds text limit (1000)"}
    accepted = served.post("/translate", q=[""] * 1000, source="en", target="de")
    assert accepted.status_code == 200


def test_a_text_of_too_much_work_is_refused(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(work_limit=2))

    refused = served.post("/translate", q="A dog. A cat. A man.", source="en", target="de")

    assert refused.status_code == 400
    assert "exceeds work limit (2)" in refused.json()["error"]


def test_alternatives_count_as_work(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(work_limit=4))

    accepted = served.post("/translate", q="A dog.", source="en", target="de", alternatives=15)
    refused = served.post("/translate", q="A dog.", source="en", target="de", alternatives=19)
    native = served.post("/api/alternatives", text="A dog.", source="en", count=20)

    assert accepted.status_code == 200
    assert "request (5 sentences of 128 characters at a beam of 4)" in refused.json()["error"]
    assert "request (20 sentences" in native.json()["error"]


def test_splitting_ends_at_the_work_limit(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of short sentences was split for seconds, to be refused."""
    calls = list[int]()
    check_work = Batcher.check_work
    monkeypatch.setattr(
        Batcher, "check_work", lambda self, work: calls.append(work) or check_work(self, work)
    )
    served = serve("en-de", settings=ServerSettings(work_limit=50))

    refused = served.post("/translate", q="A dog. " * 800, source="en", target="de")

    assert refused.status_code == 400
    assert max(calls) == 51


def test_splitting_ends_when_the_client_has_gone() -> None:
    units, started = list[int](), threading.Event()

    def split() -> None:
        for unit in range(500):
            started.set()
            units.append(unit)
            time.sleep(0.01)
            interruption_point()

    async def work() -> None:
        task = asyncio.create_task(offload(LONG_TEXT, split))
        await asyncio.to_thread(started.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())  # waits for its threads

    assert len(units) < 100


@pytest.mark.parametrize("size", [10, 70_000])
def test_only_a_large_body_is_parsed_in_a_thread(
    served: Served, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    threads = list[bool]()
    loads = json.loads

    def parse(*arguments: object, **options: object) -> object:
        threads.append(threading.current_thread().name.startswith("asyncio"))
        return loads(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("transduce.serve.requests.json.loads", parse)
    served.post("/translate", q=["A" * size], source="en", target="de")

    assert threads[0] == (size > 65_536)
