"""XML split into its texts, and rebuilt with translations spliced into its bytes.

The parser only gives positions: what is not translated is never serialised again. A text whose
markup is inside becomes a fragment of HTML (`fragment`). The formatting that most of a text has is
no tag: its characters get it afterwards.
"""

import codecs
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from xml.parsers import expat

from transduce.documents.document import Part, Slot
from transduce.documents.fragment import TagItem, TagItems, Wrapper
from transduce.documents.html import collapse_spaces

_MAX_DEPTH = 120  # nested elements; the walk is recursive
_DECLARED = re.compile(rb"\s*<\?xml[^>]*?\sencoding\s*=\s*[\"']([\w.-]+)")
_ENCODINGS = re.compile(  # Python has others, some of which take quadratic time
    r"(?:us-)?ascii|utf-?(?:8|16(?:-?[bl]e)?)|(?:iso[-_]?8859[-_]?|latin-?|windows-?|cp)\d{1,4}"
    r"|koi8-[rtu]|gb(?:k|2312|18030)|big5(?:-?hkscs)?|(?:euc-?|iso-2022-)(?:cn|jp|kr)"
    r"|shift[-_]?jis|macintosh"
)
_ORDERED = re.compile(r".*[sS]tart|.*[eE]nd|[be]x|[be]pt|[se][cm]|it")  # e.g. bookmarkStart, bx
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_ATTRIBUTES = {"approved", "class", "space", "state", "translatable", "translate", "type"}
_UNTRANSLATED = ("new", "needs-translation")  # states of XLIFF's targets
_STATE = re.compile(r"\s+state(?:-qualifier)?\s*=\s*(?:\"[^\"]*\"|'[^']*')")
_SEGMENT = re.compile(r"</?(?:\w+:)?mrk(?:\s[^<>]*)?/?>")  # which may be empty


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, kw_only=True, slots=True)
class XMLRules:
    """What the elements of a format mean, by their names without prefixes."""

    units: frozenset[str] = frozenset()
    """Elements whose content is a text, such as paragraphs."""
    blocks: frozenset[str] = frozenset()
    """Elements inside a unit that end a text."""
    runs: frozenset[str] = frozenset()
    """Elements that hold formatting (`rPr`) and `texts`."""
    texts: frozenset[str] = frozenset()
    """Elements that hold the characters of a unit; if none are named, they are anywhere in it."""
    breaks: frozenset[str] = frozenset()
    """Elements that end a line."""
    voids: frozenset[str] = frozenset()
    """Elements whose content is no text."""
    protected: frozenset[str] = frozenset()
    """Elements whose text is kept."""
    dropped: frozenset[str] = frozenset()
    """Elements that a translated text does without, such as marks of the spelling checker."""
    root: str = ""
    """Name of the root element; "" for any."""
    pair: str = ""
    """Element of a source and a target that is filled if it is empty; no other text changes."""
    target: str = "target"
    target_attributes: str = ""
    """Of a target that is added, or was marked as not translated."""
    keep_space: bool = False
    """Whether line ends and several spaces count."""
    space_attribute: bool = False
    """Whether `texts` with spaces at an end need `xml:space`."""
    placeholder: re.Pattern[str] | None = None
    """Text to keep, such as `%1`."""
    is_constant: Callable[[str], bool] = lambda text: False
    """Whether a text is left alone."""
    decode: Callable[[str], str] = _unchanged
    """Undoes the format's own escapes."""
    encode: Callable[[str], str] = _unchanged
    edge_space: str = ""
    """What a space at an end of a text is written as, where it would not count."""


@dataclass(slots=True)
class _Text:
    start: int
    end: int
    chunks: list[str]

    @property
    def text(self) -> str:
        return "".join(self.chunks)


@dataclass(slots=True)
class _Element:
    tag: str
    attributes: Mapping[str, str]
    start: int
    inner: int = 0
    inner_end: int = 0
    end: int = 0
    children: "list[_Element | _Text]" = field(default_factory=list["_Element | _Text"])
    block: bool = False
    """Whether it ends a text, or an element in it does."""

    @property
    def name(self) -> str:
        return self.tag.rpartition(":")[2]

    def named(self, name: str) -> "_Element | None":
        elements = (child for child in self.children if isinstance(child, _Element))
        return next((child for child in elements if child.name == name), None)


