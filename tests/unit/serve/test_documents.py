"""Documents: translated whole, kept for a while, found by their name alone."""

import asyncio
import threading
import time

import httpx
import pytest
from tests.served import Serve, Served

from transduce.documents.document import Document
from transduce.documents.formats import read_document
from transduce.serve import documents
from transduce.serve.settings import APIKey, ServerSettings

EN_DE = {"source": "en", "target": "de"}
SRT = (
    b"1\r\n00:00:01,000 --> 00:00:02,500\r\nIt rains.\r\n\r\n"
    b"2\r\n00:00:03,000 --> 00:00:04,000\r\nBye.\r\n"
)


def upload(served: Served, name: str, content: bytes, **fields: str) -> httpx.Response:
    result = EN_DE | fields
    return served.ask("POST", "/translate_file", data=result, files={"file": (name, content)})


def fetched(served: Served, response: httpx.Response) -> httpx.Response:
    assert response.status_code == 200, response.text
    url = response.json()["translatedFileUrl"]
    assert url.startswith("http://localhost:5000/download_file/")
    return served.ask("GET", url.removeprefix("http://localhost:5000"))


def error(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return response.json()["error"]


def test_a_document_comes_back_as_an_attachment(served: Served) -> None:
    result = fetched(served, upload(served, "note.txt", b"It rains.\n\n  Bye.\n"))

    assert result.content == b"IT RAINS.\n\n  BYE.\n"
    assert result.headers["content-disposition"].startswith('attachment; filename="note_de.txt"')


def test_the_structure_of_subtitles_stays(served: Served) -> None:
    result = fetched(served, upload(served, "film.srt", SRT))

    assert result.content == SRT.replace(b"It rains", b"IT RAINS").replace(b"Bye", b"BYE")


def test_the_tags_of_a_page_stay(served: Served) -> None:
    page = b"<html><body><p>A <b>red</b> hat</p></body></html>"

    result = fetched(served, upload(served, "a.HTML", page))

    assert result.content == b"<html><body><p>A <b>RED</b> HAT</p></body></html>"


@pytest.mark.parametrize(
    ("name", "content", "translated"),
    [
        ("a.json", b'{"hi": "A dog {name}"}', b'{"hi": "A DOG {name}"}'),
        ("a.yml", b"hi: 'A dog' # no text\n", b"hi: 'A DOG' # no text\n"),
        ("a.strings", b'"hi" = "A dog %@";', b'"hi" = "A DOG %@";'),
        (
            "a.xcstrings",
            b'{"sourceLanguage":"en","strings":{"A dog %@":{}}}',
            b'{"sourceLanguage":"en","strings":{"A dog %@":{"localizations":{"de":{"stringUnit":{'
            b'"state":"needs_review","value":"A DOG %@"}}}}}}',
        ),
        ("a.properties", b"hi = A dog {0}\n", b"hi = A DOG {0}\n"),
    ],
)
def test_values_of_catalogues_are_translated(
    served: Served, name: str, content: bytes, translated: bytes
) -> None:
    assert fetched(served, upload(served, name, content)).content == translated


def test_each_document_has_a_name_of_its_own(served: Served) -> None:
    urls = {upload(served, "a.txt", b"x").json()["translatedFileUrl"] for _ in range(3)}

    assert len(urls) == 3
    assert all(len(url.rpartition("/")[2]) > 24 + len("a_de.txt") for url in urls)


def test_a_name_with_folders_keeps_its_last_part(served: Served) -> None:
    for name in ("../../etc/note.txt", "C:\\docs\\note.txt", "/note.txt", "no\tte.txt"):
        result = fetched(served, upload(served, name, b"x"))
        assert result.headers["content-disposition"].count("te_de.txt") == 2
        assert "/" not in result.headers["content-disposition"].partition("filename*")[0]


def test_a_name_in_other_letters_is_kept(served: Served) -> None:
    result = fetched(served, upload(served, "Übung 1.txt", b"x"))

    assert "filename*=UTF-8''%C3%9Cbung_1_de.txt" in result.headers["content-disposition"]


def test_a_long_document_is_asked_for_in_parts(served: Served) -> None:
    lines = "".join(f"Line {n}.\n" for n in range(101))

    result = fetched(served, upload(served, "a.txt", lines.encode()))

    assert result.text == lines.upper()


def test_auto_finds_out_the_language_of_the_whole(serve: Serve) -> None:
    served = serve("en-fr", "de-fr")
    text = "Das ist ein Haus mit einem Garten.\nJa.\n"

    upload(served, "a.txt", text.encode(), source="auto", target="fr")

    assert "Ja." in served.loud["de-fr"].received


def test_styles_of_a_page_say_nothing_of_its_language(serve: Serve) -> None:
    pytest.importorskip("lingua")
    served = serve("en-fr", "de-fr")
    comment = "/* The colours of all the pages of this site are set in this file. */\n" * 200
    page = f"<style>{comment}</style><p>Das ist ein Haus mit einem Garten.</p>"

    upload(served, "a.html", page.encode(), source="auto", target="fr")

    assert served.loud["de-fr"].received == ["Das ist ein Haus mit einem Garten."]


def test_translations_are_kept_for_their_time(served: Served) -> None:
    responses = [upload(served, "a.txt", b"One.") for _ in range(101)]

    assert fetched(served, responses[0]).content == b"ONE."


def test_documents_are_refused_while_too_many_are_kept(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 1000)
    first = upload(served, "a.txt", b"One.")

    refused = upload(served, "a.txt", b"Two.")
    deepl = served.ask(
        "POST", "/v2/document", data={"target_lang": "DE"}, files={"file": ("a.txt", b"Two.")}
    )

    assert error(refused, 429) == "Too many documents are stored"
    assert (refused.headers["retry-after"], deepl.status_code) == ("60", 429)
    assert fetched(served, first).content == b"ONE."


def test_few_documents_are_read_at_a_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Semaphore(2)
    crowded: list[bool] = []

    def read(name: str, content: bytes, *, target: str) -> Document:
        crowded.append(not free.acquire(blocking=False))
        time.sleep(0.02)
        free.release()
        return read_document(name, content, target=target)

    async def go() -> list[int]:
        async with served.client() as client:
            files = {"file": ("a.txt", b"One.")}
            asks = [client.post("/translate_file", data=EN_DE, files=files) for _ in range(8)]
            return [response.status_code for response in await asyncio.gather(*asks)]

    monkeypatch.setattr(documents, "read_document", read)

    assert asyncio.run(go()) == [200] * 8
    assert crowded == [False] * 8


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.exe", b"x", "Invalid request: file format not supported"),
        ("a", b"x", "Invalid request: file format not supported"),
        ("a.txt", b"\xff\xfe", "a.txt"),
    ],
)
def test_what_cannot_be_read_is_refused(
    served: Served, name: str, content: bytes, part: str
) -> None:
    assert part in error(upload(served, name, content), 400)


