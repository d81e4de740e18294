"""A server with a translation memory: corrections are stored, and used from the next request on."""

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import httpx
import pytest
import torch

from transduce.bundle.bundle import Bundle, Provenance
from transduce.data.config import Languages
from transduce.data.tokenizer import Tokenizer
from transduce.memory.store import Entry, TranslationMemory
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.serve import model_registry
from transduce.serve.model_registry import ModelRegistry, load_models
from transduce.serve.settings import APIKey, ServerSettings

if TYPE_CHECKING:
    from tests.served import Serve, Served

PAIR = {"source": "en", "target": "de"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def served(serve: "Serve", store: Path) -> "Served":
    return serve(settings=ServerSettings(memory=store))


def translation(served: "Served", text: str, **fields: object) -> object:
    return served.post("/translate", q=text, **PAIR, **fields).json()["translatedText"]


def test_a_correction_is_given_back_and_the_model_is_not_run(served: "Served") -> None:
    assert translation(served, "A dog runs.") == "A DOG RUNS."

    answer = served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)

    assert (answer.status_code, answer.json()) == (200, {"success": True})
    assert translation(served, "A dog runs.") == "Ein Hund läuft."
    assert served.loud["en-de"].received == ["A dog runs."]
    native = served.post("/api/translate", text="A dog runs.", **PAIR).json()
    assert (native["text"], native["from_memory"], native["sentences"]) == (
        "Ein Hund läuft.",
        1,
        [],
    )
    deepl = served.post("/v2/translate", text=["A dog runs."], target_lang="DE")
    assert deepl.json()["translations"][0]["text"] == "Ein Hund läuft."


def test_a_correction_of_several_lines_is_sent_as_a_form(served: "Served") -> None:
    form = {"q": "A dog\r\nruns.", "s": "Ein Hund\r\nläuft.", **PAIR}

    assert served.ask("POST", "/suggest", data=form).status_code == 200

    assert translation(served, "A dog\nruns.") == "Ein Hund\nläuft."


def test_the_newest_correction_counts(served: "Served") -> None:
    for target in ("Ein Hund rennt.", "Der Hund läuft."):
        served.post("/suggest", q="A dog runs.", s=target, **PAIR)

    assert translation(served, "A dog runs.") == "Der Hund läuft."


def test_a_sentence_of_a_longer_text_or_in_html_is_replaced(served: "Served") -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)

    assert translation(served, "Yes, sir! A dog runs.") == "YES, SIR! Ein Hund läuft."
    assert translation(served, "<p>A dog runs.</p>", format="html") == "<p>Ein Hund läuft.</p>"
    native = served.post("/api/translate", text="Yes, sir! A dog runs.", **PAIR).json()
    assert native["from_memory"] == 1
    assert [sentence["text"] for sentence in native["sentences"]] == [
        "YES, SIR!",
        "Ein Hund läuft.",
    ]
    assert "A dog runs." not in served.loud["en-de"].received


def test_tags_have_their_place_in_a_sentence_of_the_memory(served: "Served") -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)
    page, expected = "<p>A <b>dog</b> runs.</p>", "<p>Ein <b>Hund</b> läuft.</p>"

    answer = served.post("/translate", q=page, format="html", alternatives=1, **PAIR).json()

    assert (answer["translatedText"], answer["alternatives"]) == (expected, [])


def test_the_white_space_around_a_text_stays(served: "Served") -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)

    assert translation(served, "\n  A dog runs. \n") == "\n  Ein Hund läuft. \n"


def test_a_sentence_is_replaced_in_alternatives_too(served: "Served") -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)

    answer = served.post("/translate", q="Yes, sir! A dog runs.", alternatives=1, **PAIR).json()

    assert answer["alternatives"] == ["YES, SIR! 2 Ein Hund läuft."]


def test_a_prefix_is_obeyed(served: "Served") -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)

    answer = served.post("/api/translate", text="A dog runs.", prefix="Der", **PAIR).json()

    assert (answer["text"], answer["from_memory"]) == ("Der A DOG RUNS.", 0)


