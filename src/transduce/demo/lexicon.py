"""The words of the demo except verbs, as tables: one line a word, with all that its German needs.

A noun brings its gender and both plurals, an adjective what it can be said of. Nothing here is
computed: the rules are in `inflection` and `grammar`, and `sentences` decides what is worth saying.
A word is added by adding its line.
"""

from functools import cache

from transduce.demo.words import Adjective, Determiner, Name, Noun, Preposition, Pronoun, Time

NOUNS = (
    Noun("man", "men", "m", "Mann", "Männer", "person"),
    Noun("woman", "women", "f", "Frau", "Frauen", "person"),
    Noun("child", "children", "n", "Kind", "Kinder", "person"),
    Noun("boy", "boys", "m", "Junge", "Jungen", "person", weak="Jungen"),
    Noun("girl", "girls", "n", "Mädchen", "Mädchen", "person"),
    Noun("teacher", "teachers", "m", "Lehrer", "Lehrer", "person"),
    Noun("student", "students", "m", "Student", "Studenten", "person", weak="Studenten"),
    Noun("aunt", "aunts", "f", "Tante", "Tanten", "kin"),
    Noun("friend", "friends", "m", "Freund", "Freunde", "kin"),
    Noun("mother", "", "f", "Mutter", "", "kin"),
    Noun("father", "", "m", "Vater", "", "kin"),
    Noun("sister", "sisters", "f", "Schwester", "Schwestern", "kin"),
    Noun("brother", "brothers", "m", "Bruder", "Brüder", "kin"),
    Noun("dog", "dogs", "m", "Hund", "Hunde", "animal"),
    Noun("cat", "cats", "f", "Katze", "Katzen", "animal"),
    Noun("horse", "horses", "n", "Pferd", "Pferde", "animal"),
    Noun("bird", "birds", "m", "Vogel", "Vögel", "animal"),
    Noun("mouse", "mice", "f", "Maus", "Mäuse", "animal"),
    Noun("cow", "cows", "f", "Kuh", "Kühe", "animal"),
    Noun("pig", "pigs", "n", "Schwein", "Schweine", "animal"),
    Noun("animal", "animals", "n", "Tier", "Tiere", "animal"),
    Noun("apple", "apples", "m", "Apfel", "Äpfel", "food"),
    Noun("cake", "cakes", "m", "Kuchen", "Kuchen", "food"),
    Noun("egg", "eggs", "n", "Ei", "Eier", "food"),
    Noun("potato", "potatoes", "f", "Kartoffel", "Kartoffeln", "food"),
    Noun("soup", "", "f", "Suppe", "", "food"),
    Noun("bread", "", "n", "Brot", "", "food"),
    Noun("cheese", "", "m", "Käse", "", "food"),
    Noun("milk", "", "f", "Milch", "", "drink"),
    Noun("water", "", "n", "Wasser", "", "drink"),
    Noun("coffee", "", "m", "Kaffee", "", "drink"),
    Noun("book", "books", "n", "Buch", "Bücher", "text"),
    Noun("letter", "letters", "m", "Brief", "Briefe", "text"),
    Noun("newspaper", "newspapers", "f", "Zeitung", "Zeitungen", "text"),
    Noun("car", "cars", "n", "Auto", "Autos", "vehicle"),
    Noun("bicycle", "bicycles", "n", "Fahrrad", "Fahrräder", "vehicle"),
    Noun("train", "trains", "m", "Zug", "Züge", "vehicle"),
    Noun("bus", "buses", "m", "Bus", "Busse", "vehicle"),
    Noun("bag", "bags", "f", "Tasche", "Taschen", "thing"),
    Noun("box", "boxes", "f", "Kiste", "Kisten", "thing"),
    Noun("key", "keys", "m", "Schlüssel", "Schlüssel", "thing"),
    Noun("lamp", "lamps", "f", "Lampe", "Lampen", "thing"),
    Noun("table", "tables", "m", "Tisch", "Tische", "thing"),
    Noun("shirt", "shirts", "n", "Hemd", "Hemden", "thing"),
    Noun("picture", "pictures", "n", "Bild", "Bilder", "thing"),
    Noun("door", "doors", "f", "Tür", "Türen", "opening"),
    Noun("window", "windows", "n", "Fenster", "Fenster", "opening"),
    Noun("house", "houses", "n", "Haus", "Häuser", "building"),
    Noun("school", "schools", "f", "Schule", "Schulen", "building"),
    Noun("kitchen", "kitchens", "f", "Küche", "Küchen", "room"),
    Noun("room", "rooms", "n", "Zimmer", "Zimmer", "room"),
    Noun("garden", "gardens", "m", "Garten", "Gärten", "place"),
    Noun("park", "parks", "m", "Park", "Parks", "place"),
    Noun("forest", "forests", "m", "Wald", "Wälder", "place"),
    Noun("village", "villages", "n", "Dorf", "Dörfer", "place"),
    Noun("city", "cities", "f", "Stadt", "Städte", "place"),
    Noun("street", "streets", "f", "Straße", "Straßen", "way"),
    Noun("bridge", "bridges", "f", "Brücke", "Brücken", "way"),
    Noun("river", "rivers", "m", "Fluss", "Flüsse", "way"),
    Noun("square", "squares", "m", "Platz", "Plätze", "way"),
    Noun("field", "fields", "n", "Feld", "Felder", "way"),
    Noun("tree", "trees", "m", "Baum", "Bäume", "plant"),
)

