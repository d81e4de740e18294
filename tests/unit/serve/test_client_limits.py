"""What a client may use: its keys, its requests per minute, its characters per day."""

import asyncio
import os
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest
from limits.storage import MemoryStorage
from tests.served import Serve

from transduce.serve.access import ClientLimits, KeyFile, client_network
from transduce.serve.settings import APIKey, ServerSettings, read_keys

FIELDS = {"q": "Hello.", "source": "en", "target": "de"}


def test_a_key_is_found_only_in_full() -> None:
    keys = KeyFile(ServerSettings(keys=(APIKey("alpha", 5), APIKey("β"))))

    assert keys.find("alpha") == APIKey("alpha", 5)
    assert keys.find("β") == APIKey("β")
    assert keys.find("alph") is None
    assert keys.find("\ud800") is None


def test_keys_are_read_again_when_their_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys"
    file.write_text("alpha\n")
    keys = KeyFile(ServerSettings(keys=read_keys(file), key_file=file))
    monkeypatch.setattr("transduce.serve.access._CHECK_S", 0.0)

    file.write_text("alpha\nbeta 7\n")
    assert keys.find("beta") == APIKey("beta", 7)

    file.write_text("beta seven\n")  # half a sentence: the old keys hold
    assert keys.find("beta") == APIKey("beta", 7)
    assert "line 1" in caplog.text
    file.unlink()
    assert keys.find("alpha") == APIKey("alpha")

    file.write_text("beta\n")
    assert keys.find("alpha") is None


@pytest.mark.parametrize("storage", ["nowhere://", "redis://localhost"])
def test_a_storage_that_cannot_be_used_is_named(storage: str) -> None:
    if storage.startswith("redis") and find_spec("redis"):
        pytest.skip("redis is installed")

    with pytest.raises(ValueError, match=f"limits_storage '{storage}'"):
        ClientLimits(ServerSettings(limits_storage=storage))


def test_the_storage_of_counts_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    monkeypatch.setattr("transduce.serve.access.storage_from_string", lambda *_, **__: storage)
    key = APIKey("alpha", req_limit=5, daily_characters=9)
    limits = ClientLimits(ServerSettings(keys=(key,)))

    limits.authorize("alpha", "127.0.0.1", missing_status=400)
    limits.charge(key, 3, path="/translate")

    counted = [*storage.events, *storage.storage]
    assert sum(key.user in name for name in counted) == 2
    assert not any("alpha" in name for name in counted)


@pytest.mark.parametrize(
    ("storage", "seconds"),
    [("redis://localhost", 0.5), ("valkey://localhost", 0.5), ("memory://", None)],
)
def test_a_redis_that_hangs_fails_soon(
    storage: str, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, object] = {}

    def open_storage(uri: str, **options: object) -> MemoryStorage:
        given.update(options, uri=uri)
        return MemoryStorage()

    monkeypatch.setattr("transduce.serve.access.storage_from_string", open_storage)
    ClientLimits(ServerSettings(limits_storage=storage))

    assert given["uri"] == storage
    assert given.get("socket_timeout") == given.get("socket_connect_timeout") == seconds


def refuse(*_: object, **__: object) -> NoReturn:
    raise ValueError("connection refused")


class UnreachableStorage(MemoryStorage):
    STORAGE_SCHEME = "unreachable"
    incr = get = acquire_entry = refuse


