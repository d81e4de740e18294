"""Who may use the server, and request heads that never reach the application."""

import asyncio
import codecs
import gzip
import json
import time

import httpx
import pytest
from tests.served import Serve, Served

from transduce.cli.serve import warn_of_unsupported
from transduce.serve.settings import ServerSettings

HELLO = {"q": "Hello.", "source": "en", "target": "de"}
UNDOCUMENTED = {"": {"": {}}}  # the document lies under the prefix, or is refused, too
PUBLIC = ServerSettings(host="0.0.0.0")


def post(served: Served, **headers: str) -> httpx.Response:
    return served.ask("POST", "/translate", json=HELLO, headers=headers)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:5000", "127.0.0.1", "127.0.0.1:81", "[::1]:5000", "mt.localhost:5000"],
)
def test_a_local_server_answers_to_its_own_names(served: Served, host: str) -> None:
    assert post(served, host=host).json()["translatedText"] == "HELLO."


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:5000", "localhost.evil"])
def test_a_rebound_name_is_refused(served: Served, host: str) -> None:
    """After DNS rebinding a web page's requests have the page's own name in Host."""
    answer = post(served, host=host)

    assert answer.status_code == 403
    assert "--allow-host" in answer.json()["error"]


def test_a_page_of_another_origin_is_refused(served: Served) -> None:
    """A form of a web page is posted without asking the server first."""
    answer = post(served, origin="https://evil.example")

    assert answer.status_code == 403
    assert "--allow-origin" in answer.json()["error"]
    assert not served.loud["en-de"].received
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("how", "status"),
    [
        (("cross-site", "no-cors", "image"), 403),
        (("same-site", "no-cors", "script"), 403),
        (("cross-site", "navigate", "iframe"), 403),
        (("cross-site", "navigate", "document"), 200),
        (("same-origin", "cors", "empty"), 200),
        (("none", "navigate", "document"), 200),
    ],
)
def test_an_image_of_another_page_is_refused(
    served: Served, how: tuple[str, str, str], status: int
) -> None:
    """Browsers send no Origin with it; its address alone would run the model."""
    headers = dict(zip(("sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"), how, strict=True))
    words = {"q": "Hello.", "langpair": "en|de"}

    answer = served.ask("GET", "/translate", params=words, headers=headers)

    assert answer.status_code == status
    assert bool(served.loud["en-de"].received) == (status == 200)


def test_its_own_page_may_use_a_local_server(served: Served) -> None:
    assert post(served, origin="http://localhost:5000").status_code == 200


def test_allowed_hosts_and_origins_are_accepted(serve: Serve) -> None:
    settings = ServerSettings(allow_hosts=("mt.example",), allow_origins=("https://app.example",))
    served = serve("en-de", settings=settings)

    answer = post(served, host="mt.example", origin="https://app.example")

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["vary"] == "Origin"
    assert post(served, origin="https://other.example").status_code == 403


def test_a_public_server_answers_to_every_name_and_page(serve: Serve) -> None:
    served = serve("en-de", settings=PUBLIC)

    answer = post(served, host="mt.example", origin="https://a.example")

    assert answer.status_code == 200
    assert post(served, **{"sec-fetch-site": "cross-site"}).status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"


def test_a_public_server_can_be_restricted(serve: Serve) -> None:
    settings = ServerSettings(
        host="0.0.0.0", allow_hosts=("mt.example",), allow_origins=("https://mt.example",)
    )
    served = serve("en-de", settings=settings)
    served.documented = UNDOCUMENTED

    assert post(served, host="evil.example").status_code == 403
    assert post(served, host="mt.example", origin="https://evil.example").status_code == 403
    assert post(served, host="mt.example").status_code == 200


def test_probes_may_use_any_address(serve: Serve) -> None:
    settings = ServerSettings(host="0.0.0.0", allow_hosts=("mt.example",))
    served = serve("en-de", settings=settings)
    served.documented = UNDOCUMENTED

    def status(path: str) -> int:
        return served.ask("GET", path, headers={"host": "10.0.0.7:5000"}).status_code

    assert [status(path) for path in ("/health", "/ready", "/languages")] == [200, 200, 403]


def test_a_refusal_has_the_shape_of_its_api(served: Served) -> None:
    answer = served.ask("POST", "/v2/translate", json={}, headers={"host": "evil.example"})

    assert answer.status_code == 403
    assert "--allow-host" in answer.json()["message"]


def test_a_length_with_a_transfer_encoding_is_refused(served: Served) -> None:
    answer = post(served, **{"transfer-encoding": "chunked", "content-length": "10"})

    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"


