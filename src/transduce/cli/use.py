"""A model at work and looked into: translate, view; and the machine itself: doctor."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, say, talk
from transduce.streams import lines_of, whole_output

_CHUNK = 1024  # lines translated together, so that a long input comes out as it goes in


@app.command()
def translate(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    input: Annotated[
        Path | None, typer.Option("--input", "-i", help="Text, a sentence a line [default: stdin].")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Written whole or not at all [stdout].")
    ] = None,
    beam: Annotated[int | None, typer.Option(help="Hypotheses a sentence [the model's].")] = None,
    alpha: Annotated[float | None, typer.Option(help="Length penalty [the model's].")] = None,
    nbest: Annotated[
        int | None, typer.Option(help="So many translations a line: number, rank, score, text.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with scores and pieces.")
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Most pieces in one batch; memory grows with it.")
    ] = None,
    device: Annotated[str, typer.Option(help='Where to compute: "cpu", "cuda" or "auto".')] = "cpu",
) -> None:
    """Translate text, a sentence a line.

    As many lines come out as go in; an empty line stays empty, and a line too long for the model is
    translated in parts, which stderr says.

    Examples:

    \b
      transduce translate runs/mine < in.txt > out.txt
      transduce translate runs/mine -i in.txt -o out.txt --beam 1
      echo 'A dog runs.' | transduce translate runs/mine --nbest 3
    """
    with lines_of(input) as lines:  # a wrong name should not have to wait for torch
        from transduce.train.process import find_device
        from transduce.translate.translator import BATCH_TOKENS, Translator
        from transduce.watch import counting

        translator = Translator.load(model, device=find_device(device))
        if beam is None and nbest is not None:
            beam = max(nbest, translator.search.beam)
        work = partial(
            translator.translate,
            beam=beam,
            alpha=alpha,
            nbest=1 if nbest is None else nbest,
            batch_tokens=BATCH_TOKENS if batch_tokens is None else batch_tokens,
        )
        work([])  # a wrong setting is wrong even where there is nothing to translate
        together = 1 if input is None and sys.stdin.isatty() else _CHUNK
        with whole_output(output) as out, counting(sys.stderr) as count:
            done = 0
            while chunk := list(islice(lines, together)):
                found = work(
                    chunk,
                    first_line=done + 1,
                    progress=lambda now, before=done: count(before + now),
                )
                for number, one in enumerate(found, done + 1):
                    if one.parts > 1:
                        talk(f"line {number} is too long: translated in {one.parts} parts")
                    if as_json:
                        shown = (
                            json.dumps({"line": number, **asdict(one)}, ensure_ascii=False) + "\n"
                        )
                    elif nbest is not None:
                        others = [(other.score, other.text) for other in one.others]
                        shown = _ranked(number, [(one.score, one.text), *others])
                    else:
                        shown = f"{one.text}\n"
                    out.write(shown.encode())
                out.flush()
                done += len(chunk)


@app.command()
def view(
    model: Annotated[Path, typer.Argument(help="A model's folder, or a run's.")],
    sentence: Annotated[str, typer.Argument(help="A sentence to translate.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write, whole or not at all.")],
    target: Annotated[
        str | None, typer.Option(help="Its translation [default: the model's own].")
    ] = None,
) -> None:
    """Show what a model looks at as it translates a sentence: a page for any browser.

    Every attention of every layer and head, in one file that needs no network.

    Examples:

    \b
      transduce view runs/mine "A dog runs." --out map.html
      transduce view runs/mine "A dog runs." --target "Ein Hund rennt." --out map.html
    """
    if out.is_dir():
        raise ValueError(f"{out} is a folder: name a file for the page, as {out / 'map.html'}")
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} does not exist: make that folder, or name another file")

    from transduce.bundle import Bundle
    from transduce.view.traced import sentence_page

    shown = sentence_page(Bundle.load(model), sentence, target)
    with whole_output(out) as file:
        file.write(shown.encode())
    say(f"page: {out}")


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say what is here, what is missing, and what to do about it.

    A tiny model learns and translates as a test. Exit code 1 means that something is at fault.

    Example:

    \b
      transduce doctor
    """
    from transduce.doctor import examine

    report = examine()
    whole = {"faults": report.faults, **asdict(report)}
    say(json.dumps(whole, ensure_ascii=False) if as_json else str(report))
    raise typer.Exit(1 if report.faults else 0)


def _ranked(number: int, found: Sequence[tuple[float, str]]) -> str:
    """The translations of one line, best first: line number, rank, score, text."""
    return "".join(
        f"{number}\t{rank}\t{score:.4f}\t{text}\n"
        for rank, (score, text) in enumerate(found, start=1)
    )
