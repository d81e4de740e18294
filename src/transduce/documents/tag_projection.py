"""Tag projection: moves the inline tags of a sentence into its translation, by word alignment.

A pair of tags encloses the words aligned to those it enclosed. A single tag goes before the
translation of the word after it, or after that of the word before it. There is no projection if a
word has no counterpart, tags would cross, or a script has no spaces between words.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, NamedTuple

from transduce.data.corpus import one_line
from transduce.data.segmentation import Span, has_unspaced_script, has_words

_LINK = re.compile(r"(\d+)-(\d+)")
_MAX_TAGS = 100  # per sentence; more are not natural text


class Tag(NamedTuple):
    """A tag within a sentence; it has no width in the sentence's text."""

    position: int
    kind: Literal["open", "close", "void"]
    raw: str
    name: str = ""


class ProjectedTag(NamedTuple):
    """A tag's position in the translation."""

    position: int
    raw: str


@dataclass(kw_only=True, slots=True)
class _Node:
    """A pair of tags with its content, or a single tag; `end` is its end in the source."""

    open: Tag
    end: int
    close: str = ""
    children: "list[_Node]" = field(default_factory=list["_Node"])
    span: Span = (0, 0)
    """In the translation."""


class _NoPositionError(Exception):
    """A tag has no sensible position."""


def project_tags(
    tags: Sequence[Tag], source: str, target: str, *, alignment: str
) -> tuple[ProjectedTag, ...] | None:
    """Project the tags of a sentence into its translation.

    Args:
        tags: in order.
        source: the sentence without tags.
        alignment: links between space-separated words, as "0-0 1-2".

    Returns:
        The tags in order of position; None if a tag has no sensible position.
    """
    nodes = _tree(tags) if len(tags) <= _MAX_TAGS else None
    if nodes is None or has_unspaced_script(source) or has_unspaced_script(target):
        return None
    try:
        words = _AlignedWords(source, target, alignment)
        _project(nodes, words, within=(0, len(target)))
    except _NoPositionError:
        return None
    return tuple(_flatten(nodes))


class _AlignedWords:
    """The words of both sides and their alignment links."""

    def __init__(self, source: str, target: str, alignment: str) -> None:
        self.source, self.target = source, target
        self.source_words, self.target_words = _word_spans(source), _word_spans(target)
        self.links: dict[int, set[int]] = {}
        for i, j in _LINK.findall(alignment):
            if int(i) >= len(self.source_words) or int(j) >= len(self.target_words):
                raise _NoPositionError  # the alignment of another text
            self.links.setdefault(int(i), set()).add(int(j))

    def project_span(self, span: Span) -> Span:
        """The contiguous stretch of the translation that comes from a stretch of the source.

        If more than half of it would come from elsewhere, a link is probably wrong; then it is the
        longest run of words that do come from there.
        """
        inside = [
            index
            for index, (start, end) in enumerate(self.source_words)
            if has_words(self.source[max(span[0], start) : min(span[1], end)])
        ]
        linked = set[int]().union(*(self.links.get(word, ()) for word in inside))
        if not linked:
            raise _NoPositionError
        first, last = min(linked), max(linked)
        if last - first + 1 > 2 * len(linked):
            first, last = max(_runs(sorted(linked)), key=lambda run: run[1] - run[0])
        return self._trim(self.target_words[first][0], self.target_words[last][1], span)

    def project_position(self, position: int) -> int:
        """The position in the translation of a single tag."""
        before = [i for i, (start, _) in enumerate(self.source_words) if start < position][-1:]
        after = [i for i, (start, _) in enumerate(self.source_words) if start >= position][:1]
        attached = self.source[max(0, position - 1) : position].strip()  # no space before the tag
        for word in before + after if attached else after + before:
            links = self.links.get(word)
            if links and word in after:
                return self.target_words[min(links)][0]
            if links:
                start, end = self.target_words[max(links)]
                rest = self.source[position : self.source_words[word][1]]
                return self._trim(start, end, (position - 1, position))[1] if rest else end
        raise _NoPositionError

    def _trim(self, start: int, end: int, source: Span) -> Span:
        """Exclude punctuation at an end, unless the source stretch has some at that end."""
        text = self.target
        if not has_words(text[start:end]):
            return start, end
        while _is_word(self.source[source[0]]) and not _is_word(text[start]):
            start += 1
        while _is_word(self.source[source[1] - 1]) and not _is_word(text[end - 1]):
            end -= 1
        return start, end


def _tree(tags: Sequence[Tag]) -> list[_Node] | None:
    """Tags as a tree; None if one has no partner or they cross."""
    top: list[_Node] = []
    stack: list[_Node] = []
    for tag in tags:
        level = stack[-1].children if stack else top
        if tag.kind == "close":
            if not stack or stack[-1].open.name != tag.name:
                return None
            node = stack.pop()
            node.end, node.close = tag.position, tag.raw
            continue
        level.append(_Node(open=tag, end=tag.position))
        if tag.kind == "open":
            stack.append(level[-1])
    return None if stack else top


def _project(nodes: list[_Node], words: _AlignedWords, *, within: Span | None) -> None:
    """Set the span of each node of one level, children first, and sort the nodes."""
    for node in nodes:
        start = node.open.position
        if not words.source[start : node.end].strip():
            _collapse(node, words.project_position(start))
            continue
        _project(node.children, words, within=None)
        first, last = words.project_span((start, node.end))
        # A parent encloses its children even if alignment puts them outside.
        spans = [child.span for child in node.children if child.span[0] < child.span[1]]
        node.span = min([first, *(a for a, _ in spans)]), max([last, *(b for _, b in spans)])
        _resolve(node.children, node.span)
    if within is not None:
        _resolve(nodes, within)


def _resolve(nodes: list[_Node], within: Span) -> None:
    """Move empty nodes out of their siblings and into their parent; others must not overlap."""
    spans = [node.span for node in nodes if node.span[0] < node.span[1]]
    for node in nodes:
        if node.span[0] == node.span[1]:
            position = min(max(node.span[0], within[0]), within[1])
            for start, end in spans:
                position = start if start < position < end else position
            _collapse(node, position)
    nodes.sort(key=lambda node: node.span)
    end = 0
    for node in nodes:
        if node.span[0] < end:
            raise _NoPositionError
        end = node.span[1]


def _collapse(node: _Node, position: int) -> None:
    """Put a node without words, and its children, at one position."""
    node.span = (position, position)
    for child in node.children:
        _collapse(child, position)


def _flatten(nodes: Sequence[_Node]) -> list[ProjectedTag]:
    tags: list[ProjectedTag] = []
    for node in nodes:
        tags.append(ProjectedTag(node.span[0], node.open.raw))
        tags += _flatten(node.children)
        if node.close:
            tags.append(ProjectedTag(node.span[1], node.close))
    return tags


def _word_spans(text: str) -> list[Span]:
    """Words as alignments count them: separated by spaces once the text is a single line."""
    return [match.span() for match in re.finditer("[^ ]+", one_line(text))]


def _is_word(character: str) -> bool:
    """Whether a character belongs to a word: a letter, a digit or a combining mark."""
    return unicodedata.category(character)[0] in "LNM"


def _runs(numbers: Sequence[int]) -> list[Span]:
    """Runs of consecutive numbers, as first and last."""
    by_offset = groupby(enumerate(numbers), key=lambda item: item[1] - item[0])
    runs = ([number for _, number in run] for _, run in by_offset)
    return [(run[0], run[-1]) for run in runs]
