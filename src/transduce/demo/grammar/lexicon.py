"""The words of the demo except nouns and verbs, as tables: one line a word.

An adjective brings what it can be said of, a preposition where it leads. Nothing here is computed:
the rules are in `inflection` and `grammar`, and `draw` and `sentences` decide what is worth saying.
A word is added by adding its line.
"""

from functools import cache

from transduce.demo.grammar.nouns import matches
from transduce.demo.grammar.words import (
    Adjective,
    Determiner,
    Manner,
    Name,
    Noun,
    Preposition,
    Pronoun,
    Time,
)

NAMES = (
    *(Name(name, "f") for name in ("Anna", "Maria", "Lisa", "Emma")),
    *(Name(name, "m") for name in ("Paul", "Tom", "Peter", "Jonas")),
)

_MADE = "vehicle vessel furniture machine building opening"
ADJECTIVES = (
    Adjective("old", "alt", f"man woman teacher beast city village tree clothes coin {_MADE}"),
    Adjective("young", "jung", "man woman teacher doctor farmer queen king beast"),
    Adjective("big", "groß", f"beast container thing place height way barrier chamber {_MADE}"),
    Adjective("small", "klein", f"beast container dish thing place barrier child plant {_MADE}"),
    Adjective("new", "neu", f"clothes book teacher student neighbour kitchen {_MADE}"),
    Adjective("good", "gut", "teacher doctor student friend food coffee tea text hotel"),
    Adjective(
        "beautiful", "schön", "house castle garden place horse bird picture plant dress queen"
    ),
    Adjective("red", "rot", "vehicle container clothes lamp door roof apple ball"),
    Adjective("white", "weiß", "horse cat mouse bird rabbit lamb clothes house door"),
    Adjective("black", "schwarz", "dog cat horse bird cow clothes container car"),
    Adjective("green", "grün", "frog snake vehicle clothes container furniture door apple bottle"),
    Adjective("blue", "blau", "vehicle clothes container furniture door flower cup"),
    Adjective("yellow", "gelb", "bus tram clothes flower pear ball"),
    Adjective("brown", "braun", "dog bear horse cow goat furniture clothes egg"),
    Adjective("expensive", "teuer", "car furniture machine clothes picture hotel", stem="teur"),
    Adjective("round", "rund", "table mirror carpet box window stone tower"),
    Adjective("broken", "kaputt", "car bicycle machine window chair dish"),
    Adjective("clean", "sauber", "dish clothes towel room window street"),
    Adjective("dirty", "schmutzig", "dish clothes towel dog pig room window street"),
    Adjective("wet", "nass", "dog cat clothes towel street meadow roof"),
    Adjective("dry", "trocken", "bread cake towel clothes meadow"),
    Adjective("warm", "warm", "clothes blanket room milk bed"),
    Adjective("cold", "kalt", "soup drink room river lake cellar"),
    Adjective("hot", "heiß", "soup coffee tea water"),
    Adjective("fresh", "frisch", "food milk water grass"),
    Adjective("ripe", "reif", "apple pear"),
    Adjective("sweet", "süß", "apple pear cake tea"),
    Adjective("sour", "sauer", "apple milk", stem="saur"),
    Adjective("salty", "salzig", "soup cheese sausage meat water"),
    Adjective("long", "lang", "letter poem train dress coat snake street bridge river tunnel"),
    Adjective("short", "kurz", "letter poem dress coat tunnel"),
    Adjective("wide", "breit", "street river bed bench stream ditch"),
    Adjective("narrow", "schmal", "street bridge bed stream shelf"),
    Adjective("high", "hoch", "mountain tower wall hedge fence", stem="hoh"),
    Adjective("low", "niedrig", "wall fence roof table tunnel"),
    Adjective("steep", "steil", "street mountain roof"),
    Adjective("deep", "tief", "river lake hole ditch"),
    Adjective("thick", "dick", "book carpet blanket coat wall tree"),
    Adjective("thin", "dünn", "blanket coat wall book"),
    Adjective("heavy", "schwer", "container furniture stone carpet"),
    Adjective("light", "leicht", "container chair coat ball"),
    Adjective("hard", "hart", "bread egg bed bench stone nut"),
    Adjective("soft", "weich", "bed sofa blanket egg bread ball"),
    Adjective("full", "voll", "container dish bus train hotel"),
    Adjective("empty", "leer", "container dish cupboard house room bus"),
    Adjective("dark", "dunkel", "room cave forest tunnel house", stem="dunkl"),
    Adjective("loud", "laut", "machine street child dog"),
    Adjective("quiet", "leise", "radio clock", stem="leis"),
    Adjective("fast", "schnell", "vehicle ship horse dog"),
    Adjective("slow", "langsam", "vehicle ferry donkey turtle"),
    Adjective("weak", "schwach", "lamb calf man"),
    Adjective("fat", "dick", "pig cat goose dog"),
    Adjective("tired", "müde", "man woman child person beast", stem="müd"),
    Adjective("sick", "krank", "person beast"),
    Adjective("hungry", "hungrig", "person beast"),
    Adjective("thirsty", "durstig", "horse dog child camel"),
    Adjective("happy", "glücklich", "person"),
    Adjective("sad", "traurig", "person"),
    Adjective("angry", "wütend", "person dog bear goose"),
    Adjective("brave", "mutig", "person lion"),
    Adjective("clever", "klug", "person fox monkey owl"),
    Adjective("lazy", "faul", "student boy cat donkey"),
    Adjective("rich", "reich", "man woman king queen farmer"),
    Adjective("shy", "scheu"),
)

