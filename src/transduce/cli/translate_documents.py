"""transduce translate --format: documents."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from transduce.cli.app import print_stderr
from transduce.io.streams import open_output, read_content

if TYPE_CHECKING:
    from transduce.documents.formats import Document
    from transduce.documents.markup import RestoredText
    from transduce.inference.glossary import Term
    from transduce.inference.translator import Translation

Format = Literal["lines", "text", "html", "srt", "vtt", "po"]

_MAX_LISTED = 20  # lost placeholders listed by name


def read_input_document(file: Path | None, form: Format, *, text: str | None = None) -> "Document":
    """Read a document from a file, or from stdin if `file` is None.

    Args:
        file: None means stdin.
        form: its format.
        text: the document itself, instead of a file.

    Raises:
        ValueError: for a malformed file.
        OSError: if the file cannot be read.
    """
    from transduce.documents.formats import read_document

    name = "stdin" if file is None else str(file)
    if text is not None:
        name, content = "text", text.encode(errors="surrogateescape")
    else:
        content = sys.stdin.buffer.read() if file is None else read_content(file)
    return read_document(name, content, ending=".txt" if form == "text" else f".{form}")


def translate_document(
    translate_texts: "Callable[..., Sequence[RestoredText]]",
    document: "Document",
    output: Path | None,
    *,
    terms: "tuple[Term, ...]",
    engine: str,
) -> None:
    """Translate a document, and report split sentences and lost placeholders on stderr.

    Args:
        translate_texts: `inference.translator.translate_texts` with a model and its settings.
        document: the parsed input.
        output: output file; None means stdout.
        terms: the glossary, whose use is reported.
        engine: description of the engine, for stderr.
    """
    from transduce.cli.progress import line_counter
    from transduce.inference.glossary import glossary_report

    sentences: list[Translation] = []
    with open_output(output) as out, line_counter(sys.stderr) as count:
        print_stderr(engine)
        segments = translate_texts(
            [segment.text for segment in document.segments],
            markup=document.markup,
            progress=count,
            on_translation=sentences.append,
        )
        out.write(document.rebuild([segment.text for segment in segments]))
        out.flush()
    _report_sentences(sentences)
    _report_lost(segments)
    if terms:
        texts = [(sentence.source, sentence.text) for sentence in sentences]
        print_stderr(glossary_report(texts, terms).summary())


def _report_sentences(sentences: "Sequence[Translation]") -> None:
    """Report split and repetitive sentences; they have no line number to name."""
    for sentence in sentences:
        excerpt = sentence.source if len(sentence.source) <= 40 else f"{sentence.source[:39]}…"
        for warning in translation_warnings(sentence):
            print_stderr(f"{warning}: {excerpt}")


def translation_warnings(translation: "Translation") -> Iterator[str]:
    """Say whether a sentence was split, and whether its translation is repetitive."""
    if translation.parts > 1:
        yield f"too long, translated in {translation.parts} parts"
    if translation.flag:
        yield f"{translation.flag}{', retranslated' if translation.mended else ''}"


def _report_lost(segments: "Sequence[RestoredText]") -> None:
    lost = [(number, name) for number, text in enumerate(segments, 1) for name in text.lost]
    if not lost:
        return
    names = [f"{name} in text {number}" if len(segments) > 1 else name for number, name in lost]
    more = f" and {len(lost) - _MAX_LISTED} more" if len(lost) > _MAX_LISTED else ""
    plural = "s" if len(lost) > 1 else ""
    print_stderr(f"{len(lost)} placeholder{plural} lost: {', '.join(names[:_MAX_LISTED])}{more}")
