"""A small grammar of English that writes trees, so that parsing can be tried without a licence.

What makes parsing hard is in it, and each case is settled by the words, as it mostly is for people:

- *with*: "hit the thief with the stick" is how it was done, "fed the thief with the stick" is which
  thief; the verb and the noun say which.
- *in, near, behind* after an object say which one it was, but after "put" and its like where it
  went.
- *who* speaks of the person, *that* of the animal or thing: "the owner of the dog who slept" and
  "the owner of the dog that slept" are two trees.
- coordination of noun phrases, of verb phrases and of clauses; clauses with *that*, *because*,
  *to*; particles, before the object and behind it; quotation marks and commas.

Every phrase has the labels and the shape of the Penn Treebank. A phrase is drawn from the random
numbers it is given and nothing else.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from transduce.io.atomic_folder import atomic_folder
from transduce.paper.table4.linearization import linearise
from transduce.paper.table4.trees import Leaf, Tree, read_trees

Part = Tree | Leaf

_Way = TypeVar("_Way")


def _words(text: str) -> list[str]:
    return text.split()


_PEOPLE = _words("man woman boy girl thief teacher farmer doctor sailor painter neighbour guard")
_ANIMALS = _words("dog cat horse goat bird fox cow duck")
_THINGS = _words("book letter box lamp cup coat picture key basket ring")
_PLACES = _words("garden kitchen house barn street park shop boat")
_FEATURES = _words("beard hat scar basket lantern cane")
_NAMES = _words("Anna Peter Maria Tom Clara Paul")
_ADJECTIVES = _words("old young tall small red brown quiet clever tired hungry")
_ADVERBS = _words("quickly quietly often slowly never again")
_NEAR = _words("in near behind")

_TOOLS: Final = {
    "saw watched noticed": "telescope camera",
    "hit chased pushed": "stick whip",
    "cleaned painted": "brush sponge",
    "opened broke": "hammer knife",
}
"""Verbs, and what it may be done with; with another verb the same words say which one it was."""

_PLAIN = _words("fed followed helped found carried liked")
_PLACING = _words("put left hid kept")
_RESTING = _words("slept waited laughed stood cried")
_SAYING = _words("said knew thought believed")
_WANTING = _words("wanted hoped tried")
_PARTICLES = _words("picked:up put:down took:away threw:out")
_BASES = _words("see feed follow help find carry clean open")
_MODALS = _words("will can must should")
_DAYS = _words("Monday Friday Sunday")

_INSTRUMENTS = [tool for tools in _TOOLS.values() for tool in _words(tools)]
_TRANSITIVE = [*(verb for verbs in _TOOLS for verb in _words(verbs)), *_PLAIN]


def sentence_tree(rng: Random) -> Tree:
    """Draw the tree of a sentence of 4 to about 30 words.

    >>> print(" ".join(sentence_tree(Random(3)).words))
    the small farmer was too quiet .
    """
    return _Draw(rng).sentence()


@dataclass(frozen=True, slots=True)
class _Draw:
    rng: Random

    def sentence(self) -> Tree:
        """A whole sentence, its full stop included."""
        kinds: dict[Callable[[], list[Part]], float] = {
            self._statement: 8.0,
            self._coordinated: 1.5,
            self._because_first: 1.5,
            self._quoted: 1.0,
        }
        return Tree("S", (*self._of(kinds)(), Leaf(".", ".")))

    def _statement(self) -> list[Part]:
        verb_phrase = self._of(
            {
                self._verb_phrase: 5.0,
                self._two_verb_phrases: 1.5,
                self._saying: 1.5,
                self._because: 1.0,
            }
        )
        first = [Tree("PP", (Leaf("IN", "on"), Tree("NP", (Leaf("NNP", self._any(_DAYS)),))))]
        front: list[Part] = [*first, Leaf(",", ",")] if self._chance(0.1) else []
        return [*front, self.noun_phrase(), verb_phrase()]

    def _coordinated(self) -> list[Part]:
        return [
            self._clause(),
            Leaf(",", ","),
            Leaf("CC", self._any(["and", "but"])),
            self._clause(),
        ]

    def _because_first(self) -> list[Part]:
        reason = Tree("SBAR", (Leaf("IN", self._any(["because", "while"])), self._clause()))
        return [reason, Leaf(",", ","), self.noun_phrase(), self._verb_phrase()]

    def _quoted(self) -> list[Part]:
        verb = Tree("VP", (Leaf("VBD", "said"),))
        return [
            *(Leaf("``", "``"), self._clause(), Leaf(",", ","), Leaf("''", "''")),
            *(self._simple(), verb),
        ]

    def _clause(self) -> Tree:
        return Tree("S", (self.noun_phrase(), self._verb_phrase()))

    def noun_phrase(self, *, deep: int = 2) -> Tree:
        """A noun phrase with modifiers, nested up to `deep`."""
        if deep == 0:
            return self._simple()
        kinds: dict[Callable[[int], Tree], float] = {
            lambda _: self._simple(): 10.0,
            lambda _: self._pair(): 1.0,
            self._at_a_place: 1.2,
            self._with_a_feature: 0.8,
            self._owner: 0.8,
            self._with_a_clause: 1.2,
        }
        return self._of(kinds)(deep - 1)

    def _simple(self) -> Tree:
        kind = self.rng.random()
        if kind < 0.15:
            return Tree("NP", (Leaf("NNP", self._any(_NAMES)),))
        if kind < 0.25:
            return Tree("NP", (Leaf("PRP", self._any(["it", "you"])),))
        if kind < 0.32:
            owner = Tree("NP", (*self._noun(_PEOPLE), Leaf("POS", "'s")))
            return Tree("NP", (owner, Leaf("NN", self._any(_THINGS))))
        return Tree("NP", self._noun([*_PEOPLE, *_ANIMALS, *_THINGS]))

    def _noun(self, nouns: list[str]) -> tuple[Leaf, ...]:
        many = self._chance(0.2)
        article = self._any(["the", "some", "two"] if many else ["the", "the", "a"])
        tag = "CD" if article == "two" else "DT"
        adjectives = [Leaf("JJ", self._any(_ADJECTIVES))] if self._chance(0.3) else []
        noun = Leaf("NNS", _plural(self._any(nouns))) if many else Leaf("NN", self._any(nouns))
        follows = (*adjectives, noun)
        if article == "a" and follows[0].word[0] in "aeiou":
            article = "an"
        return (Leaf(tag, article), *follows)

    def _pair(self) -> Tree:
        return Tree("NP", (self._simple(), Leaf("CC", self._any(["and", "or"])), self._simple()))

    def _at_a_place(self, _deep: int) -> Tree:
        head = Tree("NP", self._noun([*_PEOPLE, *_ANIMALS, *_THINGS]))
        return Tree("NP", (head, self._place()))

    def _with_a_feature(self, _deep: int) -> Tree:
        return Tree("NP", (Tree("NP", self._noun(_PEOPLE)), self._with(_FEATURES)))

    def _owner(self, deep: int) -> Tree:
        owner = Tree("NP", (Leaf("DT", "the"), Leaf("NN", self._any(["owner", "friend"]))))
        animal = Tree("NP", self._noun(_ANIMALS))
        if not deep or self._chance(0.4):
            return Tree("NP", (owner, Tree("PP", (Leaf("IN", "of"), animal))))
        if self._chance(0.5):  # that: the animal
            animal = Tree("NP", (animal, self._relative(Leaf("WDT", "that"))))
            return Tree("NP", (owner, Tree("PP", (Leaf("IN", "of"), animal))))
        whose = Tree("NP", (owner, Tree("PP", (Leaf("IN", "of"), animal))))
        return Tree("NP", (whose, self._relative(Leaf("WP", "who"))))

    def _with_a_clause(self, _deep: int) -> Tree:
        person = self._chance(0.5)
        head = Tree("NP", self._noun(_PEOPLE if person else [*_ANIMALS, *_THINGS]))
        return Tree("NP", (head, self._relative(Leaf("WP", "who") if person else _THAT)))

    def _relative(self, pronoun: Leaf) -> Tree:
        """A relative clause: its pronoun is the subject, or the object."""
        what = Tree("WHNP", (pronoun,))
        if self._chance(0.6):
            return Tree("SBAR", (what, Tree("S", (self._short_verb_phrase(),))))
        missing = Tree("VP", (Leaf("VBD", self._any(_TRANSITIVE)),))
        return Tree("SBAR", (what, Tree("S", (self._simple(), missing))))

    def _verb_phrase(self) -> Tree:
        kinds: dict[Callable[[], Tree], float] = {
            self._short_verb_phrase: 3.0,
            self._acting: 3.0,
            self._placing: 1.2,
            self._with_a_particle: 1.0,
            self._modal: 1.2,
            self._wanting: 1.0,
            self._being: 1.0,
        }
        return self._of(kinds)()

    def _short_verb_phrase(self) -> Tree:
        adverb = [Tree("ADVP", (Leaf("RB", self._any(_ADVERBS)),))] if self._chance(0.2) else []
        if self._chance(0.5):
            where = [self._place()] if self._chance(0.4) else []
            return Tree("VP", (*adverb, Leaf("VBD", self._any(_RESTING)), *where))
        return Tree("VP", (*adverb, Leaf("VBD", self._any(_TRANSITIVE)), self._simple()))

    def _acting(self) -> Tree:
        """Somebody does something to somebody: with a tool, or to the one who has it."""
        verbs, tools = self.rng.choice(list(_TOOLS.items()))
        verb, fitting = self._any(_words(verbs)), _words(tools)
        if self._chance(0.35):
            others = [tool for tool in _INSTRUMENTS if tool not in fitting]
            which = Tree("NP", (Tree("NP", self._noun(_PEOPLE)), self._with(others)))
            return Tree("VP", (Leaf("VBD", verb), which))
        if self._chance(0.5):
            means = self._with(fitting)
            return Tree("VP", (Leaf("VBD", verb), self.noun_phrase(deep=0), means))
        return Tree("VP", (Leaf("VBD", verb), self.noun_phrase()))

    def _placing(self) -> Tree:
        thing = Tree("NP", self._noun(_THINGS))
        verb = Leaf("VBD", self._any(_PLACING))
        return Tree("VP", (verb, thing, self._place(within=self._chance(0.3))))

    def _with_a_particle(self) -> Tree:
        verb, _, particle = self._any(_PARTICLES).partition(":")
        thing = Tree("NP", self._noun(_THINGS))
        away = Tree("PRT", (Leaf("RP", particle),))
        order = (away, thing) if self._chance(0.5) else (thing, away)
        return Tree("VP", (Leaf("VBD", verb), *order))

    def _modal(self) -> Tree:
        rest = Tree("VP", (Leaf("VB", self._any(_BASES)), self.noun_phrase(deep=1)))
        negated = [Leaf("RB", "not")] if self._chance(0.25) else []
        return Tree("VP", (Leaf("MD", self._any(_MODALS)), *negated, rest))

    def _wanting(self) -> Tree:
        to = Tree("VP", (Leaf("VB", self._any(_BASES)), self.noun_phrase(deep=1)))
        inner = Tree("S", (Tree("VP", (Leaf("TO", "to"), to)),))
        return Tree("VP", (Leaf("VBD", self._any(_WANTING)), inner))

    def _being(self) -> Tree:
        degree = [Leaf("RB", self._any(["very", "too"]))] if self._chance(0.5) else []
        how = Tree("ADJP", (*degree, Leaf("JJ", self._any(_ADJECTIVES))))
        return Tree("VP", (Leaf("VBD", "was"), how))

    def _two_verb_phrases(self) -> Tree:
        both = (self._short_verb_phrase(), Leaf("CC", "and"), self._short_verb_phrase())
        return Tree("VP", both)

    def _saying(self) -> Tree:
        clause = Tree("SBAR", (Leaf("IN", "that"), self._clause()))
        return Tree("VP", (Leaf("VBD", self._any(_SAYING)), clause))

    def _because(self) -> Tree:
        """A reason at the end; what it is the reason of has no clause that it could belong to."""
        reason = Tree("SBAR", (Leaf("IN", self._any(["because", "while"])), self._clause()))
        return Tree("VP", (*self._short_verb_phrase().children, reason))

    def _place(self, *, within: bool = False) -> Tree:
        """Where; `within` another place, which belongs to the first."""
        place = Tree("NP", (Leaf("DT", "the"), Leaf("NN", self._any(_PLACES))))
        if within:
            place = Tree("NP", (place, self._place()))
        return Tree("PP", (Leaf("IN", self._any(_NEAR)), place))

    def _with(self, nouns: list[str]) -> Tree:
        article = Leaf("DT", self._any(["a", "the"]))
        noun = Tree("NP", (article, Leaf("NN", self._any(nouns))))
        return Tree("PP", (Leaf("IN", "with"), noun))

    def _any(self, words: list[str]) -> str:
        return self.rng.choice(words)

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _of(self, ways: dict[_Way, float]) -> _Way:
        return self.rng.choices(list(ways), weights=list(ways.values()))[0]


_THAT: Final = Leaf("WDT", "that")


def _plural(noun: str) -> str:
    irregular = {"man": "men", "woman": "women", "thief": "thieves"}
    return irregular.get(noun) or noun + ("es" if noun.endswith("x") else "s")


SOURCE: Final = "words"
TARGET: Final = "tree"
"""Endings of the two sides' files; they stand for the languages too."""

