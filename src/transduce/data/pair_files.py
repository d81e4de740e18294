"""Pairs from memories (TMX), bilingual files (XLIFF, PO), terminologies (TBX), CSV and JSON lines.

XML is parsed as it is read; entity declarations are refused, and nothing but the file is opened.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final, cast
from xml.parsers import expat

from transduce.data.languages import normalized_base, same_language
from transduce.data.po import po_strings
from transduce.io.atomic_folder import sanitise
from transduce.io.streams import decode_lines, decode_utf8, open_compressed, split_compression

LanguageCodes = tuple[str, str]
"""Codes of source and target; "" if unknown."""

_BLOCK = 1 << 18  # bytes read at a time
_UNITS = frozenset(["tu", "trans-unit", "segment", "termEntry", "conceptEntry"])
_LANGUAGES = frozenset(["tuv", "langSet", "langSec"])
_SIDES = frozenset(["seg", "term", "source", "target"])
_CODES = frozenset(["bpt", "ept", "ph", "it", "ut", "bx", "ex", "x"])  # their content is no text
_UNFINISHED = frozenset(["new", "needs-translation"])
_DECLARATIONS = (("srclang", "srcLang", "source-language"), ("trgLang", "target-language"))
_PO_LANGUAGE = re.compile(r"^Language:[ \t]*([\w@-]+)", re.MULTILINE)
PAIR_KEYS = (("source", "target"), ("src", "tgt"), ("src", "trg"))
"""Names of the two sides, of columns and of keys."""
_DELIMITER_LINES = 20  # first lines, which show it
_OTHER_FORMATS = frozenset([".parquet", ".arrow", ".zip"])


def pair_reader(path: Path) -> Callable[[Path, LanguageCodes], Iterator[tuple[str, str]]] | None:
    """Return what reads the pairs of a file, by its ending; None for other files."""
    suffix = Path(split_compression(path.name.lower())[0]).suffix
    if suffix in _OTHER_FORMATS:
        remedy = f"convert it to TSV, {', '.join(_BY_SUFFIX)} or two files of text"
        if suffix != ".zip":
            remedy += " (transduce corpus build reads it)"
        raise ValueError(f"{path}: {suffix} is no format of pairs: {remedy}")
    return _BY_SUFFIX.get(suffix)


def names_languages(path: Path) -> bool:
    """Return whether a file names the languages of its texts, so that reading needs both codes."""
    return pair_reader(path) in (_xml_pairs, _po_pairs)


class _PairParser:
    """Collects the pairs of units as the XML is fed."""

    def __init__(self, path: Path, languages: LanguageCodes) -> None:
        self.pairs: list[tuple[str, str]] = []
        self._path, self._languages = path, languages
        self._declared: list[str] = ["", ""]
        self._sides: dict[str, str] = {}
        self._language = ""
        self._chunks: list[str] | None = None
        self._outside = 0  # depth of elements whose text is not of the pair
        parser = self.parser = expat.ParserCreate()
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.EntityDeclHandler = self._characters, self._refuse

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.rpartition(":")[2]
        for index, keys in enumerate(_DECLARATIONS):
            codes = (attributes[key] for key in keys if key in attributes)
            self._declared[index] = next(codes, self._declared[index])
        if (
            self._outside
            or name in ("alt-trans", "ignorable")
            or (self._chunks is not None and name in _CODES)
        ):
            self._outside += 1
        elif name in _UNITS:
            self._sides = {}
        elif name in _LANGUAGES:
            self._language = attributes.get("xml:lang", attributes.get("lang", ""))
        elif name in _SIDES and attributes.get("state") not in _UNFINISHED:
            if name in ("source", "target"):
                self._language = self._declared[name == "target"] or name
            self._chunks = []

    def _end(self, tag: str) -> None:
        name = tag.rpartition(":")[2]
        if self._outside:
            self._outside -= 1
        elif name in _SIDES and self._chunks is not None:
            self._sides.setdefault(self._language, "".join(self._chunks))
            self._chunks = None
        elif name in _UNITS and len(self._sides) > 1:
            self.pairs.append((self._side(0), self._side(1)))

    def _side(self, index: int) -> str:
        """The text of a side: of its language or a variant, else of the position declared."""
        language, other = self._languages[index], self._languages[1 - index]
        base = normalized_base(language)
        variants = [code for code in self._sides if base and normalized_base(code) == base]
        exact = [code for code in variants if same_language(code, language)]
        # A variant that is the other side's is no translation of it.
        if chosen := exact or [code for code in variants if not same_language(code, other)]:
            return self._sides[chosen[0]]
        if all(self._languages):
            # A side whose language XLIFF leaves out; "" of other languages, which cleaning drops.
            turned = normalized_base(self._declared[0]) == normalized_base(self._languages[1])
            return self._sides.get(("source", "target")[(index == 1) != turned], "")
        texts = list(self._sides.values())
        bases, declared = [*map(normalized_base, self._sides)], normalized_base(self._declared[0])
        first = bases.index(declared) if declared in bases else 0
        rest = texts[:first] + texts[first + 1 :]
        return texts[first] if index == 0 else rest[0]

    def _characters(self, text: str) -> None:
        if self._chunks is not None and not self._outside:
            self._chunks.append(text)

    def _refuse(self, *_: object) -> None:
        raise ValueError(f"{self._path}: a file that declares entities is refused")


def _xml_pairs(path: Path, languages: LanguageCodes) -> Iterator[tuple[str, str]]:
    reader = _PairParser(path, languages)
    try:
        with open_compressed(path) as stream:
            while block := stream.read(_BLOCK):
                reader.parser.Parse(block, False)
                yield from reader.pairs
                reader.pairs.clear()
        reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise ValueError(f"{path}, line {error.lineno}: not well-formed XML: {reason}") from None
    except (LookupError, ValueError) as error:
        if str(path) in str(error):
            raise
        # Of expat: an unknown encoding, or one of several bytes a character.
        raise ValueError(f"{path}: {error}; convert it to UTF-8 and declare that") from None


def _po_pairs(path: Path, languages: LanguageCodes) -> Iterator[tuple[str, str]]:
    """Translations that are not fuzzy; of plurals each form."""
    with open_compressed(path) as stream:
        text = decode_utf8(str(path), stream.read()).removeprefix("\ufeff")
    codes = [*map(normalized_base, languages)]
    language = codes[1]
    for string in po_strings(str(path), text):
        if string.key == "msgstr" and not string.source:  # the header
            declared = _PO_LANGUAGE.search(string.value)
            language = normalized_base(declared[1]) if declared else language
        elif string.source and string.value and not string.fuzzy:
            pair = string.source, string.value
            if all(languages) and language != codes[1]:
                pair = (string.value, string.source) if language == codes[0] else ("", "")
            yield pair


def _csv_pairs(path: Path, languages: LanguageCodes) -> Iterator[tuple[str, str]]:
    """Two columns, or those that a header names by languages or as source and target."""
    rows = _csv_rows(path)
    first = next(rows, None)
    if first is None:
        return
    _, header = first
    sides = named_columns(header, languages)
    if not sides and len(header) != 2:
        raise ValueError(f"{path}: {len(header)} columns: name two of them source and target")
    source, target = sides or (0, 1)
    for number, row in rows if sides else chain([first], rows):
        if len(row) != len(header):
            count = f"{len(row)} columns where there are {len(header)}"
            raise ValueError(f"{path}, line {number}: {count}: {sanitise(row[0])}")
        yield row[source], row[target]


def named_columns(header: Sequence[str], languages: LanguageCodes) -> tuple[int, int] | None:
    """Return the columns that a header names by languages or as source and target, in any case."""
    names = [name.strip().casefold() for name in header]
    for keys in (languages, *PAIR_KEYS):
        source, target = map(str.casefold, keys)
        if source in names and target in names and all(keys):
            return names.index(source), names.index(target)
    return None


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not empty, each with the number of its last line."""
    number = 0
    with open_compressed(path) as stream:
        lines = (f"{line}\n" for line in decode_lines(stream, name=str(path)))
        start = list(islice(lines, _DELIMITER_LINES))
        try:
            rows = csv.reader(chain(start, lines), delimiter=_delimiter(start), strict=True)
            for row in rows:
                number = rows.line_num
                if row:
                    yield number, row
        except csv.Error as error:
            raise ValueError(f"{path}, line {number + 1}: not CSV: {error}") from None


