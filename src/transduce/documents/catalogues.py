"""Files of keys and texts: JSON, YAML, Java's `.properties`, Apple's `.strings`.

A scanner finds where values stand; only these are written again, with the file's own quotes and
escapes. Keys stay. Of ICU's `{n, plural, one {# file} other {# files}}` the words are translated.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import NamedTuple

import yaml

from transduce.data.po import escape, join_surrogates, unescape
from transduce.data.segmentation import has_words
from transduce.documents.document import Document, Part, Slot
from transduce.documents.fragment import TagItems

_ICU = re.compile(r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,")
_BRANCH = r"(?:=\d+|\w+)\s*\{"
_ICU_KEPT = re.compile(
    rf"(?P<text>\{{[^\s{{}},]*\}})|\{{[^{{}}]*\}}|#|\$t\([^()]*\)"
    rf"|(?P<br>\n|{_ICU.pattern}\s*(?:offset:\d+\s*)?{_BRANCH}|\}}\s*(?:{_BRANCH}|\}}))"
)
APPLE_VARIABLE = r"%arg\b|%(?:[0-9]{1,2}\$)?#@[^@\s]{1,64}@"
"""What stands for a number and its noun in Apple's plurals."""
_KEPT = re.compile(rf"\$t\([^()]*\)|{APPLE_VARIABLE}|(?P<br>\n)")  # $t(…) is of i18next
_PROPERTY = re.compile(
    r"(?<![^\r\n])[ \t\f]*+(?![#!])(?:\\.|[^\\\s=:])++[ \t\f]*+[=:]?[ \t\f]*+"
    r"(?P<value>(?:\\\r\n|\\.|[^\\\r\n])*+)",
    re.DOTALL,
)
_STRING = re.compile(
    r"/\*.*?(?:\*/|\Z)|//[^\r\n]*|=\s*+\"(?P<value>(?:[^\"\\]|\\.)*+)\"|\"(?:[^\"\\]|\\.)*+\"",
    re.DOTALL,
)
_JSON_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*+\"(\s*:)?|[\[\]{}]|[^\s\[\]{}\",:]+", re.DOTALL)
_JSON_MESSAGES = (("message",), ("defaultMessage",))  # of WebExtensions and FormatJS
_JSON_OF_MESSAGE = {
    *("message", "defaultMessage", "description", "placeholders", "id", "hash"),
    *("meta", "file", "start", "end", "line", "col"),  # where FormatJS extracted it
}
"""Keys of an object with a message."""
_TIME_FORMAT = re.compile(r"%-?[A-Za-z]")  # of strftime
_YAML_ESCAPED = re.compile("^[ \n]|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_YAML_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_MAX_DEPTH = 100  # of objects and lists


class _TooDeep(ValueError):
    def __init__(self, name: str, depth: int) -> None:
        super().__init__(f"{name}: nested more than {depth} deep")


_Value = tuple[int, int, str, Callable[[str], str]]
"""Start and end of a value in its file, the value, and what writes another."""


class JSONValue(NamedTuple):
    """Where a value of JSON is."""

    path: tuple[str, ...]
    """The keys that lead to it; in a list the number of an element."""
    key: int
    """Where its key starts."""
    start: int
    end: int


def _parts(text: str, values: Iterator[_Value]) -> Iterator[Part]:
    offset = 0
    for start, end, value, encode in values:
        if has_words(_TIME_FORMAT.sub("", value)):
            yield text[offset:start]
            yield value_slot(text[start:end], value, encode)
            offset = end
    yield text[offset:]


def value_slot(raw: str, value: str, encode: Callable[[str], str]) -> Slot:
    """Return the slot of a value that is written as `raw`; `encode` writes another."""
    value = join_surrogates(value)
    items = TagItems()
    marked = items.mark(value, _ICU_KEPT if _ICU.search(value) else _KEPT)

    def write(text: str) -> str:
        if text == (marked if items else value):
            return raw
        return encode(items.splice(text, lambda characters, _: characters) if items else text)

    return Slot(marked, "html", write) if items else Slot(value, "placeholders", write)


def load_json(name: str, text: str) -> object:
    """Return the value of a JSON file.

    Raises:
        ValueError: if it is malformed; the message names the line.
    """
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise ValueError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise ValueError(f"{name}: nested too deeply") from None


def parse_json(name: str, text: str) -> Iterator[Part]:
    """Parse JSON; a message of an object with its description is the only text of the object."""
    load_json(name, text)

    def strings() -> Iterator[JSONValue]:  # found twice: together they would take much memory
        return (value for value in json_values(name, text) if text[value.start] == '"')

    parents = {value.path[:-1] for value in strings() if value.path[-1:] in _JSON_MESSAGES}
    parents.discard(())  # the root is a catalogue
    if parents:
        paths = (value.path for value in json_values(name, text))
        parents -= {path[:-1] for path in paths if not _JSON_OF_MESSAGE.issuperset(path[-1:])}

    @lru_cache(maxsize=1000)  # the texts of a list are in one place
    def may_hold_texts(place: tuple[str, ...]) -> bool:
        if any(key.startswith(("@", "$")) for key in place):  # metadata of ARB, "$schema"
            return False
        return not any(place[:depth] in parents for depth in range(len(place)))

    def is_text(path: tuple[str, ...]) -> bool:
        place, key = path[:-1], path[-1:]
        if place in parents and key not in _JSON_MESSAGES:
            return False
        return may_hold_texts(place) and may_hold_texts(key)

    encode = partial(json_string, text)
    values = (
        (start, end, json.loads(text[start:end], strict=False), encode)
        for path, _, start, end in strings()
        if is_text(path)
    )
    return _parts(text, values)


def json_values(name: str, text: str, *, max_depth: int = _MAX_DEPTH) -> Iterator[JSONValue]:
    """Find the values of valid JSON; one with others in it follows them.

    Raises:
        ValueError: if it is nested too deeply; the message has the name.
    """
    path: list[str] = []
    keys, opened = [0], list[int]()
    for match in _JSON_TOKEN.finditer(text):
        mark, start = match[0], match.start()
        if match[1]:
            path[-1], keys[-1] = json.loads(mark.removesuffix(match[1]), strict=False), start
        elif mark in "{[":
            opened.append(start)
            path.append("0" if mark == "[" else "")
            keys.append(0)
            if len(path) > max_depth:
                raise _TooDeep(name, max_depth)
        else:
            if mark in "}]":
                path.pop()
                keys.pop()
                start = opened.pop()
            yield JSONValue(tuple(path), keys[-1], start, match.end())
            if opened and text[opened[-1]] == "[":
                path[-1] = str(int(path[-1]) + 1)


def json_string(file: str, value: str) -> str:
    """Write a string with the escapes that the content of a file has."""
    string = json.dumps(value, ensure_ascii=file.isascii() and "\\u" in file)
    string = string.encode(errors="backslashreplace").decode()  # half of a character
    return string.replace("/", "\\/") if "\\/" in file else string


def parse_yaml(name: str, text: str) -> Iterator[Part]:
    """Parse YAML: its strings, except keys, are texts."""
    try:
        values = list(_yaml_values(name, text))
    except _TooDeep:
        raise
    except (yaml.YAMLError, OverflowError, ValueError) as error:  # the last two for "\UFFFFFFFF"
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise ValueError(f"{where}: not YAML: {' '.join(str(error).split())[:200]}") from None
    return _parts(text, iter(values))


def _yaml_values(name: str, text: str) -> Iterator[_Value]:
    resolver = yaml.SafeLoader("")
    at_key: list[bool | None] = [None]  # by collection; of a list it stays None
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            at_key.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        is_key = at_key[-1]
        at_key[-1] = None if is_key is None else not is_key
        if isinstance(event, yaml.CollectionStartEvent):
            if len(at_key) > _MAX_DEPTH:
                raise _TooDeep(name, _MAX_DEPTH)
            at_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)
        elif isinstance(event, yaml.ScalarEvent) and not is_key:
            tag = event.tag or resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
            if tag == "tag:yaml.org,2002:str":
                start, end = event.start_mark.index, event.end_mark.index
                properties = _YAML_PROPERTIES.match(text, start, end)
                start = properties.end() if properties else start
                value = event.value.strip("\n") if event.style in ("|", ">") else event.value
                yield (start, end, value, partial(_yaml_scalar, text[start:end]))


