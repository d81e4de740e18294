"""Formats of XML: message catalogues, and archives of text processors, slides, tables and books."""

import html
import io
import re
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from pydantic import TypeAdapter

from transduce.data.po import join_surrogates, unescape
from transduce.documents.document import Document, Part
from transduce.documents.html import BLOCK_ELEMENTS, UNTRANSLATED_ELEMENTS
from transduce.documents.xml import XMLRules, parse_xml

MAX_ENTRIES = 10_000
"""Maximum number of files in an archive."""

MAX_UNPACKED = 256 << 20
"""Maximum bytes of all files of an archive."""

MAX_RATIO = 300
"""Maximum ratio of an archive's unpacked and packed bytes, above `_SMALL` bytes."""

MAX_TAGS = 3_000_000
"""Maximum number of tags in the texts of a file."""

_SMALL = 16 << 20
# What zipfile and zlib raise for damaged archives.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError, LookupError)
_COMPOUND = b"\xd0\xcf\x11\xe0"  # OLE, of encrypted files and of Office before 2007
_TABLE_COLUMN = re.compile(rb"<(?:\w+:)?tableColumn\s[^<>]*?\bname=\"([^\"]*)\"")
_ANDROID_PLAIN = re.compile(r"(\\.)|\"((?:\\.|[^\"\\])*)\"?|[ \t\r\n]+", re.DOTALL)
_ANDROID_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", '"': '\\"', "\n": "\\n", "\t": "\\t"})
_ANDROID_REFERENCE = re.compile(r"\s*[@?][\w.+:]*/[\w.]+\s*")
_EXCEL_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")
_EXCEL_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")  # which XML cannot hold
_XLIFF_SOURCE_ONLY = re.compile(r"<(?:\w+:)?xliff\s(?![^<>]*\btrgLang\b)[^<>]*>")


def _android_decode(text: str) -> str:
    # White space outside of quotes is one space; quotes are only for that.
    plain = _ANDROID_PLAIN.sub(lambda part: part[part.lastindex] if part.lastindex else " ", text)
    return unescape(plain)


def _android_encode(text: str) -> str:
    escaped = text.translate(_ANDROID_ESCAPED)
    escaped = re.sub("(?<= ) ", r"\\u0020", escaped)
    return f"\\{escaped}" if escaped[:1] in ("@", "?") else escaped


def _excel_decode(text: str) -> str:
    return join_surrogates(_EXCEL_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text))


