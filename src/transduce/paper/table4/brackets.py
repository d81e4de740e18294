"""How alike two trees are: labelled brackets, counted by the rules of EVALB with COLLINS.prm.

A bracket is a label over a stretch of words; it is right where the other tree has the same label
over the same stretch. Parts of speech are not brackets. The published rules, which all numbers of
Table 4 share:

- the outermost TOP (also ROOT, S1) is not counted;
- words tagged `,` `:` ``` `` ``` `''` `.` or `-NONE-` are taken out before stretches are measured,
  and brackets that hold nothing else with them;
- a label ends where its function begins: NP-SBJ and NP=2 are NP;
- ADVP and PRT are one label;
- a label that stands n times over the same words in one tree and m times in the other is right
  min(n, m) times;
- sums are taken over all sentences first and divided once;
- a sentence whose trees do not have the same words (punctuation aside) is an error, and one whose
  test tree has none is skipped: both are counted, and left out of the score.

Source: Black et al. 1991 (PARSEVAL); Collins 1997; the README of EVALB (Sekine and Collins 1997).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from transduce.paper.table4.trees import Tree

_DELETED: Final = frozenset({"-NONE-", ",", ":", "``", "''", ".", "TOP", "ROOT", "S1", ""})
_EQUAL: Final = {"PRT": "ADVP"}
_RESAMPLED: Final = 1000

State = Literal["scored", "error", "skipped"]


class Bracket(NamedTuple):
    """A label over the words from `start` to before `end`, punctuation not counted."""

    label: str
    start: int
    end: int


class Scored(NamedTuple):
    """One sentence's brackets."""

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
    """Brackets of many sentences, and the shares that follow from them."""

    gold: int
    test: int
    matched: int

    @property
    def precision(self) -> float:
        """Share of the test brackets that are right, in percent."""
        return 100.0 * self.matched / self.test if self.test else 0.0

    @property
    def recall(self) -> float:
        """Share of the gold brackets that were found, in percent."""
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
    """How alike the trees of two files are."""

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
    """List the brackets that are counted, each with how often it stands there.

    >>> from transduce.paper.table4.trees import Leaf
    >>> sorted(brackets_of(Tree("S", (Tree("NP", (Leaf("NN", "rain"),)), Leaf(".", ".")))))
    [Bracket(label='NP', start=0, end=1), Bracket(label='S', start=0, end=1)]
    """
    found: Counter[Bracket] = Counter()
    _gather(tree, 0, found)
    return found


def score_tree(gold: Tree, test: Tree | None) -> Scored:
    """Score one tree; None stands for a sentence that the parser gave no tree."""
    said = () if test is None else tuple(_counted_words(test))
    if test is None or not said:
        return Scored("skipped")
    if tuple(_counted_words(gold)) != said:
        return Scored("error")
    ours, theirs = brackets_of(gold), brackets_of(test)
    return Scored("scored", ours.total(), theirs.total(), (ours & theirs).total())


def score_trees(
    golds: Sequence[Tree], tests: Sequence[Tree | None], *, seed: int = 12345
) -> Brackets:
    """Score the trees of a test set.

    Args:
        golds: as they should be.
        tests: as they were parsed, sentence by sentence.
        seed: of the sentences drawn for the interval.

    Raises:
        ValueError: for unequal numbers of trees or none.
    """
    if len(golds) != len(tests) or not golds:
        raise ValueError(
            f"there are {len(golds)} trees to score against but {len(tests)} to score: tree n of "
            f"the one is tree n of the other"
        )
    scored = [score_tree(gold, test) for gold, test in zip(golds, tests, strict=True)]
    valid = [one for one in scored if one.state == "scored"]
    counts = np.array([(one.gold, one.test, one.matched) for one in valid], dtype=np.int64)
    counts = counts.reshape(-1, 3)
    low, high = _interval(counts, seed=seed)
    return Brackets(
        sentences=len(scored),
        errors=sum(one.state == "error" for one in scored),
        skipped=sum(one.state == "skipped" for one in scored),
        sums=_sums(counts),
        exact=100.0 * sum(one.exact for one in valid) / max(len(valid), 1),
        low=low,
        high=high,
        labels=_by_label(
            [
                (gold, test)
                for gold, test, one in zip(golds, tests, scored, strict=True)
                if test is not None and one.state == "scored"
            ]
        ),
    )


def _label(label: str) -> str:
    bare = label if label.startswith("-") else label.partition("-")[0].partition("=")[0]
    return _EQUAL.get(bare, bare)


def _gather(tree: Tree, start: int, found: Counter[Bracket]) -> int:
    """Add the brackets of a tree that starts at a word; where it ends."""
    end = start
    for child in tree.children:
        if isinstance(child, Tree):
            end = _gather(child, end, found)
        elif child.tag not in _DELETED:
            end += 1
    label = _label(tree.label)
    if end > start and label not in _DELETED:
        found[Bracket(label, start, end)] += 1
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
    for one, other in pairs:
        ours, theirs = brackets_of(one), brackets_of(other)
        for sums, brackets in ((gold, ours), (test, theirs), (matched, ours & theirs)):
            for bracket, count in brackets.items():
                sums[bracket.label] += count
    labels = sorted(gold | test, key=lambda label: (-gold[label], label))
    return {name: Sums(gold=gold[name], test=test[name], matched=matched[name]) for name in labels}