def _yaml_scalar(raw: str, value: str) -> str:
    """A scalar in the style of another, if that can hold it."""
    style = raw[0] if raw[0] in "'\"|>" else None
    if _YAML_ESCAPED.search(value) or (style == ">" and "\n " in value):  # which does not fold
        style = '"'
    if style in ("|", ">"):
        head, _, body = raw.partition("\n")
        indent = body[: len(body) - len(body.lstrip())].rpartition("\n")[2]
        lines = value.strip("\n")
        lines = re.sub("\n+", r"\g<0>\n", lines) if style == ">" else lines  # one is folded
        indented = re.sub(r"\n(?=[^\n])", f"\n{indent}", f"\n{lines}")
        if head.endswith("\r"):
            head, indented = head[:-1], indented.replace("\n", "\r\n")
        return head + indented + raw[len(raw.rstrip()) :]
    style = '"' if "\n" in value else style
    dumped = yaml.safe_dump(
        [value], default_style=style, default_flow_style=True, allow_unicode=True, width=sys.maxsize
    )
    return dumped[1:-2] + (raw[len(raw.rstrip()) :] if raw[0] in "|>" else "")


def read_properties(name: str, content: bytes) -> Document:
    """Read Java's `.properties`, in UTF-8 or ISO 8859-1; what is not ASCII is escaped in ASCII."""
    encoding = "ascii" if content.isascii() else "utf-8"

    def encode(value: str, *, quotes: bool) -> str:
        value = value.replace("'", "''") if quotes else value
        line = re.sub("^ ", r"\\ ", escape(value).replace('\\"', '"'))
        escaped = re.sub(r"[^\0-\x7f]", lambda match: json.dumps(match[0])[1:-1], line)
        return line if encoding == "utf-8" else escaped

    def values(text: str) -> Iterator[_Value]:
        for match in _PROPERTY.finditer(text):
            value = unescape(match["value"])
            quotes = re.search(r"\{\d", value) is not None  # Java's MessageFormat
            value = value.replace("''", "'") if quotes else value
            yield (*match.span("value"), value, partial(encode, quotes=quotes))

    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        encoding = "iso-8859-1"
        text = content.decode(encoding)
    return _document(text, values(text), encoding)


def read_strings(name: str, content: bytes) -> Document:
    """Read Apple's `.strings`, in UTF-8 or UTF-16 with a byte order mark."""
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(content[:2], "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise ValueError(f"{name}: not encoded in {encoding}") from None
    matches = (match for match in _STRING.finditer(text) if match["value"])
    values = ((*m.span("value"), unescape(m["value"]), escape) for m in matches)
    return _document(text, values, encoding)


def _document(text: str, values: Iterator[_Value], encoding: str) -> Document:
    parts = tuple(_parts(text, values))
    return Document(members=(parts,), encode=lambda texts: "".join(texts).encode(encoding))
