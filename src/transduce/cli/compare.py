"""transduce compare."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from transduce.cli.app import BleuTokenizer, JsonObject, ReferenceText, app, print_stdout
from transduce.data.languages import file_language
from transduce.io.streams import read_lines


@app.command()
def compare(
    systems: Annotated[
        list[Path], Argument(help="Translations of each system, the baseline first.")
    ],
    target: ReferenceText,
    metric: Annotated[
        list[str] | None, Option(help="bleu, chrf or ter; repeatable [default: all].")
    ] = None,
    language: Annotated[
        str, Option(help="Code of the target language [default: that of the file names].")
    ] = "",
    tokenize: BleuTokenizer = "",
    test: Annotated[
        Literal["bootstrap", "randomization"], Option(help="Paired significance test.")
    ] = "bootstrap",
    samples: Annotated[
        int | None, Option(help="Number of resamples [default: 1000; randomization: 10000].")
    ] = None,
    seed: Annotated[int, Option(help="Random seed of the test.")] = 12345,
    as_json: JsonObject = False,
) -> None:
    """Test whether systems differ significantly from a baseline.

    Example:

    \b
      transduce compare --target test.de --language de baseline.de new.de
    """
    references, lines = read_lines(target), [read_lines(file) for file in systems]

    from transduce.evaluation.significance import System, compare_systems, distinct_names

    result = compare_systems(
        [*map(System, distinct_names(systems), lines)],
        references,
        metrics=metric or [],
        language=language or file_language(target, *systems),
        tokenize=tokenize,
        test=test,
        samples=samples,
        seed=seed,
    )
    print_stdout(json.dumps(asdict(result), ensure_ascii=False) if as_json else str(result))
