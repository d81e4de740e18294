"""transduce score."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say
from transduce.cli.translate import load_translator
from transduce.io.streams import all_lines


@app.command()
def score(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    source: Annotated[Path, typer.Option(help="Text, a sentence a line.")],
    target: Annotated[Path, typer.Option(help="Its translations, line by line.")],
    also: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A further model of the same vocabulary: an ensemble."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with each piece's ln p.")
    ] = False,
    device: Annotated[str, typer.Option(help='Where to compute: "cpu", "cuda" or "auto".')] = "cpu",
) -> None:
    """Say how likely given translations are: ln p of each line, and its mean over the pieces.

    Examples:

    \b
      transduce score runs/mine --source test.en --target test.de
      transduce score runs/mine --source test.en --target test.de --json
    """
    sources, targets = all_lines(source), all_lines(target)
    translator = load_translator(model, also or (), device=device, engine="torch")
    for number, one in enumerate(translator.score(sources, targets), start=1):
        if as_json:
            whole = {"log_prob": one.log_prob, "mean": one.mean}
            say(json.dumps({"line": number, **asdict(one), **whole}, ensure_ascii=False))
        else:
            say(f"{one.log_prob:.4f}\t{one.mean:.4f}")
