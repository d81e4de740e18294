"""The demo's corpus: reproducible, without duplicates, and with a held-out test of "it".

Where German must choose *er*, *sie* or *es*, no test sentence shares both nouns and the adjective
with training, and in half of the cases even the referent and the adjective are *unseen* together.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from transduce.data.corpus import Pair
from transduce.demo.lexicon import NOUNS, Noun
from transduce.demo.sentences import (
    SCENES,
    It,
    draw_it,
    pronoun_of,
    reference,
    sentence,
    unambiguous_its,
)
from transduce.pipeline.prepare import write_pairs

_FILE = "pronouns.jsonl"
_PRONOUN = re.compile(r"\bweil (er|sie|es)\b")
_IT_SHARE = 0.2  # of the training sentences
_UNSEEN_SHARE = 0.15  # of all combinations of a noun and one of its reasons
_MIN_REASONS, _MIN_NOUNS = 2, 3  # that training keeps for each noun, and for each reason

_Sort = Literal["without", "seen", "unseen"]


class Case(NamedTuple):
    """A test sentence whose "it" must be resolved."""

    line: int
    """Line of the test set, counted from 0."""
    pronoun: str
    """The reference's pronoun: *er*, *sie* or *es*."""
    first: str
    """The first noun's pronoun."""
    second: str
    unseen: bool
    """Whether training never combines the referent with the adjective."""
    majority: str
    """The most frequent pronoun in training's sentences with "it"."""


class PronounScore(NamedTuple):
    """Accuracies of the pronoun, from 0 to 1, and those of two baseline rules."""

    cases: int
    accuracy: float
    unseen_cases: int
    unseen_accuracy: float
    always_first: float
    """Accuracy of always choosing the first noun."""
    majority: float
    """Accuracy of always choosing the most frequent pronoun in training."""
    majority_pronoun: str


class UnseenCombinations(NamedTuple):
    """Combinations of a noun and a reason that training must not show."""

    pairs: frozenset[tuple[str, str]]
    reasons: dict[str, frozenset[str]]
    """Held-out reasons by every form of the noun."""

    def are_in(self, source: str) -> bool:
        """Whether an English sentence contains both words of a combination."""
        words = set(re.findall(r"\w+", source.lower()))
        return any(not words.isdisjoint(self.reasons.get(word, ())) for word in words)


class _Drawn(NamedTuple):
    pair: Pair
    it: It | None


@dataclass(kw_only=True, slots=True)
class _Sampler:
    """Draws sentences that no completed set contains."""

    rng: Random
    unseen: UnseenCombinations
    """Combinations reserved for the test set."""
    targets: set[str] = field(default_factory=set[str])
    """Translations in completed sets."""
    triples: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """Both nouns and the adjective of every "it" in completed sets."""
    translations: dict[str, str] = field(default_factory=dict[str, str])
    open_reference: int = 0

    def take(self, count: int, sort: _Sort | None = None) -> list[_Drawn]:
        """Draw new sentences of one sort; None draws the training mixture."""
        taken: list[_Drawn] = []
        while len(taken) < count:
            sampled = self._draw(sort or ("seen" if self.rng.random() < _IT_SHARE else "without"))
            if sort and sampled.it and sampled.it.of_doer != (len(taken) % 2 == 0):
                continue  # in the test set every other "it" refers to the first noun
            source, target = sampled.pair
            known = self.translations.get(source)
            assert known in (None, target), f"{source}: {known} or {target}?"
            reserved = sort is None and self.unseen.are_in(source)
            if known is None and target not in self.targets and not reserved:
                self.translations[source] = target
                taken.append(sampled)
        return taken

    def complete(self, sentences: list[_Drawn]) -> None:
        """Exclude these sentences from further sets."""
        self.targets |= {sampled.pair.target for sampled in sentences}
        self.triples |= {sampled.it.triple for sampled in sentences if sampled.it}

    def _draw(self, sort: _Sort) -> _Drawn:
        if sort == "without":
            return _Drawn(sentence(self.rng), None)
        while True:
            it = draw_it(self.rng)
            if it.is_open:
                self.open_reference += 1
            elif it.triple not in self.triples and (it.pair in self.unseen.pairs) == (
                sort == "unseen"
            ):
                return _Drawn(reference(self.rng, it), it)


