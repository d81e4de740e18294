"""HTML cut into tokens: tags and what is not to be read, raw, and the text between them.

The standard library's parser says what a tag means, not which characters it was, raises on some
broken pages and differs from one Python to the next; a page that is to come back as it was needs
the characters. So here are the few rules that tell markup from text, in time linear in the page:
whatever they make of a broken page, the raw tokens joined are the page.
"""

import html
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["text", "open", "close", "void", "bound"]
"""Void is whatever stands in a sentence without text of its own; a bound is between sentences."""


class Token(NamedTuple):
    """A stretch of a page."""

    kind: Kind
    raw: str
    """As it stands in the page."""
    shown: str = ""
    """What a reader sees of it: all of a text, little or nothing of other tokens."""
    name: str = ""
    """A tag's, in small letters."""

    @property
    def fixed(self) -> bool:
        """Whether it has words to show that must stay as they are, as `<code>` has."""
        return self.kind == "void" and bool(self.shown)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_BLOCK = _names(
    """
    address area article aside base blockquote body br button caption center col colgroup datalist
    dd details dialog dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3
    h4 h5 h6 head header hgroup hr html iframe legend li link main menu meta nav noscript object
    ol optgroup option p param pre search section select source summary table tbody td template
    textarea tfoot th thead title tr track ul video audio
    """
)
_UNREAD = _names(
    """
    script style pre code textarea svg math iframe noembed noframes xmp template plaintext
    """
)
"""Elements whose text is not to be translated."""

_RAW = _names("script style textarea iframe noembed noframes xmp plaintext")
"""Elements in which a tag is text."""

_FOREIGN = frozenset(["svg", "math"])
"""Elements that end at once where their tag ends in a slash."""

_UNSEEN = _names("script style svg math template")

# What is never closed goes on to the page's end, as in browsers; so no character is read twice.
_MARKUP = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))"
    r"|<!\[CDATA\[.*?(?:\]\]>|\Z)"
    r"|<(?:[!?]|/(?=[^A-Za-z]))[^>]*(?:>|\Z)"
    r"|<(?P<slash>/?)(?P<name>[A-Za-z][^\s/>]*+)"
    r"(?P<rest>(?>[^>\"'=]|=\s*+(?:\"[^\"]*\"|'[^']*')?|[\"'])*+)(?:>|\Z)",
    re.DOTALL,
)
_ENTITY = re.compile(r"(&(?:#[0-9]{1,9}|#[xX][0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});?)")
_KEEP_OUT = re.compile(
    r"""[\s"'/](?:translate\s*=\s*["']?no\b|class\s*=\s*(?:"[^"]*\bnotranslate\b|'[^']*\bnotranslate\b|notranslate\b))""",
    re.IGNORECASE,
)


def tokens(page: str) -> Iterator[Token]:
    """Cut a page into tokens; their `raw`, joined, is the page.

    Elements that are not to be read are one token, with all that they hold: a bound, or, within a
    sentence, void.
    """
    done = 0
    while (found := _MARKUP.search(page, done)) is not None:
        yield from _text(page[done : found.start()])
        name = (found["name"] or "").lower()
        done = found.end()
        if not name:  # a comment, a declaration
            yield Token("void", found[0])
        elif found["slash"]:
            yield Token("bound" if name in _BLOCK else "close", found[0], name=name)
        elif name not in _VOID and (name in _UNREAD or _KEEP_OUT.search(found["rest"])):
            alone = name in _FOREIGN and found["rest"].endswith("/")
            done = done if alone else _end_of(name, page, done)
            yield _unread(name, page[found.start() : done], inside=page[found.end() : done])
        elif name in _BLOCK:
            yield Token("bound", found[0], name=name)
        else:
            yield Token("void" if name in _VOID else "open", found[0], name=name)
    yield from _text(page[done:])


def visible(page: str) -> str:
    """The text of a page, white space as a single blank."""
    return " ".join(html.unescape(_MARKUP.sub("", page)).split())


def escaped(text: str) -> str:
    """Text as a page has to write it: it can never become markup."""
    return html.escape(text, quote=False)


def _text(raw: str) -> Iterator[Token]:
    """Text, each entity for itself: only those stretches can be cut that are as they are shown."""
    for place, part in enumerate(_ENTITY.split(raw)):
        if part:
            yield Token("text", part, html.unescape(part) if place % 2 else part)


def _unread(name: str, raw: str, *, inside: str) -> Token:
    if name in _BLOCK:
        return Token("bound", raw, name=name)
    shown = "" if name in _UNSEEN else visible(inside)
    return Token("void", raw, shown, name)


def _end_of(name: str, page: str, start: int) -> int:
    """Where the element ends whose start tag ends at `start`; the page's end if nothing ends it."""
    if name in _RAW:
        end = re.compile(rf"</{re.escape(name)}(?=[\s/>])[^>]*(?:>|\Z)", re.IGNORECASE)
        found = end.search(page, start)
        return found.end() if found else len(page)
    depth = 1
    for found in _MARKUP.finditer(page, start):
        if (found["name"] or "").lower() != name:
            continue
        depth += -1 if found["slash"] else 0 if found["rest"].endswith("/") else 1
        if not depth:
            return found.end()
    return len(page)
