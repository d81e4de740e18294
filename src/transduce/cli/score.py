"""transduce score."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from transduce.cli.app import (
    Device,
    Ensemble,
    ModelFolder,
    ReferenceText,
    SourceText,
    app,
    inference_device,
    print_stdout,
)
from transduce.io.machine import has_torch
from transduce.io.streams import read_lines


@app.command()
def score(
    model: ModelFolder,
    source: SourceText,
    target: ReferenceText,
    also: Ensemble = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per line, with each piece's log-probability."),
    ] = False,
    device: Device = "cpu",
) -> None:
    """Compute the log-probability of given translations: per line, total and mean per piece.

    Examples:

    \b
      transduce score runs/mine --source test.en --target test.de
      transduce score runs/mine --source test.en --target test.de --json
    """
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
            print_stdout(f"{scored.log_prob:.4f}\t{scored.mean:.4f}")
