"""Inline tags of texts, compared with those of their translations."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

_TOKEN = re.compile(r"<(/?)([a-zA-Z][\w-]*)([^>]*)>|[^<]+|<")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr")
)


class _Tags(NamedTuple):
    """The tags of a text: all, opening tags in order, and the elements that contain text."""

    all: Counter[str]
    order: list[str]
    filled: Counter[str]
    nested: bool
    """Whether each end tag closes the element opened last."""


def _tags(text: str) -> _Tags:
    tags = _Tags(Counter(), [], Counter(), True)
    opened: list[tuple[str, str, bool]] = []
    nested = True
    for match in _TOKEN.finditer(text):
        end, name, attributes = match.groups()
        if name is None:
            opened = [(*tag, full or not match[0].isspace()) for *tag, full in opened]
            continue
        tags.all[match[0]] += 1
        if not end:
            tags.order.append(match[0])
            if name not in _VOID and not attributes.endswith("/"):
                opened.append((name, match[0], False))
        elif opened and opened[-1][0] == name:
            _, tag, full = opened.pop()
            tags.filled[tag] += full
        else:
            nested = False
    return tags._replace(nested=nested and not opened)


def count_tags(pairs: Iterable[tuple[str, str]]) -> Counter[str]:
    """Count texts with inline tags, and those whose tags the translation lost or reordered.

    Args:
        pairs: Texts and their translations, both with tags.
    """
    counts = Counter(texts=0, unbalanced=0, emptied=0, reordered=0)
    for source, target in pairs:
        before, after = _tags(source), _tags(target)
        if before.all:
            counts["texts"] += 1
            lost = before.all != after.all
            counts["unbalanced"] += lost or (before.nested and not after.nested)
            counts["emptied"] += bool(before.filled - after.filled)
            counts["reordered"] += before.order != after.order
    return counts
