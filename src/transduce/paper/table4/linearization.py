"""Linearization of trees, and parsing of linearized trees with repairs.

The source is the sentence. The target is its tree read aloud, every bracket with its label and in
place of every word its part of speech, `(S (NP DT NN )NP (VP VBD )VP )S`, or a mere place holder,
`XX`. Words are not written again, so the model cannot misspell them; but it may write brackets that
do not close, or lose count of the words. Such an output is mended by fixed rules to a tree over the
very words of the sentence, and what was mended is counted: no output is thrown away.

Source: Vinyals, Kaiser, Koo, Petrov, Sutskever and Hinton 2015, "Grammar as a Foreign Language".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from transduce.paper.table4.trees import TOP, Leaf, Tree

PLACE: Final = "XX"
"""Stands for a word."""

_DEEPEST = 100  # brackets within one another that are believed
_LABEL = re.compile(r"[^()\s]+")


class Faults(NamedTuple):
    """Repairs of one output; all zero if it was well-formed."""

    never_closed: int = 0
    """Brackets closed at the end, or with an enclosing bracket."""
    never_opened: int = 0
    """Closing brackets left out, because no bracket of their label was open."""
    empty: int = 0
    """Brackets left out because they held no word."""
    nonsense: int = 0
    """Brackets left out because they had no label, or more than 100 stood around them."""
    missing_words: int = 0
    """Words without a place, put at the end of the outermost bracket."""
    surplus_words: int = 0
    """Places left out, behind the sentence's last word."""
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


def linearise(tree: Tree, *, tags: bool = False) -> str:
    """Write a tree as the target of its sentence.

    Args:
        tree: without traces, as `read_trees` gives it.
        tags: write the parts of speech in place of the words, not `XX`.

    >>> linearise(Tree("S", (Tree("NP", (Leaf("NN", "rain"),)), Leaf("VBD", "fell"))))
    '(S (NP XX )NP XX )S'
    """
    return " ".join(_tokens(tree, tags=tags))


def delinearise(output: str, leaves: Sequence[Leaf], *, tags: bool = False) -> Mended:
    """Parse any output as a tree over a sentence, with repairs.

    The rules, in order:

    1. `(LABEL` opens a bracket; without a label, or within 100 others, it is left out.
    2. `)LABEL` closes the innermost open bracket of that label, and those within it; where none is
       open it is left out. A bare `)` closes nothing.
    3. Anything else is the place of the next word; behind the last word it is left out.
    4. At the end all open brackets are closed, and brackets without a word left out.
    5. Words beside a lone outermost bracket, and then the words without a place, go into it, at
       its front or end. Where several brackets stand side by side TOP is put around them all, as it
       is around words without any bracket.

    Args:
        output: what the model wrote.
        leaves: the sentence's words; their tags are kept, so that punctuation is known to a scorer.
        tags: take the tags from the output, as far as it has them, and not from `leaves`.

    Raises:
        ValueError: if there is no word.
    """
    if not leaves:
        raise ValueError("a tree needs a sentence of one word or more")
    reading = _OutputParser(leaves, take_tags=tags)
    for token in output.split():
        reading.read(token)
    return reading.finish()


def _tokens(tree: Tree, *, tags: bool) -> Iterator[str]:
    yield f"({tree.label}"
    for child in tree.children:
        if isinstance(child, Leaf):
            yield child.tag if tags and not child.tag.startswith(("(", ")")) else PLACE
        else:
            yield from _tokens(child, tags=tags)
    yield f"){tree.label}"


class _OpenBracket(NamedTuple):
    label: str
    children: list[Tree | Leaf]


@dataclass(slots=True)
class _OutputParser:
    """State of the parse of an output."""

    leaves: Sequence[Leaf]
    take_tags: bool
    placed: int = 0
    stack: list[_OpenBracket] = field(default_factory=lambda: [_OpenBracket(TOP, [])])
    """The open brackets, around them one that holds what is outermost."""
    never_closed: int = 0
    never_opened: int = 0
    empty: int = 0
    nonsense: int = 0
    surplus_words: int = 0

    def read(self, token: str) -> None:
        """Process the next token."""
        label = token[1:]
        if token[0] not in "()":
            self._place(token)
        elif not _LABEL.fullmatch(label):
            self.nonsense += 1
        elif token[0] == ")":
            self._close(label)
        elif len(self.stack) > _DEEPEST:
            self.nonsense += 1
        else:
            self.stack.append(_OpenBracket(label, []))

    def finish(self) -> Mended:
        """Close what is open and place the words that are left."""
        self.never_closed += len(self.stack) - 1
        while len(self.stack) > 1:
            self._shut()
        outermost = self.stack[0].children
        trees = sum(isinstance(part, Tree) for part in outermost)
        roots = len(outermost) - 1 if trees else len(outermost)
        left = self.leaves[self.placed :]
        outermost.extend(left)
        return Mended(
            _rooted(outermost),
            Faults(
                never_closed=self.never_closed,
                never_opened=self.never_opened,
                empty=self.empty,
                nonsense=self.nonsense,
                missing_words=len(left),
                surplus_words=self.surplus_words,
                roots=roots,
            ),
        )

    def _place(self, token: str) -> None:
        if self.placed == len(self.leaves):
            self.surplus_words += 1
            return
        leaf = self.leaves[self.placed]
        if self.take_tags and token != PLACE and _LABEL.fullmatch(token):
            leaf = Leaf(token, leaf.word)
        self.stack[-1].children.append(leaf)
        self.placed += 1

    def _close(self, label: str) -> None:
        if all(opened.label != label for opened in self.stack[1:]):
            self.never_opened += 1
            return
        while self.stack[-1].label != label:
            self.never_closed += 1
            self._shut()
        self._shut()

    def _shut(self) -> None:
        done = self.stack.pop()
        if done.children:
            self.stack[-1].children.append(Tree(done.label, tuple(done.children)))
        else:
            self.empty += 1


def _rooted(outermost: list[Tree | Leaf]) -> Tree:
    """One tree of what is outermost."""
    roots = [number for number, part in enumerate(outermost) if isinstance(part, Tree)]
    if len(roots) != 1:
        return Tree(TOP, tuple(outermost))
    root = outermost[roots[0]]
    assert isinstance(root, Tree)
    before, after = outermost[: roots[0]], outermost[roots[0] + 1 :]
    return Tree(root.label, (*before, *root.children, *after))
