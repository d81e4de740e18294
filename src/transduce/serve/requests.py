"""An HTTP request: its body is read within limits, parsed defensively and authorized.

No declared length, encoding or nesting depth is trusted. The body is counted as it arrives and
rejected as soon as it exceeds the limit (at once if Content-Length already does). It must be UTF-8,
and JSON must be an object of moderate depth without lone surrogates. NUL is treated as white space,
as the translator treats every other control character.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NoReturn
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope

from transduce.serve.settings import NO_LIMIT, ServerSettings

MAX_FIELDS = 1000
"""Maximum number of fields in a form or query string."""

INVALID_JSON = "Invalid JSON format"


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


class ClientDisconnected(Exception):
    """The client closed the connection; no response can be sent."""


class Upload(NamedTuple):
    """An uploaded file."""

    name: str
    content: bytes


class RequestData(NamedTuple):
    """The fields of a request."""

    json: Mapping[str, object] | None = None
    """JSON body; None for any other body."""

    texts: Mapping[str, tuple[str, ...]] = {}
    """Fields of the query string, followed by those of a form."""

    files: Mapping[str, Upload] = {}

    def value(self, name: str) -> object:
        """Return a field: the JSON value, or the first text of that name; None if missing."""
        if self.json is not None:
            return self.json.get(name)
        values = self.texts.get(name)
        return values[0] if values else None


@dataclass(frozen=True, kw_only=True, slots=True)
class HTTPRequest:
    """A request with its body already read."""

    scope: Scope
    body: bytes

    def header(self, name: bytes) -> str:
        """Return a header's value, "" if missing; `name` is lower case."""
        return header(self.scope, name)

    def data(self) -> RequestData:
        """Parse the body and the query string.

        Raises:
            HTTPError: 400 if they are malformed.
        """
        media_type, _, options = self.header(b"content-type").partition(";")
        media_type = media_type.strip().lower()
        if media_type == "application/json" or media_type.endswith("+json"):
            return RequestData(json=self.json())
        texts: dict[str, tuple[str, ...]] = {}
        _add_fields(texts, self.scope["query_string"], source="query string")
        files: dict[str, Upload] = {}
        if media_type == "multipart/form-data":
            _add_multipart(self.body, options, texts, files)
        elif media_type in ("", "application/x-www-form-urlencoded"):
            _add_fields(texts, self.body, source="form")
        elif self.body:
            raise HTTPError(
                400,
                f"Invalid request: unsupported content type {media_type[:60]!r}: "
                f"send JSON or a form",
            )
        return RequestData(texts=texts, files=files)

    def json(self) -> dict[str, object]:
        """Parse the body as a JSON object.

        Raises:
            HTTPError: 400 if it is malformed, nested too deeply, or not encodable as UTF-8.
        """
        return json_object(self.body)

    def path_parameter(self, name: str) -> str:
        """Return a parameter of the path."""
        return self.scope["path_params"][name]

    def authorize(
        self, settings: ServerSettings, api_key: object, *, missing_status: int = 400
    ) -> int:
        """Check the API key and return the character limit that applies (-1 = no limit).

        Args:
            settings: the server's keys and limits.
            api_key: the key in the request's own fields; takes precedence over that of the
                Authorization header (`Bearer` or `DeepL-Auth-Key`).
            missing_status: HTTP status if no key is given.

        Raises:
            HTTPError: if keys are required: `missing_status` without one, 403 for an invalid one.
        """
        if not settings.keys:
            return settings.char_limit
        text = api_key if isinstance(api_key, str) and api_key else ""
        if not text:
            scheme, _, header_key = self.header(b"authorization").partition(" ")
            text = header_key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else ""
        if not text:
            link = settings.get_api_key_link
            action = f"Visit {link}" if link else "Please contact the server operator"
            raise HTTPError(missing_status, f"{action} to get an API key")
        key = settings.key(text)
        if key is None:
            raise HTTPError(403, "Invalid API key")
        return settings.char_limit if key.char_limit is None else key.char_limit

    def check_texts(
        self, texts: Sequence[str], *, char_limit: int, batch_limit: int = NO_LIMIT
    ) -> list[str]:
        """Check the number and length of the texts to translate, and replace NULs.

        Args:
            texts: their total length is recorded for the request log.
            char_limit: maximum characters per text, from `authorize`; -1 = no limit.
            batch_limit: maximum number of texts; -1 = no limit.

        Raises:
            HTTPError: 400, naming the number and the limit.
        """
        self.scope.setdefault("state", {})["characters"] = sum(map(len, texts))
        if batch_limit != NO_LIMIT and len(texts) > batch_limit:
            _reject_over_limit(len(texts), batch_limit)
        for text in texts:
            if char_limit != NO_LIMIT and len(text) > char_limit:
                _reject_over_limit(len(text), char_limit)
        return [replace_nul(text) for text in texts]


