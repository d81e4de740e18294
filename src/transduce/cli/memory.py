"""transduce memory."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import command_group, print_stderr, print_stdout
from transduce.io.streams import check_output, open_output

memory = command_group(
    "memory", "Keep translations in a translation memory: import, export, look up."
)

Store = Annotated[Path, Argument(help="File of the translation memory.")]
SourceCode = Annotated[str, Option(metavar="CODE", help='Source language, such as "en".')]
TargetCode = Annotated[str, Option(metavar="CODE", help='Target language, such as "de".')]


@memory.command("import")
def import_file(
    store: Store,
    files: Annotated[list[Path], Argument(help="TMX, XLIFF, PO, CSV or JSON-lines files.")],
    source_lang: SourceCode,
    target_lang: TargetCode,
) -> None:
    """Add the translations of files; the store is made if it is missing.

    Example:

    \b
      transduce memory import memory.db old.tmx --source-lang en --target-lang de
    """
    from transduce.memory.store import TranslationMemory
    from transduce.memory.tmx import read_entries

    languages = (source_lang, target_lang)
    for file in files:
        for _ in read_entries(file, languages=languages):
            pass  # a file that cannot be read to its end fails before the store is changed
    with TranslationMemory(store) as opened:
        before = len(opened)
        for file in files:
            count = opened.add(read_entries(file, languages=languages))
            print_stderr(f"{file}: {count:,} pairs from {source_lang} to {target_lang}")
        print_stderr(f"{store}: {len(opened):,} entries, {len(opened) - before:,} of them new")


@memory.command("export")
def export_file(
    store: Store,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="TMX file, written atomically [default: stdout]."),
    ] = None,
) -> None:
    """Write all translations as TMX 1.4, without the keys of users.

    Example:

    \b
      transduce memory export memory.db -o memory.tmx
    """
    from transduce.memory.store import TranslationMemory
    from transduce.memory.tmx import tmx_lines

    check_output(output, inputs=[store], option="--output")
    with TranslationMemory(store, create=False) as opened, open_output(output) as out:
        for line in tmx_lines(opened.entries()):
            out.write(line.encode())


@memory.command("lookup")
def look_up(
    store: Store,
    text: Annotated[str, Argument(help="Source text.")],
    source_lang: SourceCode,
    target_lang: TargetCode,
    minimum: Annotated[int, Option(min=1, max=100, help="Least similarity in percent.")] = 70,
    as_json: Annotated[
        bool, Option("--json", help="One JSON object per match, with time and origin.")
    ] = False,
) -> None:
    """Print similar entries, as: percent, source, target; best first.

    Example:

    \b
      transduce memory lookup memory.db "A dog runs." --source-lang en --target-lang de
    """
    from transduce.memory.store import TranslationMemory

    with TranslationMemory(store, create=False) as opened:
        languages = (source_lang, target_lang)
        for match in opened.lookup(text, languages=languages, minimum=minimum):
            entry = match.entry
            line = f"{match.score}\t{entry.source}\t{entry.target}"
            print_stdout(json.dumps(asdict(match), ensure_ascii=False) if as_json else line)
