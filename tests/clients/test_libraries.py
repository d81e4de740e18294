"""Clients that others wrote, unchanged, at a real server."""

import http.client
import json
import urllib.request
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.running import Running, running

DOG = "the old man reads a book"
BALL = "two children play with a red ball"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served")) as started:
        yield started


def test_libretranslatepy_translates(server: Running) -> None:
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)

    assert client.translate(DOG, "en", "de") == server.says(DOG)


def test_libretranslatepy_detects(server: Running) -> None:
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)

    assert client.detect("The old man reads a book.")[0]["language"] == "en"


def test_libretranslatepy_lists_languages(server: Running) -> None:
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)

    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]


def test_deep_translator_translates(server: Running) -> None:
    pytest.importorskip("deep_translator")
    from deep_translator import LibreTranslator

    client = LibreTranslator(
        source="en", target="de", custom_url=server.url, api_key="none is wanted"
    )

    assert client.translate(DOG) == server.says(DOG)
    assert client.translate_batch([BALL, DOG]) == [server.says(BALL), server.says(DOG)]


def test_deepl_translates(server: Running) -> None:
    client = pytest.importorskip("deepl").DeepLClient("any-key", server_url=server.url)

    result = client.translate_text([DOG, BALL], target_lang="DE")

    assert [item.text for item in result] == [server.says(DOG), server.says(BALL)]
    assert [item.detected_source_lang for item in result] == ["EN", "EN"]
    assert result[0].billed_characters == len(DOG)
    assert client.translate_text(DOG, source_lang="EN", target_lang="DE").text == server.says(DOG)


def test_deepl_keeps_tags(server: Running) -> None:
    client = pytest.importorskip("deepl").DeepLClient("any-key", server_url=server.url)

    result = client.translate_text(f"<p>{DOG}</p>", target_lang="DE", tag_handling="html")

    assert result.text == f"<p>{server.says(DOG)}</p>"


def test_deepl_lists_languages_and_usage(server: Running) -> None:
    client = pytest.importorskip("deepl").DeepLClient("any-key", server_url=server.url)

    client.translate_text(DOG, target_lang="DE")

    assert [(item.code, item.name) for item in client.get_source_languages()] == [("EN", "English")]
    (target,) = client.get_target_languages()
    assert (target.code, target.supports_formality) == ("DE", False)
    assert client.get_usage().character.count >= len(DOG)


def test_deepl_says_why_it_is_refused(server: Running) -> None:
    deepl = pytest.importorskip("deepl")
    client = deepl.DeepLClient("any-key", server_url=server.url)

    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        client.translate_text(DOG, target_lang="FR")


def test_pages_of_other_hosts_may_not_use_a_local_server(server: Running) -> None:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname, where.port)
    connection.request("OPTIONS", "/translate", headers={"origin": "https://elsewhere.example"})
    result = connection.getresponse()
    connection.close()

    assert result.status == 403
    assert result.headers["access-control-allow-origin"] is None


def test_a_text_of_50_000_characters_is_translated_and_the_server_goes_on(server: Running) -> None:
    body = {"q": "a " * 25_000, "source": "en", "target": "de"}
    request = urllib.request.Request(
        server.url + "translate", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as result:
        assert json.load(result)["translatedText"]

    with urllib.request.urlopen(server.url + "health") as result:
        assert json.load(result) == {"status": "ok"}


def test_a_body_of_10_mb_is_refused_and_the_server_goes_on(server: Running) -> None:
    where = urlsplit(server.url)
    connection = http.client.HTTPConnection(where.hostname, where.port)
    connection.request("POST", "/translate", b"q=" + b"x" * 10_000_000)
    result = connection.getresponse()

    assert result.status == 413
    assert "larger than" in json.load(result)["error"]
    with urllib.request.urlopen(server.url + "health") as result:
        assert result.status == 200
    connection.close()


def test_the_log_tells_no_text(server: Running) -> None:
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(server.url)
    client.translate(BALL, "en", "de")

    log = server.log.read_text()

    assert "POST /translate 200" in log
    assert "children" not in log
    assert "Traceback" not in log
