"""Refusal: what a server says instead of an answer; each API says it in its own shape."""


class Refusal(Exception):
    """A request that is not answered, and why, in one line for whoever sent it."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        """Take the HTTP status, and the seconds after which trying again makes sense."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
