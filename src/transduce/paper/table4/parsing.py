"""What the parses of a test set came to, beside the rows of Table 4."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from transduce.config import Recipe
from transduce.evaluation.scoring import RunResult
from transduce.paper.table4.brackets import Brackets
from transduce.paper.table4.linear import Faults, Mended, delinearise
from transduce.paper.table4.trees import Leaf, Tree, draw_tree

_SHOWN: Final = 3
_FAULTS: Final = Faults._fields


class Published(NamedTuple):
    """A row of the paper's Table 4: F1 on section 23 of the WSJ."""

    parser: str
    training: str
    f1: float


PUBLISHED: Final = (
    Published("Vinyals & Kaiser et al. (2014)", "WSJ only, discriminative", 88.3),
    Published("Petrov et al. (2006)", "WSJ only, discriminative", 90.4),
    Published("Zhu et al. (2013)", "WSJ only, discriminative", 90.4),
    Published("Dyer et al. (2016)", "WSJ only, discriminative", 91.7),
    Published("Transformer (4 layers)", "WSJ only, discriminative", 91.3),
    Published("Zhu et al. (2013)", "semi-supervised", 91.3),
    Published("Huang & Harper (2009)", "semi-supervised", 91.3),
    Published("McClosky et al. (2006)", "semi-supervised", 92.1),
    Published("Vinyals & Kaiser et al. (2014)", "semi-supervised", 92.1),
    Published("Transformer (4 layers)", "semi-supervised", 92.7),
    Published("Luong et al. (2015)", "multi-task", 93.0),
    Published("Dyer et al. (2016)", "generative", 93.3),
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
    """All that `transduce paper table4` found."""

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
    """Outputs that were no tree over their sentence as they stood."""
    faults: Faults
    """What was mended in them, summed."""
    tagged: float
    """Share of all words that got their part of speech, in percent."""
    examples: tuple[Example, ...]
    published: tuple[Published, ...] = PUBLISHED

    def __str__(self) -> str:
        """The tables as Markdown."""
        return "\n\n".join([self._rows(), self._notes(), self._labels(), self._mended()])

    def with_trees(self, parses: Sequence[Mended], golds: Sequence[Tree]) -> str:
        """The tables, and some trees drawn: of short right ones and of wrong ones."""
        parts = [str(self), "## Trees"]
        for at in shown(parses, golds):
            parsed, gold = parses[at].tree, golds[at]
            right = parsed == gold
            told = "as it should be" if right else "not as it should be, which is the second"
            parts.append(f"{' '.join(gold.words)}\n\n{told}:")
            drawn = [draw_tree(tree) for tree in ([gold] if right else [parsed, gold])]
            parts += [f"```text\n{tree}\n```" for tree in drawn]
        return "\n\n".join(parts) + "\n"

    def _rows(self) -> str:
        rows = ["| parser | training | F1 |", "|---|---|---:|"]
        rows += [f"| {one.parser} | {one.training} | {one.f1:.1f} |" for one in self.published]
        found, of = self.brackets, "WSJ" if self.wsj else "**another treebank**"
        value = f"{found.sums.f1:.1f} ({found.low:.1f} to {found.high:.1f})"
        rows.append(f"| this run, {self.recipe.name} | {of}: {self.origin} | {value} |")
        return "\n".join(rows)

    def _notes(self) -> str:
        found, sums = self.brackets, self.brackets.sums
        kind = "The rows above are of section 23 of the WSJ" + (
            ", as is this run's."
            if self.wsj
            else "; this run's is of other sentences, with fewer words and simpler trees. "
            "It stands beside them, not in rank with them."
        )
        quick = (
            " A quick run: too short to learn, good for trying the command." if self.quick else ""
        )
        return (
            f"{kind}{quick}\n\n{found.sentences:,} sentences: precision {sums.precision:.2f}, "
            f"recall {sums.recall:.2f}, F1 {sums.f1:.2f} (95 % by bootstrap: {found.low:.2f} to "
            f"{found.high:.2f}), all brackets right in {found.exact:.1f} %; {found.errors} errors "
            f"and {found.skipped} skipped. {self.finished.parameters:,} parameters, "
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
        said = [f"{name.replace('_', ' ')} {count:,}" for name, count in faults if count]
        mended = f": {', '.join(said)}" if said else ""
        return (
            f"{self.ill_formed:,} of {self.brackets.sentences:,} outputs were no tree over their "
            f"sentence and were mended{mended}. Of the parts of speech {self.tagged:.1f} % are "
            f"right; they are not scored, and punctuation is known by the gold ones."
        )


def summed(parses: Sequence[Mended]) -> Faults:
    """Sum what was mended."""
    total: Counter[str] = Counter()
    for parse in parses:
        total.update(parse.faults._asdict())
    return Faults(**{name: total[name] for name in _FAULTS})


def tagged(outputs: Sequence[str], golds: Sequence[Tree]) -> float:
    """Measure how many words got their part of speech, in percent."""
    right = total = 0
    for output, gold in zip(outputs, golds, strict=True):
        said = delinearise(output, [Leaf("", word) for word in gold.words], tags=True).tree
        right += sum(ours == theirs for ours, theirs in zip(said.leaves, gold.leaves, strict=True))
        total += len(gold.words)
    return 100.0 * right / total


def shown(parses: Sequence[Mended], golds: Sequence[Tree]) -> list[int]:
    """Choose which trees to show: the first right ones of some length, and the first wrong ones."""
    right = [at for at, gold in enumerate(golds) if parses[at].tree == gold]
    wrong = [at for at, gold in enumerate(golds) if parses[at].tree != gold]
    middling = [at for at in right if 8 <= len(golds[at].words) <= 14] or right
    return [*middling[:_SHOWN], *wrong[:_SHOWN]]
