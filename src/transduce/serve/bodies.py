"""What a request carries, read with care: nothing here believes a length, an encoding or a depth.

A body is counted while it comes and refused as soon as it is too large, before it is read where the
client says its length. It must be UTF-8; JSON must be an object of sane depth without lone
surrogates. A NUL counts as white space, as every other control character does in the translator.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple, NoReturn
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope

from transduce.serve.refusal import Refusal

FIELDS = 1000
"""Most fields of a form or of a query string."""

NOT_JSON = "Invalid JSON format"


class Gone(Exception):
    """The client went away: there is nobody to answer."""


class Upload(NamedTuple):
    """A file of a form."""

    name: str
    content: bytes


class Sent(NamedTuple):
    """What a request says, by name."""

    json: Mapping[str, object] | None = None
    """Of a JSON body; None where it is none."""

    texts: Mapping[str, tuple[str, ...]] = {}
    """Of the query string, and after it of a form."""

    files: Mapping[str, Upload] = {}

    def value(self, name: str) -> object:
        """What stands under a name: the JSON's value, else the first text; None if nothing."""
        if self.json is not None:
            return self.json.get(name)
        found = self.texts.get(name)
        return found[0] if found else None


def header(scope: Scope, name: bytes) -> str:
    """A header's value, "" without it; `name` is lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


async def read_body(scope: Scope, receive: Receive, *, most: int) -> bytes:
    """Read a body of at most `most` bytes.

    Raises:
        Refusal: 413 if there are more, 400 if its length is no number.
        Gone: if the client went away meanwhile.
    """
    said = header(scope, b"content-length")
    if said:
        if not (said.isascii() and said.isdigit()):
            raise Refusal(400, "Invalid request: Content-Length is not a number")
        if len(said) > 18 or int(said) > most:
            _too_large(most)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            _too_large(most)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def sent(scope: Scope, body: bytes) -> Sent:
    """Read what a request says in its body or its query string.

    Raises:
        Refusal: 400, with what is wrong.
    """
    kind, _, options = header(scope, b"content-type").partition(";")
    kind = kind.strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return Sent(json=json_object(body))
    texts: dict[str, tuple[str, ...]] = {}
    _gather(texts, scope["query_string"], what="the query string")
    files: dict[str, Upload] = {}
    if kind == "multipart/form-data":
        _parts(body, options, texts, files)
    elif kind in ("", "application/x-www-form-urlencoded"):
        _gather(texts, body, what="the form")
    elif body:
        raise Refusal(400, f"Invalid request: a body cannot be {_short(kind)}: send JSON or a form")
    return Sent(texts=texts, files=files)


def json_object(body: bytes) -> dict[str, object]:
    """Read a JSON object.

    Raises:
        Refusal: 400 `Invalid JSON format`, also for what no text can hold or is nested too deeply.
    """
    try:
        held: object = json.loads(body.decode(), parse_constant=_no_number)
        if b"\\u" in body:  # only an escape can bring half a surrogate pair
            json.dumps(held, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Refusal(400, f"{NOT_JSON}: a lone surrogate is no character") from None
    except UnicodeDecodeError:
        raise Refusal(400, f"{NOT_JSON}: it is not UTF-8") from None
    except RecursionError:
        raise Refusal(400, f"{NOT_JSON}: it is nested too deeply") from None
    except ValueError:
        raise Refusal(400, NOT_JSON) from None
    if not isinstance(held, dict):
        raise Refusal(400, NOT_JSON)
    return held


def clean(text: str) -> str:
    """The text with its NULs as spaces."""
    return text.replace("\0", " ") if "\0" in text else text


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _too_large(most: int) -> NoReturn:
    raise Refusal(413, f"Request body is larger than {most} bytes")


def _short(text: str) -> str:
    return repr(text[:60])


def _gather(into: dict[str, tuple[str, ...]], encoded: bytes, *, what: str) -> None:
    """Add the texts of `a=b&c=d`."""
    if not encoded:
        return
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS
        )
    except UnicodeDecodeError:
        raise Refusal(400, f"Invalid request: {what} is not UTF-8") from None
    except ValueError:
        raise Refusal(400, f"Invalid request: {what} has over {FIELDS} fields") from None
    for name, value in pairs:
        into[name] = (*into.get(name, ()), value)


class _Part:
    """A part of a multipart form while it is read."""

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.name = b""
        self.value = b""
        self.data = bytearray()


class _Form:
    """What a parser of multipart forms calls."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.ended = False

    def begin(self) -> None:
        if len(self.parts) >= FIELDS:
            raise ValueError("too many parts")
        self.parts.append(_Part())

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].value += data[start:end]

    def header_end(self) -> None:
        part = self.parts[-1]
        part.headers[part.name.lower()] = part.value
        part.name = part.value = b""

    def data(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].data += data[start:end]

    def end(self) -> None:
        self.ended = True


def _parts(
    body: bytes, options: str, texts: dict[str, tuple[str, ...]], files: dict[str, Upload]
) -> None:
    """Add the fields and files of a multipart form."""
    from python_multipart.multipart import parse_options_header

    _, found = parse_options_header("x;" + options)
    for part in _form(body, found.get(b"boundary", b"")).parts:
        _, said = parse_options_header(part.headers.get(b"content-disposition", b""))
        try:
            name = said.get(b"name", b"").decode()
            if b"filename" in said:
                files[name] = Upload(said[b"filename"].decode(), bytes(part.data))
            else:
                texts[name] = (*texts.get(name, ()), part.data.decode())
        except UnicodeDecodeError:
            raise Refusal(400, "Invalid request: the multipart form is not UTF-8") from None


def _form(body: bytes, boundary: bytes) -> _Form:
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser

    form = _Form()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": form.begin,
                "on_header_field": form.header_name,
                "on_header_value": form.header_value,
                "on_header_end": form.header_end,
                "on_part_data": form.data,
                "on_end": form.end,
            },
        )
        parser.write(body)
        parser.finalize()
    except (FormParserError, ValueError):
        form.ended = False
    if not (form.ended and boundary):
        raise Refusal(400, "Invalid request: the multipart form is broken")
    return form
