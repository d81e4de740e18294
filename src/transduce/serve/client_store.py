"""What clients come back for: translated documents, the state of their jobs, glossaries.

The processes of a server share it, in SQLite. A single process has a database without a name, which
the system deletes with it, even if it is killed. Glossaries are kept in the file of the translation
memory, if the server has one.
"""

import asyncio
import math
import sqlite3
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from transduce.serve.errors import LOG, REPAIR_S, HTTPError

_OVERHEAD = 1000  # bytes that a value counts besides its content


class ClientStore:
    """Values by kind and key, some of them for a limited time.

    Its methods raise HTTPError, 503, if SQLite fails; the log says why.
    """

    def __init__(self, path: Path | None = None, *, durable: bool = False) -> None:
        """Open a file that processes share, made if missing, or a store of this process alone.

        `durable` says whether values are on disk when a call returns.

        Raises:
            ValueError: if it cannot be written.
        """
        self._path = path or "temporary file"
        try:
            self._database = sqlite3.connect(
                path or "", isolation_level=None, check_same_thread=False, timeout=30
            )
            self._database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS item "
                "(kind TEXT, key TEXT, value BLOB, expires REAL, PRIMARY KEY (kind, key))"
            )
        except sqlite3.Error as error:
            raise ValueError(f"{self._path}: cannot store what clients send: {error}") from None

    def put(self, kind: str, key: str, value: bytes, *, retention_s: float = math.inf) -> None:
        """Store a value, in the place of an earlier one of that key.

        Args:
            kind: what it is, such as "document".
            retention_s: seconds after which it is deleted.
        """
        self._execute(
            "INSERT INTO item VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET value = ?3",
            *(kind, key, value, time.time() + retention_s),
        )
        if retention_s < math.inf:
            asyncio.get_running_loop().call_later(retention_s, self._delete_expired)

    def replace(self, kind: str, key: str, value: bytes, *, old: bytes) -> bool:
        """Store a value in the place of `old`; return whether that was still stored."""
        with self._usable() as database:
            statement = "UPDATE item SET value = ? WHERE kind = ? AND key = ? AND value = ?"
            return database.execute(statement, (value, kind, key, old)).rowcount == 1

    def get(self, kind: str, key: str) -> bytes | None:
        """Return a value; None if it does not exist or has expired."""
        rows = self._execute(
            "SELECT value FROM item WHERE kind = ? AND key = ? AND expires > ?",
            *(kind, key, time.time()),
        )
        return rows[0] if rows else None

    def values(self, kind: str) -> Sequence[bytes]:
        """Return all values of a kind, the oldest first."""
        return self._execute(
            "SELECT value FROM item WHERE kind = ? AND expires > ? ORDER BY rowid",
            *(kind, time.time()),
        )

    def size(self, kind: str) -> int:
        """Return the bytes of all values of a kind, each with an overhead of one kilobyte."""
        statement = "SELECT ifnull(sum(? + length(value)), 0) FROM item WHERE kind = ?"
        with self._usable() as database:
            return database.execute(statement, (_OVERHEAD, kind)).fetchone()[0]

    def delete(self, kind: str, key: str) -> None:
        """Delete a value, if it exists."""
        self._execute("DELETE FROM item WHERE kind = ? AND key = ?", kind, key)

    def close(self) -> None:
        """Close the database; without a name, it is deleted."""
        self._database.close()

    def _delete_expired(self) -> None:
        with suppress(HTTPError):  # no client waits for it
            self._execute("DELETE FROM item WHERE expires <= ?", time.time())

    def _execute(self, statement: str, *values: object) -> list[bytes]:
        with self._usable() as database:
            return [row[0] for row in database.execute(statement, values)]

    @contextmanager
    def _usable(self) -> Generator[sqlite3.Connection]:
        """Use the database; its errors are logged, and become the client's."""
        try:
            yield self._database
        except sqlite3.Error as error:
            LOG.warning("WARNING: %s: %s", self._path, error)
            raise HTTPError(
                503, "The server's store cannot be used now", retry_after=REPAIR_S
            ) from None
