"""Penn Treebank trees: reading, normalization, writing, and linearization for the parser.

A treebank file holds trees over any number of lines, each in an outer bracket without a label. What
a parser predicts is less than what annotators wrote: normalization removes traces (`-NONE-`), which
have no word, and the functions and indices of labels (`NP-SBJ-1`).

The parser's source is the sentence; its target is the linearized tree, in which every bracket has
its label and every word is replaced by its part of speech, `(S (NP DT NN )NP (VP VBD )VP )S`. So
the model cannot misspell words, but it may leave brackets open or lose count of the words. Such an
output is repaired by fixed rules to a tree over the words of the sentence, and the repairs are
counted: no output is discarded.

Source: Marcus, Santorini and Marcinkiewicz 1993; Bies et al. 1995 (the bracketing guidelines);
Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton 2015, "Grammar as a Foreign Language".
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from transduce.io.streams import read_lines

DEEPEST: Final = 200
"""Maximum nesting when reading; treebanks need a quarter of it."""

TOP: Final = "TOP"
"""Label of an added root; scorers do not count it."""

_DEEPEST_OUTPUT = 100
_OUTERMOST = frozenset({"", TOP, "ROOT", "S1"})
_TOKEN = re.compile(r"\([^()]*|\)|[^()\s]+")  # an opening bracket includes its label and word
_LABEL = re.compile(r"[^()\s]+")
_COMMENT = ("#", "%", ";", "*x*")
_ESCAPES = (
    *(("-LRB-", "("), ("-RRB-", ")"), ("-LCB-", "{"), ("-RCB-", "}"), ("-LSB-", "[")),
    *(("-RSB-", "]"), (r"\/", "/"), (r"\*", "*")),
)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word and its part of speech."""

    tag: str
    word: str

    @property
    def leaves(self) -> "tuple[Leaf]":
        """The leaf itself."""
        return (self,)

    def __str__(self) -> str:
        """Format in brackets, with brackets in the word escaped."""
        word = self.word
        for escape, plain in _ESCAPES:
            word = word.replace(plain, escape)
        return f"({self.tag} {word})"


