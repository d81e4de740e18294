"""Markdown split into its texts, and rebuilt with translations spliced into it.

markdown-it finds the blocks; markup inside a text becomes tags of a fragment. Front matter, code,
formulas, addresses, images and directives are no text; HTML is a page of its own. A text is a
single line once it is translated.
"""

import html
import re
from collections.abc import Container, Iterator
from functools import partial
from itertools import accumulate, pairwise

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from transduce.data.segmentation import has_words
from transduce.documents.document import Part, Slot
from transduce.documents.fragment import TagItem, TagItems
from transduce.documents.html import visible_text

# A rule (---) has an empty line after it. YAML may also end with "...".
_FRONT_MATTER = re.compile(
    r"(?:(---)|\+\+\+)[ \t]*\r?\n(?!\s*\n)(?:.*\n)*?(?(1)(?:---|\.\.\.)|\+\+\+)[ \t]*(?:\r?\n|\Z)"
)
_FORMULA_LINES = re.compile(
    r"(?<![^\r\n])[ \t>]*+\$\$[^$`]{1,4000}+\$\$[ \t]*+(?![^\r\n])"  # of a block of its own
)
_LINE = re.compile(r"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]+")
_END = r"(?:\r\n|\r|\n)[ \t>]*"  # of a line, and what a quotation has before the next
# Repetitions are bounded or possessive, so that the time is linear.
_ADDRESS = (
    r"(?:\((?:[^()\\<\"]|\\.|<[^<>]*>|\"[^\"]{0,500}\"|\([^()]*\)){0,500}+\)|\[[^\[\]]{0,500}\])"
)
_MARKUP = (
    r"(?P<code>(?P<ticks>`+)(?!`).{1,2000}?(?<!`)(?P=ticks)(?!`)|<[A-Za-z][\w+.-]+[:@][^\s<>]*>"
    r"|<(?P<kept_tag>code|kbd|samp|var)>(?P<kept_text>[^<>]*)</(?P=kept_tag)>)"
    r"|(?P<opening><(?P<tag>[A-Za-z]\w*)(?:\s[^<>]*)?(?<!/)>)(?P<content>[^<>]{1,500})"
    r"(?P<closing></(?P=tag)>)"
    r"|(?P<mark_of_line>^\[(?:\^[^\]\s]+\]:|[ xX]\][ \t])[ \t]*)"
    r"|(?P<kept>\\<[\w.-]+>|\\[!-/:-@\[-`{-~]|\[\^[^\]\s]+\]|\{[%{<:.#][^{}]*\}+"
    r"|\$\$[^$]{1,2000}+\$\$|(?<![\w$])\$(?=[^\s$])[^$]{1,500}+(?<=[^\s\\])\$(?![\w$]))"
    r"|(?P<void>!\[(?:[^\[\]\\]|\\.){0,500}+\]ADDRESS|</?[A-Za-z][^<>]*>|<!--.{0,2000}?-->)"
    r"|(?P<br>(?:(?<! ) {2,}+|\\)END|(?:^|END)(?::::|///|!!!|\?\?\?|\[![^\r\n]*\])[^\r\n]*(?:END)?"
    r"|(?:^|END):[ \t]+(?=\S))"
    r"|(?P<space>END)"
    r"|\[(?P<label>(?:[^\[\]\\`]|\\.|`[^`]*`|!?\[[^\[\]]*\](?:\([^()]*\))?){0,500}+)\]"
    r"(?P<end>ADDRESS)?"
    r"|(?P<mark>\*\*|~~|\*|(?<!\w)__?)(?=[^\s*~_])(?P<inside>.{1,500}?)(?<=[^\s\\])(?P=mark)(?![*~])"
    r"(?!(?<=_)\w)"
)
_INLINE = re.compile(
    _MARKUP.replace("END", _END).replace("ADDRESS", _ADDRESS), re.DOTALL | re.MULTILINE
)
# \0 is outside of a mark of emphasis, which must have no punctuation inside and a letter outside.
_NO_EMPHASIS = re.compile(r"\w(?=\0[*_~\0]+[^\w\s*_~\0])|[^\w\s*_~\0][*_~\0]+\0(?=\w)")
_BLOCK_START = re.compile(
    r"\d{1,9}(?=[.)](?:\s|$))|(?=[-+*](?:\s|$)|#{1,6}(?:\s|$)|>|~~~|[-=]{2,}\s*$)"
)

_parser = MarkdownIt("commonmark").enable("table")
_parser.core.ruler.enableOnly(["normalize", "block"])


