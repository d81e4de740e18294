"""A file with holes: what is kept of it, and the texts that others take the place of."""

import re
from collections.abc import Callable
from typing import NamedTuple

from transduce.documents.marked import Markup

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")


class Hole(NamedTuple):
    """A place that a text stands in."""

    text: str
    markup: Markup
    write: Callable[[str], str]
    """Makes of another text what the file is to have in this place."""


class Line(NamedTuple):
    """A line of a file."""

    number: int
    text: str
    end: str
    """Its line end, "" for a last line without one."""

    @property
    def raw(self) -> str:
        return self.text + self.end


def lines_kept(text: str) -> list[Line]:
    """The lines of a file, whatever they end in; joined they are the file.

    >>> [line.text for line in lines_kept("one\\r\\ntwo")]
    ['one', 'two']
    """
    found = [Line(number, *one.groups()) for number, one in enumerate(_LINE.finditer(text), 1)]
    return found if found[-1].raw else found[:-1]