ORIGIN: Final = "origin.txt"

_TRAIN: Final = tuple(f"{section:02}" for section in range(2, 22))
_VALIDATION, _TEST = "22", "23"
_GOLD = "test.mrg"


@dataclass(frozen=True, kw_only=True, slots=True)
class Treebank:
    """Training, validation and test trees, normalized."""

    origin: str
    """Where they come from, in a line."""

    train: tuple[Tree, ...]
    validation: tuple[Tree, ...]
    test: tuple[Tree, ...]


def generated(
    *, train: int = 8000, validation: int = 150, test: int = 400, seed: int = 1
) -> Treebank:
    """Draw a treebank from the grammar: no sentence occurs twice.

    Args:
        train: number of training trees.
        validation: number of validation trees.
        test: number of test trees.
        seed: of the random draws.

    Raises:
        ValueError: if one of the sets is empty.
    """
    for name, count in (("train", train), ("validation", validation), ("test", test)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    rng = Random(seed)
    known: dict[tuple[str, ...], Tree] = {}
    while len(known) < train + validation + test:
        tree = sentence_tree(rng)
        known.setdefault(tree.words, tree)
    trees = tuple(known.values())
    return Treebank(
        origin=f"generated by this project's grammar, seed {seed}, {train:,} trees to train on",
        test=trees[:test],
        validation=trees[test : test + validation],
        train=trees[test + validation :],
    )


def read_treebank(folder: Path) -> Treebank:
    """Read the WSJ part of the Penn Treebank: `.mrg` files in folders named by their section.

    Args:
        folder: somewhere in it are the folders 02 to 23; other sections are not read.

    Raises:
        ValueError: if a section is missing, or a file holds no trees; one line that names it.
        OSError: if a file cannot be read.
    """
    sections: dict[str, list[Path]] = {}
    for file in sorted(folder.rglob("*.mrg")):
        sections.setdefault(file.parent.name, []).append(file)
    missing = [name for name in (*_TRAIN, _VALIDATION, _TEST) if name not in sections]
    if missing:
        raise ValueError(
            f"{folder} has no .mrg file of section {', '.join(missing)}: name the folder that "
            f"holds the folders 02 to 23 of the WSJ"
        )
    train, validation, test = (
        tuple(tree for name in names for file in sections[name] for tree in read_trees(file))
        for names in (_TRAIN, (_VALIDATION,), (_TEST,))
    )
    return Treebank(
        origin=f"WSJ, sections 02-21 of {folder}, {len(train):,} trees to train on",
        train=train,
        validation=validation,
        test=test,
    )


def read_parsed(files: Iterable[Path]) -> Iterator[Tree]:
    """Stream more trees to train on, such as another parser's.

    Args:
        files: each a file of trees, or a folder of `.mrg` files.

    Raises:
        ValueError: if a file holds no trees.
        OSError: if a file cannot be read.
    """
    for path in files:
        for file in sorted(path.rglob("*.mrg")) if path.is_dir() else [path]:
            yield from read_trees(file)


def write_corpus(bank: Treebank, folder: Path, *, also: Iterable[Tree] = ()) -> None:
    """Write the parallel files that a recipe trains on, and the test's trees to score against.

    Args:
        bank: the trees.
        folder: written atomically.
        also: more trees to train on, streamed.
    """
    with atomic_folder(folder) as fresh:
        _write(fresh / "train", _all(bank.train, also))
        _write(fresh / "validation", bank.validation)
        _write(fresh / "test", bank.test)
        gold = "".join(f"( {tree})\n" for tree in bank.test)
        (fresh / _GOLD).write_text(gold, encoding="utf-8", newline="\n")
        (fresh / ORIGIN).write_text(f"{bank.origin}\n", encoding="utf-8", newline="\n")


def read_gold(folder: Path) -> tuple[Tree, ...]:
    """Read the trees to score against from what `write_corpus` wrote."""
    return tuple(read_trees(folder / _GOLD))


def _all(trees: Iterable[Tree], also: Iterable[Tree]) -> Iterator[Tree]:
    yield from trees
    yield from also


def _write(stem: Path, trees: Iterable[Tree]) -> None:
    source, target = stem.with_suffix(f".{SOURCE}"), stem.with_suffix(f".{TARGET}")
    with (
        source.open("w", encoding="utf-8", newline="\n") as words,
        target.open("w", encoding="utf-8", newline="\n") as written,
    ):
        for tree in trees:
            words.write(f"{' '.join(tree.words)}\n")
            written.write(f"{linearise(tree, tags=True)}\n")
