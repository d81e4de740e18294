"""The error that a request is rejected with, and the API that decides its format."""


class HTTPError(Exception):
    """A request that is rejected. Each API formats the one-line message in its own way."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        """Store the response.

        Args:
            status: HTTP status code.
            message: one line for the client.
            retry_after: seconds for the Retry-After header; None omits it.
        """
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def is_deepl(path: str) -> bool:
    """Return whether a path belongs to DeepL's API."""
    return path.startswith(("/v2/", "/v3/"))
