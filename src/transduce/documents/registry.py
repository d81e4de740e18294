"""The table of document formats, for the command line, the server and the documentation."""

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePath


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentFormat:
    """A format of documents."""

    name: str
    """Its name for `translate --format`."""
    suffixes: tuple[str, ...]
    """Endings of its files."""
    translated: str
    """What is translated, for the documentation."""
    binary: bool = False
    """Whether it is a zip archive, not text."""
    multilingual: bool = False
    """Whether a file has texts of several languages, by their codes."""


_TABLE = tomllib.loads(Path(__file__).with_name("formats.toml").read_text("utf-8"))

DOCUMENT_FORMATS: tuple[DocumentFormat, ...] = tuple(
    DocumentFormat(name=name, **(row | {"suffixes": tuple(row["suffixes"])}))
    for name, row in _TABLE.items()
)
"""The formats, in the order of the documentation."""

FORMAT_NAMES: tuple[str, ...] = tuple(row.name for row in DOCUMENT_FORMATS)

SUFFIXES: tuple[str, ...] = tuple(suffix for row in DOCUMENT_FORMATS for suffix in row.suffixes)
"""File name endings of the formats."""


def format_named(name: str) -> DocumentFormat | None:
    """Return the format of a name, or None."""
    return next((row for row in DOCUMENT_FORMATS if row.name == name), None)


def format_of_file(name: str) -> DocumentFormat | None:
    """Return the format that the ending of a file's name stands for, or None.

    >>> format_of_file("Page.HTM").name
    'html'
    """
    suffix = PurePath(name).suffix.lower()
    return next((row for row in DOCUMENT_FORMATS if suffix in row.suffixes), None)
