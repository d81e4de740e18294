"""One table lists the formats of documents."""

import re
from pathlib import Path

import transduce
from transduce.documents.formats import READERS
from transduce.documents.registry import (
    DOCUMENT_FORMATS,
    FORMAT_NAMES,
    SUFFIXES,
    format_named,
    format_of_file,
)

SOURCES = Path(transduce.__file__).parent


def test_names_and_endings_are_unique() -> None:
    assert len(set(FORMAT_NAMES)) == len(FORMAT_NAMES)
    assert len(set(SUFFIXES)) == len(SUFFIXES)


def test_each_format_has_a_reader() -> None:
    multilingual = {row.name for row in DOCUMENT_FORMATS if row.multilingual}
    assert READERS.keys() | multilingual == set(FORMAT_NAMES)
    assert multilingual == {"xcstrings"}
    for row in DOCUMENT_FORMATS:
        assert format_named(row.name) is row
        assert {format_of_file(f"a{suffix}") for suffix in row.suffixes} == {row}


def test_nothing_else_lists_endings() -> None:
    listed = re.compile(rf"[\"'](?:{'|'.join(map(re.escape, SUFFIXES))})[\"']")
    tables = {
        path.name
        for path in SOURCES.rglob("*.py")
        if len(set(listed.findall(path.read_text()))) > 3  # pages and JSON, or XLIFF as a corpus
    }

    assert tables == set()


def test_the_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "documents.md").read_text()
    table = page.partition("## ")[0]
    rows = [line.split(" | ")[:3] for line in table.split("\n") if line.startswith("| ")][1:]

    assert rows == [
        [f"| {row.name}", " ".join(row.suffixes), row.translated] for row in DOCUMENT_FORMATS
    ]
