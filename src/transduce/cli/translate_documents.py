"""transduce translate --format: documents."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.cli.app import print_stderr
from transduce.documents.registry import FORMAT_NAMES, format_named, format_of_file
from transduce.io.streams import open_output, read_content, split_compression

if TYPE_CHECKING:
    from transduce.documents.document import Document
    from transduce.documents.markup import RestoredText
    from transduce.inference.glossary import Term
    from transduce.inference.translation import Translation
    from transduce.memory.store import Match

LINES = "lines"
"""Name of the format of one sentence per line."""

_MAX_LISTED = 20  # warnings, and lost placeholders


def chosen_format(form: str | None, input: Path | None, output: Path | None) -> str:
    """Return the name of the format: the option's, or that of the ending of a file's name.

    Text files hold one sentence per line unless `--format text` is given.

    Raises:
        ValueError: for an unknown name, or a binary format that would be written to a terminal.
    """
    if form is not None and form not in (LINES, *FORMAT_NAMES):
        names = ", ".join((LINES, *FORMAT_NAMES))
        raise ValueError(f"--format must be one of {names}, not {form!r}")
    file = output if input is None else input
    guess = format_of_file(split_compression(file.name)[0]) if file is not None else None
    name = form or (guess.name if guess is not None and guess.name != "text" else LINES)
    row = format_named(name)
    if row is not None and row.binary and output is None and sys.stdout.isatty():
        raise ValueError(f"a {name} document is binary: name a file for it by --output")
    return name


def read_input_document(
    file: Path | None, form: str, *, target: str = "", text: str | None = None
) -> "Document":
    """Read a document: the text, else a file, else stdin; `target`: if the format names it.

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
    return read_document(name, content, form=form, target=target)


def translate_document(
    translate_texts: "Callable[..., Sequence[RestoredText]]",
    document: "Document",
    output: Path | None,
    *,
    terms: "tuple[Term, ...]",
    engine: str,
    memory: "Callable[[str, str], Match | None] | None" = None,
) -> None:
    """Translate a document, and report split sentences and lost placeholders on stderr.

    Args:
        translate_texts: `inference.texts.translate_texts` with a model and its settings.
        terms: the glossary, whose use is reported.
        memory: looks up texts and sentences in a translation memory; they replace the model's.
    """
    from transduce.cli.progress import line_counter
    from transduce.inference.glossary import GlossaryReport

    sentences: list[Translation] = []
    taken = 0

    def remembered(text: str) -> str | None:
        nonlocal taken
        match = memory(text, "") if memory else None
        taken += match is not None
        return match and match.replace(text)

    with open_output(output) as out, line_counter() as count:
        print_stderr(engine)
        segments = translate_texts(
            [segment.text for segment in document.segments],
            markup=[segment.markup for segment in document.segments],
            progress=count,
            on_translation=sentences.append,
            remembered=remembered,
        )
        out.write(document.rebuild([segment.text for segment in segments]))
        out.flush()
    _report_sentences(sentences)
    _report_lost(segments)
    if memory:
        print_stderr(f"translation memory: {taken:,} texts and sentences")
    if terms:
        applied = GlossaryReport(terms)
        for number, sentence in enumerate(sentences, start=1):
            applied.add(sentence.source, sentence.text, line=number)
        print_stderr(applied.summary())


def _report_sentences(sentences: "Sequence[Translation]") -> None:
    """Report split and repetitive sentences; they have no line number to name."""
    log = WarningLog()
    for sentence in sentences:
        excerpt = sentence.source if len(sentence.source) <= 40 else f"{sentence.source[:39]}…"
        log.report(sentence, name=excerpt)
    log.report_total()


class WarningLog:
    """Reports split sentences and repetitive translations on stderr: the first few, and a total."""

    def __init__(self) -> None:
        """Start without warnings."""
        self._split = self._repetitive = self._retranslated = self._listed = 0

    def report(self, translation: "Translation", *, name: str) -> None:
        """Report a sentence by name, unless many were already."""
        warnings: list[str] = []
        if translation.parts > 1:
            self._split += 1
            warnings.append(f"too long, translated in {translation.parts} parts")
        if translation.flag:
            self._repetitive += 1
            self._retranslated += translation.mended
            warnings.append(f"{translation.flag}{', retranslated' if translation.mended else ''}")
        for warning in warnings:
            self._listed += 1
            if self._listed <= _MAX_LISTED:
                print_stderr(f"{name}: {warning}")

    def report_total(self) -> None:
        """Report how many warnings there were, if not all were listed."""
        if self._listed > _MAX_LISTED:
            print_stderr(
                f"{self._listed:,} warnings, of which the first {_MAX_LISTED} are listed: "
                f"{self._split:,} sentences translated in parts, {self._repetitive:,} translations "
                f"repetitive or too long, {self._retranslated:,} of them retranslated"
            )


def _report_lost(segments: "Sequence[RestoredText]") -> None:
    lost = [(number, name) for number, text in enumerate(segments, 1) for name in text.lost]
    if not lost:
        return
    names = [f"{name} in text {number}" if len(segments) > 1 else name for number, name in lost]
    more = f" and {len(lost) - _MAX_LISTED} more" if len(lost) > _MAX_LISTED else ""
    plural = "s" if len(lost) > 1 else ""
    print_stderr(f"{len(lost)} placeholder{plural} lost: {', '.join(names[:_MAX_LISTED])}{more}")
