"""Documents: files taken apart into their texts, and rebuilt around others.

What is no text comes back byte for byte: line ends, a byte order mark, numbers, times, comments,
tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

from transduce.documents.holes import Hole
from transduce.documents.marked import Markup
from transduce.documents.po import po_holes
from transduce.documents.subtitles import subtitle_holes

FORMATS: tuple[str, ...] = (".txt", ".srt", ".vtt", ".po", ".html", ".htm")
"""The endings of names that can be read."""

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


class Segment(NamedTuple):
    """A text of a document, of any length."""

    text: str
    markup: Markup
    """How it is to be taken apart (`markup.take_apart`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document. `read_document` makes it."""

    parts: tuple[str | Hole, ...]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Its texts, in order."""
        return tuple(Segment(one.text, one.markup) for one in self.parts if isinstance(one, Hole))

    @property
    def markup(self) -> Markup:
        """How its texts are to be taken apart: they are all of one kind."""
        segments = self.segments
        return segments[0].markup if segments else "none"

    def rebuild(self, texts: Sequence[str]) -> bytes:
        """Return the document with other texts, one for each segment.

        With the same texts it is the same bytes; only of a .po file the empty strings are filled.
        """
        count = len(self.segments)
        assert len(texts) == count, f"{len(texts)} texts for {count} segments"
        given = iter(texts)
        parts = (one if isinstance(one, str) else one.write(next(given)) for one in self.parts)
        return "".join(parts).encode()


def read_document(name: str, content: bytes, *, ending: str = "") -> Document:
    """Read a document.

    Args:
        name: a file's name; its ending says what it is.
        content: all of the file, UTF-8.
        ending: what it is, whatever it is called: one of `FORMATS`.

    Raises:
        ValueError: if the ending is none of `FORMATS`, or for a broken file; one line that names
            file and line.
    """
    ending = ending or PurePath(name).suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"{name}: no format that can be read, which are {', '.join(FORMATS)}")
    text = _decoded(name, content)
    bom = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(bom)
    match ending:
        case ".srt" | ".vtt":
            parts = tuple(subtitle_holes(text, name=name))
        case ".po":
            parts = tuple(po_holes(text, name=name))
        case _:
            markup: Markup = "placeholders" if ending == ".txt" else "html"
            parts = (Hole(text, markup, str),)
    return Document(parts=(bom, *parts))


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name}, line {line}: not UTF-8 (byte 0x{content[error.start]:02x} at byte "
            f"{error.start + 1} of the file); convert it to UTF-8"
        ) from None
