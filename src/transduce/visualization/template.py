"""Text from Jinja templates: values are escaped in HTML and SVG, and not in Markdown."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template, select_autoescape


def open_template(file: Path) -> Template:
    """Load a template; a missing variable is an error, and `{{ value | fmt(".2f") }}` formats.

    Args:
        file: the template; values are escaped in one that ends in .html or .svg.
    """
    return _environment(file.parent).get_template(file.name)


@cache
def _environment(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=select_autoescape(["html", "svg"], default=False),
    )
    environment.filters["fmt"] = format
    return environment
