"""Docstrings are plain English with a few marks, not reStructuredText: |Y| is no substitution.

Code spans stay; in what is left, characters that reStructuredText would act on are escaped.
"""

import re
from dataclasses import is_dataclass

from sphinx.application import Sphinx

_SPAN = re.compile(r"(`+.+?`+)")
_FIELDS = {"attribute", "property", "data"}
_COLON = "\ue000"


def plain(line: str) -> str:
    """Escape |…| and * outside of code spans.

    >>> plain("((5 + |Y|) / 6), `a * b`")
    '((5 + \\\\|Y\\\\|) / 6), `a * b`'
    """
    parts = _SPAN.split(line)
    parts[::2] = [re.sub(r"([|*])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _before(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = [plain(line) for line in lines]
    if what in _FIELDS:  # or napoleon takes what stands before a colon for a type
        lines[:] = [line.replace(":", _COLON) for line in lines]


def _after(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def _signature(
    app: Sphinx, what: str, name: str, obj: object, options: object, *lines: str | None
) -> tuple[str, str | None] | None:
    """Fields of a dataclass are told one by one below it, with what each is for."""
    return ("", None) if what == "class" and is_dataclass(obj) else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Look at docstrings before napoleon does, and after it."""
    app.connect("autodoc-process-docstring", _before, priority=100)
    app.connect("autodoc-process-docstring", _after, priority=900)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
