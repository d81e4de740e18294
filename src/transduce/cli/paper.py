"""transduce paper: the paper's tables, figures and claims, measured on this machine."""

import typer

from transduce.cli.app import app

paper = typer.Typer(
    name="paper",
    help="Measure the paper again: its tables, its figures, its model.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.add_typer(paper)
