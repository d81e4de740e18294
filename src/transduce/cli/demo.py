"""transduce demo."""

from pathlib import Path
from typing import Annotated

from typer import Option

from transduce.cli.app import app, command_name, hint_to_resume, print_stdout


@app.command()
def demo(
    out: Annotated[
        Path, Option("--out", "-o", help="Run folder; a finished demo in it is replaced.")
    ] = Path("runs/demo"),
) -> None:
    """Run the full pipeline on a generated corpus.

    To resume an interrupted run, repeat the command.

    Example:

    \b
      transduce demo
    """
    from transduce.cli.progress import event_printer
    from transduce.demo.journey import run_demo

    with event_printer() as on_event, hint_to_resume():
        result = run_demo(out, on_event=on_event)
    print_stdout(f"{result.run}\n{result}")
    print_stdout("\nSentences not in the training set:\n")
    for example in result.shown:
        print_stdout(f"  {example.source}\n    → {example.translation}")
        if example.translation != example.reference:
            print_stdout(f"    expected: {example.reference}")
    print_stdout(f"\nreport: {out / 'report.html'} (open it in a browser)")
    command = command_name()
    print_stdout("\nTry a sentence of your own with these words, then train on your own corpus:\n")
    print_stdout(f'  echo "{result.shown[0].source}" | {command} translate {out}')
    print_stdout(f"  {command} train --source FILE --target FILE --out runs/mine")
    print_stdout("\nOr use and inspect this model in a browser:\n")
    print_stdout(f"  {command} serve {out}")
