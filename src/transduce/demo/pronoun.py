"""Er, sie or es: how often a translation takes up the noun that "it" stands for.

What the score is worth is seen beside two rules that understand nothing: the pronoun of the first
noun, and the pronoun that training has most often.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

_FILE = "pronouns.jsonl"
_PRONOUN = re.compile(r"\bweil (er|sie|es)\b")


class Case(NamedTuple):
    """One sentence of the test set in which "it" must be understood."""

    line: int
    """Which one, counted from 0."""

    pronoun: str
    """*er*, *sie* or *es*: the one in the reference."""

    first: str
    """What would stand for the first noun."""

    second: str
    unseen: bool
    """Whether training never has the noun that is meant together with the adjective."""

    majority: str
    """What stands most often in training's sentences with "it"."""


class PronounScore(NamedTuple):
    """How many of the pronouns are right, of 1; a share of no cases at all is 0."""

    cases: int
    accuracy: float
    unseen_cases: int
    unseen_accuracy: float
    always_first: float
    """What "it is always the first noun" would reach."""

    majority: float
    """What the pronoun that training has most often would reach."""

    majority_pronoun: str


def write_cases(folder: Path, cases: Sequence[Case]) -> None:
    """Write `pronouns.jsonl`, one case a line."""
    text = "".join(f"{json.dumps(case._asdict())}\n" for case in cases)
    (folder / _FILE).write_text(text, encoding="utf-8", newline="\n")


def read_cases(folder: Path) -> tuple[Case, ...]:
    """Read the cases that `write_corpus` wrote beside the test set.

    Raises:
        ValueError: if the file is missing, or holds something else.
    """
    file = folder / _FILE
    if not file.is_file():
        raise ValueError(f"{file} is missing: `transduce demo` writes it")
    lines = file.read_text(encoding="utf-8").splitlines()
    try:
        return tuple(Case(**json.loads(line)) for line in lines)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{file} holds something else than cases: {error}") from error


def score_pronouns(hypotheses: Sequence[str], cases: Sequence[Case]) -> PronounScore:
    """Compare the pronoun behind "weil" with the reference's; where there is none, it is wrong.

    Args:
        hypotheses: translations of the whole test set, in its order.
        cases: those with "it", at least one.
    """
    unseen = [case for case in cases if case.unseen]

    def right(case: Case) -> bool:
        return pronoun_in(hypotheses[case.line]) == case.pronoun

    return PronounScore(
        cases=len(cases),
        accuracy=_share(cases, right),
        unseen_cases=len(unseen),
        unseen_accuracy=_share(unseen, right),
        always_first=_share(cases, lambda case: case.first == case.pronoun),
        majority=_share(cases, lambda case: case.majority == case.pronoun),
        majority_pronoun=cases[0].majority,
    )


def pronoun_in(sentence: str) -> str | None:
    """The pronoun that begins the reason.

    >>> pronoun_in("Das Tier überquerte die Straße nicht, weil es zu müde war.")
    'es'
    """
    found = _PRONOUN.search(sentence)
    return found and found[1]


def _share(cases: Sequence[Case], holds: Callable[[Case], bool]) -> float:
    return sum(map(holds, cases)) / len(cases) if cases else 0.0