def test_a_form_without_a_file_is_refused(served: Served) -> None:
    result = served.ask("POST", "/translate_file", data=EN_DE)

    assert error(result, 400) == "Invalid request: missing file parameter"


@pytest.mark.parametrize("name", ["source", "target"])
def test_a_form_without_a_language_is_refused(served: Served, name: str) -> None:
    assert error(upload(served, "a.txt", b"x", **{name: ""}), 400).endswith(f"{name} parameter")
    assert error(upload(served, "a.txt", b"", **{name: "zz"}), 400) == "zz is not supported"


def test_a_large_document_is_413(serve: Serve) -> None:
    served = serve(settings=ServerSettings(body_limit=1000))

    error(upload(served, "a.txt", b"x" * 1000), 413)


def test_a_document_needs_a_key_as_a_text_does(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("secret"),)))

    assert error(upload(served, "a.txt", b"x", api_key="wrong"), 403)
    assert upload(served, "a.txt", b"x", api_key="secret").status_code == 200


def test_a_full_queue_makes_a_document_wait(serve: Serve) -> None:
    served = serve(settings=ServerSettings(queue=1))
    loud = served.loud["en-de"]
    loud.go.clear()

    async def go() -> httpx.Response:
        async with served.client() as client:
            text = {"q": "Hello.", **EN_DE}
            first = asyncio.create_task(client.post("/translate", json=text))
            await asyncio.to_thread(loud.started.wait, 5)
            second = asyncio.create_task(client.post("/translate", json=text))
            await asyncio.sleep(0.05)
            files = {"file": ("a.txt", b"One.")}
            third = asyncio.create_task(client.post("/translate_file", data=EN_DE, files=files))
            await asyncio.sleep(0.05)
            loud.go.set()
            await asyncio.gather(first, second)
            return await third

    assert asyncio.run(go()).status_code == 200


@pytest.mark.parametrize(
    "name", ["none.txt", "%2e%2e%2fpyproject.toml", "..%5cx", "%00", "a" * 9999]
)
def test_other_paths_lead_nowhere(served: Served, name: str) -> None:
    error(served.ask("GET", f"/download_file/{name}"), 404)


def test_a_host_that_is_none_is_not_repeated(serve: Serve) -> None:
    served = serve("en-de", settings=ServerSettings(allow_hosts=("*",)))

    result = served.ask(
        "POST",
        "/translate_file",
        data=EN_DE,
        files={"file": ("a.txt", b"x")},
        headers={"host": "evil.example/<script>"},
    )

    assert "evil" not in result.json()["translatedFileUrl"]


def test_a_document_does_not_keep_a_text_waiting(served: Served) -> None:
    lines = b"".join(b"Line %d.\n" % n for n in range(3000))

    async def go() -> float:
        async with served.client() as client:
            files = {"file": ("a.txt", lines)}
            book = asyncio.create_task(client.post("/translate_file", data=EN_DE, files=files))
            await asyncio.sleep(0.05)
            begun = time.perf_counter()
            text = await client.post("/translate", json={"q": "Hello.", **EN_DE})
            waited = time.perf_counter() - begun
            assert not book.done()
            assert text.status_code == 200
            assert (await book).status_code == 200
            return waited

    assert asyncio.run(go()) < 2.0
