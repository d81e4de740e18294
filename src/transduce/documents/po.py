"""Translations of a program (.po): each empty `msgstr` is filled, everything else is kept.

What has been translated stays, fuzzy or not, since somebody may have looked at it. `msgstr[0]`
comes from `msgid` and the others from `msgid_plural`; where a language has a single form it is the
plural's.
"""

import re
from collections.abc import Iterator, Sequence

from transduce.documents.holes import Hole, Line, lines_kept

_KEYED = re.compile(
    r"\s*(?P<key>msgctxt|msgid_plural|msgid|msgstr(?:\[\d{1,3}\])?)(?P<gap>\s*)(?P<said>\".*)"
)
_STRING = re.compile(r"\s*\"((?:[^\"\\]|\\.)*)\"\s*")
_ESCAPED = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|(.))")
_UNESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', **{one: f"\\{key}" for key, one in _UNESCAPED.items()}}
_WRITTEN = re.compile('[\\\\"\n\t\r\a\b\f\v]')


class _Entry:
    """What has been read of one entry: its strings by key, the lines of each."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, list[Line]]] = []  # a key, or "" for comments
        self.texts: dict[str, str] = {}

    @property
    def begun(self) -> bool:
        """Whether a new comment or `msgid` belongs to the next entry."""
        return any(key.startswith("msgstr") for key in self.texts)

    def holes(self) -> Iterator[str | Hole]:
        forms = sum(key.startswith("msgstr") for key in self.texts)
        one = self.texts.get("msgid", "")
        many = self.texts.get("msgid_plural", one)
        for key, lines in self.lines:
            raw = "".join(line.raw for line in lines)
            if not key.startswith("msgstr") or self.texts[key] or not one:
                yield raw
                continue
            text = many if key not in ("msgstr", "msgstr[0]") or forms == 1 else one
            yield _hole(text, lines[0], last=lines[-1])


def po_holes(text: str, *, name: str) -> Iterator[str | Hole]:
    """Read a .po file.

    Raises:
        ValueError: if a line is none of such a file; it names the line.
    """
    entry = _Entry()
    for line in lines_kept(text):
        stripped = line.text.strip()
        keyed = _KEYED.fullmatch(line.text)
        key = keyed["key"] if keyed else ""
        if entry.begun and (stripped[:1] in ("", "#") or key in ("msgctxt", "msgid")):
            yield from entry.holes()
            entry = _Entry()
        if stripped[:1] in ("", "#"):
            entry.lines.append(("", [line]))
            continue
        string = _STRING.fullmatch(keyed["said"] if keyed else line.text)
        if string is None or (not key and not (entry.lines and entry.lines[-1][0])):
            raise ValueError(
                f"{name}, line {line.number}: a comment, a msgid or msgstr, or a string in quotes "
                f"is expected here, not {stripped[:40]!r}"
            )
        if key in entry.texts:
            raise ValueError(f"{name}, line {line.number}: a second {key} in one entry")
        if key:
            entry.lines.append((key, [line]))
            entry.texts[key] = _read(string[1])
        else:
            last, lines = entry.lines[-1]
            lines.append(line)
            entry.texts[last] += _read(string[1])
    yield from entry.holes()


def _hole(text: str, first: Line, *, last: Line) -> Hole:
    """A hole for an empty string; one of several lines is written as tools of gettext do it."""
    head = first.text[: first.text.index('"')]

    def written(said: str) -> str:
        parts = re.findall("[^\n]*\n|[^\n]+", said)
        shown: Sequence[str] = parts if len(parts) < 2 else ["", *parts]
        quoted = (f'"{_escape(part)}"' for part in shown or [""])
        return head + (first.end or "\n").join(quoted) + last.end

    return Hole(text, "placeholders", written)


def _read(string: str) -> str:
    """A string without its escapes."""

    def one(found: re.Match[str]) -> str:
        octal, hexadecimal, letter = found.groups()
        if letter is not None:
            return _UNESCAPED.get(letter, letter)
        return chr(int(octal, 8) if octal else int(hexadecimal, 16))

    return _ESCAPED.sub(one, string)


def _escape(text: str) -> str:
    return _WRITTEN.sub(lambda found: _ESCAPES[found[0]], text)