@dataclass(frozen=True, slots=True)
class Tree:
    """A phrase: its label and its parts."""

    label: str
    children: "tuple[Tree | Leaf, ...]"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The words with their tags, in order.

        >>> [leaf.tag for leaf in Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog"))).leaves]
        ['DT', 'NN']
        """
        return tuple(chain.from_iterable(child.leaves for child in self.children))

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in order."""
        return tuple(leaf.word for leaf in self.leaves)

    def __str__(self) -> str:
        """Format in brackets on one line, without the outer bracket of a treebank file.

        >>> print(Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog"))))
        (NP (DT the) (NN dog))
        """
        return f"({self.label} {' '.join(map(str, self.children))})"


class _OpenBracket(NamedTuple):
    texts: list[str]
    """The label and, in a leaf, the word."""
    children: list[Tree | Leaf]


def read_trees(file: Path) -> Iterator[Tree]:
    """Read and normalize the trees of a file; sentences that consist of traces are skipped.

    Raises:
        ValueError: for malformed brackets; the message names the file and the line.
        OSError: if the file cannot be read.
    """
    return filter(None, map(tidy_tree, parse_trees(read_lines(file), name=str(file))))


def parse_trees(lines: list[str], *, name: str) -> Iterator[Tree]:
    """Parse trees as they are, with traces and functions.

    Between two trees a line may be blank or a comment, which begins with `#`, `%`, `;` or `*x*`.

    Raises:
        ValueError: for malformed brackets; the message names the file, as `name`, and the line.
    """
    stack: list[_OpenBracket] = []
    start = 0
    for number, line in enumerate(lines, start=1):
        if not stack and line.lstrip().startswith(_COMMENT):
            continue
        for token in _TOKEN.findall(line):
            start = start if stack else number
            try:
                tree = _read_token(token, stack)
            except ValueError as error:
                raise ValueError(f"{name}, line {number}: {error}") from None
            if tree is not None:
                yield tree
    if stack:
        raise ValueError(f"{name}, line {start}: a tree begins here and is never closed")


def _read_token(token: str, stack: list[_OpenBracket]) -> Tree | None:
    """Read a token, and return the tree if that completes one."""
    if token.startswith("("):
        if len(stack) >= DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets within one another: is it a tree?")
        if stack and len(stack[-1].texts) > 1:
            raise ValueError(f"a bracket opens behind the word {_shortened(stack[-1].texts[1])}")
        stack.append(_OpenBracket(token[1:].split(), []))
    elif not stack:
        raise ValueError(f"{_shortened(token)} stands outside all brackets")
    elif token == ")":
        node = _close(*stack.pop())
        if not stack:
            return node if isinstance(node, Tree) else Tree(TOP, (node,))
        stack[-1].children.append(node)
    elif stack[-1].children:
        raise ValueError(
            f"{_shortened(token)} stands behind a bracket of its phrase; a word needs a bracket of "
            f"its own, (TAG word)"
        )
    else:
        stack[-1].texts.append(token)
    return None


def _close(texts: list[str], children: list[Tree | Leaf]) -> Tree | Leaf:
    """Make the tree or leaf of a complete bracket."""
    label, *words = texts or [""]
    if len(words) > 1:
        text = _shortened(" ".join(texts))
        raise ValueError(f"({text}) holds {len(words)} words; it may hold one")
    if words:
        word = words[0]
        for escape, plain in _ESCAPES:
            word = word.replace(escape, plain)
        return Leaf(label, word)
    if not children:
        raise ValueError(f"the bracket ({_shortened(label)}) holds nothing")
    return Tree(label, tuple(children))


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def tidy_tree(tree: Tree) -> Tree | None:
    """Normalize a tree for parsing; None if it has no words.

    Removes traces and phrases that become empty. A label ends before its first `-`, `=` or `|`,
    unless it begins with `-`, as `-LRB-` does. An outer bracket that is unlabelled or called TOP,
    ROOT or S1 is removed if it holds one phrase, and called TOP otherwise.

    >>> print(tidy_tree(Tree("", (Tree("NP-SBJ-1=2", (Leaf("NN", "rain"), Leaf("-NONE-", "*"))),))))
    (NP (NN rain))
    """
    cleaned = _without_traces(tree)
    if cleaned is None or cleaned.label not in _OUTERMOST:
        return cleaned
    only = cleaned.children[0]
    return (
        only
        if len(cleaned.children) == 1 and isinstance(only, Tree)
        else Tree(TOP, cleaned.children)
    )


def _without_traces(tree: Tree) -> Tree | None:
    children: list[Tree | Leaf] = []
    for child in tree.children:
        cleaned = _without_traces(child) if isinstance(child, Tree) else child
        if cleaned is not None and not (isinstance(cleaned, Leaf) and cleaned.tag == "-NONE-"):
            children.append(cleaned)
    return Tree(bare_label(tree.label, "[-=|]"), tuple(children)) if children else None


def bare_label(label: str, marks: str) -> str:
    """Cut a label at the first of `marks`, a regular expression, unless it begins with "-".

    >>> bare_label("NP-SBJ-1", "[-=]")
    'NP'
    """
    return label if label.startswith("-") else re.split(marks, label, maxsplit=1)[0]


def draw_tree(tree: Tree) -> str:
    """Draw a tree as text, one phrase or word per line.

    >>> print(draw_tree(Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog")))))
    NP
    ├── DT the
    └── NN dog
    """
    return "\n".join([tree.label, *_branches(tree, indent="")])


def _branches(tree: Tree, *, indent: str) -> Iterator[str]:
    for number, child in enumerate(tree.children, start=1):
        last = number == len(tree.children)
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if isinstance(child, Leaf):
            yield f"{indent}{branch}{child.tag} {child.word}"
        else:
            yield f"{indent}{branch}{child.label}"
            yield from _branches(child, indent=indent + below)


class Faults(NamedTuple):
    """Repairs of one output; all zero if it was well-formed."""

    never_closed: int = 0
    """Brackets closed at the end, or with an enclosing bracket."""
    never_opened: int = 0
    """Closing brackets dropped, because no bracket of their label was open."""
    empty: int = 0
    """Brackets dropped because they held no word."""
    nonsense: int = 0
    """Brackets dropped because they had no label, or were nested more than 100 deep."""
    missing_words: int = 0
    """Words without a place, appended to the outermost bracket."""
    surplus_words: int = 0
    """Places dropped, after the sentence's last word."""
    roots: int = 0
    """Brackets, or words, beside the outermost bracket."""


class Mended(NamedTuple):
    """A tree over all words of a sentence, and the repairs that it took."""

    tree: Tree
    faults: Faults

    @property
    def well_formed(self) -> bool:
        """Whether the output needed no repair."""
        return not any(self.faults)


def linearise(tree: Tree) -> str:
    """Linearize a tree without traces as the target of its sentence.

    >>> linearise(Tree("S", (Tree("NP", (Leaf("NN", "rain"),)), Leaf("VBD", "fell"))))
    '(S (NP NN )NP VBD )S'
    """
    parts = [f"({tree.label}"]
    parts += (linearise(child) if isinstance(child, Tree) else child.tag for child in tree.children)
    return " ".join([*parts, f"){tree.label}"])


def delinearise(output: str, leaves: Sequence[Leaf], *, tags: bool = False) -> Mended:
    """Parse any output as a tree over a sentence, with repairs.

    The rules, in order:

    1. `(LABEL` opens a bracket; without a label, or nested more than 100 deep, it is dropped.
    2. `)LABEL` closes the innermost open bracket of that label, and those within it; if none is
       open it is dropped. A bare `)` closes nothing.
    3. Anything else is the place of the next word; after the last word it is dropped.
    4. At the end all open brackets are closed, and brackets without a word dropped.
    5. Words beside a single outermost bracket, and then the words without a place, move into it, at
       its front or end. Several outermost brackets, and words without any bracket, are put under
       TOP.

    Args:
        output: what the model wrote.
        leaves: the sentence's words; their tags are kept, so that a scorer knows punctuation.
        tags: take the tags from the output, where it has them, and not from `leaves`.
    """
    parser = _OutputParser(leaves, take_tags=tags)
    for token in output.split():
        parser.read(token)
    return parser.finish()


@dataclass(slots=True)
class _OutputParser:
    """State of the parse of an output."""

    leaves: Sequence[Leaf]
    take_tags: bool
    placed: int = 0
    stack: list[tuple[str, list[Tree | Leaf]]] = field(default_factory=lambda: [(TOP, [])])
    """Labels and children of the open brackets; the first holds what is outermost."""
    faults: Counter[str] = field(default_factory=Counter[str])

    def read(self, token: str) -> None:
        """Process the next token."""
        label = token[1:]
        if token[0] not in "()":
            self._place(token)
        elif not _LABEL.fullmatch(label):
            self.faults["nonsense"] += 1
        elif token[0] == ")":
            self._close(label)
        elif len(self.stack) > _DEEPEST_OUTPUT:
            self.faults["nonsense"] += 1
        else:
            self.stack.append((label, []))

    def finish(self) -> Mended:
        """Close open brackets and place the remaining words."""
        self.faults["never_closed"] += len(self.stack) - 1
        while len(self.stack) > 1:
            self._pop()
        outermost = self.stack[0][1]
        trees = [number for number, part in enumerate(outermost) if isinstance(part, Tree)]
        self.faults["roots"] = len(outermost) - bool(trees)
        self.faults["missing_words"] = len(self.leaves) - self.placed
        outermost.extend(self.leaves[self.placed :])
        root = outermost[trees[0]] if len(trees) == 1 else None
        if isinstance(root, Tree):
            before, after = outermost[: trees[0]], outermost[trees[0] + 1 :]
            tree = Tree(root.label, (*before, *root.children, *after))
        else:
            tree = Tree(TOP, tuple(outermost))
        return Mended(tree, Faults(**self.faults))

    def _place(self, token: str) -> None:
        if self.placed == len(self.leaves):
            self.faults["surplus_words"] += 1
            return
        leaf = self.leaves[self.placed]
        if self.take_tags and _LABEL.fullmatch(token):
            leaf = Leaf(token, leaf.word)
        self.stack[-1][1].append(leaf)
        self.placed += 1

    def _close(self, label: str) -> None:
        if all(open_label != label for open_label, _ in self.stack[1:]):
            self.faults["never_opened"] += 1
            return
        while self.stack[-1][0] != label:
            self.faults["never_closed"] += 1
            self._pop()
        self._pop()

    def _pop(self) -> None:
        label, children = self.stack.pop()
        if children:
            self.stack[-1][1].append(Tree(label, tuple(children)))
        else:
            self.faults["empty"] += 1
