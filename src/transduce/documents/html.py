"""HTML split into tokens and sentences.

The standard library's parser reports what a tag means, not its characters, raises on some malformed
pages and differs between Python versions, but the page must come back byte for byte. These rules
separate markup from text, in time linear in the page; the raw tokens of any page join to the page.

Text flows from one block boundary to the next, through inline tags: `<p>One <b>dog</b>. Two.</p>`
has one flow of two sentences. In a flow white space, including line ends, is a single space, as
displayed.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from transduce.data.segmentation import MASK, Span, sentence_spans
from transduce.documents.placeholders import mask_placeholders

TokenKind = Literal["text", "open", "close", "void", "boundary"]
"""A void token is inline and has no text to translate; a boundary separates flows."""


class Token(NamedTuple):
    """A stretch of a page."""

    kind: TokenKind
    raw: str
    """Its characters in the page."""
    shown: str = ""
    """Its displayed text: all of a text token, little or nothing of others."""
    name: str = ""
    """Tag name, in lower case."""

    @property
    def protected(self) -> bool:
        """Whether its displayed text must not change, as that of `<code>`."""
        return self.kind == "void" and bool(self.shown)


def _name_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SPACE = re.compile(r"\s+")
_VOID = _name_set("area base br col embed hr img input link meta param source track wbr")
BLOCK_ELEMENTS = _name_set(
    """
    address area article aside base blockquote body br button caption center col colgroup datalist
    dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3
    h4 h5 h6 head header hgroup hr html iframe legend li link main menu meta nav noscript object
    ol optgroup option p param pre search section select source summary table tbody td template
    textarea tfoot th thead title tr track ul video audio
    """
)
"""Elements that separate texts."""

UNTRANSLATED_ELEMENTS = _name_set(
    """
    script style pre code textarea svg math iframe noembed noframes xmp template plaintext
    """
)
"""Elements whose text is not translated."""

_CELL_END = _name_set("tbody td tfoot th thead tr")
_CONTAINERS = BLOCK_ELEMENTS - _VOID - _CELL_END - _name_set("dd dt li optgroup option p")
"""Elements that always have an end tag."""

_ENDED_BY: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("dd", "dt"), _name_set("dd dt")),
    **dict.fromkeys(("td", "th"), _CELL_END),
    "tr": _CELL_END - {"td", "th"},
    "li": _name_set("li"),
    "option": _name_set("optgroup option"),
    "p": BLOCK_ELEMENTS - _VOID,
}
"""Elements whose end tag may be missing, and the tags that end them then, besides a container's."""

_RAW_TEXT = _name_set("script style textarea iframe noembed noframes xmp plaintext")
"""Elements whose content has no tags."""

_FOREIGN = frozenset(["svg", "math"])  # elements that may be self-closing
_INVISIBLE = _name_set("script style svg math template")

# Unclosed markup extends to the page's end, as in browsers, so that the time is linear.
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|<(?:[!?]|/(?=[^A-Za-z]))[^>]*(?:>|\Z)"
    r"|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*+)"
    r"(?P<rest>(?>[^>\"'=]|=\s*+(?:\"[^\"]*\"|'[^']*')?|[\"'])*+)(?:>|\Z)",
    re.DOTALL,
)
_ENTITY = re.compile(r"(&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});?)")
_NO_TRANSLATE = re.compile(
    r"""[\s"'/](?:translate\s*=\s*["']?no\b|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b))""",
    re.IGNORECASE,
)


class TagRules(NamedTuple):
    """What the tags of XML mean, by their names in lower case, where it differs from HTML."""

    boundaries: frozenset[str] = frozenset()
    """Tags that end a flow."""
    inline: frozenset[str] = frozenset()
    """Tags that do not."""
    untranslated: frozenset[str] = frozenset()
    """Elements whose text is not translated."""
    html: bool = True
    """Whether the block tags of HTML end a flow."""
    xml: bool = False
    """Whether any tag may close itself."""

    def is_boundary(self, name: str) -> bool:
        """Return whether a tag ends a flow."""
        return name in self.boundaries or (
            self.html and name in BLOCK_ELEMENTS and name not in self.inline
        )


