"""An HTTP request: its body is read within limits, parsed defensively and authorized.

No declared length, encoding or nesting depth is trusted. The body is counted as it arrives and
rejected as soon as it exceeds the limit (at once if Content-Length already does). It must be UTF-8,
and JSON must be an object of moderate depth without lone surrogates. NUL is treated as white space,
as the translator treats every other control character.
"""

import asyncio
import codecs
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, NoReturn
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope

from transduce.serve.access import ClientLimits
from transduce.serve.errors import HTTPError, is_deepl
from transduce.serve.settings import NO_LIMIT, APIKey, ServerSettings

LARGE_BODY = 64 * 1024
"""Bytes from which a body is parsed in a thread, so that it does not block the event loop."""

MAX_FIELDS = 1000
"""Maximum number of fields in a form or query string."""

INVALID_JSON = "Invalid JSON format"

SHUTDOWN = "the server is shutting down"
"""Message of the cancellation of requests that exceed the shutdown limit."""

_IN_PARTS = ": send it in parts"


class Upload(NamedTuple):
    """An uploaded file."""

    name: str
    content: bytes


class RequestData(NamedTuple):
    """The fields of a request."""

    json: Mapping[str, object] | None = None
    """JSON body; None for any other body."""

    texts: Mapping[str, Sequence[str]] = {}
    """Fields of the query string, followed by those of a form."""

    files: Mapping[str, Upload] = {}

    def value(self, name: str) -> object:
        """Return a field: the JSON value, or the first text of that name; None if missing."""
        if self.json is not None:
            return self.json.get(name)
        values = self.texts.get(name)
        return values[0] if values else None


class HTTPRequest(Request):
    """A request with its body already read."""

    def __init__(
        self, scope: Scope, content: bytes, settings: ServerSettings, clients: ClientLimits
    ) -> None:
        super().__init__(scope)
        self.content = content
        self._settings, self._clients = settings, clients
        self._char_limit = settings.char_limit
        self._data: RequestData | None = None
        self._key: APIKey | None = None
        self._address = self.client.host if self.client else ""
        self._charged = 0

    @property
    def user(self) -> str:
        """A hash of the accepted API key, which may be stored; "" if none is required."""
        return self._key.user if self._key else ""

    async def parse_if_large(self) -> None:
        """Parse a large body in a thread, for `data` and `json_object`, which raise its errors."""
        if len(self.content) >= LARGE_BODY:
            with suppress(HTTPError):
                await asyncio.to_thread(self.data)

    def data(self) -> RequestData:
        """Parse the body and the query string.

        Raises:
            HTTPError: 400 if they are malformed.
        """
        if self._data is None:
            self._data = self._parse()
        return self._data

    def _parse(self) -> RequestData:
        media_type, _, options = self.headers.get("content-type", "").partition(";")
        media_type = media_type.strip().lower()
        if media_type == "application/json" or media_type.endswith("+json"):
            return RequestData(json=self.json_object())
        fields = _url_encoded(self.scope["query_string"], source="query string")
        files: dict[str, Upload] = {}
        if media_type == "multipart/form-data":
            form_fields, files = _multipart(self.content, options)
            fields += form_fields
        elif media_type in ("", "application/x-www-form-urlencoded"):
            fields += _url_encoded(self.content, source="form")
        elif self.content:
            raise HTTPError(
                400,
                f"Invalid request: unsupported content type {media_type[:60]!r}: "
                f"send JSON or a form",
            )
        texts: dict[str, list[str]] = {}
        for name, text in fields:
            texts.setdefault(name, []).append(text)
        return RequestData(texts=texts, files=files)

    def json_object(self) -> Mapping[str, object]:
        """Parse the body as a JSON object.

        Raises:
            HTTPError: 400 `Invalid JSON format`, also for lone surrogates and excessive nesting.
        """
        if self._data is not None and self._data.json is not None:
            return self._data.json
        try:
            text = self.content.removeprefix(codecs.BOM_UTF8).decode()
            value: object = json.loads(text, parse_constant=_reject_constant)
            if b"\\u" in self.content:  # only an escape can introduce a lone surrogate
                json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise HTTPError(400, f"{INVALID_JSON}: lone surrogate") from None
        except UnicodeDecodeError:
            utf_16 = self.content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            name = "UTF-16, not UTF-8" if utf_16 else "not UTF-8"
            raise HTTPError(400, f"{INVALID_JSON}: {name}") from None
        except RecursionError:
            raise HTTPError(400, f"{INVALID_JSON}: nested too deeply") from None
        except ValueError:
            raise HTTPError(400, INVALID_JSON) from None
        if not isinstance(value, dict):
            raise HTTPError(400, INVALID_JSON)
        return value

    def authorize(self, api_key: object, *, missing_status: int = 400) -> None:
        """Check the API key, whose limits then apply, and count the request.

        Args:
            api_key: the key in the request's own fields; takes precedence over that of the
                Authorization header (`Bearer` or `DeepL-Auth-Key`).
            missing_status: HTTP status if no key is given.

        Raises:
            HTTPError: as `ClientLimits.authorize`.
        """
        text = api_key if isinstance(api_key, str) else ""
        if not text:
            scheme, _, header_key = self.headers.get("authorization", "").partition(" ")
            text = header_key.strip() if scheme.lower() in ("bearer", "deepl-auth-key") else ""
        self._key = self._clients.authorize(text, self._address, missing_status=missing_status)
        if self._key and self._key.char_limit is not None:
            self._char_limit = self._key.char_limit

    def usage(self) -> tuple[int, int]:
        """Return the characters that the API key has used, and its quota."""
        return self._clients.usage(self._key or APIKey(""))

    def refund(self) -> None:
        """Take back the characters of a request that failed."""
        if self._charged:
            self._clients.refund(self._key or APIKey(""), self._charged)

    def check_texts(self, texts: Sequence[str], *, limit_number: bool = True) -> list[str]:
        """Check the number and length of the texts to translate, charge them, and replace NULs.

        Args:
            texts: their total length is recorded for the request log.
            limit_number: whether it is a batch: the limit of texts per request applies, and it
                counts as many requests as it has texts.

        Raises:
            HTTPError: 400, naming the number and the limit; 429 if they exceed what is left of the
                requests per minute or the key's daily quota (456 in DeepL's API).
        """
        key, path = self._key or APIKey(""), self.scope["path"]
        if limit_number:
            _check_limit(len(texts), self._settings.batch_limit)
            request_limit = self._clients.request_limit(self._key)
            _check_limit(len(texts), request_limit, "requests per minute", _IN_PARTS)
        self.state.characters = sum(map(len, texts))
        for text in texts:
            _check_limit(len(text), self._char_limit)
        if not is_deepl(path):  # DeepL has its own status
            _check_limit(self.state.characters, key.daily_characters, "daily quota", _IN_PARTS)
        if limit_number:  # `authorize` counted the first
            self._clients.count(self._key, self._address, len(texts) - 1)
        self._clients.charge(key, self.state.characters, path=path)
        self._charged += self.state.characters
        return [replace_nul(text) for text in texts]