def test_a_correction_has_time_and_user_and_never_the_key(serve: "Serve", store: Path) -> None:
    settings = ServerSettings(memory=store, keys=(APIKey("geheim"),))
    served = serve(settings=settings)

    served.post("/suggest", q="Yes.", s="Ja.", api_key="geheim", **PAIR)

    with TranslationMemory(store) as memory:
        (entry,) = memory.entries()
    assert (entry.source, entry.target, entry.origin) == ("Yes.", "Ja.", "correction")
    assert entry.created.startswith("20")
    assert len(entry.user) == 16
    assert b"geheim" not in b"".join(path.read_bytes() for path in store.parent.glob("memory.db*"))


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"s": "Ja."}, 400, "missing q parameter"),
        ({"q": "Yes."}, 400, "missing s parameter"),
        ({"q": "Yes.", "s": " "}, 400, "missing s parameter"),
        ({"q": "\0", "s": "Ja."}, 400, "missing q parameter"),
        ({"q": "Yes.", "s": ["Ja."]}, 400, "s parameter is not a text"),
        ({"q": "Yes.", "s": "Ja." * 900}, 400, "exceeds text limit"),
        ({"q": "Yes.", "s": "Ja.", "target": "fr"}, 400, "fr is not supported"),
    ],
)
def test_a_wrong_correction_is_refused(
    serve: "Serve", store: Path, fields: dict[str, object], status: int, reason: str
) -> None:
    served = serve(settings=ServerSettings(memory=store, char_limit=2000))

    answer = served.post("/suggest", **(PAIR | fields))

    assert answer.status_code == status
    assert reason in answer.json()["error"]
    with TranslationMemory(store) as memory:
        assert len(memory) == 0


def test_settings_name_suggestions(served: "Served") -> None:
    assert served.ask("GET", "/frontend/settings").json()["suggestions"] is True


def test_a_suggestion_is_no_batch(serve: "Serve", store: Path) -> None:
    served = serve(settings=ServerSettings(memory=store, req_limit=1, batch_limit=1))

    assert served.post("/suggest", q="Yes.", s="Ja.", **PAIR).status_code == 200