HTML_RULES = TagRules()
"""The tags of HTML."""


def tokenize_html(page: str, rules: TagRules = HTML_RULES) -> Iterator[Token]:
    """Split a page into tokens, whose `raw` join to the page.

    An element that is not translated is one token with all its content: a boundary, or void if it
    is inline.
    """
    end = 0
    end_tags: dict[int, int] | None = None
    while (match := _MARKUP.search(page, end)) is not None:
        yield from _text_tokens(page[end : match.start()])
        name = (match["name"] or "").lower()
        end = match.end()
        may_self_close = rules.xml or name in _FOREIGN or name in rules.untranslated
        self_closing = may_self_close and match[0].endswith("/>")
        if not name:  # a comment or declaration
            yield Token("void", match[0])
        elif match["slash"]:
            yield Token("boundary" if rules.is_boundary(name) else "close", match[0], name=name)
        elif name in rules.untranslated or (
            name not in _VOID
            and (name in UNTRANSLATED_ELEMENTS or _NO_TRANSLATE.search(match["rest"]))
        ):
            if name in _ENDED_BY and not self_closing:
                end_tags = _end_tags(page, match.start()) if end_tags is None else end_tags
                end = end_tags.get(end) or _implied_end(name, page, end)
            elif not self_closing:
                end = _element_end(name, page, end)
            raw, inside = page[match.start() : end], page[match.end() : end]
            yield _untranslated(name, raw, inside=inside, boundary=rules.is_boundary(name))
        elif rules.is_boundary(name):
            yield Token("boundary", match[0], name=name)
        else:
            yield Token("void" if self_closing or name in _VOID else "open", match[0], name=name)
    yield from _text_tokens(page[end:])


def segment_html(page: str, rules: TagRules = HTML_RULES) -> Iterator[str | list[Token]]:
    """Split a page into sentences, as their tokens, and the text between them."""
    flow: list[Token] = []
    for token in tokenize_html(page, rules):
        if token.kind != "boundary":
            flow.append(token)
            continue
        yield from _flow_sentences(flow)
        yield token.raw
        flow = []
    yield from _flow_sentences(flow)


def collapse_spaces(text: str) -> str:
    """Replace each run of white space by one space."""
    return _SPACE.sub(" ", text)


def visible_text(page: str) -> str:
    """Return the text of a page, white space collapsed."""
    return " ".join(html.unescape(_MARKUP.sub("", page)).split())


def _text_tokens(raw: str) -> Iterator[Token]:
    """Text with a token per entity: only tokens displayed as written can be split."""
    for index, part in enumerate(_ENTITY.split(raw)):
        if part:
            yield Token("text", part, html.unescape(part) if index % 2 else part)


def _untranslated(name: str, raw: str, *, inside: str, boundary: bool) -> Token:
    if boundary:
        return Token("boundary", raw, name=name)
    shown = "" if name in _INVISIBLE else visible_text(inside)
    return Token("void", raw, shown, name)


