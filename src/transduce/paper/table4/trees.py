"""Penn Treebank trees: reading, normalization, writing and labelled-bracket scores.

A treebank's file holds trees over as many lines as they need, each in an outer bracket without a
label. What a parser is asked for is less than what annotators wrote: the traces (`-NONE-`), which
have no word, and the functions and indices behind a label (`NP-SBJ-1`) go.

Source: Marcus, Santorini and Marcinkiewicz 1993; Bies et al. 1995 (the bracketing guidelines).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

import numpy as np

from transduce.io.streams import read_lines

DEEPEST: Final = 200
"""Brackets within one another that are read; the deepest of any treebank's are a quarter of it."""

TOP: Final = "TOP"
"""Holds together what has no bracket of its own around it; scorers do not count it."""

_OUTERMOST = frozenset({"", TOP, "ROOT", "S1"})
_TOKEN = re.compile(r"[()]|[^()\s]+")
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


@dataclass(frozen=True, slots=True)
class Tree:
    """A phrase: its label, and what it is made of."""

    label: str
    children: "tuple[Tree | Leaf, ...]"

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The words with their tags, in order.

        >>> [leaf.tag for leaf in Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog"))).leaves]
        ['DT', 'NN']
        """
        return tuple(_leaves(self))

    @property
    def words(self) -> tuple[str, ...]:
        """The words, in order."""
        return tuple(leaf.word for leaf in _leaves(self))

    def __str__(self) -> str:
        """Write it in one line, as a treebank has it, without the outer bracket.

        >>> print(Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog"))))
        (NP (DT the) (NN dog))
        """
        return f"({self.label} {' '.join(_written(child) for child in self.children)})"


class _OpenNode(NamedTuple):
    """A bracket that is not closed yet."""

    line: int
    texts: list[str]
    """The label, and the word if it is a leaf."""
    children: list[Tree | Leaf]


def read_trees(file: Path) -> Iterator[Tree]:
    """Read the trees of a file, tidied; a sentence of nothing but traces is left out.

    Raises:
        ValueError: if its brackets are no trees; one line that names the file and the line.
        OSError: if the file cannot be read.
    """
    for tree in parse_trees(read_lines(file), name=str(file)):
        tidied = tidy_tree(tree)
        if tidied is not None:
            yield tidied


def parse_trees(lines: list[str], *, name: str) -> Iterator[Tree]:
    """Read trees as they stand, traces and functions and all.

    Between two trees a line may be blank or a comment, which begins with `#`, `%`, `;` or `*x*`.

    Args:
        lines: of one file.
        name: file name for error messages.

    Raises:
        ValueError: if the brackets are no trees; one line that names the line and what is wrong.
    """
    stack: list[_OpenNode] = []
    for number, line in enumerate(lines, start=1):
        if not stack and line.lstrip().startswith(_COMMENT):
            continue
        for match in _TOKEN.finditer(line):
            token, where = match[0], f"{name}, line {number}"
            if token == "(":
                _check_opening(stack, where)
                stack.append(_OpenNode(number, [], []))
            elif not stack:
                raise ValueError(f"{where}: {_shown(token)} stands outside all brackets")
            elif token == ")":
                done = _closed(stack.pop(), where)
                if stack:
                    stack[-1].children.append(done)
                else:
                    yield done if isinstance(done, Tree) else Tree(TOP, (done,))
            elif stack[-1].children:
                raise ValueError(
                    f"{where}: {_shown(token)} stands behind a bracket of its phrase; a word needs "
                    f"a bracket of its own, (TAG word)"
                )
            else:
                stack[-1].texts.append(token)
    if stack:
        raise ValueError(f"{name}, line {stack[0].line}: a tree begins here and is never closed")


def tidy_tree(tree: Tree) -> Tree | None:
    """Normalize a tree for parsing; None if it has no words.

    Traces go, and every phrase that they leave empty; of a label stays what stands before the first
    `-`, `=` or `|` (but for `-LRB-` and its like, which begin with one); an outer bracket without a
    label, or called TOP, ROOT or S1, goes where it holds one phrase and is called TOP otherwise.

    >>> print(tidy_tree(Tree("", (Tree("NP-SBJ-1=2", (Leaf("NN", "rain"), Leaf("-NONE-", "*"))),))))
    (NP (NN rain))
    """
    kept = _kept(tree)
    if kept is None or kept.label not in _OUTERMOST:
        return kept
    only = kept.children[0]
    return only if len(kept.children) == 1 and isinstance(only, Tree) else Tree(TOP, kept.children)


def draw_tree(tree: Tree) -> str:
    """Draw a tree with text, a phrase or a word a line.

    >>> print(draw_tree(Tree("NP", (Leaf("DT", "the"), Leaf("NN", "dog")))))
    NP
    ├── DT the
    └── NN dog
    """
    return "\n".join([tree.label, *_drawn(tree, indent="")])


def _leaves(tree: Tree) -> Iterator[Leaf]:
    for child in tree.children:
        if isinstance(child, Leaf):
            yield child
        else:
            yield from _leaves(child)


def _written(part: Tree | Leaf) -> str:
    if isinstance(part, Tree):
        return str(part)
    word = part.word
    for escape, plain in _ESCAPES:
        word = word.replace(plain, escape)
    return f"({part.tag} {word})"


def _check_opening(stack: list[_OpenNode], where: str) -> None:
    if len(stack) >= DEEPEST:
        raise ValueError(f"{where}: more than {DEEPEST} brackets within one another: is it a tree?")
    if stack and len(stack[-1].texts) > 1:
        raise ValueError(f"{where}: a bracket opens behind the word {_shown(stack[-1].texts[1])}")


def _closed(done: _OpenNode, where: str) -> Tree | Leaf:
    """The tree or leaf that a bracket turns out to be, now that it is closed."""
    label, *words = done.texts or [""]
    if len(words) > 1:
        raise ValueError(
            f"{where}: ({_shown(' '.join(done.texts))}) holds {len(words)} words; it may hold one"
        )
    if words:
        word = words[0]
        for escape, plain in _ESCAPES:
            word = word.replace(escape, plain)
        return Leaf(label, word)
    if not done.children:
        raise ValueError(f"{where}: the bracket ({_shown(label)}) holds nothing")
    return Tree(label, tuple(done.children))


def _shown(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"


def _kept(tree: Tree) -> Tree | None:
    children: list[Tree | Leaf] = []
    for child in tree.children:
        kept = _kept(child) if isinstance(child, Tree) else child
        if kept is not None and not (isinstance(kept, Leaf) and kept.tag == "-NONE-"):
            children.append(kept)
    return Tree(_bare(tree.label), tuple(children)) if children else None


def _bare(label: str) -> str:
    return label if label.startswith("-") else re.split("[-=|]", label, maxsplit=1)[0]


def _drawn(tree: Tree, *, indent: str) -> Iterator[str]:
    for number, child in enumerate(tree.children, start=1):
        last = number == len(tree.children)
        branch, below = ("└── ", "    ") if last else ("├── ", "│   ")
        if isinstance(child, Leaf):
            yield f"{indent}{branch}{child.tag} {child.word}"
        else:
            yield f"{indent}{branch}{child.label}"
            yield from _drawn(child, indent=indent + below)


_DELETED: Final = frozenset({"-NONE-", ",", ":", "``", "''", ".", "TOP", "ROOT", "S1", ""})
_EQUAL: Final = {"PRT": "ADVP"}
_RESAMPLED: Final = 1000

State = Literal["scored", "error", "skipped"]


class Bracket(NamedTuple):
    """A label over the words from `start` to before `end`, punctuation not counted."""

    label: str
    start: int
    end: int


class BracketScore(NamedTuple):
    """Bracket counts of a sentence."""

    state: State
    gold: int = 0
    test: int = 0
    matched: int = 0

    @property
    def exact(self) -> bool:
        """Whether the trees have the same brackets."""
        return self.state == "scored" and self.gold == self.test == self.matched


@dataclass(frozen=True, kw_only=True, slots=True)
class Sums:
    """Bracket counts of many sentences, with precision, recall and F1."""

    gold: int
    test: int
    matched: int

    @property
    def precision(self) -> float:
        """Share of the test brackets that match, in percent."""
        return 100.0 * self.matched / self.test if self.test else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold brackets that were matched, in percent."""
        return 100.0 * self.matched / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall.

        >>> Sums(gold=98, test=95, matched=86).f1.__format__(".2f")
        '89.12'
        """
        both = self.gold + self.test
        return 200.0 * self.matched / both if both else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Brackets:
    """Labelled-bracket scores of a test set."""

    sentences: int
    errors: int
    """Sentences left out because their words differ."""
    skipped: int
    """Sentences left out because the test tree has no word."""
    sums: Sums
    exact: float
    """Share of the scored sentences whose trees have the same brackets, in percent."""
    low: float
    high: float
    """F1's 95 % interval, over sets of sentences drawn from these."""
    labels: dict[str, Sums]
    """The sums of each label, the commonest first."""


def brackets_of(tree: Tree) -> Counter[Bracket]:
    """Count the labelled brackets that are scored.

    >>> from transduce.paper.table4.trees import Leaf
    >>> sorted(brackets_of(Tree("S", (Tree("NP", (Leaf("NN", "rain"),)), Leaf(".", ".")))))
    [Bracket(label='NP', start=0, end=1), Bracket(label='S', start=0, end=1)]
    """
    counts: Counter[Bracket] = Counter()
    _gather(tree, 0, counts)
    return counts


def score_tree(gold: Tree, test: Tree | None) -> BracketScore:
    """Score one tree; None stands for a sentence that the parser gave no tree."""
    words = () if test is None else tuple(_counted_words(test))
    if test is None or not words:
        return BracketScore("skipped")
    if tuple(_counted_words(gold)) != words:
        return BracketScore("error")
    expected, predicted = brackets_of(gold), brackets_of(test)
    return BracketScore(
        "scored", expected.total(), predicted.total(), (expected & predicted).total()
    )


def score_trees(
    golds: Sequence[Tree], tests: Sequence[Tree | None], *, seed: int = 12345
) -> Brackets:
    """Score the trees of a test set.

    Args:
        golds: reference trees.
        tests: parsed trees in the same order; None if the parser gave none.
        seed: of the bootstrap.

    Raises:
        ValueError: for unequal numbers of trees or none.
    """
    if len(golds) != len(tests) or not golds:
        raise ValueError(
            f"there are {len(golds)} trees to score against but {len(tests)} to score: tree n of "
            f"the one is tree n of the other"
        )
    scored = [score_tree(gold, test) for gold, test in zip(golds, tests, strict=True)]
    valid = [score for score in scored if score.state == "scored"]
    counts = np.array([(score.gold, score.test, score.matched) for score in valid], dtype=np.int64)
    counts = counts.reshape(-1, 3)
    low, high = _interval(counts, seed=seed)
    return Brackets(
        sentences=len(scored),
        errors=sum(score.state == "error" for score in scored),
        skipped=sum(score.state == "skipped" for score in scored),
        sums=_sums(counts),
        exact=100.0 * sum(score.exact for score in valid) / max(len(valid), 1),
        low=low,
        high=high,
        labels=_by_label(
            [
                (gold, test)
                for gold, test, score in zip(golds, tests, scored, strict=True)
                if test is not None and score.state == "scored"
            ]
        ),
    )


def _label(label: str) -> str:
    bare = label if label.startswith("-") else label.partition("-")[0].partition("=")[0]
    return _EQUAL.get(bare, bare)


def _gather(tree: Tree, start: int, counts: Counter[Bracket]) -> int:
    """Add the brackets of a tree that starts at a word; where it ends."""
    end = start
    for child in tree.children:
        if isinstance(child, Tree):
            end = _gather(child, end, counts)
        elif child.tag not in _DELETED:
            end += 1
    label = _label(tree.label)
    if end > start and label not in _DELETED:
        counts[Bracket(label, start, end)] += 1
    return end


def _counted_words(tree: Tree) -> Iterator[str]:
    return (leaf.word for leaf in tree.leaves if leaf.tag not in _DELETED)


def _sums(counts: np.ndarray) -> Sums:
    gold, test, matched = (int(number) for number in counts.sum(axis=0))
    return Sums(gold=gold, test=test, matched=matched)


def _interval(counts: np.ndarray, *, seed: int) -> tuple[float, float]:
    """The middle 95 % of F1 over sets of as many sentences, drawn with replacement."""
    if not len(counts):
        return 0.0, 0.0
    chance = np.random.default_rng(seed)
    drawn = [
        _sums(counts[chance.integers(len(counts), size=len(counts))]).f1 for _ in range(_RESAMPLED)
    ]
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def _by_label(pairs: Sequence[tuple[Tree, Tree]]) -> dict[str, Sums]:
    gold: Counter[str] = Counter()
    test: Counter[str] = Counter()
    matched: Counter[str] = Counter()
    for gold_tree, test_tree in pairs:
        expected, predicted = brackets_of(gold_tree), brackets_of(test_tree)
        for sums, brackets in (
            (gold, expected),
            (test, predicted),
            (matched, expected & predicted),
        ):
            for bracket, count in brackets.items():
                sums[bracket.label] += count
    labels = sorted(gold | test, key=lambda label: (-gold[label], label))
    return {name: Sums(gold=gold[name], test=test[name], matched=matched[name]) for name in labels}