def test_a_memory_that_fails_is_logged_and_not_used(
    served: "Served", store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served.post("/suggest", q="A dog runs.", s="Ein Hund läuft.", **PAIR)
    with sqlite3.connect(store) as database:
        database.execute("DROP TABLE entries")

    refused = served.post("/suggest", q="Yes.", s="Ja.", **PAIR)

    assert translation(served, "A dog runs.") == "A DOG RUNS."
    assert refused.status_code == 503
    assert "correction was not stored" in refused.json()["error"]
    assert f"WARNING: a correction was not stored: {store}: no such table" in caplog.text
    assert f"WARNING: texts are translated without the memory: {store}: no such" in caplog.text
    assert "Traceback" not in caplog.text


GLOSSARY = {"name": "mine", "entries": "Apple\tApfel", "source_lang": "EN", "target_lang": "DE"}


def test_glossaries_outlive_the_server_and_belong_to_their_key(serve: "Serve", store: Path) -> None:
    settings = ServerSettings(memory=store, keys=(APIKey("geheim"), APIKey("other")))

    def ask(served: "Served", verb: str, path: str, key: str, **fields: object) -> httpx.Response:
        headers = {"authorization": f"DeepL-Auth-Key {key}"}
        return served.ask(verb, path, json=fields or None, headers=headers)

    made = ask(serve(settings=settings), "POST", "/v2/glossaries", "geheim", **GLOSSARY).json()
    restarted = serve(settings=settings)  # the first one is still there, as another process is

    path = f"/v2/glossaries/{made['glossary_id']}"
    assert ask(restarted, "GET", "/v2/glossaries", "geheim").json() == {"glossaries": [made]}
    assert ask(restarted, "GET", "/v2/glossaries", "other").json() == {"glossaries": []}
    assert ask(restarted, "GET", path, "other").status_code == 404
    fields = {"text": ["Apple"], "source_lang": "EN", "target_lang": "DE"}
    fields["glossary_id"] = made["glossary_id"]
    assert ask(restarted, "POST", "/v2/translate", "geheim", **fields).status_code == 200
    assert [term.target for term in restarted.loud["en-de"].glossary] == ["Apfel"]
    assert b"geheim" not in b"".join(path.read_bytes() for path in store.parent.glob("memory.db*"))
    with TranslationMemory(store) as memory:
        assert len(memory) == 0


def test_a_glossary_without_a_memory_goes_with_the_server(serve: "Serve") -> None:
    serve().post("/v2/glossaries", **GLOSSARY)

    assert serve().ask("GET", "/v2/glossaries").json() == {"glossaries": []}


def test_a_file_that_is_no_memory_is_refused(serve: "Serve", store: Path) -> None:
    store.write_text("notes")

    with pytest.raises(ValueError, match="cannot be opened as a translation memory"):
        serve(settings=ServerSettings(memory=store))


@pytest.fixture
def bundle(untrained: Transformer, tokenizer: Tokenizer) -> Bundle:
    return Bundle(
        model=untrained,
        tokenizer=tokenizer,
        languages=Languages(source="en", target="de"),
        search=SearchConfig(beam=1, extra=2),
        provenance=Provenance(),
    )


@pytest.fixture
def registry(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModelRegistry]:
    monkeypatch.setattr(model_registry, "_WATCH_S", 0.02)
    bundle.save(tmp_path / "model")
    registry = load_models([tmp_path / "model"], ServerSettings(), engine="torch")
    yield registry
    registry.close()


def wait_for(condition: "object", seconds: float = 20.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing changed"
        time.sleep(0.02)


def other_weights(bundle: Bundle) -> Bundle:
    model = Transformer(bundle.model.config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(0.5)
    return replace(bundle, model=model.eval())


def test_a_model_that_takes_the_place_of_another_is_loaded(
    registry: ModelRegistry, bundle: Bundle, tmp_path: Path
) -> None:
    (before,) = registry.directions

    other_weights(bundle).save(tmp_path / "model")
    wait_for(lambda: registry.directions[0] is not before)

    (after,) = registry.directions
    assert after.sha256 != before.sha256
    assert after.batcher is before.batcher
    assert after.batcher.translator is after.translator is not before.translator


@pytest.mark.parametrize("fault", ["damaged", "language"])
def test_a_model_that_cannot_be_loaded_changes_nothing(
    registry: ModelRegistry,
    bundle: Bundle,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    (before,) = registry.directions

    if fault == "language":
        replace(bundle, languages=Languages(source="en", target="fr")).save(tmp_path / "model")
    else:
        bundle.save(tmp_path / "new")
        (tmp_path / "new" / "config.json").write_text("{}")
        (tmp_path / "model").rename(tmp_path / "old")
        (tmp_path / "new").rename(tmp_path / "model")
    wait_for(lambda: "the previous model stays" in caplog.text)

    assert registry.directions == (before,)
    assert before.batcher.translator is before.translator


def test_an_unexpected_error_does_not_end_the_watch(
    registry: ModelRegistry,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (before,) = registry.directions

    with monkeypatch.context() as broken:
        broken.setattr(model_registry, "sha256", Mock(side_effect=RuntimeError("no digest")))
        other_weights(bundle).save(tmp_path / "model")
        wait_for(lambda: "no digest" in caplog.text)
    bundle.save(tmp_path / "model")
    wait_for(lambda: registry.directions[0] is not before)

    assert registry.directions[0].sha256 == before.sha256


def test_an_import_is_used_too(served: "Served", store: Path) -> None:
    with TranslationMemory(store) as memory:
        memory.add(
            [
                Entry(
                    source="No.", target="Nein.", source_lang="en", target_lang="de", origin="a.tmx"
                )
            ]
        )

    assert translation(served, "No.") == "Nein."
    with sqlite3.connect(store) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