async def read_body(scope: Scope, receive: Receive, *, max_bytes: int) -> bytes:
    """Read the body of a request, of at most `max_bytes`.

    Raises:
        HTTPError: 413 if the body is too large, 415 if it is compressed, 400 if Content-Length is
            not a number.
        ClientDisconnect: if the client disconnects meanwhile.
    """
    headers = Headers(scope=scope)
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise HTTPError(415, f"Content-Encoding {encoding[:60]!r} is not supported: send it plain")
    too_large = HTTPError(413, f"Request body is larger than {max_bytes} bytes")
    declared = headers.get("content-length")
    if declared:
        if not (declared.isascii() and declared.isdigit()):
            raise HTTPError(400, "Invalid request: Content-Length is not a number")
        # int() is quadratic in the number of digits, hence the length check first.
        if len(declared) > 18 or int(declared) > max_bytes:
            raise too_large
    content = bytearray()
    async for chunk in Request(scope, receive).stream():
        content += chunk
        if len(content) > max_bytes:
            raise too_large
    return bytes(content)


def replace_nul(text: str) -> str:
    """Replace every NUL with a space."""
    return text.replace("\0", " ") if "\0" in text else text


def _check_limit(number: int, limit: int, name: str = "text limit", hint: str = "") -> None:
    if limit != NO_LIMIT and number > limit:
        raise HTTPError(400, f"Invalid request: request ({number}) exceeds {name} ({limit}){hint}")


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not valid JSON")


def _url_encoded(content: bytes, *, source: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            content.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except UnicodeDecodeError:
        reason = "is not UTF-8"
    except ValueError:
        reason = f"has over {MAX_FIELDS} fields"
    raise HTTPError(400, f"Invalid request: the {source} {reason}")


def _multipart(content: bytes, options: str) -> tuple[list[tuple[str, str]], dict[str, Upload]]:
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import Field, File, FormParser, parse_options_header

    parts: list[Field | File] = []
    ends: list[None] = []

    def add(part: Field | File) -> None:
        if len(parts) >= MAX_FIELDS:
            raise ValueError("too many fields")
        parts.append(part)

    _, parameters = parse_options_header("x;" + options)
    try:
        parser = FormParser(
            "multipart/form-data",
            add,
            add,
            on_end=lambda: ends.append(None),
            boundary=parameters.get(b"boundary"),
            config={"MAX_MEMORY_FILE_SIZE": len(content) + 1},  # never on disk
        )
        parser.write(content)
        parser.finalize()
    except (FormParserError, ValueError):
        ends.clear()
    if not ends:
        raise HTTPError(400, "Invalid request: malformed multipart form")
    fields: list[tuple[str, str]] = []
    files: dict[str, Upload] = {}
    try:
        for part in parts:
            name = (part.field_name or b"").decode()
            if isinstance(part, File):
                part.file_object.seek(0)
                files[name] = Upload((part.file_name or b"").decode(), part.file_object.read())
            else:
                fields.append((name, (part.value or b"").decode()))
    except UnicodeDecodeError:
        raise HTTPError(400, "Invalid request: the multipart form is not UTF-8") from None
    return fields, files
