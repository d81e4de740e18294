"""Server settings, with LibreTranslate's names and defaults where they exist.

The command line overrides the environment (LT_PORT for --port), which overrides these defaults.
"""

import hashlib
import ipaddress
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from typing_extensions import Doc

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

    @property
    def user(self) -> str:
        """A hash of the key, which may be stored."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerSettings:
    """Address, limits and keys of a server. A setting with a `Doc` is an option of `serve`.

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    host: Annotated[str, Doc("Address to bind; 0.0.0.0: all interfaces.")] = "127.0.0.1"
    port: Annotated[int, Doc("TCP port; 0: a free one.")] = 5000
    processes: Annotated[
        int, Doc("Processes that share the address; each has its models and its limits.")
    ] = 1
    beam: Annotated[int | None, Doc("Beam size [default: the model's].")] = None
    char_limit: Annotated[int, Doc("Maximum characters per text (-1 = any).")] = NO_LIMIT
    batch_limit: Annotated[int, Doc("Maximum texts per request (-1 = any).")] = 1000
    work_limit: Annotated[
        int,
        Doc("Maximum work per request, in sentences of 128 characters at a beam of 4 (-1 = any)."),
    ] = 10_000
    alternatives_limit: Annotated[int, Doc("Maximum alternatives per text (-1 = any).")] = NO_LIMIT
    req_limit: Annotated[
        int, Doc("Maximum requests per minute of an API key, or address without one (-1 = any).")
    ] = NO_LIMIT
    limits_storage: Annotated[
        str, Doc("Where requests are counted; redis://HOST (needs redis): for all processes.")
    ] = "memory://"
    body_limit: Annotated[int, Doc("Maximum size of a request body in bytes (413).")] = 4 * 2**20
    time_limit_s: Annotated[float, Doc("Response timeout in seconds (504).")] = 60.0
    queue: Annotated[int, Doc("Maximum queued requests per direction (429).")] = 256
    batch_sentences: Annotated[
        int, Doc("Maximum batch size in sentences; a long one counts as several.")
    ] = 128
    wait_ms: Annotated[float, Doc("Maximum wait for a batch to fill, in ms.")] = 3.0
    body_timeout_s: Annotated[float, Doc("Request body timeout in seconds.")] = 30.0
    header_timeout_s: Annotated[float, Doc("Request header timeout in seconds.")] = 10.0
    keep_alive_s: Annotated[float, Doc("Idle timeout of a connection in seconds.")] = 15.0
    client_connection_limit: Annotated[
        int, Doc("Maximum concurrent connections of an address (-1 = any; 429).")
    ] = NO_LIMIT
    trusted_proxies: Annotated[
        tuple[str, ...],
        Doc("Address of a reverse proxy whose X-Forwarded-For names the client; repeatable."),
    ] = ()
    drain_s: Annotated[float, Doc("Seconds to finish requests on shutdown.")] = 30.0
    key_file: Annotated[
        Path | None,
        Doc(
            "API keys, one per line, each optionally followed by its limits: characters per text, "
            "requests per minute, characters per day (-1 = any). Read again when changed."
        ),
    ] = None
    allow_hosts: Annotated[
        tuple[str, ...], Doc("Host name of a proxy that clients may use; repeatable, * = any.")
    ] = ()
    allow_origins: Annotated[
        tuple[str, ...], Doc("Origin of web pages that may use the server; repeatable, * = any.")
    ] = ()
    url_prefix: Annotated[str, Doc("Path under which everything is served.")] = ""
    memory: Annotated[
        Path | None,
        Doc(
            "Take texts from this translation memory, and store corrections (POST /suggest, page) "
            "and DeepL's glossaries in it."
        ),
    ] = None
    explorer: Annotated[
        bool, Doc("Serve a page that shows every number of a model; it contains the weights.")
    ] = False
    disable_web_ui: Annotated[bool, Doc("Serve the API only.")] = False
    get_api_key_link: Annotated[str, Doc("URL where users get an API key.")] = ""
    metrics_auth_token: Annotated[str, Doc("Bearer token required by /metrics.")] = ""
    frontend_timeout: Annotated[int, Doc("Typing delay of the page in ms.")] = 500
    quiet: Annotated[bool, Doc("Do not log requests.")] = False

    header_limit: int = 64 * 2**10
    """Maximum bytes of a request head, including the query string (400)."""
    keys: tuple[APIKey, ...] = ()
    """Accepted API keys; empty means no key is required."""
    store_path: Path | None = None
    """Where the processes of a server keep what clients stored; None if there is one."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, not {self.port}")
        minima = {
            **dict.fromkeys(("char_limit", "batch_limit", "work_limit", "req_limit"), NO_LIMIT),
            **dict.fromkeys(("alternatives_limit", "client_connection_limit"), NO_LIMIT),
            **dict.fromkeys(("queue", "batch_sentences", "body_limit", "processes"), 1),
            **dict.fromkeys(("wait_ms", "frontend_timeout", "drain_s"), 0),
            "header_limit": 1024,
            "beam": 1,
        }
        for name, minimum in minima.items():
            value = getattr(self, name)
            if value is not None and not minimum <= value < math.inf:  # NaN fails it too
                finite = " and finite" * isinstance(value, float)
                raise ValueError(f"{name} must be at least {minimum}{finite}, not {value}")
        for name in ("time_limit_s", "header_timeout_s", "body_timeout_s", "keep_alive_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, not {getattr(self, name)}")
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
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
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