Node = _Element | _Text
XMLText = tuple[tuple[Part, ...], Callable[[str], bytes]]
"""The parts of a file, and how its characters are encoded."""


def parse_xml(name: str, content: bytes, rules: XMLRules) -> XMLText:
    """Parse an XML file by the rules of its format.

    Raises:
        ValueError: if it is not well-formed, declares entities, is nested too deeply or has another
            root, or if its encoding is not supported.
    """
    encoding = _encoding(content)
    if not _ENCODINGS.fullmatch(encoding):
        raise ValueError(f"{name}: the encoding {encoding} is not supported: save it as UTF-8")
    try:
        data = content if encoding == "utf-8" else content.decode(encoding).encode()
        data.decode()
    except (LookupError, UnicodeError):
        raise ValueError(f"{name}: not encoded in {encoding}") from None
    splicer = _Splicer(data, rules)
    root = _parse(name, data, splicer)
    if rules.root not in ("", root.name):
        raise ValueError(f"{name}: expected the root element {rules.root}, not {root.tag[:40]}")
    parts = (splicer.raw(0, root.start), *splicer.walk(root), splicer.raw(root.end, len(data)))
    return parts, lambda text: text.encode(encoding, "xmlcharrefreplace")


def _encoding(content: bytes) -> str:
    """Python's name of the encoding; a byte order mark stays a character of the text."""
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16-le" if content[:1] == b"\xff" else "utf-16-be"
    declared = _DECLARED.match(content)
    name = declared[1].decode().lower() if declared else "utf-8"
    return "utf-8" if name in ("utf8", "us-ascii") else name


def _parse(name: str, data: bytes, splicer: "_Splicer") -> _Element:
    parser = expat.ParserCreate("utf-8")
    document = _Element("", {}, 0)
    stack = [document]
    pending: list[Callable[[int], None]] = []  # what the position of the next event ends

    def position() -> int:
        index = parser.CurrentByteIndex
        while pending:
            pending.pop()(index)
        return index

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            raise ValueError(f"{name}: elements are nested more than {_MAX_DEPTH} deep")
        local = {
            local_name: value
            for key, value in attributes.items()
            if (local_name := key.rpartition(":")[2]) in _ATTRIBUTES
        }
        element = _Element(tag, local, position())
        stack[-1].children.append(element)
        stack.append(element)
        pending.append(lambda index: setattr(element, "inner", index))

    def end(tag: str) -> None:
        element = stack.pop()
        element.inner_end = position()
        splicer.set_block(element)
        pending.append(lambda index: setattr(element, "end", index))

    def characters(text: str) -> None:
        index, siblings = position(), stack[-1].children
        last = siblings[-1] if siblings else None
        if not isinstance(last, _Text):
            last = _Text(index, index, [])
            siblings.append(last)
        last.chunks.append(text)
        pending.append(lambda index: setattr(last, "end", index))

    def other(text: str) -> None:
        if len(stack) == 1:  # outside of the root
            position()
        elif text.startswith(("<!--", "<?")):
            start("", {})
            stack.pop()
            element = stack[-1].children[-1]
            pending.append(lambda index: setattr(element, "end", index))
        else:  # an entity of a DTD that is not read, or the marks of CDATA
            characters(html.unescape(text) if text.startswith("&") else "")

    def refuse(*_: object) -> None:
        raise ValueError(f"{name}: a file that declares entities is refused")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.DefaultHandler = characters, other
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise ValueError(f"{name}, line {error.lineno}: not well-formed XML: {reason}") from None
    for end_at in pending:
        end_at(len(data))
    (root,) = (child for child in document.children if isinstance(child, _Element))
    return root


