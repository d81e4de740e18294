"""transduce compare."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from transduce.cli.app import app, say
from transduce.io.streams import all_lines


@app.command()
def compare(
    systems: Annotated[
        list[Path], typer.Argument(help="Translations of each system; the first is the baseline.")
    ],
    target: Annotated[Path, typer.Option(help="What they should be, line by line.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="bleu, chrf or ter; repeatable [default: all].")
    ] = None,
    language: Annotated[str, typer.Option(help="Code of the target language.")] = "",
    tokenize: Annotated[
        str, typer.Option(help="BLEU's tokeniser over the language's; \"none\" for tokenised text.")
    ] = "",
    test: Annotated[
        Literal["bootstrap", "randomization"], typer.Option(help="The paired test.")
    ] = "bootstrap",
    samples: Annotated[
        int | None, typer.Option(help="Resamples [1000], or trials of randomization [10000].")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same p.")] = 12345,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Tell whether a system is better than the first one, or whether it is chance.

    Example:

    \b
      transduce compare --target test.de --language de baseline.de new.de
    """
    references, lines = all_lines(target), [all_lines(file) for file in systems]

    from transduce.evaluation.significance import System, compare_systems, distinct_names

    found = compare_systems(
        [*map(System, distinct_names(systems), lines)],
        references,
        metrics=metric or [],
        language=language,
        tokenize=tokenize,
        test=test,
        samples=samples,
        seed=seed,
    )
    say(json.dumps(asdict(found), ensure_ascii=False) if as_json else str(found))