def _excel_encode(text: str) -> str:
    escaped = re.sub("_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    return _EXCEL_CONTROL.sub(lambda match: f"_x{ord(match[0]):04X}_", escaped)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveRules:
    """The files of an archive that have texts."""

    kind: str
    """What the archive is, for messages."""
    required: str
    """A file or folder that every such archive has."""
    texts: Mapping[str, XMLRules]
    """Rules by a regular expression of the file's name."""


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_CODE: Mapping[str, Mapping[str, object]] = {
    "android": {
        "is_constant": lambda text: bool(_ANDROID_REFERENCE.fullmatch(text)),
        "decode": _android_decode,
        "encode": _android_encode,
    },
    "cells": {"decode": _excel_decode, "encode": _excel_encode},
    "xhtml": {"blocks": BLOCK_ELEMENTS, "protected": UNTRANSLATED_ELEMENTS},
}
XML_RULES: Mapping[str, XMLRules] = {
    name: TypeAdapter(XMLRules).validate_python({**row, **_CODE.get(name, {})})
    for name, row in _TABLE["xml"].items()
}
"""Rules by their names in the table."""

ARCHIVES: Mapping[str, ArchiveRules] = {
    name: ArchiveRules(
        **(row | {"texts": {files: XML_RULES[rules] for files, rules in row["texts"].items()}})
    )
    for name, row in _TABLE["archives"].items()
}
"""Formats of archives, by their names."""


def xml_reader(rules: XMLRules) -> Callable[[str, bytes], Document]:
    """Return the reader of a format of XML."""

    def read(name: str, content: bytes) -> Document:
        _check_tags(name, content.count(b"<"))
        parts, encode = parse_xml(name, content, rules)
        return Document(members=(parts,), encode=lambda texts: encode("".join(texts)))

    return read


def read_xliff(name: str, content: bytes, *, target: str = "") -> Document:
    """Read XLIFF of any version; `target` is the code of the language of its targets."""
    version = re.search(
        rb"<(?:\w+:)?xliff\s[^<>]*?\bversion\s*=\s*[\"']2", content.replace(b"\0", b"")
    )
    document = xml_reader(XML_RULES["xliff_2" if version else "xliff_12"])(name, content)
    ((head, root, *parts),) = document.members
    if not (version and target and document.segments and _XLIFF_SOURCE_ONLY.fullmatch(str(root))):
        return document
    root = f'{str(root)[:-1]} trgLang="{html.escape(target)}">'  # required where there are targets
    return replace(document, members=((head, root, *parts),))


def archive_reader(rules: ArchiveRules) -> Callable[[str, bytes], Document]:
    """Return the reader of a format of archives."""

    def read(name: str, content: bytes) -> Document:
        files = _unpack(name, content, rules)
        contents = {info.filename: data for info, data in files}
        columns = b"".join(data for key, data in contents.items() if key.startswith("xl/tables/"))
        # Excel looks a table's column up by the text of its first cell.
        names = {
            _excel_decode(html.unescape(match.decode())) for match in _TABLE_COLUMN.findall(columns)
        }
        members: list[tuple[Part, ...]] = []
        encoders: dict[str, Callable[[str], bytes]] = {}
        tags = 0
        for info, data in files:
            texts = (
                xml_rules
                for key, xml_rules in rules.texts.items()
                if re.fullmatch(key, info.filename)
            )
            xml = next(texts, None)
            # Most worksheets have very many cells, and all their text in a file of its own.
            is_sheet = info.filename.startswith("xl/worksheets/")
            numbers = is_sheet and b"inlineStr" not in data.replace(b"\0", b"")
            if xml is not None and data and not numbers:
                tags += data.count(b"<")
                _check_tags(name, tags)
                xml = replace(xml, is_constant=names.__contains__) if names else xml
                parts, encode = parse_xml(f"{name}: {info.filename}", data, xml)
                members.append(parts)
                encoders[info.filename] = encode

        def pack(texts: Sequence[str]) -> bytes:
            changed = zip(encoders.items(), texts, strict=True)
            return _pack(files, {key: encode(text) for (key, encode), text in changed})

        return Document(members=tuple(members), encode=pack)

    return read


def _check_tags(name: str, tags: int) -> None:
    """Refuse what would need too much memory: a tag of four bytes needs several hundred."""
    if tags > MAX_TAGS:
        raise ValueError(f"{name} has more than {MAX_TAGS:,} XML tags: split it into several files")


def _unpack(name: str, content: bytes, rules: ArchiveRules) -> list[tuple[zipfile.ZipInfo, bytes]]:
    """The files of an archive, in order; one that is damaged, encrypted or too large is refused."""
    if content.startswith(_COMPOUND):
        raise ValueError(
            f"{name} is encrypted or of Office before 2007: save it without a password as a "
            f"{rules.kind}"
        )
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        infos = archive.infolist()
    except _DAMAGE as error:
        raise ValueError(f"{name} is no {rules.kind}: {error}") from None
    with archive:
        _check_entries(name, infos)
        if not any(info.filename.startswith(rules.required) for info in infos):
            raise ValueError(f"{name} is no {rules.kind}: it has no {rules.required}")
        try:
            files = [(info, archive.read(info)) for info in infos]
        except _DAMAGE as error:
            raise ValueError(f"{name} is a damaged {rules.kind}: {error}") from None
    manifest = next((data for info, data in files if info.filename == "META-INF/manifest.xml"), b"")
    if b"encryption-data" in manifest:
        raise ValueError(f"{name} is encrypted: save it without a password")
    return files


def _check_entries(name: str, infos: Sequence[zipfile.ZipInfo]) -> None:
    unpacked = sum(info.file_size for info in infos)
    packed = sum(info.compress_size for info in infos)
    if len(infos) > MAX_ENTRIES:
        raise ValueError(f"{name} has more than {MAX_ENTRIES:,} files")
    if unpacked > MAX_UNPACKED or (unpacked > _SMALL and unpacked > MAX_RATIO * packed):
        raise ValueError(f"{name} unpacks to {unpacked:,} bytes, which is refused")
    if any(info.flag_bits & 1 for info in infos):
        raise ValueError(f"{name} is encrypted: save it without a password")
    names = [info.filename for info in infos]
    for path in names:
        outside = ".." in re.split(r"[/\\]", path) or PurePosixPath(path).is_absolute()
        if outside or PureWindowsPath(path).drive or "\0" in path:
            raise ValueError(f"{name} has a file outside of its folder, {path!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two files of the same name")


def _pack(files: Sequence[tuple[zipfile.ZipInfo, bytes]], changed: Mapping[str, bytes]) -> bytes:
    """An archive of the same files in the same order, compressed in the same way."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for info, data in files:
            copy = zipfile.ZipInfo(info.filename, info.date_time)
            copy.compress_type, copy.external_attr = info.compress_type, info.external_attr
            copy.create_system, copy.comment = info.create_system, info.comment
            archive.writestr(copy, changed.get(info.filename, data))
    return stream.getvalue()