def parse_markdown(text: str) -> Iterator[Part]:
    """Parse Markdown."""
    front = _FRONT_MATTER.match(text)
    body = front.end() if front else 0
    env: dict[str, dict[str, object]] = {}
    blocks = _blank(text[:body]) + _FORMULA_LINES.sub(lambda match: _blank(match[0]), text[body:])
    tokens = _parser.parse(blocks, env)
    labels = env.get("references", {})
    offsets = [0, *accumulate(len(line) for line in _LINE.findall(text)), len(text)]
    offset = cell = 0  # ends of a text and of a cell
    for before, token in pairwise([Token("", "", 0), *tokens]):
        if token.map is None or token.type not in ("inline", "html_block"):
            continue
        first, last = offsets[token.map[0]], offsets[token.map[1] - 1]
        end = offsets[token.map[1]]
        lines = token.content.split("\n")
        if token.type == "html_block":
            start, page = first, text[first:end]
            # In a quotation, its lines have marks in between.
            slot = Slot(page, "html", str) if page.split() == token.content.split() else None
        else:
            in_cell = before.type in ("th_open", "td_open")
            find = text.find if in_cell else text.rfind
            shown = [
                line.strip().replace("|", "\\|") if in_cell else line.strip() for line in lines
            ]
            start = find(shown[0], max(first, offset, cell), offsets[token.map[0] + 1])
            end = find(shown[-1], max(last, offset, cell), end) + len(shown[-1])
            if in_cell and start >= 0:
                cell = end
            is_paragraph = before.type == "paragraph_open" or before.markup in ("=", "-")
            slot = _slot(text[start:end], labels, in_cell=in_cell, is_paragraph=is_paragraph)
        if slot and start >= offset and has_words(visible_text(slot.text)):
            yield text[offset:start]
            yield slot
            offset = end
    yield text[offset:]


def _blank(text: str) -> str:
    return re.sub(r"[^\r\n]+", "", text)


def _slot(raw: str, labels: Container[str], *, in_cell: bool, is_paragraph: bool) -> Slot:
    items = TagItems()
    marked = _marked(raw, items, labels)
    shown = marked if items else html.unescape(marked)
    # A translation gets no mark that its source does not have.
    special = "".join(mark for mark in "\\`*_[]<~|" if mark not in raw and (mark != "|" or in_cell))
    escape = partial(re.compile(f"[{re.escape(special)}]|(?!)").sub, r"\\\g<0>")

    def write(translation: str) -> str:
        if translation == shown:
            return raw
        text = escape(translation)
        if items:
            text = items.splice(translation, lambda text, _: escape(text))
            text = _NO_EMPHASIS.sub(r"\g<0> ", text).replace("\0", "")
        start = _BLOCK_START.match(text) if is_paragraph else None
        return f"{start[0]}\\{text[start.end() :]}" if start else text

    return Slot(shown, "html" if items else "placeholders", write)


def _marked(text: str, items: TagItems, labels: Container[str]) -> str:
    """Markdown as HTML with the tags of a fragment."""
    out: list[str] = []
    offset = 0
    for match in _INLINE.finditer(text):
        out.append(html.escape(text[offset : match.start()], quote=False))
        offset = match.end()
        raw, label, end = match[0], match["label"], match["end"]
        known = label is not None and normalizeReference(label) in labels
        if match["space"]:
            out.append(" ")
        elif match["br"] or match["mark_of_line"]:
            out.append(items.tag("br", TagItem(raw)))
        elif match["void"]:
            out.append(items.tag("img", TagItem(raw, ordered=raw[0] == "<")))
        elif match["code"] or match["kept"]:
            content = raw.strip("`<> ") if match["code"] else raw.removeprefix("\\")
            out.append(items.code(match["kept_text"] or content, raw))
        elif match["tag"]:
            tag = items.tag("g", TagItem(match["opening"], match["closing"]))
            out.append(f"{tag}{_marked(match['content'], items, labels)}</g>")
        elif match["mark"]:
            tag = items.tag("g", TagItem(f"\0{match['mark']}", f"{match['mark']}\0"))
            out.append(f"{tag}{_marked(str(match['inside']), items, labels)}</g>")
        elif end or known:  # a label that is its own address stays as the address
            closing = f"][{label}]" if known and end in (None, "[]") else f"]{end}"
            tag = items.tag("g", TagItem("[", closing))
            out.append(f"{tag}{_marked(str(label), items, labels)}</g>")
        else:
            out.append(f"[{_marked(str(label), items, labels)}]")
    return "".join([*out, html.escape(text[offset:], quote=False)])
