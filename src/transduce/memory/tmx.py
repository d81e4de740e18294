"""Translation memories as TMX files, the format that programs for translators exchange."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from transduce.data.pair_files import pair_reader
from transduce.memory.store import Entry, TranslationMemory

_HEADER = """<?xml version="1.0" encoding="UTF-8"?>
<tmx version="1.4">
<header creationtool="transduce" creationtoolversion="1" segtype="sentence" o-tmf="transduce"
 adminlang="en" srclang="*all*" datatype="plaintext"/>
<body>
"""
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_entries(path: Path, *, languages: tuple[str, str]) -> Iterator[Entry]:
    """Read the pairs of two languages in a TMX, XLIFF, PO, CSV or JSON-lines file as it is parsed.

    The file's name is the entries' origin.

    Raises:
        ValueError: for a file of another kind or one that cannot be parsed.
    """
    reader = pair_reader(path)
    if reader is None:
        raise ValueError(f"{path}: expected a .tmx, .xliff, .po, .tbx, .csv or .jsonl file")
    for source, target in reader(path, languages):
        if source.strip() and target.strip():
            yield Entry(
                source=source,
                target=target,
                source_lang=languages[0],
                target_lang=languages[1],
                origin=path.name,
            )


def tmx_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Return the lines of a TMX file, of any language pairs; user keys are left out."""
    yield _HEADER
    for entry in entries:
        date = re.sub(r"[-:]", "", entry.created[:19]) + "Z"
        sides = ((entry.source_lang, entry.source), (entry.target_lang, entry.target))
        variants = "".join(
            f"<tuv xml:lang={quoteattr(code)}><seg>{escape(_NO_XML.sub('', text))}</seg></tuv>"
            for code, text in sides
        )
        yield f'<tu creationdate="{date}">{variants}</tu>\n'
    yield "</body>\n</tmx>\n"


def open_memory(path: Path, *, languages: tuple[str, str]) -> TranslationMemory:
    """Open a store, or read a TMX file, of these languages, into one that is not kept."""
    if pair_reader(path) is None:
        return TranslationMemory(path, create=False)
    memory = TranslationMemory(":memory:")
    memory.add(read_entries(path, languages=languages))
    return memory
