"""transduce demo."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from transduce.cli.app import app, command_name, hint_to_resume, say


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="The run's folder; an earlier demo in it is replaced.")
    ] = Path("runs/demo"),
) -> None:
    """Take the whole journey, on a small corpus that it writes itself.

    Example:

    \b
      transduce demo
    """
    from transduce.cli.progress import watching
    from transduce.demo.journey import journey

    with watching(sys.stderr) as on_event, hint_to_resume(out):
        told = journey(out, on_event=on_event)
    say(f"{told.finished}\n{told}")
    say("\nSentences it has never seen:\n")
    for shown in told.shown:
        say(f"  {shown.source}\n    → {shown.translation}")
        if shown.translation != shown.reference:
            say(f"    expected: {shown.reference}")
    say(f"\nthe report: {out / 'report.html'} (open it in a browser)")
    command = command_name()
    say("\nTry your own sentence, made of words like these, then train on your own two files:\n")
    say(f'  echo "{told.shown[0].source}" | {command} translate {out}')
    say(f"  {command} train --source FILE --target FILE --out runs/mine")
    say("\nOr look inside this one, in a browser:\n")
    say(f"  {command} serve {out}")
