"""Train a constituency parser and compare its F1 with the rows of Table 4."""

import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from transduce.config import Recipe, load_recipe
from transduce.evaluation.scoring import RunResult
from transduce.io.lock import exclusive_lock
from transduce.io.machine import VERSION
from transduce.io.streams import open_output, read_lines
from transduce.paper.table4.grammar import (
    ORIGIN,
    TARGET,
    Treebank,
    generated,
    read_gold,
    read_parsed,
    read_treebank,
    write_corpus,
)
from transduce.paper.table4.linearization import Faults, Mended, delinearise
from transduce.paper.table4.trees import Brackets, Leaf, Tree, draw_tree, score_trees
from transduce.pipeline.run import has_begun, run_recipe
from transduce.train.events import EventHandler, LogMessage

_SHOWN: Final = 3
_FAULTS: Final = Faults._fields


class PublishedParser(NamedTuple):
    """A row of the paper's Table 4: F1 on section 23 of the WSJ."""

    parser: str
    training: str
    f1: float


PUBLISHED: Final = (
    PublishedParser("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    PublishedParser("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    PublishedParser("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    PublishedParser("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    PublishedParser("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    PublishedParser("Zhu et al. (2013)", "semi-supervised", 91.3),
    PublishedParser("Huang & Harper (2009)", "semi-supervised", 91.3),
    PublishedParser("McClosky et al. (2006)", "semi-supervised", 92.1),
    PublishedParser("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    PublishedParser("Transformer (4 layers)", "semi-supervised", 92.7),
    PublishedParser("Luong et al. (2015)", "multi-task", 93.0),
    PublishedParser("Dyer et al. (2016)", "generative", 93.3),
)


class Example(NamedTuple):
    """A sentence of the test, as it was parsed and as it should be."""

    words: str
    output: str
    """What the model wrote."""
    parsed: str
    gold: str
    """Trees in brackets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """Result of `transduce paper table4`."""

    origin: str
    """Where the trees come from."""
    wsj: bool
    """Whether they are those of the paper's rows."""
    quick: bool
    recipe: Recipe
    finished: RunResult
    versions: dict[str, str]
    brackets: Brackets
    ill_formed: int
    """Outputs that needed repairs."""
    faults: Faults
    """Repairs of all outputs, summed."""
    tagged: float
    """Tagging accuracy, in percent."""
    examples: tuple[Example, ...]
    published: tuple[PublishedParser, ...] = PUBLISHED

    def __str__(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join([self._rows(), self._notes(), self._labels(), self._mended()])

    def with_trees(self, parses: Sequence[Mended], golds: Sequence[Tree]) -> str:
        """The tables and drawings of some correct and wrong trees."""
        parts = [str(self), "## Trees"]
        for index in shown(parses, golds):
            parsed, gold = parses[index].tree, golds[index]
            right = parsed == gold
            verdict = "Correct" if right else "Wrong (the second tree is the reference)"
            parts.append(f"{' '.join(gold.words)}\n\n{verdict}:")
            drawn = [draw_tree(tree) for tree in ([gold] if right else [parsed, gold])]
            parts += [f"```text\n{tree}\n```" for tree in drawn]
        return "\n\n".join(parts) + "\n"

    def _rows(self) -> str:
        rows = ["| parser | training | F1 |", "|---|---|---:|"]
        rows += [f"| {row.parser} | {row.training} | {row.f1:.1f} |" for row in self.published]
        scores, of = self.brackets, "WSJ" if self.wsj else "**another treebank**"
        value = f"{scores.sums.f1:.1f} ({scores.low:.1f} to {scores.high:.1f})"
        rows.append(f"| this run, {self.recipe.name} | {of}: {self.origin} | {value} |")
        return "\n".join(rows)

    def _notes(self) -> str:
        scores, sums = self.brackets, self.brackets.sums
        kind = "The rows above are of section 23 of the WSJ" + (
            ", as is this run's."
            if self.wsj
            else "; this run's is of other sentences, with fewer words and simpler trees. "
            "It is not comparable with them."
        )
        quick = (
            " A quick run: too short to learn, good for trying the command." if self.quick else ""
        )
        return (
            f"{kind}{quick}\n\n{scores.sentences:,} sentences: precision {sums.precision:.2f}, "
            f"recall {sums.recall:.2f}, F1 {sums.f1:.2f} (95 % by bootstrap: {scores.low:.2f} to "
            f"{scores.high:.2f}), exact match {scores.exact:.1f} %; {scores.errors} errors "
            f"and {scores.skipped} skipped. {self.finished.parameters:,} parameters, "
            f"{self.finished.updates:,} updates in {self.finished.seconds:.0f} s; beam "
            f"{self.recipe.search.beam}, α {self.recipe.search.alpha}, at most "
            f"{self.recipe.search.extra} pieces more than the sentence."
        )

    def _labels(self) -> str:
        rows = ["| label | brackets | precision | recall | F1 |", "|---|---:|---:|---:|---:|"]
        for label, sums in self.brackets.labels.items():
            shares = f"{sums.precision:.1f} | {sums.recall:.1f} | {sums.f1:.1f}"
            rows.append(f"| {label} | {sums.gold:,} | {shares} |")
        return "\n".join(rows)

    def _mended(self) -> str:
        faults = zip(_FAULTS, self.faults, strict=True)
        repairs = [f"{name.replace('_', ' ')} {count:,}" for name, count in faults if count]
        mended = f": {', '.join(repairs)}" if repairs else ""
        return (
            f"{self.ill_formed:,} of {self.brackets.sentences:,} outputs were ill-formed and "
            f"repaired{mended}. Tagging accuracy is {self.tagged:.1f} %; tags are not scored, and "
            f"punctuation is identified by the gold tags."
        )


def summed(parses: Sequence[Mended]) -> Faults:
    """Sum the repairs."""
    total: Counter[str] = Counter()
    for parse in parses:
        total.update(parse.faults._asdict())
    return Faults(**{name: total[name] for name in _FAULTS})


def tagged(outputs: Sequence[str], golds: Sequence[Tree]) -> float:
    """Compute the tagging accuracy, in percent."""
    right = total = 0
    for output, gold in zip(outputs, golds, strict=True):
        parsed = delinearise(output, [Leaf("", word) for word in gold.words], tags=True).tree
        right += sum(
            leaf == gold_leaf for leaf, gold_leaf in zip(parsed.leaves, gold.leaves, strict=True)
        )
        total += len(gold.words)
    return 100.0 * right / total


def shown(parses: Sequence[Mended], golds: Sequence[Tree]) -> list[int]:
    """Choose which trees to show: the first right ones of some length, and the first wrong ones."""
    right = [index for index, gold in enumerate(golds) if parses[index].tree == gold]
    wrong = [index for index, gold in enumerate(golds) if parses[index].tree != gold]
    middling = [index for index in right if 8 <= len(golds[index].words) <= 14] or right
    return [*middling[:_SHOWN], *wrong[:_SHOWN]]


NAME: Final = "table4"
_FEW: Final = {"train": 400, "validation": 10, "test": 30}
_QUICK: Final = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.d_ff=64"),
    *("model.heads=2", "model.d_k=16", "model.d_v=16", "batch.tokens=1024", "train.updates=40"),
    *("train.warmup=10", "train.validate_every=40", "search.beam=1", "search.extra=40"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trees:
    """Which trees are parsed."""

    treebank: Path | None = None
    """The folder of the Penn Treebank's WSJ; None generates a treebank."""

    also: tuple[Path, ...] = ()
    """Files or folders of more trees to train on, such as another parser's."""

    quick: bool = False
    """A few trees and updates, only to try the command."""

    @property
    def recipe(self) -> str:
        """The shipped recipe that fits.

        >>> Trees(treebank=Path("wsj")).recipe
        'table4-wsj'
        """
        if self.treebank is None:
            return "table4-small"
        return "table4-semi" if self.also else "table4-wsj"


def table4(
    out: Path,
    trees: Trees,
    *,
    recipe: str | None = None,
    overrides: Sequence[str] = (),
    on_event: EventHandler,
) -> Parsed:
    """Train a parser, parse the test set, and set its F1 beside the paper's.

    Args:
        out: gets corpus/, run/, table4.json and table4.md.
        trees: what to train and score on.
        recipe: a recipe's name or file; None takes the one that fits the trees.
        overrides: settings over it, as for `load_recipe`.
        on_event: called with each event of the run.

    Raises:
        ValueError: if the treebank or the folder cannot be used; one line that says what to change.
    """
    corpus, run = out / "corpus", out / "run"
    settings = load_recipe(
        recipe or trees.recipe,
        [f"data.folder={corpus}", *(_QUICK if trees.quick else ()), *overrides],
    )
    with exclusive_lock(out):
        origin = _write_corpus(corpus, trees, on_event=on_event)
        finished = run_recipe(settings, run, resume=has_begun(run), on_event=on_event)
        golds, outputs = read_gold(corpus), read_lines(run / f"hypotheses.{TARGET}")
        parses = [delinearise(out, gold.leaves) for out, gold in zip(outputs, golds, strict=True)]
        result = Parsed(
            origin=origin,
            wsj=trees.treebank is not None,
            quick=trees.quick,
            recipe=settings,
            finished=finished,
            versions=_versions(),
            brackets=score_trees(golds, [parse.tree for parse in parses]),
            ill_formed=sum(not parse.well_formed for parse in parses),
            faults=summed(parses),
            tagged=tagged(outputs, golds),
            examples=tuple(
                Example(" ".join(golds[n].words), outputs[n], str(parses[n].tree), str(golds[n]))
                for n in shown(parses, golds)
            ),
        )
        _write(
            out / f"{NAME}.json", json.dumps(asdict(result), indent=2, ensure_ascii=False) + "\n"
        )
        _write(out / f"{NAME}.md", result.with_trees(parses, golds))
    return result


def _write_corpus(corpus: Path, trees: Trees, *, on_event: EventHandler) -> str:
    """Write the parallel files, unless they are there already; where their trees come from."""
    if trees.treebank is None:
        bank = generated(**_FEW) if trees.quick else generated()
    else:
        on_event(LogMessage(text=f"reading the trees of {trees.treebank}"))
        bank = read_treebank(trees.treebank)
        bank = _few(bank) if trees.quick else bank
    if trees.also:
        besides = ", ".join(str(path) for path in trees.also)
        bank = replace(bank, origin=f"{bank.origin}, and the trees of {besides}")
    file = corpus / ORIGIN
    if not file.is_file():
        write_corpus(bank, corpus, also=read_parsed(trees.also))
        on_event(LogMessage(text=f"wrote sentences and trees to {corpus}: {bank.origin}"))
    elif read_lines(file) != [bank.origin]:
        raise ValueError(
            f"{corpus} holds other trees ({' '.join(read_lines(file))}): name another --out"
        )
    return bank.origin


def _few(bank: Treebank) -> Treebank:
    return Treebank(
        origin=f"{bank.origin}, of which {_FEW['train']} are taken",
        train=bank.train[: _FEW["train"]],
        validation=bank.validation[: _FEW["validation"]],
        test=bank.test[: _FEW["test"]],
    )


def _versions() -> dict[str, str]:
    names = ("torch", "sentencepiece", "numpy")
    packages = {name: version(name) for name in names}
    return {"transduce": VERSION, "python": platform.python_version(), **packages}


def _write(file: Path, text: str) -> None:
    with open_output(file) as stream:
        stream.write(text.encode())
