"""transduce score."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Option

from transduce.cli.app import (
    Device,
    Ensemble,
    ModelFolder,
    SourceText,
    app,
    hint_to_resume,
    inference_device,
    print_stderr,
    print_stdout,
)
from transduce.cli.cluster import (
    SHARD_LINES,
    ClusterEngine,
    ClusterWorkers,
    ShardLines,
    address,
    cluster_config,
)
from transduce.io.machine import has_torch
from transduce.io.streams import read_lines


@app.command()
def score(
    model: ModelFolder,
    source: SourceText,
    target: Annotated[Path | None, Option(help="Reference translations, line by line.")] = None,
    also: Ensemble = None,
    as_json: Annotated[
        bool, Option("--json", help="One JSON object per line, with each piece's log-probability.")
    ] = False,
    device: Device = "cpu",
    output: Annotated[
        Path | None, Option("--output", "-o", help="Folder for the scores (--cluster).")
    ] = None,
    cluster: ClusterEngine = None,
    workers: ClusterWorkers = None,
    shard_lines: ShardLines = SHARD_LINES,
) -> None:
    """Compute the log-probability of given translations: per line, total and mean per piece.

    With --cluster, SOURCE is a folder, a pattern or a file: TSV, source and target in two columns.

    Examples:

    \b
      transduce score runs/mine --source test.en --target test.de
      transduce score runs/mine --source test.en --target test.de --json
      transduce score runs/mine --source 'pairs/*.tsv' --output scores --cluster local
    """
    config = cluster_config(cluster, workers, shard_lines, device=device)
    if config:
        if target or as_json or not output:
            raise ValueError(
                "--cluster reads pairs from --source and writes to a folder, --output: leave out "
                "--target and --json"
            )
        from transduce.cli.progress import event_printer
        from transduce.cluster.translate import score_corpus

        with event_printer() as on_event, hint_to_resume():
            result = score_corpus(
                [model, *(also or ())],
                address(source),
                address(output),
                config=config,
                on_event=on_event,
            )
        print_stderr(
            f"{result.rows:,} pairs in {len(result.files):,} files of {output}, "
            f"{result.translated:,} of them scored now"
        )
        return
    if target is None or output is not None:
        raise ValueError("--target is required, and --output for --cluster alone")
    sources, targets = read_lines(source), read_lines(target)

    from transduce.inference.translator import Translator

    translator = Translator.load(
        model,
        ensemble=also or (),
        device=inference_device(device),
        engine="torch" if has_torch() else "numpy",
    )
    for number, scored in enumerate(translator.score(sources, targets), start=1):
        if as_json:
            fields = {**asdict(scored), "log_prob": scored.log_prob, "mean": scored.mean}
            print_stdout(json.dumps({"line": number, **fields}, ensure_ascii=False))
        else:
            print_stdout(str(scored))
