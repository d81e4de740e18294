"""Train a constituency parser and compare its F1 with the rows of Table 4.

Labelled brackets are counted as EVALB, the scorer of all published rows, counts them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from transduce.config import load_recipe
from transduce.io.lock import exclusive_lock
from transduce.io.streams import read_lines
from transduce.paper.report import json_text, published_rows, render_page, versions, write_files
from transduce.paper.table4 import grammar
from transduce.paper.table4.trees import (
    Faults,
    Leaf,
    Mended,
    Tree,
    bare_label,
    delinearise,
    draw_tree,
    parse_trees,
)
from transduce.pipeline.run import run_recipe
from transduce.pipeline.run_folder import has_begun
from transduce.train.events import EventHandler, LogMessage

_DELETED: Final = frozenset({"-NONE-", ",", ":", "``", "''", ".", "TOP", "ROOT", "S1", ""})
_EQUAL: Final = {"PRT": "ADVP"}
_RESAMPLED: Final = 1000
_SHOWN: Final = 3
_FEW: Final = {"train": 400, "validation": 10, "test": 30}
_QUICK: Final = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.d_ff=64"),
    *("model.heads=2", "model.d_k=16", "model.d_v=16", "batch.tokens=1024", "train.updates=40"),
    *("train.warmup=10", "train.validate_every=40", "search.beam=1", "search.extra=40"),
)


class Bracket(NamedTuple):
    """A label over the words from `start` to before `end`, not counting punctuation."""

    label: str
    start: int
    end: int


class ScoredTree(NamedTuple):
    """Brackets of a sentence."""

    gold: Counter[Bracket]
    test: Counter[Bracket]
    matched: Counter[Bracket]


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
    skipped: int
    """Sentences left out because they are punctuation alone."""
    sums: Sums
    exact: float
    """Share of the scored sentences whose trees have the same brackets, in percent."""
    low: float
    high: float
    """95 % bootstrap interval of F1 over sentences."""
    labels: dict[str, Sums]
    """Sums per label, the most frequent first."""


def brackets_of(tree: Tree) -> Counter[Bracket]:
    """Count the labelled brackets that are scored.

    >>> from transduce.paper.table4.trees import Leaf
    >>> sorted(brackets_of(Tree("S", (Tree("NP", (Leaf("NN", "rain"),)), Leaf(".", ".")))))
    [Bracket(label='NP', start=0, end=1), Bracket(label='S', start=0, end=1)]
    """
    counts: Counter[Bracket] = Counter()
    _count_brackets(tree, 0, counts)
    return counts


def score_tree(gold: Tree, test: Tree) -> ScoredTree:
    """Score a tree over the words of another."""
    expected, predicted = brackets_of(gold), brackets_of(test)
    return ScoredTree(expected, predicted, expected & predicted)


def score_trees(golds: Sequence[Tree], tests: Sequence[Tree]) -> Brackets:
    """Score the trees of a test set, in order, each over the words of the gold tree."""
    pairs = [pair for pair in zip(golds, tests, strict=True) if _has_words(pair[0])]
    scored = [score_tree(gold, test) for gold, test in pairs]
    counts = np.array([[part.total() for part in score] for score in scored], dtype=np.int64)
    counts = counts.reshape(-1, 3)
    low, high = _interval(counts)
    return Brackets(
        sentences=len(golds),
        skipped=len(golds) - len(scored),
        sums=_sums(counts),
        exact=100.0 * sum(score.gold == score.test for score in scored) / max(len(scored), 1),
        low=low,
        high=high,
        labels=_by_label(scored),
    )


def _count_brackets(tree: Tree, start: int, counts: Counter[Bracket]) -> int:
    """Add the brackets of a tree that starts at a word, and return where it ends."""
    end = start
    for child in tree.children:
        if isinstance(child, Tree):
            end = _count_brackets(child, end, counts)
        elif child.tag not in _DELETED:
            end += 1
    label = bare_label(tree.label, "[-=]")
    label = _EQUAL.get(label, label)
    if end > start and label not in _DELETED:
        counts[Bracket(label, start, end)] += 1
    return end


def _has_words(tree: Tree) -> bool:
    return any(leaf.tag not in _DELETED for leaf in tree.leaves)


def _sums(counts: np.ndarray) -> Sums:
    gold, test, matched = (int(number) for number in counts.sum(axis=0))
    return Sums(gold=gold, test=test, matched=matched)


def _interval(counts: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of F1 over resampled sentences."""
    if not len(counts):
        return 0.0, 0.0
    rng = np.random.default_rng(12345)
    samples = [
        _sums(counts[rng.integers(len(counts), size=len(counts))]).f1 for _ in range(_RESAMPLED)
    ]
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def _by_label(scored: Sequence[ScoredTree]) -> dict[str, Sums]:
    gold, test, matched = Counter[str](), Counter[str](), Counter[str]()
    for score in scored:
        for counts, brackets in zip((gold, test, matched), score, strict=True):
            counts.update(bracket.label for bracket in brackets.elements())
    labels = sorted(gold | test, key=lambda label: (-gold[label], label))
    return {name: Sums(gold=gold[name], test=test[name], matched=matched[name]) for name in labels}


