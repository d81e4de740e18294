"""transduce corpus."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from transduce.cli.app import Overrides, command_group, print_stderr, print_stdout
from transduce.cli.memory import SourceCode, TargetCode

corpus = command_group("corpus", "Make a corpus of many files, or get a public one.")


@corpus.command("build")
def build(
    sources: Annotated[
        list[str],
        Argument(
            help="One file of pairs (TSV, CSV, TMX, XLIFF, PO, JSONL, Parquet), a folder of "
            "`datasets`, SOURCE,TARGET, or SOURCE,TARGET,DOCUMENTS."
        ),
    ],
    source_lang: SourceCode,
    target_lang: TargetCode,
    out: Annotated[Path, Option("--out", "-o", help="A new folder.")],
    licence: Annotated[
        list[str] | None, Option(help="Of all, or repeated for each in order.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        Option(help="Existing test set, SOURCE,TARGET: its sentences are dropped."),
    ] = None,
    near: Annotated[
        float | None,
        Option(
            metavar="SIMILARITY",
            help="Drop pairs that are about as similar as this to an earlier one, such as 0.8 "
            "(MinHash; needs transduce[near]).",
        ),
    ] = None,
    validation: Annotated[int, Option(min=0, help="Validation pairs at most.")] = 1000,
    test: Annotated[int, Option(min=0, help="Test pairs at most.")] = 1000,
    settings: Overrides = None,
) -> None:
    """Merge files into train, validation and test: cleaned, without duplicates and leaks.

    Documents stay together: those that the file DOCUMENTS names line by line, else blocks of 20
    lines. A sentence of validation or test, source or target, is not in train. OUT/corpus.json has
    files, checksums and licences, and how many pairs were dropped and why.

    Example:

    \b
      transduce corpus build a.en,a.de memory.tmx --source-lang en --target-lang de -o corpus
    """
    from transduce.config import load_recipe
    from transduce.pipeline.merge import CorpusSource, merge_corpus

    licences = licence or [""]
    licences = licences * len(sources) if len(licences) == 1 else licences
    if len(licences) != len(sources):
        raise ValueError(f"there are {len(sources)} sources, but {len(licences)} times --licence")
    listed = [*map(CorpusSource.parse, sources, licences)]
    excluded = [*map(CorpusSource.parse, exclude or [])]
    languages = [f"languages.source={source_lang}", f"languages.target={target_lang}"]
    recipe = load_recipe("base", [*languages, *(settings or [])])
    for counts in merge_corpus(
        recipe, listed, out, validation=validation, test=test, exclude=excluded, near=near
    ):
        print_stdout(str(counts))
    if not all(licences):
        print_stderr("no licence is recorded: name it by --licence")


@corpus.command("get")
def get(
    name: Annotated[str, Argument(help='Such as "wmt22" or "Statmt-europarl-10-deu-eng".')],
    source_lang: SourceCode,
    target_lang: TargetCode,
    out: Annotated[Path, Option("--out", "-o", help="A new folder.")],
) -> None:
    """Fetch a public corpus: sacreBLEU's test sets, or data sets of mtdata if it is installed.

    The codes choose the direction of a test set; data sets of mtdata have theirs in the name.

    Example:

    \b
      transduce corpus get wmt22 --source-lang en --target-lang de -o wmt22
    """
    from transduce.corpus_check.public import fetch

    fetch(name, (source_lang, target_lang), out)
    print_stdout(str(out / "manifest.json"))