def _element_end(name: str, page: str, start: int) -> int:
    """End of the element whose start tag ends at `start`; the page's end if it is unclosed."""
    if name in _RAW_TEXT:
        end_tag = re.compile(rf"</{re.escape(name)}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE)
        match = end_tag.search(page, start)
        return match.end() if match else len(page)
    depth = 1
    for match in _MARKUP.finditer(page, start):
        if (match["name"] or "").lower() != name:
            continue
        depth += -1 if match["slash"] else 0 if match["rest"].endswith("/") else 1
        if not depth:
            return match.end()
    return len(page)


def _end_tags(page: str, start: int) -> dict[int, int]:
    """Ends of the elements of `_ENDED_BY` that have an end tag, by the ends of their start tags."""
    ends: dict[int, int] = {}
    unclosed: dict[str, list[int]] = {name: [] for name in _ENDED_BY}
    for match in _MARKUP.finditer(page, start):
        starts = unclosed.get((match["name"] or "").lower())
        if starts is None or match["rest"].endswith("/"):
            continue
        if not match["slash"]:
            starts.append(match.end())
        elif starts:
            ends[starts.pop()] = match.end()
    return ends


def _implied_end(name: str, page: str, start: int) -> int:
    """End of an element without end tag: before the first tag that ends it, as in browsers."""
    depth = 0  # of containers inside
    for match in _MARKUP.finditer(page, start):
        tag = (match["name"] or "").lower()
        if not depth and (tag in _ENDED_BY[name] or (tag in _CONTAINERS and match["slash"])):
            return match.start()
        if tag in _CONTAINERS and not match["rest"].endswith("/"):
            depth += -1 if match["slash"] else 1
    return len(page)


def _flow_sentences(flow: Sequence[Token]) -> Iterator[str | list[Token]]:
    plain = "".join(MASK * len(token.shown) if token.protected else token.shown for token in flow)
    # Same length as `plain`, so that spans apply to both.
    spaced = _SPACE.sub(lambda space: " " * len(space[0]), plain)
    tokens, ranges = _split_tokens(flow, sentence_spans(mask_placeholders(spaced)))
    offset = 0
    for start, end in _with_edge_tags(tokens, ranges):
        yield "".join(token.raw for token in tokens[offset:start])
        yield tokens[start:end]
        offset = end
    yield "".join(token.raw for token in tokens[offset:])


def _split_tokens(flow: Sequence[Token], spans: Sequence[Span]) -> tuple[list[Token], list[Span]]:
    """Split text tokens at sentence edges; also return the token range of each sentence."""
    edges = iter([edge for span in spans for edge in span])
    edge = next(edges, None)
    tokens: list[Token] = []
    edge_tokens: list[int] = []  # for each edge the index of the token after it
    position = 0  # in the displayed text
    for token in flow:
        start = position  # of the token; its text from `position` on is not emitted yet
        end = start + len(token.shown)
        while edge is not None and position < end:
            if edge <= position:
                edge_tokens.append(len(tokens))
                edge = next(edges, None)
            elif edge < end and token.raw == token.shown:
                head = token.shown[position - start : edge - start]
                tokens.append(Token("text", head, head))
                position = edge
            else:
                break
        tail = token.shown[position - start :]
        tokens.append(token if position == start else Token("text", tail, tail))
        position = end
        # An odd count means that the next edge is a sentence's end; tags there come after it.
        if edge is not None and edge <= position and len(edge_tokens) % 2:
            edge_tokens.append(len(tokens))
            edge = next(edges, None)
    return tokens, list(zip(edge_tokens[::2], edge_tokens[1::2], strict=True))


def _with_edge_tags(tokens: Sequence[Token], ranges: Sequence[Span]) -> Iterator[Span]:
    """Extend each range by the tags around it whose partner is inside."""
    partner = _partners(tokens)
    free = 0  # the first token that belongs to no sentence yet
    for number, (start, end) in enumerate(ranges):
        limit = ranges[number + 1][0] if number + 1 < len(ranges) else len(tokens)
        first = next((i for i in range(free, start) if start <= partner[i] < end), start)
        last = next((i for i in range(limit - 1, end - 1, -1) if first <= partner[i] < end), -1)
        free = max(end, last + 1)
        yield first, free


def _partners(tokens: Sequence[Token]) -> list[int]:
    """For each token the index of the matching tag, or -1."""
    partner = [-1] * len(tokens)
    unclosed: dict[str, list[int]] = {}
    for index, token in enumerate(tokens):
        if token.kind == "open":
            unclosed.setdefault(token.name, []).append(index)
        elif token.kind == "close" and unclosed.get(token.name):
            opening = unclosed[token.name].pop()
            partner[index], partner[opening] = opening, index
    return partner