def page(record: Mapping[str, Any], *, trees: bool = True) -> str:
    """Format the page of a record, with or without drawings of some correct and wrong trees."""
    names = [name.replace("_", " ") for name in Faults._fields]
    repairs = zip(names, record["faults"], strict=True)
    return render_page(
        "table4",
        record,
        trees=trees,
        scores=lambda sums: Sums(**sums),
        repairs=[f"{name} {count:,}" for name, count in repairs if count],
        draw=lambda brackets: draw_tree(next(parse_trees([brackets], name="the record"))),
    )


def summed(parses: Sequence[Mended]) -> Faults:
    """Sum the repairs."""
    return Faults(*map(sum, zip(*(parse.faults for parse in parses), strict=True)))


def tagged(outputs: Sequence[str], golds: Sequence[Tree]) -> float:
    """Compute the tagging accuracy, in percent."""
    right: list[bool] = []
    for output, gold in zip(outputs, golds, strict=True):
        parsed = delinearise(output, [Leaf("", word) for word in gold.words], tags=True).tree
        right += [a == b for a, b in zip(parsed.leaves, gold.leaves, strict=True)]
    return 100.0 * sum(right) / len(right)


def shown(parses: Sequence[Mended], golds: Sequence[Tree]) -> list[int]:
    """Choose the trees to show: first correct ones of medium length, and first wrong ones."""
    right = [index for index, gold in enumerate(golds) if parses[index].tree == gold]
    wrong = [index for index, gold in enumerate(golds) if parses[index].tree != gold]
    medium = [index for index in right if 8 <= len(golds[index].words) <= 14] or right
    return [*medium[:_SHOWN], *wrong[:_SHOWN]]


def table4(
    out: Path,
    *,
    treebank: Path | None = None,
    also: Sequence[Path] = (),
    quick: bool = False,
    recipe: str | None = None,
    overrides: Sequence[str] = (),
    on_event: EventHandler,
) -> dict[str, object]:
    """Train a parser, parse the test set, and compare its F1 with the paper's.

    Args:
        out: gets corpus/, run/, table4.json and table4.md.
        treebank: folder of the Penn Treebank's WSJ; None generates a treebank.
        also: files or folders of additional training trees, such as another parser's.
        quick: take only a few trees and updates, to try the command.
        recipe: a recipe's name or file; None takes the one that matches the trees.
        overrides: settings that override the recipe's, as for `load_recipe`.
        on_event: called with each event of the run.

    Returns:
        The content of table4.json.

    Raises:
        ValueError: if the treebank or the folder cannot be used.
    """
    corpus, run = out / "corpus", out / "run"
    matching = "table4-small" if treebank is None else "table4-semi" if also else "table4-wsj"
    settings = load_recipe(
        recipe or matching, [f"data.folder={corpus}", *(_QUICK if quick else ()), *overrides]
    )
    with exclusive_lock(out):
        origin = _write_corpus(corpus, treebank, also=also, quick=quick, on_event=on_event)
        finished = run_recipe(settings, run, resume=has_begun(run), on_event=on_event)
        golds, outputs = grammar.read_gold(corpus), read_lines(run / f"hypotheses.{grammar.TARGET}")
        parses = [delinearise(out, gold.leaves) for out, gold in zip(outputs, golds, strict=True)]
        record: dict[str, object] = {
            "origin": origin,
            "wsj": treebank is not None,
            "quick": quick,
            "recipe": asdict(settings),
            "finished": asdict(finished),
            "versions": versions("torch", "sentencepiece", "numpy"),
            "brackets": asdict(score_trees(golds, [parse.tree for parse in parses])),
            "ill_formed": sum(not parse.well_formed for parse in parses),
            "faults": summed(parses),
            "tagged": tagged(outputs, golds),
            "examples": [
                (" ".join(golds[n].words), outputs[n], str(parses[n].tree), str(golds[n]))
                for n in shown(parses, golds)
            ],
            "published": published_rows("table4"),
        }
        write_files(out, {"table4.json": json_text(record), "table4.md": page(record)})
    return record


def _write_corpus(
    corpus: Path,
    treebank: Path | None,
    *,
    also: Sequence[Path],
    quick: bool,
    on_event: EventHandler,
) -> str:
    """Write the parallel corpus unless it exists, and return the origin of its trees."""
    if treebank is None:
        bank = grammar.generated(**_FEW) if quick else grammar.generated()
    else:
        on_event(LogMessage(text=f"reading the trees of {treebank}"))
        bank = grammar.read_treebank(treebank)
        if quick:
            bank = replace(
                bank,
                origin=f"{bank.origin}, of which {_FEW['train']} are taken",
                train=bank.train[: _FEW["train"]],
                validation=bank.validation[: _FEW["validation"]],
                test=bank.test[: _FEW["test"]],
            )
    if also:
        bank = replace(bank, origin=f"{bank.origin}, and the trees of {', '.join(map(str, also))}")
    file = corpus / grammar.ORIGIN
    if not file.is_file():
        grammar.write_corpus(bank, corpus, also=grammar.read_parsed(also))
        on_event(LogMessage(text=f"wrote sentences and trees to {corpus}: {bank.origin}"))
    elif read_lines(file) != [bank.origin]:
        raise ValueError(
            f"{corpus} holds other trees ({' '.join(read_lines(file))}): name another --out"
        )
    return bank.origin
