"""Text that a translation must copy: numbers, identifiers, and placeholders with URLs and tags."""

import re
from collections import Counter
from typing import Final, NamedTuple

from transduce.documents import placeholders

KINDS: Final = ("number", "identifier", "placeholder")

# A word of a program: an option; or a name with _ or :: or (), with letters and digits, in
# camelCase or in capitals. Case decides, so "and/or", "e.g." and "well-known" are none.
_IDENTIFIER = re.compile(
    r"(?<![\w-])--?[A-Za-z][\w-]+"
    r"|(?<!\w)(?=\w*_|\w+::|\w+\(\)|[^\W\d]+\d|\d+[^\W\d]|\w*[a-z][A-Z]|[A-Z]{2})"
    r"\w+(?:(?:::|\.)\w+)*(?:\(\))?"
)
_NUMBER = re.compile(r"\d+(?:[.,:/]\d+)*")


class CopiedText(NamedTuple):
    """A piece of text of one kind."""

    kind: str
    """Of `KINDS`."""
    text: str


def copied_text(text: str) -> Counter[CopiedText]:
    """Count what a translation of a text must copy. A character belongs to one of them at most.

    >>> [match.text for match in copied_text("Set max_rows to 1,000 in {file}, with --dry-run.")]
    ['{file}', 'max_rows', '--dry-run', '1,000']
    """
    rest = placeholders.mask_placeholders(text)
    matches = {
        "placeholder": list(placeholders.count(text).elements()),
        "identifier": _IDENTIFIER.findall(rest),
        "number": _NUMBER.findall(_IDENTIFIER.sub(" ", rest)),
    }
    return Counter(CopiedText(kind, match) for kind, found in matches.items() for match in found)
