"""transduce translate --format: a whole text, page or file in, the same translated out."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transduce.cli.app import talk
from transduce.io.streams import whole_output

if TYPE_CHECKING:
    from transduce.documents.formats import Document
    from transduce.documents.markup import Together
    from transduce.inference.translation import Translation
    from transduce.inference.translator import Extras, Translator
    from transduce.search.config import DecodingConstraints

Format = Literal["lines", "text", "html", "srt", "vtt", "po"]

_SHOWN = 20  # lost placeholders that are named


def read_whole(file: Path | None, form: Format) -> "Document":
    """Read a file, or stdin, to its end.

    Raises:
        ValueError: for a broken file.
        OSError: if the file cannot be read.
    """
    from transduce.documents.formats import read_document

    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    name = "stdin" if file is None else str(file)
    return read_document(name, content, ending=".txt" if form == "text" else f".{form}")


def translate_whole(
    translator: "Translator",
    document: "Document",
    output: Path | None,
    *,
    beam: int | None,
    alpha: float | None,
    constraints: "DecodingConstraints",
    extras: "Extras",
    batch_tokens: int,
) -> None:
    """Translate a document, and say what is not as it was."""
    from transduce.cli.progress import counting
    from transduce.inference.glossary_report import honoured
    from transduce.inference.texts import translate_texts

    found: list[Translation] = []
    with whole_output(output) as out, counting(sys.stderr) as count:
        talk(translator.why)
        together = translate_texts(
            translator,
            [segment.text for segment in document.segments],
            markup=document.markup,
            beam=beam,
            alpha=alpha,
            constraints=constraints,
            extras=extras,
            batch_tokens=batch_tokens,
            progress=count,
            seen=found.append,
        )
        out.write(document.rebuild([one.text for one in together]))
        out.flush()
    _report_sentences(found)
    _report_lost(together)
    if extras.glossary:
        talk(honoured([(one.source, one.text) for one in found], extras.glossary).summary())


def _report_sentences(found: "Sequence[Translation]") -> None:
    """Say what is odd about a sentence; it has no line that could be named."""
    for one in found:
        begins = one.source if len(one.source) <= 40 else f"{one.source[:39]}…"
        if one.parts > 1:
            talk(f"too long, translated in {one.parts} parts: {begins}")
        if one.flag:
            again = " and was translated again" if one.mended else ""
            talk(f"came out as a loop{again}, it {one.flag}: {begins}")


def _report_lost(together: "Sequence[Together]") -> None:
    lost = [(number, one) for number, text in enumerate(together, 1) for one in text.lost]
    if not lost:
        return
    where = [f"{one} in text {number}" if len(together) > 1 else one for number, one in lost]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    count = f"{len(lost)} placeholder{'s are' if len(lost) > 1 else ' is'}"
    talk(f"{count} not there as often as before: {', '.join(where[:_SHOWN])}{more}")
