"""Settings of a server, with LibreTranslate's names and defaults where it has them.

The command line beats the environment (LT_PORT for --port), and that the defaults that stand here.
"""

import hmac
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

NO_LIMIT = -1


class Key(NamedTuple):
    """Who may ask."""

    key: str
    char_limit: int | None = None
    """Most characters of a text in place of the server's limit, -1 for no limit; None leaves it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How a server listens, and what it refuses. -1 is no limit.

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    host: str = "127.0.0.1"
    """The address to listen at; 0.0.0.0 or :: is every one of the machine."""

    port: int = 5000
    """0 takes a free one."""

    char_limit: int = NO_LIMIT
    """Most characters of a text."""

    batch_limit: int = NO_LIMIT
    """Most texts of a request."""

    alternatives_limit: int = NO_LIMIT
    """Most further translations of a text."""

    beam: int | None = None
    """Hypotheses followed where a request does not say; None is the model's own."""

    queue: int = 256
    """Requests that may wait for a direction; the next one is refused (429)."""

    wait_ms: float = 3.0
    """Most time that a batch waits for the requests that are likely to come, in milliseconds."""

    batch_sentences: int = 128
    """Most sentences that are translated together; a long one counts as several."""

    time_limit_s: float = 60.0
    """A request that takes longer is given up (504)."""

    body_limit: int = 4 * 2**20
    """Most bytes of a request's body (413)."""

    header_limit: int = 64 * 2**10
    """Most bytes of a request's head, the query string among them (400)."""

    header_timeout_s: float = 10.0
    """Most time for sending a request's head; who is slower is cut off."""

    body_timeout_s: float = 30.0
    """Most time for sending its body, or for taking in the answer; who is slower is cut off."""

    keep_alive_s: float = 15.0
    """How long a connection without a request stays open."""

    connection_limit: int = 1000
    """Connections at one time; the next one is answered 503."""

    drain_s: float = 30.0
    """Most time for finishing what was accepted when the server is stopped."""

    keys: tuple[Key, ...] = ()
    """Who may ask; empty lets everybody ask."""

    get_api_key_link: str = ""
    """Where keys can be had, for those who ask without one."""

    metrics_auth_token: str = ""
    """What /metrics wants as `Authorization: Bearer`; empty shows them to everybody."""

    frontend_timeout: int = 500
    """Milliseconds for which the page waits for further typing."""

    quiet: bool = False
    """Whether the log has no line for each request."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, not {self.port}")
        for name in ("char_limit", "batch_limit", "alternatives_limit"):
            self._at_least(name, NO_LIMIT)
        for name in ("queue", "batch_sentences", "body_limit", "connection_limit"):
            self._at_least(name, 1)
        self._at_least("header_limit", 1024)
        for name in ("wait_ms", "frontend_timeout", "drain_s"):
            self._at_least(name, 0)
        for name in ("time_limit_s", "header_timeout_s", "body_timeout_s", "keep_alive_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.beam is not None:
            self._at_least("beam", 1)

    def key(self, said: str) -> Key | None:
        """The key that somebody said, if it is one; the time it takes tells nothing of it."""
        same = [hmac.compare_digest(one.key.encode(), _bytes(said)) for one in self.keys]
        return self.keys[same.index(True)] if True in same else None

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not value >= least:
            raise ValueError(f"{name} must be at least {least}, not {value}")


def read_keys(path: Path) -> tuple[Key, ...]:
    """Read a file of API keys: one a line, and behind it, if wanted, its own char limit.

    Blank lines, and those that begin with #, are left out.

    Raises:
        ValueError: one line that names the file and the line at fault, never the key.
        OSError: if there is no such file.
    """
    try:
        lines = path.read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8: write one API key a line") from None
    keys: dict[str, Key] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2:
            raise ValueError(
                f"{path}, line {number} has {len(words)} words: write a key, and behind it at most "
                f"its char limit"
            )
        if len(words) == 2 and not (words[1] == "-1" or words[1].isdecimal()):
            raise ValueError(
                f"{path}, line {number} has the char limit {words[1]!r}: write a number, or -1 for "
                f"none"
            )
        if words[0] in keys:
            raise ValueError(f"{path}, line {number} has a key that an earlier line has: drop one")
        keys[words[0]] = Key(words[0], int(words[1]) if len(words) == 2 else None)
    if not keys:
        raise ValueError(f"{path} has no API key: write one a line, or leave out --api-keys")
    return tuple(keys.values())


def _bytes(said: str) -> bytes:
    return said.encode(errors="surrogatepass")
