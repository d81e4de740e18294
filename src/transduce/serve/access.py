"""Who may use the server: names it is addressed by (Host) and pages that may call it (Origin).

A server on a loopback address has no other guard: without these checks any web page that its owner
visits could translate with it (a form needs no permission), and read the results after DNS
rebinding. A server on another address is open to all pages, as LibreTranslate's is.
"""

import ipaddress
from typing import NamedTuple

from starlette.datastructures import Headers

from transduce.serve.settings import ServerSettings

ANY = "*"
CORS_HEADERS = {
    "access-control-allow-headers": "Authorization, Content-Type",
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-max-age": "1728000",
    "access-control-expose-headers": "Retry-After, X-Request-ID, X-Ignored-Parameters",
}
"""LibreTranslate's values, more methods, and three exposed headers of our own."""


class AccessPolicy(NamedTuple):
    """Which hosts and origins are allowed; "*" is any."""

    hosts: tuple[str, ...]
    origins: tuple[str, ...]
    """Besides the server's own."""

    @classmethod
    def from_settings(cls, settings: ServerSettings) -> "AccessPolicy":
        """Return the policy: the settings', or what suits the address."""
        local = _is_loopback(settings.host)
        names = ("localhost", "127.0.0.1", "[::1]", _bracketed(settings.host))
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
        if origin is None or origin in self.origins or ANY in self.origins:
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


def _bracketed(host: str) -> str:
    """Return a host as the Host header spells it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host.lower()


def _without_port(host: str) -> str:
    """Strip the port of a Host header.

    >>> _without_port("localhost:5000"), _without_port("[::1]:5000")
    ('localhost', '[::1]')
    """
    if host.startswith("["):
        return f"{host.partition(']')[0]}]"
    return host.partition(":")[0]
