"""Who may use the server, and how much: hosts and origins, API keys, limits of each client.

A server on a loopback address has no other guard than the names it is addressed by (Host) and the
pages that may call it (Origin, Sec-Fetch-Site): without these checks any web page that its owner
visits could translate with it (a form or an image needs no permission), and read the results after
DNS rebinding. A server on another address is open to all pages, as LibreTranslate's is.

A client is an API key, or an address where no key is required. Counts are kept in memory, so a
restart clears them.
"""

import hmac
import ipaddress
import math
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from limits import RateLimitItem, RateLimitItemPerDay, RateLimitItemPerMinute
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, RateLimiter
from starlette.datastructures import Headers

from transduce.io.atomic_folder import path_identity
from transduce.serve.errors import LOG, HTTPError, is_deepl
from transduce.serve.settings import NO_LIMIT, APIKey, ServerSettings, read_keys

ANY = "*"
CORS_HEADERS = {
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-max-age": "1728000",
    "access-control-expose-headers": "Retry-After, X-Request-ID, X-Ignored-Parameters",
}
"""LibreTranslate's values, more methods, and three exposed headers of our own."""

_CHECK_S = 1.0
_REDIS_S = 0.5  # a request waits, and those after it: a storage that hangs must fail soon
_IPV6_NETWORK = 64  # bits of an address that identify a client; it chooses the others freely


class KeyFile:
    """The accepted API keys: those of the settings, and of their file whenever it changes."""

    def __init__(self, settings: ServerSettings) -> None:
        self._path, self._keys = settings.key_file, settings.keys
        self._identity: tuple[int, ...] = ()  # a replaced worker has the settings of the start
        self._checked = -math.inf

    def find(self, text: str) -> APIKey | None:
        """Return the key equal to `text`, if any; comparison time does not depend on the text."""
        if self._path and time.monotonic() - self._checked >= _CHECK_S:
            self._read_if_changed(self._path)
        encoded = text.encode(errors="surrogatepass")
        matches = [hmac.compare_digest(key.key.encode(), encoded) for key in self._keys]
        return self._keys[matches.index(True)] if True in matches else None

    def _read_if_changed(self, path: Path) -> None:
        self._checked = time.monotonic()
        identity = path_identity(path)
        if identity == self._identity:
            return
        self._identity = identity
        try:
            keys = read_keys(path)
        except (OSError, ValueError) as error:
            LOG.warning("WARNING: API keys not updated, the previous ones stay valid: %s", error)
            return
        if keys != self._keys:
            self._keys = keys
            LOG.info("API keys updated: %d", len(keys))


@contextmanager
def _storage_required() -> Generator[None]:
    """Use the storage of counts.

    Raises:
        HTTPError: 503 if it fails; the log says why.
    """
    try:
        yield
    except StorageError as error:
        LOG.warning("WARNING: requests cannot be counted: %s", error.storage_error)
        raise HTTPError(503, "Requests cannot be counted now", retry_after=1) from None


class ClientLimits:
    """Which clients are accepted, and what they have used."""

    def __init__(self, settings: ServerSettings) -> None:
        uri = settings.limits_storage
        timeouts = {"socket_timeout": _REDIS_S, "socket_connect_timeout": _REDIS_S}
        options = timeouts if uri.startswith(("redis", "valkey")) else {}
        try:
            storage = storage_from_string(uri, wrap_exceptions=True, **options)
        except ConfigurationError as error:
            raise ValueError(f"limits_storage {uri!r}: {error}") from None
        self._settings = settings
        self._keys = KeyFile(settings)
        self._requests = MovingWindowRateLimiter(storage)
        self._characters = FixedWindowRateLimiter(storage)

    def authorize(self, text: str, address: str, *, missing_status: int) -> APIKey | None:
        """Accept a request, count it, and return its API key; None if none is required.

        Args:
            text: the request's API key; "" if it has none.
            address: IP address of the client; "" if unknown.
            missing_status: HTTP status if a key is required and the request has none.

        Raises:
            HTTPError: `missing_status`; 403 for an invalid key; as `count`.
        """
        key = self._keys.find(text) if text and self._settings.keys else None
        self.count(key, address)
        if key is not None or not self._settings.keys:
            return key
        if text:
            raise HTTPError(403, "Invalid API key")
        link = self._settings.get_api_key_link
        action = f"Visit {link}" if link else "Please contact the server operator"
        raise HTTPError(missing_status, f"{action} to get an API key")

    def request_limit(self, key: APIKey | None) -> int:
        """Return the maximum requests per minute of a key, or of an address without one."""
        if key is not None and key.req_limit is not None:
            return key.req_limit
        return self._settings.req_limit

    @_storage_required()
    def count(self, key: APIKey | None, address: str, requests: int = 1) -> None:
        """Count requests of a key, or of an address without one.

        Raises:
            HTTPError: 429 if they exceed the limit per minute, 503 without the storage of counts.
        """
        limit = self.request_limit(key)
        if limit == NO_LIMIT or requests < 1:
            return
        client = f"key {key.user}" if key is not None else client_network(address)
        rate = RateLimitItemPerMinute(limit)
        if limit == 0 or not self._requests.hit(rate, client, cost=requests):
            raise HTTPError(
                429,
                f"Slowdown: {limit} per 1 minute",
                retry_after=_seconds_until_reset(self._requests, rate, client),
            )

    @_storage_required()
    def charge(self, key: APIKey, characters: int, *, path: str) -> None:
        """Count the characters of a request, if they are within its key's daily quota.

        Args:
            characters: their number.
            path: of the request; DeepL's API has its own status.

        Raises:
            HTTPError: 429 if they exceed it, or 456 in DeepL's API; 503 without the storage.
        """
        quota = _daily_limit(key)
        if not self._characters.hit(quota, key.user, cost=characters):
            self.refund(key, characters)
            raise HTTPError(
                456 if is_deepl(path) else 429,  # DeepL has its own status
                f"Quota exceeded: {quota.amount} characters per day",
                retry_after=_seconds_until_reset(self._characters, quota, key.user),
            )

    def refund(self, key: APIKey, characters: int) -> None:
        """Take back the characters of a request that failed."""
        quota = _daily_limit(key)
        storage = self._characters.storage
        with suppress(HTTPError), _storage_required():  # the response stays that of the failure
            storage.incr(quota.key_for(key.user), quota.get_expiry(), amount=-characters)

    @_storage_required()
    def usage(self, key: APIKey) -> tuple[int, int]:
        """Return the characters that a key has used on the current day, and its limit.

        Raises:
            HTTPError: 503 without the storage of counts.
        """
        quota = _daily_limit(key)
        remaining = self._characters.get_window_stats(quota, key.user).remaining
        return quota.amount - remaining, quota.amount


