"""Findings of a corpus check: one line each, with counts and examples."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

DataSplit = Literal["training", "validation", "test"]
"""The part of the corpus that a finding is about."""

FindingKind = Literal[
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

# Predicates for one pair and for several.
_PREDICATES: dict[FindingKind, tuple[str, str]] = {
    "language": ("is not in the recipe's languages", "are not in the recipe's languages"),
    "swapped": ("has its sides swapped", "have their sides swapped"),
    "shifted": ("seems to be misaligned by one line", "seem to be misaligned by one line"),
    "copy": ("has a target identical to its source", "have targets identical to their sources"),
    "duplicate": ("is a duplicate", "are duplicates"),
    "several targets": (
        "has several targets (not an error, but BLEU compares with one of them)",
        "have several targets (not an error, but BLEU compares with one of them)",
    ),
    "leaked pair": (
        "also occurs in training (ignoring case, spaces and punctuation)",
        "also occur in training (ignoring case, spaces and punctuation)",
    ),
    "leaked source": (
        "also occurs in training, with another target",
        "also occur in training, with another target",
    ),
    "length ratio": ("has an unusual length ratio", "have unusual length ratios"),
    "empty": ("has an empty side", "have an empty side"),
    "not UTF-8": ("is not UTF-8", "are not UTF-8"),
    "control character": ("contains control characters", "contain control characters"),
    "mojibake": (
        "contains wrongly decoded text, such as Ã¤ for ä",
        "contain wrongly decoded text, such as Ã¤ for ä",
    ),
    "script": ("is not in the script of its side", "are not in the script of their side"),
    "unknown piece": (
        "contains characters missing from the vocabulary",
        "contain characters missing from the vocabulary",
    ),
    "round trip": ("changes when encoded and decoded", "change when encoded and decoded"),
    "over-long": ("has more pieces than data.max_pieces", "have more pieces than data.max_pieces"),
}
_SUBJECTS: dict[FindingKind, str] = {
    "several targets": "sources",
    "leaked source": "sources",
    "not UTF-8": "lines",
}
_SEVERE_SHARE = 0.1
_NEVER_SEVERE = frozenset({"duplicate", "several targets", "control character"})
_EXAMPLE_WIDTH = 40  # characters of each side of an example


class PairExample(NamedTuple):
    """A pair that a finding is about."""

    line: int
    """Counted from 1."""
    source: str
    target: str

    def __str__(self) -> str:
        return f"line {self.line}: {_abbreviate(self.source)} | {_abbreviate(self.target)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """Pairs of one part of the corpus with one kind of fault."""

    kind: FindingKind
    part: DataSplit
    count: int
    of: int
    """Pairs examined."""
    examples: tuple[PairExample, ...] = ()
    advice: str = ""
    """Remedy, unless obvious."""

    @property
    def severe(self) -> bool:
        """Whether it would degrade training or the scores."""
        return self.kind not in _NEVER_SEVERE and self.count > _SEVERE_SHARE * self.of

    def __str__(self) -> str:
        subject = _SUBJECTS.get(self.kind, "pairs")
        predicate = _PREDICATES[self.kind][self.count != 1]
        text = f"{self.part}: {self.count:,} of {self.of:,} {subject} {predicate}"
        advice = f"; {self.advice}" if self.advice else ""
        example = f", such as {self.examples[0]}" if self.examples else ""
        return f"{'WARNING: ' if self.severe else ''}{text}{advice}{example}"


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusReport:
    """The findings of a corpus check."""

    training_pairs: int
    validation_pairs: int
    test_pairs: int
    findings: tuple[Finding, ...]
    pieces_per_word: float = 0.0
    """Average pieces per word of the text used to probe the vocabulary; 0 if there was none."""

    @property
    def severe(self) -> bool:
        """Whether a finding would degrade training or the scores."""
        return any(finding.severe for finding in self.findings)

    def __str__(self) -> str:
        sizes = f"{self.training_pairs:,} pairs to train on, {self.validation_pairs:,} to validate"
        pieces = f"; {self.pieces_per_word:.2f} pieces per word" if self.pieces_per_word else ""
        lines = [f"{sizes}, {self.test_pairs:,} to test{pieces}"]
        for finding in self.findings:
            lines.append(str(finding))
            lines += [f"    {example}" for example in finding.examples[1:]]
        count = len(self.findings)
        return "\n".join([*lines, f"{count or 'no'} finding{'s' * (count != 1)}"])


def _abbreviate(text: str) -> str:
    """Text on one line, escaped if it is not UTF-8, and truncated."""
    shown = " ".join(text.encode(errors="backslashreplace").decode().split())
    return shown if len(shown) <= _EXAMPLE_WIDTH else f"{shown[: _EXAMPLE_WIDTH - 1]}…"
