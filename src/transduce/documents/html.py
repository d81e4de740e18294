"""A page as what is kept and the sentences in it.

Text flows from one bound to the next, through the tags of words and phrases: `<p>One <b>dog</b>.
Two.</p>` is a flow of two sentences between two bounds. White space is one blank in a flow, line
ends too, as a reader sees it.
"""

import re
from collections.abc import Iterator, Sequence

from transduce.data.sentence_splitting import COVER, spans
from transduce.documents import placeholders
from transduce.documents.html_tokens import Token, tokens
from transduce.documents.marked import Fixed, Marked
from transduce.documents.tag_projection import Tag

_SPACE = re.compile(r"\s+")


def page_parts(page: str) -> Iterator[str | Marked]:
    """Cut a page into sentences and what is kept as it is, in order."""
    flow: list[Token] = []
    for token in tokens(page):
        if token.kind != "bound":
            flow.append(token)
            continue
        yield from _of_flow(flow)
        yield token.raw
        flow = []
    yield from _of_flow(flow)


def covered(text: str) -> str:
    """The text with its placeholders made unreadable, at its length: they are not cut."""
    found: list[str] = []
    done = 0
    for start, end in placeholders.find(text):
        found += [text[done:start], COVER * (end - start)]
        done = end
    return "".join([*found, text[done:]])


def _of_flow(flow: Sequence[Token]) -> Iterator[str | Marked]:
    plain = "".join(COVER * len(token.shown) if token.fixed else token.shown for token in flow)
    found = spans(covered(_SPACE.sub(lambda gap: " " * len(gap[0]), plain)))
    cut, ranges = _cut(flow, found)
    done = 0
    for start, end in _widened(cut, ranges):
        yield "".join(token.raw for token in cut[done:start])
        yield _sentence(cut[start:end])
        done = end
    yield "".join(token.raw for token in cut[done:])


def _cut(
    flow: Sequence[Token], found: Sequence[tuple[int, int]]
) -> tuple[list[Token], list[tuple[int, int]]]:
    """Cut the text tokens where sentences begin and end; which tokens each sentence has."""
    edges = iter([edge for span in found for edge in span])
    edge = next(edges, None)
    cut: list[Token] = []
    places: list[int] = []  # of the tokens before which there is an edge
    at = 0
    for token in flow:
        begun = at  # of the token, all that is behind `at` is not cut yet
        ends = begun + len(token.shown)
        while edge is not None and at < ends:
            if edge <= at:
                places.append(len(cut))
                edge = next(edges, None)
            elif edge < ends and token.raw == token.shown:
                head = token.shown[at - begun : edge - begun]
                cut.append(Token("text", head, head))
                at = edge
            else:
                break
        tail = token.shown[at - begun :]
        cut.append(token if at == begun else Token("text", tail, tail))
        at = ends
        if edge is not None and edge <= at and len(places) % 2:  # an end; tags go behind it
            places.append(len(cut))
            edge = next(edges, None)
    return cut, list(zip(places[::2], places[1::2], strict=True))


def _widened(cut: Sequence[Token], ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The ranges, each with tags at its ends whose other is within it."""
    partner = _partners(cut)
    free = 0  # the first token that belongs to no sentence yet
    for number, (start, end) in enumerate(ranges):
        limit = ranges[number + 1][0] if number + 1 < len(ranges) else len(cut)
        first = next((at for at in range(free, start) if start <= partner[at] < end), start)
        last = next((at for at in range(limit - 1, end - 1, -1) if first <= partner[at] < end), -1)
        free = max(end, last + 1)
        yield first, free


def _partners(cut: Sequence[Token]) -> list[int]:
    """For each token the place of the tag that opens or closes with it; -1 if there is none."""
    partner = [-1] * len(cut)
    opened: dict[str, list[int]] = {}
    for place, token in enumerate(cut):
        if token.kind == "open":
            opened.setdefault(token.name, []).append(place)
        elif token.kind == "close" and opened.get(token.name):
            other = opened[token.name].pop()
            partner[place], partner[other] = other, place
    return partner


def _sentence(cut: Sequence[Token]) -> Marked:
    """The sentence that some tokens make."""
    text = ""
    fixed: list[Fixed] = []
    tags: list[Tag] = []
    for token in cut:
        shown = _SPACE.sub(" ", token.shown)
        if shown.startswith(" ") and (not text or text.endswith(" ")):
            shown = shown[1:]
            if text and tags and tags[-1].kind == "void" and tags[-1].place == len(text):
                tags[-1] = tags[-1]._replace(
                    raw=f"{tags[-1].raw} "
                )  # it has a blank on either side
        if token.fixed:
            fixed.append(Fixed(len(text), len(text) + len(shown), token.raw))
        elif token.kind != "text":
            kind = token.kind if token.kind in ("open", "close") else "void"
            tags.append(Tag(len(text), kind, token.raw, token.name))
        text += shown
    length = len(text.rstrip())
    return Marked(
        raw="".join(token.raw for token in cut),
        text=text[:length],
        markup="html",
        fixed=tuple(fixed),
        tags=tuple(tag._replace(place=min(tag.place, length)) for tag in tags),
        edges=(_edge(cut), _edge(cut[::-1])),
    )


def _edge(cut: Sequence[Token]) -> str:
    """White space before the first word, to be put outside of all tags."""
    for token in cut:
        if token.shown:
            return token.raw if token.shown.isspace() else ""
    return ""
