"""Options of `--cluster`; `transduce translate --cluster`."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from transduce.cli.app import hint_to_resume, print_stderr

if TYPE_CHECKING:
    from transduce.cluster.engines import ClusterConfig
    from transduce.inference.glossary import Term

ClusterEngine = Annotated[
    str | None,
    Option(
        "--cluster",
        metavar="local|ray[:ADDRESS]|slurm",
        help="Share the work among workers of Ray or Slurm; repeat the command to resume.",
    ),
]
ClusterWorkers = Annotated[
    int | None, Option("--workers", help="Workers of --cluster [default: all cores].")
]
SHARD_LINES: Final = 8192
ShardLines = Annotated[
    int, Option(help="Lines that a killed worker has to repeat at most (--cluster).")
]

_KEYWORDS = {
    "beam": "num_beams",
    "alpha": "length_penalty",
    "no_repeat": "no_repeat_ngram_size",
    "min_length": "min_new_tokens",
    "max_length": "max_new_tokens",
    "sample": "do_sample",
    "to": "target",
    **{name: name for name in ("temperature", "top_k", "top_p", "seed", "prefix", "mbr")},
}
"""Options and the keywords of `Translator.translate` for them."""

_PER_LINE = ("text", "form", "memory", "nbest", "as_json", "confidence", "align")


def cluster_config(
    cluster: str | None,
    workers: int | None,
    shard_lines: int,
    *,
    default_lines: int = SHARD_LINES,
    device: str = "cpu",
) -> "ClusterConfig | None":
    """Return the settings of workers; None without --cluster.

    Args:
        default_lines: of --shard-lines.

    Raises:
        ValueError: for a wrong value, or options of workers without --cluster.
    """
    if cluster:
        from transduce.cluster.engines import ClusterConfig

        return ClusterConfig(engine=cluster, workers=workers, device=device, shard_rows=shard_lines)
    if workers is not None or shard_lines != default_lines:
        raise ValueError("--workers and --shard-lines are for --cluster: add it, or leave them out")
    return None


def translate_on_cluster(arguments: Mapping[str, Any], *, terms: "tuple[Term, ...]") -> None:
    """Translate the files of a folder or pattern, with options of `transduce translate` by name.

    Args:
        arguments: the options.
        terms: of the glossary.

    Raises:
        ValueError: if input or output is missing, or an option is for single files.
    """
    for name in _PER_LINE:
        if arguments[name]:
            option = {"form": "--format", "as_json": "--json", "text": "TEXT"}.get(
                name, f"--{name}"
            )
            raise ValueError(f"--cluster writes one translation per line: leave out {option}")
    if arguments["input"] is None or arguments["output"] is None:
        raise ValueError(
            "--cluster needs --input, a folder or a pattern, and --output, the folder to write"
        )
    from transduce.bundle.bundle import Bundle
    from transduce.cli.progress import event_printer
    from transduce.cluster.engines import ClusterConfig
    from transduce.cluster.translate import translate_corpus
    from transduce.inference.translator import find_target_tag, known_directions

    if arguments["to"] is not None:  # before workers start
        bundle, source = Bundle.load(arguments["model"]), arguments["source_lang"] or ""
        directions = known_directions(bundle)
        find_target_tag(bundle.tokenizer, directions, arguments["to"], source=source)
    options = {new: arguments[old] for old, new in _KEYWORDS.items()}
    if arguments["batch_tokens"] is not None:
        options["batch_tokens"] = arguments["batch_tokens"]
    loading = {name: arguments[name] for name in ("engine", "compute_type", "shortlist")}
    config = ClusterConfig(
        engine=arguments["cluster"],
        workers=arguments["workers"],
        threads=arguments["threads"] or 1,
        device=arguments["device"],
        shard_rows=arguments["shard_lines"],
        field=arguments["field"],
    )
    with event_printer() as on_event, hint_to_resume():
        result = translate_corpus(
            arguments["model"],
            address(arguments["input"]),
            address(arguments["output"]),
            config=config,
            loading={**loading, "ensemble": arguments["also"] or ()},
            on_event=on_event,
            glossary=terms,
            protect=tuple(arguments["protect"] or ()),
            retry_loops=not arguments["as_is"],
            recase=not arguments["as_is"],
            **options,
        )
    print_stderr(
        f"{result.rows:,} lines in {len(result.files):,} files of {arguments['output']}, "
        f"{result.translated:,} of them translated now"
    )


def address(path: Path) -> str:
    """Restore the slashes of an address, of which a path keeps one.

    >>> address(Path("s3://bucket/a")), address(Path("file:///data"))
    ('s3://bucket/a', 'file:///data')
    """
    text = re.sub(r"^(\w{2,}):/+", r"\1://", str(path))
    return re.sub("^file://", "file:///", text)  # whose host is empty
