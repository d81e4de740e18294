"""Document formats: files split into their texts, and rebuilt with translations.

Everything else comes back byte for byte: line ends, a byte order mark, numbers, timings, comments,
tags.

Subtitles (.srt, .vtt): a cue's lines are one text, as they are wrapped for the screen; its
translation is wrapped in about the same proportions. Lines that all start with a dash belong to
different speakers and stay separate. A sentence over two cues is translated as two texts.

Message catalogues (.po): only empty `msgstr` are filled; existing translations, fuzzy or not, are
kept. `msgstr[0]` comes from `msgid`, the others from `msgid_plural`; a language with a single form
uses the plural's.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from transduce.data.po import escape, po_strings
from transduce.data.segmentation import has_unspaced_script
from transduce.documents.catalogues import parse_json, parse_yaml, read_properties, read_strings
from transduce.documents.document import Document, Part, Slot
from transduce.documents.markdown import parse_markdown
from transduce.documents.placeholders import mask_placeholders
from transduce.documents.registry import SUFFIXES, format_named, format_of_file
from transduce.documents.string_catalog import parse_string_catalog
from transduce.documents.xml_formats import (
    ARCHIVES,
    XML_RULES,
    archive_reader,
    read_xliff,
    xml_reader,
)
from transduce.io.streams import decode_utf8

_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_EMPTY_LINES = re.compile(r"((?>\r\n|\n|\r)(?>[ \t]*(?>\r\n|\n|\r))+)")

_TIME = r"(?:\d{1,3}:)?\d{1,2}:\d{2}[,.]\d{1,3}"
_TIMING = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_BROKEN_TIMING = re.compile(r"\s*\d{1,3}:\d\d.*->|.*-->")
_NON_CUE = re.compile(r"WEBVTT|NOTE\b|STYLE\s*$|REGION\s*$")
_DASH = re.compile(r"\s*[-–—]")


class RawLine(NamedTuple):
    """A line of a file."""

    number: int
    text: str
    end: str
    """Its line end; "" if the last line has none."""

    @property
    def raw(self) -> str:
        return self.text + self.end


def read_document(name: str, content: bytes, *, form: str = "", target: str = "") -> Document:
    """Parse a document.

    Args:
        name: file name; its ending selects the format.
        content: the file's bytes; text is UTF-8.
        form: name of the format, instead of the ending.
        target: code of the target language, for multilingual formats and XLIFF.

    Raises:
        ValueError: if the format is not in `DOCUMENT_FORMATS`, or for a malformed file; the
            message names the file, and the line if it has any.
    """
    row = format_named(form) if form else format_of_file(name)
    if row is None:
        raise ValueError(f"{name}: unsupported format; supported are {', '.join(SUFFIXES)}")
    if row.multilingual:
        return _text_reader(partial(parse_string_catalog, target=target))(name, content)
    if row.name == "xliff":
        return read_xliff(name, content, target=target)
    return READERS[row.name](name, content)


def _text_reader(parse: Callable[[str, str], Iterable[Part]]) -> Callable[[str, bytes], Document]:
    """A reader of UTF-8 text, from a function of the file's name and its text."""

    def read(name: str, content: bytes) -> Document:
        text = decode_utf8(name, content)
        bom = _BOM if text.startswith(_BOM) else ""
        return Document(members=((bom, *parse(name, text.removeprefix(bom))),))

    return read


def split_lines(text: str) -> list[RawLine]:
    """Split a file at \\n, \\r\\n and \\r; the lines' `raw` join to the file.

    >>> [line.text for line in split_lines("one\\r\\ntwo")]
    ['one', 'two']
    """
    matches = enumerate(_LINE.finditer(text), start=1)
    lines = [RawLine(number, *match.groups()) for number, match in matches]
    return lines if lines[-1].raw else lines[:-1]


def parse_text(text: str) -> Iterator[Part]:
    """Parse plain text, of which each paragraph is a text."""
    for index, part in enumerate(_EMPTY_LINES.split(text)):
        yield part if index % 2 or not part else Slot(part, "placeholders", str)


def parse_subtitles(name: str, text: str) -> Iterator[str | Slot]:
    """Parse subtitles, each of whose cues needs a timing."""
    seen_cue = False
    for blank, group in groupby(split_lines(text), key=lambda line: not line.text.strip()):
        lines = list(group)
        if blank or _NON_CUE.match(lines[0].text):
            end = len(lines)
            if lines[0].text.startswith("WEBVTT"):  # a cue may follow it at once
                end = next((i for i, line in enumerate(lines) if _is_timing(line)), end)
            yield "".join(line.raw for line in lines[:end])
            lines = lines[end:]
        for block in _split_cues(lines) if lines else ():
            timing = next((i for i, line in enumerate(block[:2]) if _is_timing(line)), None)
            if timing is None:
                _check_continuation(block, name=name, seen_cue=seen_cue)
            seen_cue = True
            head = 0 if timing is None else timing + 1
            yield "".join(line.raw for line in block[:head])
            if block[head:]:
                yield from _cue(block[head:])


