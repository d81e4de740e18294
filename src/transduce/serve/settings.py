"""Server settings, with LibreTranslate's names and defaults where they exist.

The command line overrides the environment (LT_PORT for --port), which overrides these defaults.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

NO_LIMIT = -1

_KEY_LIMITS = ("character limit", "request limit", "daily quota")


class APIKey(NamedTuple):
    """A key that authorizes requests."""

    key: str
    char_limit: int | None = None
    """Maximum characters per text, -1 = no limit; None applies the server's limit."""
    req_limit: int | None = None
    """Maximum requests per minute, -1 = no limit; None applies the server's limit."""
    daily_characters: int = NO_LIMIT
    """Maximum characters of all texts per day, -1 = no limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """Address, limits and keys of a server. A limit of -1 is no limit.

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 or :: is every interface."""
    port: int = 5000
    """0 selects a free port."""
    char_limit: int = NO_LIMIT
    """Maximum characters per text."""
    batch_limit: int = 1000
    """Maximum texts per request."""
    work_limit: int = 10_000
    """Maximum work per request, in sentences of 128 characters at a beam of 4."""
    req_limit: int = NO_LIMIT
    """Maximum requests per minute of a client: an API key, or an address without one."""
    alternatives_limit: int = NO_LIMIT
    """Maximum alternative translations per text."""
    beam: int | None = None
    """Default beam size; None is the model's."""
    queue: int = 256
    """Maximum queued requests per direction; further ones are rejected (429)."""
    wait_ms: float = 3.0
    """Maximum milliseconds a batch waits for further requests."""
    batch_sentences: int = 128
    """Maximum sentences per batch; a long one counts as several."""
    time_limit_s: float = 60.0
    """Maximum seconds for a response (504)."""
    body_limit: int = 4 * 2**20
    """Maximum bytes of a request body (413)."""
    header_limit: int = 64 * 2**10
    """Maximum bytes of a request head, including the query string (400)."""
    header_timeout_s: float = 10.0
    """Maximum seconds for receiving a request head; slower clients are disconnected."""
    body_timeout_s: float = 30.0
    """Maximum seconds for receiving a body, and for a stalled response."""
    keep_alive_s: float = 15.0
    """Seconds for which an idle connection stays open."""
    connection_limit: int = 1000
    """Maximum concurrent connections; further ones are answered with 503."""
    client_connection_limit: int = NO_LIMIT
    """Maximum concurrent connections of an address; requests on further ones get 429."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks of reverse proxies whose X-Forwarded-For names the client."""
    drain_s: float = 30.0
    """Maximum seconds for finishing accepted requests at shutdown."""
    keys: tuple[APIKey, ...] = ()
    """Accepted API keys; empty means no key is required."""
    key_file: Path | None = None
    """File of the keys, read again when it changes."""
    allow_hosts: tuple[str, ...] = ()
    """Names in the Host header that are accepted besides the address's own; "*" accepts any, the
    default unless the address is a loopback one."""
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server besides its own; "*" is any, the default unless
    the address is a loopback one."""
    memory: Path | None = None
    """Translation memory that texts are taken from, and that suggestions are written to."""
    explorer: bool = False
    """Whether to serve the page with every number of a model, which contains its weights."""
    disable_web_ui: bool = False
    """Whether to serve the API without the page."""
    url_prefix: str = ""
    """Path under which everything is served: "/translate", for example."""
    get_api_key_link: str = ""
    """URL for obtaining a key, for clients without one."""
    metrics_auth_token: str = ""
    """Bearer token required by /metrics; empty means none."""
    frontend_timeout: int = 500
    """Milliseconds after the last keystroke before the page translates."""
    quiet: bool = False
    """Whether to omit the log line of each request."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, not {self.port}")
        minima = {
            **dict.fromkeys(("char_limit", "batch_limit", "work_limit", "req_limit"), NO_LIMIT),
            **dict.fromkeys(("alternatives_limit", "client_connection_limit"), NO_LIMIT),
            **dict.fromkeys(("queue", "batch_sentences", "body_limit", "connection_limit"), 1),
            **dict.fromkeys(("wait_ms", "frontend_timeout", "drain_s"), 0),
            "header_limit": 1024,
            "beam": 1,
        }
        for name, minimum in minima.items():
            value = getattr(self, name)
            if value is not None and not value >= minimum:  # NaN fails the comparison too
                raise ValueError(f"{name} must be at least {minimum}, not {value}")
        for name in ("time_limit_s", "header_timeout_s", "body_timeout_s", "keep_alive_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        prefix = self.url_prefix
        if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
            raise ValueError(f"url_prefix must begin with / and not end with it, not {prefix!r}")
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ValueError(
                    f"trusted_proxies must be IP addresses or networks, not {proxy!r}"
                ) from None


def read_keys(path: Path) -> tuple[APIKey, ...]:
    """Read a file of API keys: one per line, optionally followed by its limits.

    The limits are characters per text, requests per minute and characters per day. Blank lines and
    lines that begin with # are skipped.

    Raises:
        ValueError: one line that names the file and the line number, never the key.
        OSError: if the file cannot be read.
    """
    try:
        lines = path.read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8: write one API key per line") from None
    keys: dict[str, APIKey] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 1 + len(_KEY_LIMITS):
            raise ValueError(
                f"{path}, line {number} has {len(words)} words: write a key, optionally followed "
                f"by its {' and its '.join(_KEY_LIMITS)}"
            )
        for name, word in zip(_KEY_LIMITS, words[1:], strict=False):
            if not (word == "-1" or word.isdecimal()):
                raise ValueError(
                    f"{path}, line {number} has the {name} {word!r}: write a number, or -1 for no "
                    f"limit"
                )
        if words[0] in keys:
            raise ValueError(f"{path}, line {number} repeats an earlier key: remove it")
        keys[words[0]] = APIKey(words[0], *map(int, words[1:]))
    if not keys:
        raise ValueError(f"{path} has no API key: write one per line, or omit --api-keys")
    return tuple(keys.values())
