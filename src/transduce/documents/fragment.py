"""Fragments of HTML that stand for a text and the markup inside it, whatever the format.

In `One <g id=0>red</g> dog<img id=1>.` the element `g` is a pair of tags or a run of characters
with its own formatting, `img` markup without text, `br` markup that ends a line or separates texts,
and `code` text that is kept. Tag projection moves these; then each is replaced by what it stands
for.
"""

import html
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

_FRAGMENT = re.compile(r"<(g|img|br|code) id=(\d+)>|</(g|code)>|([^<]+)")

Wrapper = tuple[str, str]
"""What stands before and after characters: `<w:r><w:t>` and `</w:t></w:r>`, or nothing."""


class TagItem(NamedTuple):
    """What a tag of a fragment stands for."""

    opening: str
    closing: str = ""
    wrapper: Wrapper = ("", "")
    """For characters directly inside."""
    ordered: bool = False
    """Whether it must stay in order with others, as the start and the end of a bookmark."""
    characters: bool = False
    """Whether it is a line end among the characters."""


class TagItems(list[TagItem]):
    """What the tags of a fragment stand for, by their numbers."""

    def tag(self, name: Literal["g", "img", "br", "code"], item: TagItem) -> str:
        """Return a new tag."""
        self.append(item)
        return f"<{name} id={len(self) - 1}>"

    def code(self, text: str, raw: str) -> str:
        """Return an element whose text is kept."""
        return f"{self.tag('code', TagItem(raw))}{html.escape(text, quote=False)}</code>"

    def mark(self, text: str, kept: re.Pattern[str]) -> str:
        """Return characters as HTML, with what matches `kept` as `code`.

        A group `br` of the pattern separates texts; a group `text` is no markup.
        """
        out: list[str] = []
        end = 0
        for match in kept.finditer(text):
            if match.lastgroup == "text":
                continue
            out.append(html.escape(text[end : match.start()], quote=False))
            is_break = match.lastgroup == "br"
            raw = match[0]
            out.append(self.tag("br", TagItem(raw)) if is_break else self.code(raw, raw))
            end = match.end()
        return "".join([*out, html.escape(text[end:], quote=False)])

    def splice(
        self, fragment: str, encode: Callable[[str, Wrapper], str], *, wrapper: Wrapper = ("", "")
    ) -> str:
        """Replace the tags of a fragment by what they stand for.

        Args:
            fragment: the fragment, translated.
            encode: writes characters that have a wrapper.
            wrapper: that of characters outside of `g`.
        """
        matches = list(_FRAGMENT.finditer(fragment))
        numbers = [int(match[2]) for match in matches if match[2]]
        ordered = iter(sorted(number for number in numbers if self[number].ordered))
        out: list[str] = []
        wrappers = [wrapper]
        closings: list[str] = []
        kept = False  # whether in the text of `code`, which its item has
        for match in matches:
            tag, number, closing, characters = match.groups()
            if characters and not kept:
                out.append(encode(html.unescape(characters), wrappers[-1]))
            elif closing == "code":
                kept = False
            elif closing and closings:
                out.append(closings.pop())
                wrappers.pop()
            elif tag:
                item = self[int(number)]
                item = self[next(ordered)] if item.ordered else item
                line_end = item.characters and encode(item.opening, wrappers[-1])
                out.append(line_end or item.opening)
                kept = tag == "code"
                if tag == "g":
                    wrappers.append(item.wrapper)
                    closings.append(item.closing)
        return "".join([*out, *closings[::-1]])
