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

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from transduce.paper.table4.trees import Leaf, Tree

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
        said = Tree("VP", (Leaf("VBD", "said"),))
        return [
            *(Leaf("``", "``"), self._clause(), Leaf(",", ","), Leaf("''", "''")),
            *(self._simple(), said),
        ]

    def _clause(self) -> Tree:
        return Tree("S", (self.noun_phrase(), self._verb_phrase()))

    def noun_phrase(self, *, deep: int = 2) -> Tree:
        """Somebody or something, with what is said of it."""
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
        said = Tree("SBAR", (Leaf("IN", "that"), self._clause()))
        return Tree("VP", (Leaf("VBD", self._any(_SAYING)), said))

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
