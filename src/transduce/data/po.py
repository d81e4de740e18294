"""Strings of PO files, gettext's message catalogues, and the escapes that they have.

Java and Apple have the same escapes.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_ESCAPE = re.compile(
    r"\\(?:[uU]([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|([0-7]{1,3})|(?:\r\n|[\r\n])[ \t\f]*|(.))"
)
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = str.maketrans(
    {"\\": "\\\\", '"': '\\"', **{raw: f"\\{letter}" for letter, raw in _UNESCAPED.items()}}
)
_LINE_END = re.compile(r"\r\n|\n|\r")
_STRING = re.compile(r"\"((?:[^\"\\\r\n]|\\.)*+)\"[ \t]*+")
# An atomic group, not "*+": before Python 3.11.5 that keeps half of a repetition that fails.
_STRINGS = re.compile(
    r"(?<![^\r\n])[ \t]*(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)[ \t]*"
    rf"(?P<strings>{_STRING.pattern}(?>(?:(?:\r\n|\n|\r)[ \t]*{_STRING.pattern})*))"
    r"(?P<end>\r\n|\n|\r|\Z)"
)
_FUZZY = re.compile(r"^[ \t]*#,.*\bfuzzy\b", re.MULTILINE)


class POString(NamedTuple):
    """A string of an entry."""

    key: str
    """Such as `msgid` or `msgstr[0]`."""
    value: str
    source: str
    """Of a translation: what it translates, `msgid` or `msgid_plural`; else empty."""
    fuzzy: bool
    """Whether its entry is marked as uncertain."""
    start: int
    """Position of its first quote."""
    end: int
    line_end: str


def unescape(text: str) -> str:
    """Undo the escapes of C, of Java and of Apple's strings; a line end that is escaped goes."""

    def replace(match: re.Match[str]) -> str:
        code, hexadecimal, octal, letter = match.groups()
        if octal is not None:
            return chr(int(octal, 8))
        digits = code or hexadecimal
        return chr(int(digits, 16)) if digits else _UNESCAPED.get(letter, letter or "")

    return join_surrogates(_ESCAPE.sub(replace, text))


def join_surrogates(text: str) -> str:
    """Join the halves of characters that are escaped one by one; a lone one becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def escape(text: str) -> str:
    """Write a text with the escapes of C."""
    return text.translate(_ESCAPED)


def po_strings(name: str, text: str) -> Iterator[POString]:
    """Parse a PO file, whose name is for messages.

    `msgstr[0]` is a translation of `msgid`, the others of `msgid_plural`, and so is `msgstr[0]`
    where it is the only form.

    Raises:
        ValueError: if a line is malformed; the message names it.
    """
    end = 0
    fuzzy = False
    entry: dict[str, str] = {}
    matches = list(_STRINGS.finditer(text))
    for index, match in enumerate(matches):
        _check_comments(name, text, end, match.start())
        key = match["key"]
        if key in ("msgctxt", "msgid") and any(name.startswith("msgstr") for name in entry):
            entry = {}
        if not entry:  # comments before the last obsolete entry are that one's
            comments = text[end : match.start()].rpartition("#~")[2]
            fuzzy = _FUZZY.search(comments) is not None
        if key in entry:
            line = _line_number(text, match.start("key"))
            raise ValueError(f"{name}, line {line}: a second {key} in one entry")
        entry[key] = "".join(map(unescape, _STRING.findall(match["strings"])))
        source = entry.get("msgid", "") if key.startswith("msgstr") else ""
        following = matches[index + 1]["key"] if index + 1 < len(matches) else ""
        if key != "msgstr[0]" or not following.startswith("msgstr["):
            source = source and entry.get("msgid_plural", source)
        start, end = match.span("strings")
        yield POString(key, entry[key], source, fuzzy, start, end, match["end"])
    _check_comments(name, text, end, len(text))


def _line_number(text: str, position: int) -> int:
    return len(_LINE_END.findall(text, 0, position)) + 1


def _check_comments(name: str, text: str, start: int, end: int) -> None:
    """What is between strings is comments and empty lines."""
    for offset, line in enumerate(_LINE_END.split(text[start:end])):
        if line.strip()[:1] not in ("", "#"):
            raise ValueError(
                f"{name}, line {_line_number(text, start) + offset}: expected a comment, msgid, "
                f"msgstr or quoted string, not {line.strip()[:40]!r}"
            )