def header(scope: Scope, name: bytes) -> str:
    """Return a header's value, "" if missing; `name` is lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Read the body of a request.

    Args:
        scope: ASGI scope of the request.
        receive: ASGI channel of the body.
        max_bytes: maximum size.

    Raises:
        HTTPError: 413 if the body is too large, 400 if Content-Length is not a number.
        ClientDisconnected: if the client disconnects meanwhile.
    """
    declared = header(scope, b"content-length")
    if declared:
        if not (declared.isascii() and declared.isdigit()):
            raise HTTPError(400, "Invalid request: Content-Length is not a number")
        # int() is quadratic in the number of digits, hence the length check first.
        if len(declared) > 18 or int(declared) > max_bytes:
            _reject_too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            _reject_too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def json_object(body: bytes) -> dict[str, object]:
    """Parse a JSON object.

    Raises:
        HTTPError: 400 `Invalid JSON format`, also for lone surrogates and excessive nesting.
    """
    try:
        value: object = json.loads(body.decode(), parse_constant=_reject_constant)
        if b"\\u" in body:  # only an escape can introduce a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise HTTPError(400, f"{INVALID_JSON}: lone surrogate") from None
    except UnicodeDecodeError:
        raise HTTPError(400, f"{INVALID_JSON}: not UTF-8") from None
    except RecursionError:
        raise HTTPError(400, f"{INVALID_JSON}: nested too deeply") from None
    except ValueError:
        raise HTTPError(400, INVALID_JSON) from None
    if not isinstance(value, dict):
        raise HTTPError(400, INVALID_JSON)
    return value


def replace_nul(text: str) -> str:
    """Replace every NUL with a space."""
    return text.replace("\0", " ") if "\0" in text else text


def _reject_over_limit(number: int, limit: int) -> NoReturn:
    raise HTTPError(400, f"Invalid request: request ({number}) exceeds text limit ({limit})")


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")


def _reject_too_large(max_bytes: int) -> NoReturn:
    raise HTTPError(413, f"Request body is larger than {max_bytes} bytes")


def _add_fields(into: dict[str, tuple[str, ...]], encoded: bytes, *, source: str) -> None:
    """Parse `a=b&c=d` into `into`."""
    if not encoded:
        return
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise HTTPError(400, f"Invalid request: the {source} is not UTF-8") from None
    except ValueError:
        raise HTTPError(
            400, f"Invalid request: the {source} has over {MAX_FIELDS} fields"
        ) from None
    for name, value in pairs:
        into[name] = (*into.get(name, ()), value)


def _add_multipart(
    body: bytes, options: str, texts: dict[str, tuple[str, ...]], files: dict[str, Upload]
) -> None:
    """Add the fields and files of a multipart form to `texts` and `files`."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import Field, File, FormParser, parse_options_header

    fields: list[Field | File] = []
    complete: list[bool] = []

    def add(field: Field | File) -> None:
        if len(fields) >= MAX_FIELDS:
            raise ValueError("too many fields")
        fields.append(field)

    _, parameters = parse_options_header("x;" + options)
    try:
        parser = FormParser(
            "multipart/form-data",
            add,
            add,
            on_end=lambda: complete.append(True),
            boundary=parameters.get(b"boundary"),
            config={"MAX_MEMORY_FILE_SIZE": len(body) + 1},  # never on disk
        )
        parser.write(body)
        parser.finalize()
    except (FormParserError, ValueError):
        complete.clear()
    if not complete:
        raise HTTPError(400, "Invalid request: malformed multipart form")
    try:
        for field in fields:
            name = (field.field_name or b"").decode()
            if isinstance(field, File):
                field.file_object.seek(0)
                content = field.file_object.read()
                files[name] = Upload((field.file_name or b"").decode(), content)
            else:
                texts[name] = (*texts.get(name, ()), (field.value or b"").decode())
    except UnicodeDecodeError:
        raise HTTPError(400, "Invalid request: the multipart form is not UTF-8") from None