class _Splicer:
    """Finds the texts of a file by the rules of its format."""

    def __init__(self, data: bytes, rules: XMLRules) -> None:
        self.data, self.rules = data, rules

    def raw(self, start: int, end: int) -> str:
        return self.data[start:end].decode()

    def raw_of(self, nodes: Sequence[Node]) -> str:
        return self.raw(nodes[0].start, nodes[-1].end) if nodes else ""

    def set_block(self, element: _Element) -> None:
        """Set whether an element ends a text, its children first."""
        rules = self.rules
        inside = any(isinstance(child, _Element) and child.block for child in element.children)
        inside = inside and element.name not in rules.voids
        element.block = element.name in rules.units or element.name in rules.blocks or inside

    def walk(self, element: _Element, *, inside: bool = False) -> Iterator[Part]:
        """The parts of an element."""
        rules = self.rules
        if not element.tag or element.name in rules.voids or self.is_protected(element):
            yield self.raw(element.start, element.end)
            return
        if rules.pair and element.name == rules.pair:
            yield from self._filled(element)
            return
        inside = inside or element.name in rules.units
        yield self.raw(element.start, element.inner)
        flow: list[Node] = []
        for child in element.children:
            if isinstance(child, _Text) or (inside and not child.block):
                flow.append(child)
                continue
            yield from self._flow(flow, inside=inside)
            yield from self.walk(child, inside=inside)
            flow = []
        yield from self._flow(flow, inside=inside)
        yield self.raw(element.inner_end, element.end)

    def is_protected(self, element: _Element) -> bool:
        attributes = element.attributes
        return (
            element.name in self.rules.protected
            or attributes.get("translate") == "no"
            or attributes.get("translatable") == "false"
            or "notranslate" in attributes.get("class", "").split()
        )

    def shown(self, node: Node, *, inside: bool = False) -> str:
        """The text of a node, whether it is translated or not."""
        if isinstance(node, _Text):
            return self.rules.decode(node.text) if inside or not self.rules.texts else ""
        if node.name in self.rules.voids or node.name in self.rules.dropped:
            return ""
        inside = inside or node.name in self.rules.texts
        return "".join(self.shown(child, inside=inside) for child in node.children)

    def _is_blank(self, node: Node) -> bool:
        return not self.shown(node).strip()

    def _flow(self, nodes: Sequence[Node], *, inside: bool) -> Iterator[Part]:
        """The parts of siblings without a boundary; what surrounds the text stays as it is."""
        full = [index for index, node in enumerate(nodes) if not self._is_blank(node)]
        text = "".join(map(self.shown, nodes))
        if not inside or not any(map(str.isalpha, text)) or self.rules.is_constant(text):
            yield self.raw_of(nodes)
            return
        first, last = full[0], full[-1] + 1
        yield self.raw_of(nodes[:first])
        yield self._slot(nodes[first:last])
        yield self.raw_of(nodes[last:])

    def _slot(self, nodes: Sequence[Node], *, around: Wrapper = ("", "")) -> Slot:
        fragment = _Fragment(self, nodes)
        raw = self.raw_of(nodes)

        def write(translation: str) -> str:
            if translation == fragment.text:
                return around[0] + raw + around[1]
            content = self._with_edges(fragment.render(translation), raw)
            return around[0] + content + around[1]

        return Slot(fragment.text, fragment.markup, write)

    def _with_edges(self, content: str, raw: str) -> str:
        """Content whose spaces at the ends count, unless those of `raw` do not."""
        space, raw = self.rules.edge_space, raw.removeprefix("<![CDATA[").removesuffix("]]>")
        if space and content[:1] == " " and not raw[:1].isspace():
            content = space + content[1:]
        if space and content[-1:] == " " and not raw[-1:].isspace():
            content = content[:-1] + space
        return content

    def _filled(self, element: _Element) -> Iterator[Part]:
        """The parts of a pair, whose target is filled from its source."""
        rules = self.rules
        source = element.named("seg-source") or element.named("source")
        target = element.named(rules.target)
        forms = [
            child
            for child in (target.children if target else ())
            if isinstance(child, _Element) and child.name == "numerusform"
        ]
        empty = [form for form in forms or ([target] if target else []) if self._is_empty(form)]
        final = element.attributes.get("approved") == "yes"
        if source is None or self._is_blank(source) or final or (target and not empty):
            yield self.raw(element.start, element.end)
            return
        end = element.start
        if target is None:
            before = next((n for n in element.children[::-1] if n.start < source.start), None)
            indent = self.raw_of([before]) if isinstance(before, _Text) else ""
            tag = source.tag.removesuffix(source.name) + rules.target
            yield self.raw(end, source.end) + indent
            attributes = f" {rules.target_attributes}" if rules.target_attributes else ""
            yield self._slot(source.children, around=(f"<{tag}{attributes}>", f"</{tag}>"))
            end = source.end
        for form in empty:
            opening = self.raw(form.start, form.inner)
            if opening.endswith("/>"):
                opening = f"{opening[:-2].rstrip()}>"
            if rules.target_attributes and form.attributes.get("state") in _UNTRANSLATED:
                opening = f"{_STATE.sub('', opening)[:-1]} {rules.target_attributes}>"
            yield self.raw(end, form.start)
            yield self._slot(source.children, around=(opening, f"</{form.tag}>"))
            end = form.end
        yield self.raw(end, element.end)

    def _is_empty(self, target: _Element) -> bool:
        """Whether a target is to be filled: it is empty, or marked as a copy of its source."""
        if target.attributes.get("type") in ("vanished", "obsolete"):
            return False
        copied = target.attributes.get("state") in _UNTRANSLATED
        return copied or not _SEGMENT.sub("", self.raw_of(target.children)).strip()