def unmapped_address(address: str) -> str:
    """Return an address; that of IPv4 for one that an IPv6 socket has of it.

    >>> unmapped_address("::ffff:192.0.2.1")
    '192.0.2.1'
    """
    try:
        mapped = ipaddress.IPv6Address(address).ipv4_mapped
    except ValueError:  # of IPv4, or none
        return address
    return str(mapped or address)


def client_network(address: str) -> str:
    """Return what identifies a client: an IPv4 address, or the network of an IPv6 address.

    >>> client_network("10.0.0.1"), client_network("2001:db8::1:2")
    ('10.0.0.1', '2001:db8::/64')
    """
    address = unmapped_address(address)
    try:
        if ipaddress.ip_address(address).version == 4:
            return address
        return str(ipaddress.ip_network((address, _IPV6_NETWORK), strict=False))
    except ValueError:
        return address


def _daily_limit(key: APIKey) -> RateLimitItemPerDay:
    limit = key.daily_characters
    return RateLimitItemPerDay(10**12 if limit == NO_LIMIT else limit)  # DeepL's "unlimited"


def _seconds_until_reset(limiter: RateLimiter, item: RateLimitItem, client: str) -> int:
    reset = limiter.get_window_stats(item, client).reset_time
    return max(1, math.ceil(reset - time.time()))


class AccessPolicy(NamedTuple):
    """Which hosts and origins are allowed; "*" is any."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    """Besides the server's own."""

    @classmethod
    def from_settings(cls, settings: ServerSettings) -> "AccessPolicy":
        """Return the policy: the settings', or what suits the address."""
        local = _is_loopback(settings.host)
        host = settings.host.lower()  # of IPv6, the Host header has it in brackets
        names = ("localhost", "127.0.0.1", "[::1]", host, f"[{host}]")
        hosts = (*names, *settings.allow_hosts) if local else settings.allow_hosts or (ANY,)
        return cls(hosts, settings.allow_origins or (() if local else (ANY,)))

    def refusal(self, headers: Headers) -> str:
        """Return why a request is refused, in one line; "" if it is not."""
        host = headers.get("host", "")
        name = _without_port(host.lower())
        own = name in self.hosts or name.endswith(".localhost")
        if host and ANY not in self.hosts and not own:
            return f"Host {name[:100]!r} is not allowed: start the server with --allow-host"
        origin = headers.get("origin")
        if ANY in self.origins or origin in self.origins:
            return ""
        if origin is None:  # of a program, or a browser that follows a link or embeds an image
            site, *how = (headers.get(f"sec-fetch-{name}") for name in ("site", "mode", "dest"))
            if site in ("cross-site", "same-site") and how != ["navigate", "document"]:
                return (
                    "an image, script or frame of another page is not allowed: let the page "
                    "fetch() it, and start the server with --allow-origin"
                )
            return ""
        if origin.partition("://")[2].lower() != host.lower():
            return f"Origin {origin[:100]!r} is not allowed: start the server with --allow-origin"
        return ""

    def cors_headers(self, headers: Headers) -> dict[str, str]:
        """Return the response headers that let pages of other origins read it."""
        if ANY in self.origins:
            return {"access-control-allow-origin": ANY, **CORS_HEADERS}
        origin = headers.get("origin", "")
        if origin not in self.origins:
            return {"vary": "Origin"} if self.origins else {}
        return {"access-control-allow-origin": origin, "vary": "Origin", **CORS_HEADERS}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _without_port(host: str) -> str:
    """Strip the port of a Host header.

    >>> _without_port("localhost:5000"), _without_port("[::1]:5000")
    ('localhost', '[::1]')
    """
    if host.startswith("["):
        return f"{host.partition(']')[0]}]"
    return host.partition(":")[0]
