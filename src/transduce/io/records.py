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
        first = error.errors()[0]
        fault = sanitise(": ".join([*map(str, first["loc"]), first["msg"]]))
        raise ValueError(f"{file} is damaged ({fault}){remedy and f': {remedy}'}") from None
