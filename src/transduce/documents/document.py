"""Documents as segments to translate and what surrounds them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from transduce.documents.markup import Markup


class Slot(NamedTuple):
    """A text of a document, of any length, and its position in a file."""

    text: str
    markup: Markup
    """Its markup, for `markup.segment_text`."""
    write: Callable[[str], str]
    """Formats another text for this position."""


Part = str | Slot
"""Raw text of a file, or a text to translate in it."""


def encode_text(texts: Sequence[str]) -> bytes:
    """Encode the text of a file that is not an archive."""
    return "".join(texts).encode()


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document, made by `read_document`."""

    members: tuple[tuple[Part, ...], ...]
    """The parts of each of its files; a document that is not an archive has one."""
    encode: Callable[[Sequence[str]], bytes] = encode_text
    """Makes the document from the text of each member."""

    @property
    def segments(self) -> tuple[Slot, ...]:
        """Its texts, in order."""
        parts = chain.from_iterable(self.members)
        return tuple(part for part in parts if isinstance(part, Slot))

    def rebuild(self, texts: Sequence[str]) -> bytes:
        """Return the document with other texts, one per segment.

        The same texts give the same bytes, except that empty strings of message catalogues are
        filled.
        """
        count = len(self.segments)
        assert len(texts) == count, f"{len(texts)} texts for {count} segments"
        following = iter(texts)
        return self.encode(
            [
                "".join(
                    part if isinstance(part, str) else part.write(next(following)) for part in parts
                )
                for parts in self.members
            ]
        )
