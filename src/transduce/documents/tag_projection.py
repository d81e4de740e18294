"""Tags put round the words of a translation that come from the words they stood round.

A pair of tags goes round the words aligned to those it enclosed; what stands alone goes before the
word that comes from the one behind it, or after that from the one before. Where a word has no
counterpart, tags would cross, or a script has no blanks to part words by, there is no sensible
place, and none is made up.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from transduce.data.corpus import one_line
from transduce.data.sentence_splitting import Span, has_words
from transduce.data.words import has_unspaced

_LINK = re.compile(r"(\d+)-(\d+)")

_MOST = 100  # tags of one sentence; more are no sentence of a person's


class Tag(NamedTuple):
    """A tag within a sentence, which has no width in its text."""

    place: int
    kind: Literal["open", "close", "void"]
    raw: str
    name: str = ""


class Insert(NamedTuple):
    """Something to be put into a text at one place."""

    place: int
    raw: str


@dataclass(kw_only=True, slots=True)
class _Node:
    """A pair of tags with what is in it, or something alone; `end` is its place in the source."""

    open: Tag
    end: int
    close: str = ""
    inside: "list[_Node]" = field(default_factory=list["_Node"])
    span: Span = (0, 0)
    """In the translation."""


class _NowhereError(Exception):
    """There is no sensible place."""


def placed(
    tags: Sequence[Tag], source: str, target: str, *, alignment: str
) -> tuple[Insert, ...] | None:
    """Find where the tags of a sentence go in its translation.

    Args:
        tags: in their order.
        source: the sentence without them.
        target: its translation.
        alignment: links between words as blanks part them, "0-0 1-2".

    Returns:
        What to put where, in order; None where there is no sensible place.
    """
    nodes = _nested(tags) if len(tags) <= _MOST else None
    if nodes is None or has_unspaced(source) or has_unspaced(target):
        return None
    try:
        words = _Words(source, target, alignment)
        _place(nodes, words, within=(0, len(target)))
    except _NowhereError:
        return None
    return tuple(_inserts(nodes))


class _Words:
    """The words of both sides and their links."""

    def __init__(self, source: str, target: str, alignment: str) -> None:
        self.source, self.target = source, target
        self.read, self.said = _blank_parted(source), _blank_parted(target)
        self.links: dict[int, set[int]] = {}
        for one, other in _LINK.findall(alignment):
            if int(one) >= len(self.read) or int(other) >= len(self.said):
                raise _NowhereError  # another text's
            self.links.setdefault(int(one), set()).add(int(other))

    def in_source(self, span: Span) -> list[int]:
        """The words of which a span has letters or digits."""
        return [
            place
            for place, (start, end) in enumerate(self.read)
            if has_words(self.source[max(span[0], start) : min(span[1], end)])
        ]

    def cover(self, span: Span) -> Span:
        """The stretch of the translation that comes from a stretch of the source.

        It is without a break. Where more than half of it would come from elsewhere, one link is
        likely wrong: then it is the longest run of words that do come from there.
        """
        ours = set[int]().union(*(self.links.get(word, ()) for word in self.in_source(span)))
        if not ours:
            raise _NowhereError
        first, last = min(ours), max(ours)
        if last - first + 1 > 2 * len(ours):
            first, last = max(_runs(sorted(ours)), key=lambda run: run[1] - run[0])
        return self._trimmed(self.said[first][0], self.said[last][1], span)

    def spot(self, place: int) -> int:
        """The place in the translation that something alone has."""
        before = [word for word, (start, _) in enumerate(self.read) if start < place][-1:]
        behind = [word for word, (start, _) in enumerate(self.read) if start >= place][:1]
        glued = self.source[max(0, place - 1) : place].strip()
        for word in before + behind if glued else behind + before:
            links = self.links.get(word)
            if links and word in behind:
                return self.said[min(links)][0]
            if links:
                start, end = self.said[max(links)]
                inside = self.source[place : self.read[word][1]]
                return self._trimmed(start, end, (place - 1, place))[1] if inside else end
        raise _NowhereError

    def _trimmed(self, start: int, end: int, like: Span) -> Span:
        """Without marks at the ends, unless the stretch of the source has some there."""
        text = self.target
        if not has_words(text[start:end]):
            return start, end
        while _spells(self.source[like[0]]) and not _spells(text[start]):
            start += 1
        while _spells(self.source[like[1] - 1]) and not _spells(text[end - 1]):
            end -= 1
        return start, end


def _nested(tags: Sequence[Tag]) -> list[_Node] | None:
    """Tags as a tree; None where one lacks its other, or they cross."""
    top: list[_Node] = []
    stack: list[_Node] = []
    for tag in tags:
        level = stack[-1].inside if stack else top
        if tag.kind == "close":
            if not stack or stack[-1].open.name != tag.name:
                return None
            node = stack.pop()
            node.end, node.close = tag.place, tag.raw
            continue
        level.append(_Node(open=tag, end=tag.place))
        if tag.kind == "open":
            stack.append(level[-1])
    return None if stack else top


def _place(nodes: list[_Node], words: _Words, *, within: Span | None) -> None:
    """Give each node of one level its span, its inside first, and put them in order."""
    for node in nodes:
        start = node.open.place
        if not words.source[start : node.end].strip():
            _fill(node, words.spot(start))
            continue
        _place(node.inside, words, within=None)
        first, last = words.cover((start, node.end))
        pairs = [one.span for one in node.inside if one.span[0] < one.span[1]]
        node.span = min([first, *(a for a, _ in pairs)]), max([last, *(b for _, b in pairs)])
        _settle(node.inside, node.span)
    if within is not None:
        _settle(nodes, within)


def _settle(nodes: list[_Node], within: Span) -> None:
    """Move what stands alone out of its neighbours and into its parent; pairs must not overlap."""
    pairs = [node.span for node in nodes if node.span[0] < node.span[1]]
    for node in nodes:
        if node.span[0] == node.span[1]:
            spot = min(max(node.span[0], within[0]), within[1])
            for start, end in pairs:
                spot = start if start < spot < end else spot
            _fill(node, spot)
    nodes.sort(key=lambda node: node.span)
    ends = 0
    for node in nodes:
        if node.span[0] < ends:
            raise _NowhereError
        ends = node.span[1]


def _fill(node: _Node, spot: int) -> None:
    """Put a node without words, and all in it, at one place."""
    node.span = (spot, spot)
    for one in node.inside:
        _fill(one, spot)


def _inserts(nodes: Sequence[_Node]) -> list[Insert]:
    found: list[Insert] = []
    for node in nodes:
        found.append(Insert(node.span[0], node.open.raw))
        found += _inserts(node.inside)
        if node.close:
            found.append(Insert(node.span[1], node.close))
    return found


def _blank_parted(text: str) -> list[Span]:
    """Words as alignments count them: what blanks part once the text is a line."""
    return [found.span() for found in re.finditer("[^ ]+", one_line(text))]


def _spells(character: str) -> bool:
    """Whether a character belongs to a word: a letter, a digit, or an accent on one."""
    return unicodedata.category(character)[0] in "LNM"


def _runs(numbers: Sequence[int]) -> list[Span]:
    """The runs of numbers without a gap, as first and last."""
    found: list[Span] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