PRONOUNS = (
    Pronoun("I", "me", "ich", "mich", "mir", 1, False),
    Pronoun("you", "you", "du", "dich", "dir", 2, False),
    Pronoun("he", "him", "er", "ihn", "ihm", 3, False),
    Pronoun("she", "her", "sie", "sie", "ihr", 3, False),
    Pronoun("we", "us", "wir", "uns", "uns", 1, True),
    Pronoun("they", "them", "sie", "sie", "ihnen", 3, True),
)
IT = {
    "m": Pronoun("it", "it", "er", "ihn", "ihm", 3, False),
    "f": Pronoun("it", "it", "sie", "sie", "ihr", 3, False),
    "n": Pronoun("it", "it", "es", "es", "ihm", 3, False),
}

THE = Determiner("the", "the", "", "der")
THIS = Determiner("this", "these", "dies", "dieser")
A = Determiner("a", "", "ein", "ein")
NO = Determiner("no", "no", "kein", "ein")
BARE = Determiner("", "", "", "bare")
POSSESSIVES = (
    Determiner("my", "my", "mein", "ein"),
    Determiner("your", "your", "dein", "ein"),
    Determiner("his", "his", "sein", "ein"),
    Determiner("her", "her", "ihr", "ein"),
    Determiner("our", "our", "unser", "ein"),
    Determiner("their", "their", "ihr", "ein"),
)
NUMBERS = tuple(
    Determiner("", english, german, "bare")
    for english, german in (
        *(("two", "zwei"), ("three", "drei"), ("four", "vier"), ("five", "fünf")),
        *(("six", "sechs"), ("seven", "sieben"), ("ten", "zehn"), ("twelve", "zwölf")),
    )
)

WHERE = (
    Preposition("in", "in", "dative", "garden park forest village city cave building chamber"),
    Preposition("in", "auf", "dative", "meadow field"),
    Preposition("on", "auf", "dative", "street bridge square island roof"),
    Preposition("by", "an", "dative", "lake river stream"),
    Preposition("behind", "hinter", "dative", "building tree gate"),
    Preposition("under", "unter", "dative", "tree bridge"),
    Preposition("in front of", "vor", "dative", "building gate"),
    Preposition("next to", "neben", "dative", "building tree gate"),
)
WHITHER = (
    Preposition(
        *("into", "in", "accusative"),
        "garden park forest city cave house church castle barn stable tent chamber",
    ),
    Preposition("to", "zu", "dative", "building park river bridge village lake tree"),
    Preposition("through", "durch", "accusative", "park forest city village garden tunnel"),
    Preposition("across", "über", "accusative", "street bridge square field meadow"),
    Preposition("out of", "aus", "dative", "building chamber forest cave tunnel"),
)
WITH = Preposition("with", "mit", "dative", "person kin")
FOR = Preposition("for", "für", "accusative", "person kin")

YESTERDAY = (
    Time("yesterday", "gestern"),
    Time("last week", "letzte Woche"),
    Time("last night", "gestern Abend"),
)
TODAY = Time("today", "heute")
NOW = Time("now", "jetzt")
LATER = (TODAY, Time("tomorrow", "morgen"), Time("next week", "nächste Woche"))
HABITS = (
    Time("every day", "jeden Tag"),
    Time("every morning", "jeden Morgen"),
    Time("every evening", "jeden Abend"),
)
MANNERS = {
    each.english: each
    for each in (
        *(Manner("slowly", "langsam"), Manner("quickly", "schnell")),
        *(Manner("loudly", "laut"), Manner("quietly", "leise")),
        *(Manner("carefully", "vorsichtig"), Manner("well", "gut")),
        *(Manner("alone", "allein"), Manner("again", "wieder")),
    )
}


@cache
def adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may stand before a noun."""
    return tuple(adjective for adjective in ADJECTIVES if matches(noun, adjective.says_of))


@cache
def adjective(english: str) -> Adjective:
    """The adjective by its English word."""
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)