def _is_timing(line: RawLine) -> bool:
    return _TIMING.fullmatch(line.text) is not None


def _split_cues(lines: Sequence[RawLine]) -> Iterator[Sequence[RawLine]]:
    """Split lines before each further timing and its number: the empty line may be missing."""
    timings = [index for index, line in enumerate(lines) if _is_timing(line)]
    further = timings[1:] if timings[:1] in ([0], [1]) else timings
    starts = [index - lines[index - 1].text.strip().isdecimal() for index in further]
    for start, end in pairwise([0, *starts, len(lines)]):
        yield lines[start:end]


def _check_continuation(block: Sequence[RawLine], *, name: str, seen_cue: bool) -> None:
    """A block without a timing continues the cue before it, unless it looks like a broken cue."""
    numbered = len(block) > 1 and block[0].text.strip().isdecimal()
    for line in block[:2]:
        if not seen_cue or numbered or _BROKEN_TIMING.match(line.text):
            wrong = block[1] if numbered else line
            raise ValueError(
                f"{name}, line {wrong.number}: expected a timing such as "
                f"00:00:01,000 --> 00:00:02,500, not {wrong.text.strip()[:40]!r}"
            )


def _cue(lines: Sequence[RawLine]) -> Iterator[str | Slot]:
    """The text of a cue, and its last line end."""
    dialogue = all(_DASH.match(line.text) for line in lines)
    texts = [line.text if dialogue else line.text.strip() for line in lines]
    source = ("\n" if dialogue else " ").join(texts)
    raw = "".join(line.raw for line in lines).removesuffix(lines[-1].end)

    def write(text: str) -> str:
        if text == source:
            return raw
        wrapped = text.split("\n") if dialogue else wrap_lines(text, [len(line) for line in texts])
        return lines[0].end.join(line for line in wrapped if line.strip())

    yield Slot(source, "placeholders", write)
    yield lines[-1].end


def wrap_lines(text: str, shares: Sequence[int]) -> list[str]:
    """Wrap a text into lines of about the given proportions, at spaces if it has any.

    Returns:
        As many lines as there are shares, or fewer if there are too few break positions.

    >>> wrap_lines("one two three four", [3, 1])
    ['one two three', 'four']
    """
    if len(shares) < 2:
        return [text]
    masked = mask_placeholders(text)  # no break inside a tag
    breaks = [match.start() for match in re.finditer(r"(?<=\S)\s+(?=\S)", masked)]
    if not breaks and has_unspaced_script(text):
        breaks = [i for i in range(1, len(text)) if masked[i - 1 : i + 1].isalnum()]
    cuts: list[int] = []
    total = max(1, sum(shares))
    free = 0  # index of the first break after the last cut
    for share in list(accumulate(shares))[:-1]:
        ideal = len(text) * share / total
        index = bisect_left(breaks, ideal, lo=free)
        nearest = breaks[max(free, index - 1) : index + 1]
        if nearest:
            cuts.append(min(nearest, key=lambda position: abs(position - ideal)))
            free = bisect_right(breaks, cuts[-1])
    edges = [0, *cuts, len(text)]
    return [text[start:end].strip() for start, end in pairwise(edges)]


def parse_po(name: str, text: str) -> Iterator[Part]:
    """Parse a .po file."""
    end = 0
    for string in po_strings(name, text):
        yield text[end : string.start]
        empty = string.source and not string.value
        raw = text[string.start : string.end]
        yield _po_slot(string.source, string.line_end or "\n") if empty else raw
        end = string.end
    yield text[end:]


def _po_slot(text: str, end: str) -> Slot:
    """Slot of an empty string; several lines are written as gettext's tools do."""

    def write(translation: str) -> str:
        parts: list[str] = re.findall("[^\n]*\n|[^\n]+", translation)
        if len(parts) != 1:  # several lines start with an empty string
            parts = ["", *parts]
        return end.join(f'"{escape(part)}"' for part in parts)

    return Slot(text, "placeholders", write)


READERS: Mapping[str, Callable[[str, bytes], Document]] = {
    "text": _text_reader(lambda name, text: parse_text(text)),
    "html": _text_reader(lambda name, text: (Slot(text, "html", str),)),
    "srt": _text_reader(parse_subtitles),
    "vtt": _text_reader(parse_subtitles),
    "po": _text_reader(parse_po),
    "markdown": _text_reader(lambda name, text: parse_markdown(text)),
    "json": _text_reader(parse_json),
    "yaml": _text_reader(parse_yaml),
    "strings": read_strings,
    "properties": read_properties,
    "xliff": read_xliff,
    "android": xml_reader(XML_RULES["android"]),
    "qt": xml_reader(XML_RULES["qt"]),
    **{name: archive_reader(rules) for name, rules in ARCHIVES.items()},
}
"""What reads each format of the table, but for String Catalogs, which are multilingual."""