NAMES = (Name("Anna", "f"), Name("Maria", "f"), Name("Paul", "m"), Name("Tom", "m"))

LIVING = "person animal"
ADJECTIVES = (
    Adjective(
        "old",
        "alt",
        "man woman teacher animal car bicycle thing building village city bridge book tree",
    ),
    Adjective("young", "jung", "man woman teacher animal"),
    Adjective("big", "groß", "animal vehicle thing building room place tree square river field"),
    Adjective("small", "klein", "animal thing house child garden village opening field car cake"),
    Adjective("new", "neu", "car bicycle thing building book bridge teacher student kitchen"),
    Adjective("good", "gut", "teacher student friend food coffee book newspaper"),
    Adjective("beautiful", "schön", "house garden park city village horse bird picture tree"),
    Adjective("red", "rot", "vehicle bag box lamp shirt door apple"),
    Adjective("white", "weiß", "horse cat mouse bird car shirt house door"),
    Adjective("black", "schwarz", "dog cat horse bird cow bag car"),
    Adjective(
        "expensive", "teuer", "car bicycle lamp table shirt picture house cheese", stem="teur"
    ),
    Adjective("cold", "kalt", "soup drink"),
    Adjective("fresh", "frisch", "egg bread milk cheese apple"),
    Adjective("long", "lang", "letter train street bridge river"),
    Adjective("heavy", "schwer", "bag box table"),
    Adjective("tired", "müde", LIVING, stem="müd"),
    Adjective("sick", "krank", LIVING),
    Adjective("hungry", "hungrig", LIVING),
    Adjective("happy", "glücklich", "person"),
    Adjective("sad", "traurig", "person"),
    Adjective("thirsty", "durstig"),
    Adjective("lazy", "faul", "student boy cat"),
    Adjective("weak", "schwach"),
    Adjective("wide", "breit", "street river"),
    Adjective("narrow", "schmal", "street bridge"),
    Adjective("deep", "tief", "river"),
    Adjective("hard", "hart"),
    Adjective("hot", "heiß", "soup coffee"),
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
NUMBERS = (
    Determiner("", "two", "zwei", "bare"),
    Determiner("", "three", "drei", "bare"),
    Determiner("", "four", "vier", "bare"),
    Determiner("", "five", "fünf", "bare"),
    Determiner("", "ten", "zehn", "bare"),
)

WHERE = (
    Preposition("in", "in", "dative", "garden park forest village city house kitchen room school"),
    Preposition("on", "auf", "dative", "street bridge square"),
    Preposition("behind", "hinter", "dative", "house school tree"),
    Preposition("under", "unter", "dative", "tree bridge"),
    Preposition("in front of", "vor", "dative", "house school"),
)
WHITHER = (
    Preposition("into", "in", "accusative", "garden park forest city house kitchen room"),
    Preposition("to", "zu", "dative", "school house park river bridge village"),
    Preposition("through", "durch", "accusative", "park forest city village garden"),
    Preposition("across", "über", "accusative", "street bridge square field"),
    Preposition("out of", "aus", "dative", "house school kitchen forest room"),
)
WITH = Preposition("with", "mit", "dative", "person kin")
FOR = Preposition("for", "für", "accusative", "person kin")

YESTERDAY = (Time("yesterday", "gestern"), Time("last week", "letzte Woche"))
TODAY = Time("today", "heute")
NOW = Time("now", "jetzt")
TOMORROW = Time("tomorrow", "morgen")
HABITS = (Time("every day", "jeden Tag"), Time("every morning", "jeden Morgen"))


@cache
def matches(noun: Noun, wanted: str) -> bool:
    """Whether a noun, or its kind, is among these words."""
    words = wanted.split()
    return noun.english in words or noun.kind in words


@cache
def nouns(wanted: str) -> tuple[Noun, ...]:
    """All nouns that these words name, by kind or by themselves.

    >>> [noun.german for noun in nouns("drink bus")]
    ['Milch', 'Wasser', 'Kaffee', 'Bus']
    """
    known = {noun.kind for noun in NOUNS} | {noun.english for noun in NOUNS}
    assert known.issuperset(wanted.split()), f"no noun and no kind: {set(wanted.split()) - known}"
    return tuple(noun for noun in NOUNS if matches(noun, wanted))


@cache
def adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may stand before a noun."""
    return tuple(adjective for adjective in ADJECTIVES if matches(noun, adjective.says_of))


@cache
def adjective(english: str) -> Adjective:
    """The adjective by its English word."""
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)
