"""The error that a request is rejected with, the API that decides its format, and the log."""

import logging

LOG = logging.getLogger("transduce.serve")

REPAIR_S = 300
"""Seconds of Retry-After where a file cannot be read or written, which needs an operator."""


class HTTPError(Exception):
    """A request that is rejected. Each API formats the one-line message in its own way."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        """Store the status, one line for the client, and the seconds of Retry-After, if any."""
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


def is_deepl(path: str) -> bool:
    """Return whether a path belongs to DeepL's API."""
    return path.startswith(("/v2/", "/v3/"))
