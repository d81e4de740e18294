"""What a look at a corpus may find, and how it is said: one line each, counted, with examples."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Part = Literal["training", "validation", "test"]
"""Which files a finding is about."""

Kind = Literal[
    "language",
    "swapped",
    "shifted",
    "copy",
    "duplicate",
    "several targets",
    "leaked pair",
    "leaked source",
    "length ratio",
    "empty",
    "not UTF-8",
    "control character",
    "mojibake",
    "script",
    "unknown piece",
    "round trip",
    "over-long",
]

_SAID: dict[Kind, str] = {
    "language": "pairs are not in the languages that the recipe says",
    "swapped": "pairs have their sides swapped",
    "shifted": "pairs lie where line n seems to translate line n ± 1",
    "copy": "pairs have a target that is a copy of its source",
    "duplicate": "pairs stand there twice or more, counted without the first",
    "several targets": "sources have several targets (no fault, but BLEU will see one of them)",
    "leaked pair": "pairs stand in training too (case, spaces and punctuation aside)",
    "leaked source": "sources stand in training too, with another target",
    "length ratio": "pairs have sides of odd length ratio",
    "empty": "pairs have an empty side",
    "not UTF-8": "lines are not UTF-8",
    "control character": "pairs hold control characters",
    "mojibake": "pairs hold text decoded wrongly, such as Ã¤ for ä",
    "script": "pairs are written in another script than their side",
    "unknown piece": "pairs hold characters that the vocabulary lacks",
    "round trip": "pairs do not survive being cut into pieces and joined",
    "over-long": "pairs have more pieces than data.max_pieces",
}

_LOUD_SHARE = 0.1
_NEVER_LOUD = frozenset({"duplicate", "several targets", "control character"})
_SHOWN = 40  # characters of each side of an example in a line


class Example(NamedTuple):
    """A pair that a finding is about, to look up in the files."""

    line: int
    """Counted from 1."""
    source: str
    target: str

    def __str__(self) -> str:
        return f"line {self.line}: {_cut(self.source)} | {_cut(self.target)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One kind of thing that was found in one part of the corpus."""

    kind: Kind
    part: Part
    count: int
    of: int
    """Pairs that were looked at."""
    examples: tuple[Example, ...] = ()
    advice: str = ""
    """What to do about it, where that is not plain."""

    @property
    def loud(self) -> bool:
        """Whether training, or the scores, would surely suffer."""
        return self.kind not in _NEVER_LOUD and self.count > _LOUD_SHARE * self.of

    def __str__(self) -> str:
        text = f"{self.part}: {self.count:,} of {self.of:,} {_SAID[self.kind]}"
        advice = f"; {self.advice}" if self.advice else ""
        example = f", such as {self.examples[0]}" if self.examples else ""
        return f"{'WARNING: ' if self.loud else ''}{text}{advice}{example}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a look at a corpus found."""

    training_pairs: int
    validation_pairs: int
    test_pairs: int
    findings: tuple[Finding, ...]
    pieces_per_word: float = 0.0
    """Of the text that the pieces were tried on; 0 if none was."""

    @property
    def loud(self) -> bool:
        """Whether a finding would surely spoil training or the scores."""
        return any(finding.loud for finding in self.findings)

    def __str__(self) -> str:
        sizes = f"{self.training_pairs:,} pairs to train on, {self.validation_pairs:,} to validate"
        pieces = f"; {self.pieces_per_word:.2f} pieces a word" if self.pieces_per_word else ""
        lines = [f"{sizes}, {self.test_pairs:,} to test{pieces}"]
        for finding in self.findings:
            lines.append(str(finding))
            lines += [f"    {example}" for example in finding.examples[1:]]
        return "\n".join([*lines, _counted(len(self.findings))])


def _counted(findings: int) -> str:
    return f"{findings or 'no'} finding{'s' * (findings != 1)}"


def _cut(text: str) -> str:
    """Text as a line can show it."""
    shown = " ".join(text.encode(errors="backslashreplace").decode().split())
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"