def test_without_the_storage_of_counts_requests_have_to_wait(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    keys = (APIKey("limited", req_limit=5), APIKey("counted"))
    settings = ServerSettings(keys=keys, limits_storage="unreachable://")
    served = serve(settings=settings)

    for key in keys:
        headers = {"Authorization": f"DeepL-Auth-Key {key.key}"}
        for response in (
            served.ask("POST", "/translate", json=FIELDS, headers=headers),
            served.ask("GET", "/v2/usage", headers=headers),
        ):
            assert response.status_code == 503
            assert response.headers["retry-after"] == "1"
    ClientLimits(settings).refund(keys[0], 6)
    assert caplog.text.count("WARNING: requests cannot be counted: connection refused") == 5
    assert "Traceback" not in caplog.text


def test_an_unchanged_key_file_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("alpha\n")
    keys = KeyFile(ServerSettings(keys=read_keys(file), key_file=file))
    assert keys.find("alpha") == APIKey("alpha")
    file.write_text("betas\n")
    os.utime(file, (0, 0))

    assert keys.find("betas") is None  # within a second


def test_a_process_that_starts_later_reads_the_keys_of_now(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("new\n")
    keys = KeyFile(ServerSettings(keys=(APIKey("old"),), key_file=file))

    assert keys.find("old") is None
    assert keys.find("new") == APIKey("new")


def test_requests_per_minute_are_counted_by_key_or_address(serve: Serve) -> None:
    keys = (APIKey("slow", req_limit=2), APIKey("fast", req_limit=-1), APIKey("plain"))
    served = serve(settings=ServerSettings(keys=keys, req_limit=3))

    def statuses(key: str) -> list[int]:
        return [
            served.ask("POST", "/translate", json=FIELDS | {"api_key": key}).status_code
            for _ in range(4)
        ]

    assert statuses("slow") == [200, 200, 429, 429]
    assert statuses("plain") == [200, 200, 200, 429]
    assert statuses("fast") == [200] * 4
    assert statuses("wrong") == [403, 403, 403, 429]  # guesses, by address
    rejected = served.ask("POST", "/translate", json=FIELDS | {"api_key": "slow"})
    assert rejected.json() == {"error": "Slowdown: 2 per 1 minute"}
    assert 0 < int(rejected.headers["retry-after"]) <= 60
    deepl = served.ask("GET", "/v2/usage", headers={"Authorization": "DeepL-Auth-Key slow"})
    assert deepl.status_code == 429
    assert deepl.json() == {"message": "Slowdown: 2 per 1 minute"}


def test_a_batch_counts_as_many_requests_as_its_texts(serve: Serve) -> None:
    served = serve(settings=ServerSettings(req_limit=6))
    batch = FIELDS | {"q": ["One.", "Two.", "Three."]}
    deepl = {"text": ["One.", "Two."], "target_lang": "DE"}

    assert served.ask("POST", "/translate", json=batch).status_code == 200
    assert served.ask("POST", "/v2/translate", json=deepl).status_code == 200
    assert served.ask("POST", "/v2/translate", json=deepl).status_code == 429
    refused = served.ask("POST", "/translate", json=FIELDS)
    assert refused.json() == {"error": "Slowdown: 6 per 1 minute"}


def test_a_request_that_no_waiting_makes_small_enough_is_refused_for_good(serve: Serve) -> None:
    keys = (APIKey("counted", req_limit=6), APIKey("ten", daily_characters=10))
    served = serve(settings=ServerSettings(keys=keys))
    batch = FIELDS | {"q": ["One."] * 7, "api_key": "counted"}
    text = FIELDS | {"q": "Hello there.", "api_key": "ten"}

    for fields, message in (
        (batch, "request (7) exceeds requests per minute (6): send it in parts"),
        (text, "request (12) exceeds daily quota (10): send it in parts"),
    ):
        refused = served.ask("POST", "/translate", json=fields)
        assert refused.status_code == 400
        assert refused.json() == {"error": f"Invalid request: {message}"}
        assert "retry-after" not in refused.headers
    batch["q"] = ["One."] * 5  # the refused one counted once
    assert served.ask("POST", "/translate", json=batch).status_code == 200
    deepl = {"text": ["Hello there."], "target_lang": "DE"}
    key = {"Authorization": "DeepL-Auth-Key ten"}
    assert served.ask("POST", "/v2/translate", json=deepl, headers=key).status_code == 456


def test_without_keys_the_address_counts_and_health_is_free(serve: Serve) -> None:
    served = serve(settings=ServerSettings(req_limit=1))

    assert served.ask("POST", "/translate", json=FIELDS).status_code == 200
    assert served.ask("POST", "/detect", json={"q": "Hello."}).status_code == 429
    for path in ("/health", "/languages", "/", "/metrics"):
        assert served.ask("GET", path).status_code == 200


def test_the_minute_passes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(settings=ServerSettings(req_limit=1))
    served.ask("POST", "/translate", json=FIELDS)
    now = time.time()
    monkeypatch.setattr("limits.storage.memory.time.time", lambda: now + 61)

    assert served.ask("POST", "/translate", json=FIELDS).status_code == 200


def test_a_daily_quota_is_charged_for_successes_of_every_api(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("ten", daily_characters=14),)))
    key = {"Authorization": "DeepL-Auth-Key ten"}

    def usage() -> dict[str, int]:
        return served.ask("GET", "/v2/usage", headers=key).json()

    assert usage() == {"character_count": 0, "character_limit": 14}
    assert served.ask("POST", "/translate", json=FIELDS, headers=key).status_code == 200
    failed = served.ask("POST", "/translate", json=FIELDS | {"target": "xx"}, headers=key)
    assert failed.status_code == 400
    assert usage()["character_count"] == 6
    deepl = {"text": ["Hello."], "target_lang": "DE", "source_lang": "EN"}
    assert served.ask("POST", "/v2/translate", json=deepl, headers=key).status_code == 200
    assert usage()["character_count"] == 12

    refused = served.ask("POST", "/v2/translate", json=deepl, headers=key)
    assert refused.status_code == 456
    assert refused.json() == {"message": "Quota exceeded: 14 characters per day"}
    assert int(refused.headers["retry-after"]) > 3600
    refused = served.ask("POST", "/translate", json=FIELDS, headers=key)
    assert refused.status_code == 429
    document = {"file": ("a.txt", b"Hello."), "target_lang": (None, "DE")}
    assert served.ask("POST", "/v2/document", files=document, headers=key).status_code == 456


def test_parallel_requests_stay_within_a_quota(serve: Serve) -> None:
    served = serve(settings=ServerSettings(keys=(APIKey("ten", daily_characters=14),)))
    key = {"Authorization": "DeepL-Auth-Key ten"}
    loud = served.loud["en-de"]
    loud.go.clear()

    async def go() -> list[int]:
        async with served.client() as client:
            ask = partial(client.post, "/translate", json=FIELDS, headers=key)
            asks = [asyncio.create_task(ask()) for _ in range(4)]
            await asyncio.sleep(0.1)
            loud.go.set()
            return [response.status_code for response in await asyncio.gather(*asks)]

    assert sorted(asyncio.run(go())) == [200, 200, 429, 429]
    assert served.ask("GET", "/v2/usage", headers=key).json()["character_count"] == 12


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_a_client_is_an_address_or_a_network(address: str, client: str) -> None:
    assert client_network(address) == client
