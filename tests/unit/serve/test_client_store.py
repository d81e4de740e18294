"""What clients stored: kept for a while, shared by processes, gone with the server."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from transduce.serve.client_store import ClientStore


@pytest.fixture
def store() -> Iterator[ClientStore]:
    store = ClientStore()
    yield store
    store.close()


def test_values_go_after_a_while(store: ClientStore) -> None:
    async def go() -> tuple[bytes | None, bytes | None]:
        store.put("document", "a", b"x", retention_s=0.05)
        before = store.get("document", "a")
        await asyncio.sleep(0.1)
        return before, store.get("document", "a")

    assert asyncio.run(go()) == (b"x", None)


def test_the_size_of_a_kind_is_that_of_its_values(store: ClientStore) -> None:
    for kind, key in (("job", "a"), ("document", "a"), ("document", "b"), ("document", "b")):
        store.put(kind, key, b"12345")
    store.put("document", "c", b"x" * 999)
    store.delete("document", "c")

    assert [store.size(kind) for kind in ("none", "job", "document")] == [0, 1005, 2010]


def test_a_value_takes_the_place_of_an_earlier_one(store: ClientStore) -> None:
    for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        store.put("job", key, value)

    assert store.values("job") == [b"3", b"2"]
    store.delete("job", "a")
    assert store.get("job", "a") is None


def test_processes_share_a_file(tmp_path: Path) -> None:
    first, second = ClientStore(tmp_path / "store"), ClientStore(tmp_path / "store")

    first.put("glossary", "a", b"x")

    assert second.get("glossary", "a") == b"x"
    assert second.replace("glossary", "a", b"y", old=b"x")
    assert not first.replace("glossary", "a", b"z", old=b"x")
    assert first.get("glossary", "a") == b"y"
    first.close()
    second.close()


def test_a_killed_process_loses_nothing_of_a_durable_store(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from transduce.memory.store import TranslationMemory\n"
        "from transduce.serve.client_store import ClientStore\n"
        "memory = TranslationMemory(sys.argv[1])\n"
        "store = ClientStore(Path(sys.argv[1]), durable=True)\n"
        "for number in range(50):\n"
        "    store.put('glossary', str(number), b'x')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "memory.db"

    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)

    assert killed.returncode == -signal.SIGKILL
    store = ClientStore(path, durable=True)
    assert len(store.values("glossary")) == 50
    assert store._database.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert store._database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    store.close()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"missing/memory\.db: cannot store what clients send: "):
        ClientStore(tmp_path / "missing" / "memory.db")


@pytest.mark.skipif(sys.platform == "win32", reason="there the file has a name while it is open")
def test_a_killed_server_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    store = ClientStore()

    store.put("document", "a", bytes(16 << 20))

    assert list(tmp_path.iterdir()) == []
    store.close()
