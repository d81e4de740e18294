"""Table 4: constituency parsing as translation from words to trees, by the same run as any other.

A treebank is written as two parallel files, a recipe is carried out on them, and what the model
wrote for the test's sentences is read as trees and scored by labelled brackets. Without the Penn
Treebank the trees are a grammar's, and the F1 is no rival of the paper's: it says that the task can
be learned here, not how well on newspapers.

A run that was stopped goes on when the same command is given again.
"""

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from transduce.config import load_recipe
from transduce.io.lock import exclusive_lock
from transduce.io.streams import open_output, read_lines
from transduce.io.version import VERSION
from transduce.paper.table4.brackets import score_trees
from transduce.paper.table4.linear import delinearise
from transduce.paper.table4.parsing import Example, Parsed, shown, summed, tagged
from transduce.paper.table4.treebank import (
    ORIGIN,
    TARGET,
    Treebank,
    generated,
    read_gold,
    read_parsed,
    read_treebank,
    write_corpus,
)
from transduce.pipeline.run import has_begun, run_recipe
from transduce.train.events import EventHandler, LogMessage

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
        found = Parsed(
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
        _write(out / f"{NAME}.json", json.dumps(asdict(found), indent=2, ensure_ascii=False) + "\n")
        _write(out / f"{NAME}.md", found.with_trees(parses, golds))
    return found


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