class _Piece(NamedTuple):
    kind: Literal["text", "img", "br", "code", "g"]
    text: str = ""
    wrapper: Wrapper = ("", "")
    formatting: str = ""
    nodes: Sequence[Node] = ()
    ordered: bool = False


class _Fragment:
    """A text with its markup as tags of HTML, and what these stand for."""

    def __init__(self, splicer: _Splicer, nodes: Sequence[Node]) -> None:
        self._splicer, self._rules = splicer, splicer.rules
        self._items = TagItems()
        text, self._wrapper = self._level(nodes)
        if self._items:
            if self._rules.keep_space and "\n" in text:
                text = text.replace("\n", self._items.tag("br", TagItem("\n", characters=True)))
            self.text, self.markup = text, "html"
        else:
            self.text, self.markup = html.unescape(text), "placeholders"

    text: str
    markup: Literal["html", "placeholders"]

    def render(self, text: str) -> str:
        """The bytes of a translated fragment."""
        if not self._items:
            return self._characters(text, self._wrapper)
        return self._items.splice(text, self._characters, wrapper=self._wrapper)

    def _characters(self, text: str, wrapper: Wrapper) -> str:
        escaped = html.escape(_ILLEGAL.sub(" ", self._rules.encode(text)), quote=False)
        return wrapper[0] + escaped + wrapper[1]

    def _level(self, nodes: Sequence[Node]) -> tuple[str, Wrapper]:
        """Siblings as HTML, and the wrapper of the characters that are in no tag."""
        # An element without characters, which may close itself, is no wrapper of any.
        pieces = [piece for piece in self._pieces(nodes) if piece.text or piece.kind != "text"]
        sizes = Counter[str]()
        wrappers: dict[str, Wrapper] = {}
        for piece in pieces:
            if piece.kind == "text":
                sizes[piece.formatting] += len(piece.text.strip())
                wrappers.setdefault(piece.formatting, piece.wrapper)
        base = max(sizes, key=lambda formatting: sizes[formatting], default=None)
        wrapper = wrappers.get(base) if base is not None else None
        out: list[str] = []
        for piece in _merged(pieces):
            if piece.kind == "text":
                text = self._marked(piece.text)
                if piece.formatting != base and piece.text.strip():
                    text = f"{self._items.tag('g', TagItem(*piece.wrapper))}{text}</g>"
                out.append(text)
            elif piece.kind == "g":
                number = len(self._items)
                out.append(self._group(piece.nodes[0]))
                wrapper = wrapper or self._items[number].wrapper
            else:
                item = TagItem(piece.wrapper[0], ordered=piece.ordered)
                closing = f"{html.escape(piece.text, quote=False)}</code>"
                out.append(self._items.tag(piece.kind, item) + (closing if piece.text else ""))
        return "".join(out), wrapper or ("", "")

    def _marked(self, text: str) -> str:
        """Characters as HTML, with the placeholders of the format as `code`."""
        kept = self._rules.placeholder
        return self._items.mark(text, kept) if kept else html.escape(text, quote=False)

    def _group(self, node: Node) -> str:
        """An element with text; what it has around its text belongs to its tags."""
        assert isinstance(node, _Element), "text in place of an element"
        full = [i for i, child in enumerate(node.children) if self._splicer.shown(child)]
        children = node.children[full[0] : full[-1] + 1]
        number = len(self._items)
        tag = self._items.tag("g", TagItem(""))
        text, wrapper = self._level(children)
        opening = self._splicer.raw(node.start, children[0].start)
        closing = self._splicer.raw(children[-1].end, node.end)
        self._items[number] = TagItem(opening, closing, wrapper)
        return f"{tag}{text}</g>"

    def _pieces(self, nodes: Sequence[Node]) -> Iterator[_Piece]:
        rules, splicer = self._rules, self._splicer
        for node in nodes:
            if isinstance(node, _Text):
                if not rules.texts:
                    text = rules.decode(node.text)
                    yield _Piece("text", text if rules.keep_space else collapse_spaces(text))
            elif node.name in rules.runs:
                yield from self._run(node)
            elif node.name in rules.texts:
                yield self._run_text(node, around=("", ""), formatting="")
            elif splicer.is_protected(node) and splicer.shown(node).strip():
                yield _Piece("code", splicer.shown(node), (splicer.raw_of([node]), ""))
            elif splicer.shown(node):
                yield _Piece("g", nodes=[node])
            else:
                yield from self._void(node, around=("", ""))

    def _void(self, node: Node, *, around: Wrapper) -> Iterator[_Piece]:
        name = node.name if isinstance(node, _Element) else ""
        if name in self._rules.dropped:
            return
        raw = f"{around[0]}{self._splicer.raw_of([node])}{around[1]}"
        kind = "br" if name in self._rules.breaks else "img"
        yield _Piece(kind, wrapper=(raw, ""), ordered=bool(_ORDERED.fullmatch(name)))

    def _run(self, run: _Element) -> Iterator[_Piece]:
        """The content of a run; each piece can be a run of its own."""
        children = run.children
        properties = run.named("rPr")
        formatting = self._splicer.raw_of([properties]) if properties else ""
        opening = self._splicer.raw(run.start, run.inner) + formatting
        around = opening, self._splicer.raw(run.inner_end, run.end)
        for child in children:
            if isinstance(child, _Text) or child is properties:
                continue
            if child.name in self._rules.texts:
                yield self._run_text(child, around=around, formatting=formatting)
            else:
                yield from self._void(child, around=around)

    def _run_text(self, node: _Element, *, around: Wrapper, formatting: str) -> _Piece:
        opening = self._splicer.raw(node.start, node.inner)
        if self._rules.space_attribute and "space" not in node.attributes:
            opening = f'{opening[:-1]} xml:space="preserve">'
        wrapper = around[0] + opening, self._splicer.raw(node.inner_end, node.end) + around[1]
        return _Piece("text", self._splicer.shown(node), wrapper, formatting)


def _merged(pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """Join characters of the same formatting; blanks join what is before them."""
    last: _Piece | None = None
    for piece in pieces:
        blank = not piece.text.strip()
        if (
            last
            and last.kind == piece.kind == "text"
            and (blank or piece.formatting == last.formatting)
        ):
            last = last._replace(text=last.text + piece.text)
            continue
        if last:
            yield last
        last = piece
    if last:
        yield last
