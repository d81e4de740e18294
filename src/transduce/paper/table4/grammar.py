"""A generated treebank: a small grammar of English, so that parsing can be tried without a licence.

The grammar covers what makes parsing hard, and the words always settle the reading:

- *with* attaches to the verb or to the noun: "hit the thief with the stick" names the instrument,
  "fed the thief with the stick" says which thief.
- *in, near, behind* after an object modify it, but after "put" and similar verbs they are the goal.
- *who* refers to the person, *that* to the animal or thing: "the owner of the dog who slept" and
  "the owner of the dog that slept" are different trees.
- Coordination of noun phrases, verb phrases and clauses; clauses with *that*, *because*, *to*;
  particles before and after the object; quotation marks and commas.

Labels and shapes are those of the Penn Treebank. The Treebank's own files are read here as well.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

from transduce.data.corpus import Pair
from transduce.io.atomic_folder import atomic_folder
from transduce.paper.table4.trees import Tree, linearise, parse_trees, read_trees
from transduce.pipeline.prepare import write_pairs

_PEOPLE = "man woman boy girl thief teacher farmer doctor sailor painter neighbour guard"
_ANIMALS = "dog cat horse goat bird fox cow duck"
_THINGS = "book letter box lamp cup coat picture key basket ring"
_NOUNS = f"{_PEOPLE} {_ANIMALS} {_THINGS}"
_PLACES = "garden kitchen house barn street park shop boat"
_FEATURES = "beard hat scar basket lantern cane"
_NAMES = "Anna Peter Maria Tom Clara Paul"
_ADJECTIVES = "old young tall small red brown quiet clever tired hungry"
_ADVERBS = "quickly quietly often slowly never again"
_INSTRUMENTS: Final = {
    "saw watched noticed": "telescope camera",
    "hit chased pushed": "stick whip",
    "cleaned painted": "brush sponge",
    "opened broke": "hammer knife",
}
"""Verbs and their instruments; with any other verb, "with" and the instrument modify the noun."""
_TRANSITIVE = f"{' '.join(_INSTRUMENTS)} fed followed helped found carried liked"
_PLACING = "put left hid kept"
_RESTING = "slept waited laughed stood cried"
_SAYING = "said knew thought believed"
_WANTING = "wanted hoped tried"
_PARTICLES = "picked:up put:down took:away threw:out"
_INFINITIVES = "see feed follow help find carry clean open"
_MODALS = "will can must should"
_DAYS = "Monday Friday Sunday"
_PLURALS = {"man": "men", "woman": "women", "thief": "thieves", "fox": "foxes", "box": "boxes"}

_Rules = dict[Callable[[], str], float]
"""Expansions with their weights."""


def sentence_tree(rng: Random) -> Tree:
    """Draw the tree of a sentence of 4 to about 30 words.

    >>> print(" ".join(sentence_tree(Random(3)).words))
    the small farmer was too quiet .
    """
    (tree,) = parse_trees([_Grammar(rng).sentence()], name="the grammar")
    return tree


@dataclass(frozen=True, slots=True)
class _Grammar:
    """Draws phrases in bracket notation, each rule a method.

    The order of the draws decides which trees a seed gives. Where it differs from the order of the
    words, the later part is drawn into a variable first.
    """

    rng: Random

    def sentence(self) -> str:
        """Draw a sentence with its full stop."""
        rules: _Rules = {
            self._statement: 8.0,
            lambda: f"{self._clause()} (, ,) (CC {self._any('and but')}) {self._clause()}": 1.5,
            lambda: f"{self._reason()} (, ,) {self._noun_phrase()} {self._verb_phrase()}": 1.5,
            lambda: f"(`` ``) {self._clause()} (, ,) ('' '') {self._simple()} (VP (VBD said))": 1.0,
        }
        return f"(S {self._choose(rules)()} (. .))"

    def _statement(self) -> str:
        rules: _Rules = {
            self._verb_phrase: 5.0,
            lambda: f"(VP {self._short_verb_phrase()} (CC and) {self._short_verb_phrase()})": 1.5,
            self._saying: 1.5,
            self._because: 1.0,
        }
        verb_phrase = self._choose(rules)
        day = f"(PP (IN on) (NP (NNP {self._any(_DAYS)}))) (, ,) "
        return f"{day if self._chance(0.1) else ''}{self._noun_phrase()} {verb_phrase()}"

    def _clause(self) -> str:
        return f"(S {self._noun_phrase()} {self._verb_phrase()})"

    def _noun_phrase(self, *, depth: int = 2) -> str:
        """A noun phrase with modifiers, nested up to `depth`."""
        if depth == 0:
            return self._simple()
        rules: _Rules = {
            self._simple: 10.0,
            lambda: f"(NP {self._simple()} (CC {self._any('and or')}) {self._simple()})": 1.0,
            lambda: f"(NP (NP {self._noun(_NOUNS)}) {self._place()})": 1.2,
            lambda: f"(NP (NP {self._noun(_PEOPLE)}) {self._with(_FEATURES)})": 0.8,
            lambda: self._owner(clause=depth > 1): 0.8,
            self._with_a_clause: 1.2,
        }
        return self._choose(rules)()

    def _simple(self) -> str:
        kind = self.rng.random()
        if kind < 0.15:
            return f"(NP (NNP {self._any(_NAMES)}))"
        if kind < 0.25:
            return f"(NP (PRP {self._any('it you')}))"
        if kind < 0.32:
            return f"(NP (NP {self._noun(_PEOPLE)} (POS 's)) (NN {self._any(_THINGS)}))"
        return f"(NP {self._noun(_NOUNS)})"

    def _noun(self, nouns: str) -> str:
        """An article or number, sometimes an adjective, and a noun."""
        plural = self._chance(0.2)
        article = self._any("the some two" if plural else "the the a")
        tag = "CD" if article == "two" else "DT"
        adjective = f"(JJ {self._any(_ADJECTIVES)}) " if self._chance(0.3) else ""
        noun = self._any(nouns)
        noun = f"(NNS {_PLURALS.get(noun, f'{noun}s')})" if plural else f"(NN {noun})"
        if article == "a" and (adjective or noun).split()[1][0] in "aeiou":
            article = "an"
        return f"({tag} {article}) {adjective}{noun}"

    def _owner(self, *, clause: bool) -> str:
        owner = f"(NP (DT the) (NN {self._any('owner friend')}))"
        animal = f"(NP {self._noun(_ANIMALS)})"
        if not clause or self._chance(0.4):
            return f"(NP {owner} (PP (IN of) {animal}))"
        if self._chance(0.5):  # that: the animal
            return f"(NP {owner} (PP (IN of) (NP {animal} {self._relative('(WDT that)')})))"
        return f"(NP (NP {owner} (PP (IN of) {animal})) {self._relative('(WP who)')})"

    def _with_a_clause(self) -> str:
        person = self._chance(0.5)
        head = self._noun(_PEOPLE if person else f"{_ANIMALS} {_THINGS}")
        return f"(NP (NP {head}) {self._relative('(WP who)' if person else '(WDT that)')})"

    def _relative(self, pronoun: str) -> str:
        """A relative clause: its pronoun is the subject, or the object."""
        if self._chance(0.6):
            clause = self._short_verb_phrase()
        else:
            verb = self._any(_TRANSITIVE)
            clause = f"{self._simple()} (VP (VBD {verb}))"
        return f"(SBAR (WHNP {pronoun}) (S {clause}))"

    def _verb_phrase(self) -> str:
        rules: _Rules = {
            self._short_verb_phrase: 3.0,
            self._acting: 3.0,
            self._placing: 1.2,
            self._with_a_particle: 1.0,
            self._modal: 1.2,
            self._wanting: 1.0,
            self._being: 1.0,
        }
        return self._choose(rules)()

    def _short_verb_phrase(self) -> str:
        adverb = f"(ADVP (RB {self._any(_ADVERBS)})) " if self._chance(0.2) else ""
        if self._chance(0.5):
            where = f" {self._place()}" if self._chance(0.4) else ""
            return f"(VP {adverb}(VBD {self._any(_RESTING)}){where})"
        return f"(VP {adverb}(VBD {self._any(_TRANSITIVE)}) {self._simple()})"

    def _acting(self) -> str:
        """An action with an instrument, or on somebody who has one."""
        verbs, instruments = self.rng.choice(list(_INSTRUMENTS.items()))
        verb = f"(VBD {self._any(verbs)})"
        if self._chance(0.35):
            others = " ".join(other for other in _INSTRUMENTS.values() if other != instruments)
            return f"(VP {verb} (NP (NP {self._noun(_PEOPLE)}) {self._with(others)}))"
        if self._chance(0.5):
            means = self._with(instruments)
            return f"(VP {verb} {self._simple()} {means})"
        return f"(VP {verb} {self._noun_phrase()})"

    def _placing(self) -> str:
        thing = self._noun(_THINGS)
        verb = self._any(_PLACING)
        return f"(VP (VBD {verb}) (NP {thing}) {self._place(nested=self._chance(0.3))})"

    def _with_a_particle(self) -> str:
        verb, particle = self._any(_PARTICLES).split(":")
        thing, particle = f"(NP {self._noun(_THINGS)})", f"(PRT (RP {particle}))"
        order = f"{particle} {thing}" if self._chance(0.5) else f"{thing} {particle}"
        return f"(VP (VBD {verb}) {order})"

    def _infinitive(self) -> str:
        return f"(VP (VB {self._any(_INFINITIVES)}) {self._noun_phrase(depth=1)})"

    def _modal(self) -> str:
        infinitive = self._infinitive()
        negation = " (RB not)" if self._chance(0.25) else ""
        return f"(VP (MD {self._any(_MODALS)}){negation} {infinitive})"

    def _wanting(self) -> str:
        infinitive = self._infinitive()
        return f"(VP (VBD {self._any(_WANTING)}) (S (VP (TO to) {infinitive})))"

    def _being(self) -> str:
        degree = f"(RB {self._any('very too')}) " if self._chance(0.5) else ""
        return f"(VP (VBD was) (ADJP {degree}(JJ {self._any(_ADJECTIVES)})))"

    def _saying(self) -> str:
        clause = self._clause()
        return f"(VP (VBD {self._any(_SAYING)}) (SBAR (IN that) {clause}))"

    def _because(self) -> str:
        """A verb phrase with a reason; it has no other clause that the reason could attach to."""
        reason = self._reason()
        return f"{self._short_verb_phrase().removesuffix(')')} {reason})"

    def _reason(self) -> str:
        return f"(SBAR (IN {self._any('because while')}) {self._clause()})"

    def _place(self, *, nested: bool = False) -> str:
        """A place; if `nested`, within another place that modifies it."""
        place = f"(NP (DT the) (NN {self._any(_PLACES)}))"
        if nested:
            place = f"(NP {place} {self._place()})"
        return f"(PP (IN {self._any('in near behind')}) {place})"

    def _with(self, nouns: str) -> str:
        return f"(PP (IN with) (NP (DT {self._any('a the')}) (NN {self._any(nouns)})))"

    def _any(self, words: str) -> str:
        return self.rng.choice(words.split())

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _choose(self, rules: _Rules) -> Callable[[], str]:
        return self.rng.choices(list(rules), weights=list(rules.values()))[0]


SOURCE: Final = "words"
TARGET: Final = "tree"
"""File endings of the two sides, also used as their language codes."""

ORIGIN: Final = "origin.txt"

_TRAIN: Final = tuple(f"{section:02}" for section in range(2, 22))
_VALIDATION, _TEST = "22", "23"
_GOLD = "test.mrg"


@dataclass(frozen=True, kw_only=True, slots=True)
class Treebank:
    """Training, validation and test trees, normalized."""

    origin: str
    """Where the trees come from, in one line."""
    train: tuple[Tree, ...]
    validation: tuple[Tree, ...]
    test: tuple[Tree, ...]


def generated(
    *, train: int = 8000, validation: int = 150, test: int = 400, seed: int = 1
) -> Treebank:
    """Generate a treebank without duplicate sentences.

    Args:
        train: number of training trees.
        validation: number of validation trees.
        test: number of test trees.
        seed: random seed.
    """
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
    """Read the WSJ part of the Penn Treebank: the `.mrg` files in its folders 02 to 23.

    Raises:
        ValueError: if a section is missing, or a file holds no trees.
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
    """Stream additional training trees, from files of trees or folders of `.mrg` files.

    Raises:
        ValueError: if a file holds no trees.
        OSError: if a file cannot be read.
    """
    for path in files:
        for file in sorted(path.rglob("*.mrg")) if path.is_dir() else [path]:
            yield from read_trees(file)


def write_corpus(bank: Treebank, folder: Path, *, also: Iterable[Tree] = ()) -> None:
    """Write the parallel corpus for training, and the reference trees of the test set.

    Args:
        bank: the trees.
        folder: written atomically.
        also: additional training trees, streamed.
    """
    with atomic_folder(folder) as fresh:
        for name, trees in (
            ("train", chain(bank.train, also)),
            ("validation", bank.validation),
            ("test", bank.test),
        ):
            pairs = (Pair(" ".join(tree.words), linearise(tree, tags=True)) for tree in trees)
            write_pairs(fresh, (f"{name}.{SOURCE}", f"{name}.{TARGET}"), pairs)
        gold = "".join(f"( {tree})\n" for tree in bank.test)
        (fresh / _GOLD).write_text(gold, encoding="utf-8", newline="\n")
        (fresh / ORIGIN).write_text(f"{bank.origin}\n", encoding="utf-8", newline="\n")


def read_gold(folder: Path) -> tuple[Tree, ...]:
    """Read the reference trees of a corpus written by `write_corpus`."""
    return tuple(read_trees(folder / _GOLD))