def write_corpus(
    folder: Path, *, pairs: int = 80_000, held_out: int = 500, cases: int = 240, seed: int = 1
) -> int:
    """Write train, validation and test as `.en` and `.de` files, and the test's `pronouns.jsonl`.

    The sets share no source and no target sentence, so that a held-out sentence is not a training
    sentence with "didn't" for "did not". Every source has one target. Sentences with "it" in
    different sets never share both nouns and the adjective. Half of those in the test set are
    *unseen*: no training or validation sentence of any kind contains both the referent and the
    adjective, though each occurs there in other combinations.

    Args:
        folder: created if missing; files of these names in it are replaced.
        pairs: training sentences, a fifth of them with "it".
        held_out: sentences of the validation set, distributed like training, and of the test
            set without "it".
        cases: additional test sentences with "it"; in half of them it refers to the first noun.
        seed: random seed; the same seed writes identical files.

    Returns:
        The number of sentences discarded because "it" could refer to either noun.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    sampler = _Sampler(rng=rng, unseen=unseen_combinations(rng))
    test = sampler.take(held_out, "without")
    test += sampler.take(cases - cases // 2, "unseen")
    test += sampler.take(cases // 2, "seen")
    rng.shuffle(test)
    sampler.complete(test)
    validation = sampler.take(held_out)
    sampler.complete(validation)
    train = sampler.take(pairs)
    for name, sentences in (("train", train), ("validation", validation), ("test", test)):
        write_pairs(folder, (f"{name}.en", f"{name}.de"), [sentence.pair for sentence in sentences])
    write_cases(folder, _cases(test, train=train, unseen=sampler.unseen))
    return sampler.open_reference


def _cases(test: list[_Drawn], *, train: list[_Drawn], unseen: UnseenCombinations) -> list[Case]:
    pronouns = [pronoun_of(sampled.it.referent).nominative for sampled in train if sampled.it]
    majority = max(("er", "sie", "es"), key=pronouns.count)
    return [
        Case(
            line=line,
            pronoun=pronoun_of(it.referent).nominative,
            first=pronoun_of(it.doer).nominative,
            second=pronoun_of(it.thing).nominative,
            unseen=it.pair in unseen.pairs,
            majority=majority,
        )
        for line, (_, it) in enumerate(test)
        if it is not None
    ]


def unseen_combinations(rng: Random) -> UnseenCombinations:
    """Choose combinations of a noun and a reason that can be resolved without having been seen.

    Each noun keeps other reasons, and each reason keeps, in every scene, other nouns of more than
    one gender in the same role: only the combination is new.
    """
    groups: defaultdict[str, list[set[Noun]]] = defaultdict(list)
    reasons: defaultdict[Noun, set[str]] = defaultdict(set)
    for (*_, reason), group in _nouns_by_reason().items():
        groups[reason].append(set(group))
        for noun in group:
            reasons[noun].add(reason)
    order = [(noun, reason) for noun in NOUNS for reason in sorted(reasons[noun])]
    rng.shuffle(order)
    selected: list[tuple[Noun, str]] = []
    for noun, reason in order:
        affected = [group for group in groups[reason] if noun in group]
        if len(reasons[noun]) > _MIN_REASONS and all(_is_varied(g - {noun}) for g in affected):
            selected.append((noun, reason))
            reasons[noun].remove(reason)
            for group in affected:
                group.remove(noun)
        if len(selected) >= _UNSEEN_SHARE * len(order):
            break
    forms: defaultdict[str, set[str]] = defaultdict(set)
    for noun, reason in selected:
        for form in filter(None, (noun.english, noun.english_plural)):
            forms[form].add(reason)
    return UnseenCombinations(
        pairs=frozenset((noun.english, reason) for noun, reason in selected),
        reasons={form: frozenset(held_out) for form, held_out in forms.items()},
    )


@cache
def _nouns_by_reason() -> dict[tuple[int, bool, str], frozenset[Noun]]:
    """The nouns that a reason applies to, by scene, role and reason."""
    groups: defaultdict[tuple[int, bool, str], set[Noun]] = defaultdict(set)
    for number, scene in enumerate(SCENES):
        for it in unambiguous_its(scene):
            groups[number, it.of_doer, it.reason].add(it.referent)
    return {key: frozenset(group) for key, group in groups.items()}


def _is_varied(group: set[Noun]) -> bool:
    """Whether a group has enough nouns and more than one gender."""
    return len(group) >= _MIN_NOUNS and len({noun.gender for noun in group}) >= 2


def write_cases(folder: Path, cases: Sequence[Case]) -> None:
    """Write `pronouns.jsonl`, one case per line."""
    text = "".join(f"{json.dumps(case._asdict())}\n" for case in cases)
    (folder / _FILE).write_text(text, encoding="utf-8", newline="\n")


def read_cases(folder: Path) -> tuple[Case, ...]:
    """Read the cases that `write_corpus` wrote."""
    lines = (folder / _FILE).read_text(encoding="utf-8").splitlines()
    return tuple(Case(**json.loads(line)) for line in lines)


def score_pronouns(hypotheses: Sequence[str], cases: Sequence[Case]) -> PronounScore:
    """Compare the pronoun after "weil" of the test set's translations; a missing one is wrong."""
    right = [pronoun_in(hypotheses[case.line]) == case.pronoun for case in cases]
    unseen = [is_right for is_right, case in zip(right, cases, strict=True) if case.unseen]
    return PronounScore(
        cases=len(cases),
        accuracy=_share(right),
        unseen_cases=len(unseen),
        unseen_accuracy=_share(unseen),
        always_first=_share([case.first == case.pronoun for case in cases]),
        majority=_share([case.majority == case.pronoun for case in cases]),
        majority_pronoun=cases[0].majority,
    )


def pronoun_in(sentence: str) -> str | None:
    """Return the pronoun after "weil".

    >>> pronoun_in("Das Tier überquerte die Straße nicht, weil es zu müde war.")
    'es'
    """
    match = _PRONOUN.search(sentence)
    return match and match[1]


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 0.0
