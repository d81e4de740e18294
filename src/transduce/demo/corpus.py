"""The demo's files: distinct sentences, the same for the same seed, and a test that is one.

Where German must choose *er*, *sie* or *es*, the test asks for what training never showed: no two
nouns with the same reason, and in half of the cases not even the one noun that is meant with it.
"""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from transduce.data.corpus import Pair
from transduce.demo.grammar.reference import It, draw_it, pronoun_of
from transduce.demo.grammar.sentences import reference, sentence
from transduce.demo.pronoun import Case, write_cases
from transduce.demo.unseen import Unseen, unseen_pairs

_SHARE_OF_IT = 0.2

_Which = Literal["without", "seen", "unseen"]


class Written(NamedTuple):
    """What `write_corpus` wrote."""

    pairs: int
    """Sentences of the training set."""

    validation: int
    test: int
    cases: int
    """Sentences of the test set with "it"."""

    open_reference: int
    """Sentences drawn and kept out of all sets because "it" could be either noun."""


class _Drawn(NamedTuple):
    pair: Pair
    it: It | None


@dataclass(kw_only=True, slots=True)
class _Drawing:
    """What was drawn so far, and what may not be drawn any more."""

    rng: Random
    unseen: Unseen
    """Nouns with the reasons that are theirs in the test alone."""

    targets: set[str] = field(default_factory=set[str])
    """The translations of the sets that are complete."""

    triples: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])
    """Both nouns and the adjective of what is said of "it" in them."""

    translations: dict[str, str] = field(default_factory=dict[str, str])
    open_reference: int = 0

    def take(self, count: int, which: _Which | None = None) -> list[_Drawn]:
        """New sentences of one sort; without one, such as training is made of."""
        taken: list[_Drawn] = []
        while len(taken) < count:
            drawn = self._draw(which or self._mixed())
            if which and drawn.it and drawn.it.of_doer != (len(taken) % 2 == 0):
                continue  # a test in which every other "it" is the first noun
            source, target = drawn.pair
            known = self.translations.get(source)
            assert known in (None, target), f"{source}: {known} or {target}?"
            for_test_alone = which is None and self.unseen.are_in(source)
            if known is None and target not in self.targets and not for_test_alone:
                self.translations[source] = target
                taken.append(drawn)
        return taken

    def complete(self, drawn: list[_Drawn]) -> None:
        """Keep other sets from saying the same."""
        self.targets |= {each.pair.target for each in drawn}
        self.triples |= {each.it.triple for each in drawn if each.it}

    def _mixed(self) -> _Which:
        return "seen" if self.rng.random() < _SHARE_OF_IT else "without"

    def _draw(self, which: _Which) -> _Drawn:
        if which == "without":
            return _Drawn(sentence(self.rng), None)
        while True:
            it = draw_it(self.rng)
            if it.is_open:
                self.open_reference += 1
            elif it.triple not in self.triples and (it.pair in self.unseen.pairs) == (
                which == "unseen"
            ):
                return _Drawn(reference(self.rng, it), it)


def write_corpus(
    folder: Path, *, pairs: int = 80_000, held_out: int = 500, cases: int = 240, seed: int = 1
) -> Written:
    """Write train, validation and test as `.en` and `.de` files, and the test's `pronouns.jsonl`.

    The sets share no source sentence, and no target sentence, so that a held out sentence is not a
    known one with "didn't" for "did not". Every source has one target. Of the sentences with "it",
    no two sets share both nouns and the adjective. Half of those in the test are *unseen*: no
    sentence of training or validation, of any kind, holds both the noun that is meant and the
    adjective, though each of the two occurs there with others.

    Args:
        folder: made if it is missing; files of these names in it are replaced.
        pairs: sentences of the training set, a fifth of them with "it".
        held_out: sentences of the validation set, made like training's; and of the test set,
            without "it".
        cases: sentences with "it" of the test set, besides; in half of them it is the first noun.
        seed: what is drawn; the same seed writes the same files.

    Raises:
        ValueError: if `pairs`, `held_out` or `cases` is below 1.
    """
    for name, count in (("pairs", pairs), ("held_out", held_out), ("cases", cases)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    drawing = _Drawing(rng=rng, unseen=unseen_pairs(rng))
    test = drawing.take(held_out, "without")
    test += drawing.take(cases - cases // 2, "unseen")
    test += drawing.take(cases // 2, "seen")
    rng.shuffle(test)
    drawing.complete(test)
    validation = drawing.take(held_out)
    drawing.complete(validation)
    train = drawing.take(pairs)
    for name, drawn in (("train", train), ("validation", validation), ("test", test)):
        _write(folder / name, [each.pair for each in drawn])
    write_cases(folder, _cases(test, train=train, unseen=drawing.unseen))
    return Written(len(train), len(validation), len(test), cases, drawing.open_reference)


def _cases(test: list[_Drawn], *, train: list[_Drawn], unseen: Unseen) -> list[Case]:
    """What the test asks of the pronoun."""
    said = [pronoun_of(each.it.referent).nominative for each in train if each.it]
    majority = max(("er", "sie", "es"), key=said.count)
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


def _write(stem: Path, pairs: list[Pair]) -> None:
    for side, suffix in enumerate(("en", "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        stem.with_suffix(f".{suffix}").write_text(text, encoding="utf-8", newline="\n")
