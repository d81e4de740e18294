"""Records: frozen dataclasses stored as JSON, validated when they are read."""

from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from transduce.io.atomic_folder import sanitise

_Record = TypeVar("_Record")


def read_record(file: Path, kind: type[_Record], *, remedy: str = "") -> _Record:
    """Read and validate a file of one JSON object; the remedy ends the message of a damaged one.

    Raises:
        ValueError: one line, if it is damaged or of another kind.
    """
    try:
        return TypeAdapter(kind).validate_json(file.read_bytes(), strict=True)
    except ValidationError as error:
        fault = first_fault(error)
        raise ValueError(f"{file} is damaged ({fault}){remedy and f': {remedy}'}") from None


def first_fault(error: ValidationError) -> str:
    """Return the first key at fault and what is wrong with it, in one line."""
    fault = error.errors(include_url=False)[0]
    key, message = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
    if fault["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        message = f"{key} is unknown: a newer transduce may have written it"
    return sanitise(message if message.startswith(key) else f"{key}: {message}")