def _delimiter(start: Sequence[str]) -> str:
    """What splits all lines alike: a comma, or a semicolon, as Excel writes in some countries."""
    alike: dict[str, int] = {}
    lines = [line for line in start if line != "\n"] or [""]
    for delimiter in ";," if len(lines) > 1 else ",;":
        with suppress(csv.Error):  # which whoever reads the rows reports, with its line
            columns = {len(row) for row in csv.reader(lines, delimiter=delimiter)}
            if len(columns) == 1 and columns != {1}:
                alike[delimiter] = min(columns)
    if alike:
        return min(alike, key=lambda delimiter: alike[delimiter] != 2)
    return ";" if ";" in lines[0] and "," not in lines[0] else ","


def find_sides(row: object, languages: LanguageCodes) -> tuple[str, str] | None:
    """Return the two texts of a row of a data set, or None if it lacks one; null is empty text."""
    table = cast(dict[str, object], row) if isinstance(row, dict) else {}
    inner = table.get("translation")  # as in data sets of Hugging Face
    table = cast(dict[str, object], inner) if isinstance(inner, dict) else table
    for keys in (languages, *PAIR_KEYS):
        source, target = (table.get(key, 0) for key in keys)  # 0: not there
        if isinstance(source, str | None) and isinstance(target, str | None):
            return source or "", target or ""
    return None


def _json_pairs(path: Path, languages: LanguageCodes) -> Iterator[tuple[str, str]]:
    with open_compressed(path) as stream:
        for number, line in enumerate(decode_lines(stream, name=str(path)), start=1):
            where = f"{path}, line {number}"
            yield _json_pair(line, languages, where=where) if line.strip() else ("", "")


_BY_SUFFIX: Final = {
    **dict.fromkeys((".tmx", ".xlf", ".xliff", ".tbx"), _xml_pairs),
    **{".po": _po_pairs, ".csv": _csv_pairs, ".jsonl": _json_pairs, ".ndjson": _json_pairs},
}


def _json_pair(line: str, languages: LanguageCodes, *, where: str) -> tuple[str, str]:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: not a JSON object") from None
    if pair := find_sides(value, languages):
        return pair
    keys = (languages, *PAIR_KEYS)
    accepted = " or ".join(f'"{source}" and "{target}"' for source, target in keys if source)
    raise ValueError(f"{where}: expected an object with texts {accepted}")