def test_a_head_above_the_limit_is_refused(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(header_limit=2000))

    assert post(served, cookie="a" * 1000).status_code == 200
    answer = post(served, cookie="a" * 2000)
    assert answer.status_code == 400
    assert "larger than 2000 bytes" in answer.json()["error"]


def test_a_compressed_body_is_unsupported(served: Served) -> None:
    answer = served.ask(
        "POST",
        "/translate",
        content=gzip.compress(json.dumps(HELLO).encode()),
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )

    assert answer.status_code == 415
    assert "Content-Encoding 'gzip'" in answer.json()["error"]


def test_a_byte_order_mark_is_ignored(served: Served) -> None:
    answer = served.ask(
        "POST",
        "/translate",
        content=codecs.BOM_UTF8 + json.dumps(HELLO).encode(),
        headers={"content-type": "application/json"},
    )

    assert answer.json()["translatedText"] == "HELLO."


def test_utf_16_is_named(served: Served) -> None:
    answer = served.ask(
        "POST",
        "/translate",
        content=json.dumps(HELLO).encode("utf-16"),
        headers={"content-type": "application/json"},
    )

    assert answer.status_code == 400
    assert "UTF-16, not UTF-8" in answer.json()["error"]


def test_everything_is_served_under_a_prefix(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(url_prefix="/mt"))
    served.documented = UNDOCUMENTED
    answer = served.ask("POST", "/mt/translate", json=HELLO)
    page = served.ask("GET", "/mt")
    document = served.ask(
        "POST",
        "/mt/translate_file",
        data={"source": "en", "target": "de"},
        files={"file": ("a.txt", b"Hello.")},
    )
    address = document.json()["translatedFileUrl"]

    assert answer.json()["translatedText"] == "HELLO."
    assert served.ask("POST", "/translate", json=HELLO).status_code == 404
    assert page.status_code == 307
    assert page.headers["location"].endswith("/mt/")
    assert served.ask("GET", "/mt/").status_code == 200
    assert served.ask("GET", "/mt/page/page.js").status_code == 200
    assert address.startswith("http://localhost:5000/mt/download_file/")
    assert served.ask("GET", address.removeprefix("http://localhost:5000")).content == b"HELLO."
    assert "message" in served.ask("POST", "/mt/v2/translate", json={}).json()
    counted = served.ask("GET", "/mt/metrics").text
    assert 'endpoint="/translate"' in counted


@pytest.mark.parametrize("prefix", ["mt", "/mt/", "/"])
def test_a_prefix_is_checked(prefix: str) -> None:
    with pytest.raises(ValueError, match="url_prefix must begin with /"):
        ServerSettings(url_prefix=prefix)


def test_the_page_can_be_left_out(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(disable_web_ui=True))

    assert served.ask("GET", "/").status_code == 404
    assert served.ask("GET", "/page/page.js").status_code == 404
    assert post(served).status_code == 200


def test_variables_without_effect_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    warn_of_unsupported({"LT_SSL": "true", "LT_HOST": "::", "LT_DEBUG": "", "HOME": "/root"})

    assert capsys.readouterr().err == "WARNING: LT_SSL is not supported and has no effect\n"


def test_the_explorer_is_served_on_request_alone(serve: Serve) -> None:
    served = serve("en-de")
    assert served.ask("GET", "/explore/en-de").status_code == 404
    assert served.ask("GET", "/api/models").json()[0]["explorer"] == ""

    served = serve("en-de", settings=ServerSettings(explorer=True))
    (model,) = served.ask("GET", "/api/models").json()
    page = served.ask("GET", f"/{model['explorer']}")

    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert '<meta name="generator" content="transduce' in page.text
    again = {"if-none-match": page.headers["etag"]}
    assert served.ask("GET", "/explore/en-de", headers=again).status_code == 304
    assert served.ask("GET", "/explore/de-en").status_code == 404


def test_parallel_requests_make_an_explorer_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []

    def make_page(bundle: object) -> str:
        time.sleep(0.05)
        pages.append("<html>")
        return pages[-1]

    monkeypatch.setattr("transduce.serve.app.single_page", make_page)
    served = serve("en-de", settings=ServerSettings(explorer=True))

    async def request_all() -> list[httpx.Response]:
        async with served.client() as client:
            return await asyncio.gather(*[client.get("/explore/en-de") for _ in range(3)])

    assert [response.text for response in asyncio.run(request_all())] == ["<html>"] * 3
    assert len(pages) == 1


def test_a_model_too_large_for_the_explorer_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transduce.web.page._LARGEST_PAGE", 100)
    served = serve("en-de", settings=ServerSettings(explorer=True))

    refused = served.ask("GET", "/explore/en-de")

    assert refused.status_code == 404
    assert refused.json()["error"].startswith("en-de cannot be shown: ")
