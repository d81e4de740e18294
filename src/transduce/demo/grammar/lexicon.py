"""The words of the demo: classes for parts of speech, and tables with one line per word.

A noun has a kind; verbs, adjectives and prepositions name the kinds or nouns they go with. Words
compare by identity, since equal spellings may differ: animals that "eat" are *fressen*. To add a
word, add its line.
"""

from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Literal

Gender = Literal["m", "f", "n"]
Case = Literal["nominative", "accusative", "dative"]
Aspect = Literal["action", "event", "perception", "state", "copula"]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages; without a plural it is a mass noun."""

    english: str
    english_plural: str
    gender: Gender
    german: str
    german_plural: str
    kind: str
    weak: str = ""
    """Accusative and dative singular, if different from the nominative."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name: no article, no endings."""

    text: str
    gender: Gender


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    english: str
    german: str
    nouns: str = ""
    """Kinds and English nouns that it may modify; empty: only after "to be"."""

    stem: str = ""
    """Inflectional stem, if different from the word (teuer, teur-)."""


@dataclass(frozen=True, slots=True, eq=False)
class Conjugation:
    """A German verb: present (ich du er wir), first person of the Präteritum, participle."""

    present: str
    past: str
    participle: str
    infinitive: str = ""
    """If different from the form of *wir*: only *sein*."""


def weak(stem: str, *, prefix: str = "", participle: str = "") -> Conjugation:
    """Conjugate a weak verb from its stem.

    >>> weak("mach", prefix="auf")
    Conjugation(present='mache machst macht machen', past='machte', participle='aufgemacht', \
infinitive='')
    >>> weak("zeichn").present, weak("zeichn").past, weak("tanz").present
    ('zeichne zeichnest zeichnet zeichnen', 'zeichnete', 'tanze tanzt tanzt tanzen')

    Args:
        stem: the infinitive without -en.
        prefix: separable prefix.
        participle: if not formed with ge- and -t: *repariert*, *verkauft*.
    """
    e = "e" if stem.endswith(("t", "d", "fn", "gn", "chn")) else ""
    du = "" if stem.endswith(("s", "ß", "z", "x")) else "s"
    return Conjugation(
        present=f"{stem}e {stem}{e}{du}t {stem}{e}t {stem}en",
        past=f"{stem}{e}te",
        participle=participle or f"{prefix}ge{stem}{e}t",
    )


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages with its complements."""

    english: str
    """Base, third person, past, participle, -ing."""

    german: Conjugation
    _: KW_ONLY
    particle: str = ""
    """Particle after every English form: *up*, *for*."""

    prefix: str = ""
    """Separable prefix; the participle already includes it."""

    auxiliary: Literal["haben", "sein"] = "haben"
    aspect: Aspect = "action"
    subjects: str = "person kin"
    objects: str = ""
    case: Case = "accusative"
    preposition: str = ""
    """The German preposition of the object (warten *auf*)."""

    receivers: str = ""
    """Recipients, a dative before the object."""

    where: str = ""
    """Nouns in, on or near which it may take place."""

    motion: bool = False
    """Whether it needs a direction: into, through, across."""

    needs_place: bool = False
    """Whether the place is obligatory."""

    partner: Literal["", "with", "for"] = ""
    """Whether it may be done with or for someone."""

    manner: str = ""
    """Fitting adverbs of manner."""

    pronouns: bool = False
    """Whether the object may be a personal pronoun."""

    indefinite: Literal["no", "one", "any"] = "any"
    """Whether the object may be "a door" (one), or also "doors" and "two doors" (any)."""

    because: str = ""
    """Adjectives that are a reason for doing it."""

    because_not: str = "tired sick lazy"
    """Adjectives that are a reason for not doing it."""

    habit: bool = True
    """Whether it can be a daily habit."""


@dataclass(frozen=True, slots=True, eq=False)
class Preposition:
    """A preposition of place in both languages, with its case and fitting nouns."""

    english: str
    german: str
    case: Case
    nouns: str


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun: subject and object in English, three cases in German."""

    subject: str
    object: str
    nominative: str
    accusative: str
    dative: str
    person: Literal[1, 2, 3]
    plural: bool


@dataclass(frozen=True, slots=True, eq=False)
class Determiner:
    """A determiner; the pattern selects its declension and that of adjectives."""

    english: str
    english_plural: str
    german: str
    pattern: Literal["der", "dieser", "ein", "bare"]


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """An adverb of time."""

    english: str
    german: str


@dataclass(frozen=True, slots=True, eq=False)
class Manner:
    """An adverb of manner."""

    english: str
    german: str


NOUNS = (
    Noun("man", "men", "m", "Mann", "Männer", "person"),
    Noun("woman", "women", "f", "Frau", "Frauen", "person"),
    Noun("child", "children", "n", "Kind", "Kinder", "person"),
    Noun("boy", "boys", "m", "Junge", "Jungen", "person", weak="Jungen"),
    Noun("girl", "girls", "n", "Mädchen", "Mädchen", "person"),
    Noun("teacher", "teachers", "m", "Lehrer", "Lehrer", "person"),
    Noun("student", "students", "m", "Student", "Studenten", "person", weak="Studenten"),
    Noun("doctor", "doctors", "m", "Arzt", "Ärzte", "person"),
    Noun("neighbour", "neighbours", "m", "Nachbar", "Nachbarn", "person", weak="Nachbarn"),
    Noun("farmer", "farmers", "m", "Bauer", "Bauern", "person", weak="Bauern"),
    Noun("king", "kings", "m", "König", "Könige", "person"),
    Noun("queen", "queens", "f", "Königin", "Königinnen", "person"),
    Noun("princess", "princesses", "f", "Prinzessin", "Prinzessinnen", "person"),
    Noun("aunt", "aunts", "f", "Tante", "Tanten", "kin"),
    Noun("uncle", "uncles", "m", "Onkel", "Onkel", "kin"),
    Noun("friend", "friends", "m", "Freund", "Freunde", "kin"),
    Noun("mother", "", "f", "Mutter", "", "kin"),
    Noun("father", "", "m", "Vater", "", "kin"),
    Noun("sister", "sisters", "f", "Schwester", "Schwestern", "kin"),
    Noun("brother", "brothers", "m", "Bruder", "Brüder", "kin"),
    Noun("daughter", "daughters", "f", "Tochter", "Töchter", "kin"),
    Noun("son", "sons", "m", "Sohn", "Söhne", "kin"),
    Noun("grandmother", "", "f", "Großmutter", "", "kin"),
    # Animals: a third of each gender, as they are the most frequent referents of "it".
    Noun("dog", "dogs", "m", "Hund", "Hunde", "beast"),
    Noun("bird", "birds", "m", "Vogel", "Vögel", "beast"),
    Noun("donkey", "donkeys", "m", "Esel", "Esel", "beast"),
    Noun("bear", "bears", "m", "Bär", "Bären", "beast", weak="Bären"),
    Noun("wolf", "wolves", "m", "Wolf", "Wölfe", "beast"),
    Noun("fox", "foxes", "m", "Fuchs", "Füchse", "beast"),
    Noun("lion", "lions", "m", "Löwe", "Löwen", "beast", weak="Löwen"),
    Noun("monkey", "monkeys", "m", "Affe", "Affen", "beast", weak="Affen"),
    Noun("elephant", "elephants", "m", "Elefant", "Elefanten", "beast", weak="Elefanten"),
    Noun("frog", "frogs", "m", "Frosch", "Frösche", "beast"),
    Noun("cat", "cats", "f", "Katze", "Katzen", "beast"),
    Noun("mouse", "mice", "f", "Maus", "Mäuse", "beast"),
    Noun("cow", "cows", "f", "Kuh", "Kühe", "beast"),
    Noun("goat", "goats", "f", "Ziege", "Ziegen", "beast"),
    Noun("duck", "ducks", "f", "Ente", "Enten", "beast"),
    Noun("goose", "geese", "f", "Gans", "Gänse", "beast"),
    Noun("snake", "snakes", "f", "Schlange", "Schlangen", "beast"),
    Noun("turtle", "turtles", "f", "Schildkröte", "Schildkröten", "beast"),
    Noun("owl", "owls", "f", "Eule", "Eulen", "beast"),
    Noun("giraffe", "giraffes", "f", "Giraffe", "Giraffen", "beast"),
    Noun("horse", "horses", "n", "Pferd", "Pferde", "beast"),
    Noun("pig", "pigs", "n", "Schwein", "Schweine", "beast"),
    Noun("animal", "animals", "n", "Tier", "Tiere", "beast"),
    Noun("rabbit", "rabbits", "n", "Kaninchen", "Kaninchen", "beast"),
    Noun("camel", "camels", "n", "Kamel", "Kamele", "beast"),
    Noun("calf", "calves", "n", "Kalb", "Kälber", "beast"),
    Noun("pony", "ponies", "n", "Pony", "Ponys", "beast"),
    Noun("chicken", "chickens", "n", "Huhn", "Hühner", "beast"),
    Noun("lamb", "lambs", "n", "Lamm", "Lämmer", "beast"),
    Noun("apple", "apples", "m", "Apfel", "Äpfel", "food"),
    Noun("cake", "cakes", "m", "Kuchen", "Kuchen", "food"),
    Noun("egg", "eggs", "n", "Ei", "Eier", "food"),
    Noun("potato", "potatoes", "f", "Kartoffel", "Kartoffeln", "food"),
    Noun("pear", "pears", "f", "Birne", "Birnen", "food"),
    Noun("carrot", "carrots", "f", "Karotte", "Karotten", "food"),
    Noun("nut", "nuts", "f", "Nuss", "Nüsse", "food"),
    Noun("sausage", "sausages", "f", "Wurst", "Würste", "food"),
    Noun("soup", "", "f", "Suppe", "", "food"),
    Noun("bread", "", "n", "Brot", "", "food"),
    Noun("cheese", "", "m", "Käse", "", "food"),
    Noun("meat", "", "n", "Fleisch", "", "food"),
    Noun("grass", "", "n", "Gras", "", "fodder"),
    Noun("milk", "", "f", "Milch", "", "drink"),
    Noun("water", "", "n", "Wasser", "", "drink"),
    Noun("coffee", "", "m", "Kaffee", "", "drink"),
    Noun("tea", "", "m", "Tee", "", "drink"),
    Noun("book", "books", "n", "Buch", "Bücher", "text"),
    Noun("letter", "letters", "m", "Brief", "Briefe", "text"),
    Noun("newspaper", "newspapers", "f", "Zeitung", "Zeitungen", "text"),
    Noun("poem", "poems", "n", "Gedicht", "Gedichte", "text"),
    Noun("car", "cars", "n", "Auto", "Autos", "vehicle"),
    Noun("bicycle", "bicycles", "n", "Fahrrad", "Fahrräder", "vehicle"),
    Noun("train", "trains", "m", "Zug", "Züge", "vehicle"),
    Noun("bus", "buses", "m", "Bus", "Busse", "vehicle"),
    Noun("truck", "trucks", "m", "Lastwagen", "Lastwagen", "vehicle"),
    Noun("tractor", "tractors", "m", "Traktor", "Traktoren", "vehicle"),
    Noun("tram", "trams", "f", "Straßenbahn", "Straßenbahnen", "vehicle"),
    Noun("taxi", "taxis", "n", "Taxi", "Taxis", "vehicle"),
    Noun("carriage", "carriages", "f", "Kutsche", "Kutschen", "vehicle"),
    Noun("sled", "sleds", "m", "Schlitten", "Schlitten", "load"),
    Noun("boat", "boats", "n", "Boot", "Boote", "vessel"),
    Noun("ship", "ships", "n", "Schiff", "Schiffe", "vessel"),
    Noun("ferry", "ferries", "f", "Fähre", "Fähren", "vessel"),
    Noun("bag", "bags", "f", "Tasche", "Taschen", "container"),
    Noun("box", "boxes", "f", "Kiste", "Kisten", "container"),
    Noun("suitcase", "suitcases", "m", "Koffer", "Koffer", "container"),
    Noun("basket", "baskets", "m", "Korb", "Körbe", "container"),
    Noun("table", "tables", "m", "Tisch", "Tische", "furniture"),
    Noun("chair", "chairs", "m", "Stuhl", "Stühle", "furniture"),
    Noun("cupboard", "cupboards", "m", "Schrank", "Schränke", "furniture"),
    Noun("bench", "benches", "f", "Bank", "Bänke", "furniture"),
    Noun("bed", "beds", "n", "Bett", "Betten", "furniture"),
    Noun("sofa", "sofas", "n", "Sofa", "Sofas", "furniture"),
    Noun("shelf", "shelves", "n", "Regal", "Regale", "furniture"),
    Noun("shirt", "shirts", "n", "Hemd", "Hemden", "clothes"),
    Noun("dress", "dresses", "n", "Kleid", "Kleider", "clothes"),
    Noun("coat", "coats", "m", "Mantel", "Mäntel", "clothes"),
    Noun("hat", "hats", "m", "Hut", "Hüte", "clothes"),
    Noun("bottle", "bottles", "f", "Flasche", "Flaschen", "dish"),
    Noun("cup", "cups", "f", "Tasse", "Tassen", "dish"),
    Noun("glass", "glasses", "n", "Glas", "Gläser", "dish"),
    Noun("plate", "plates", "m", "Teller", "Teller", "dish"),
    Noun("lamp", "lamps", "f", "Lampe", "Lampen", "machine"),
    Noun("clock", "clocks", "f", "Uhr", "Uhren", "machine"),
    Noun("radio", "radios", "n", "Radio", "Radios", "machine"),
    Noun("computer", "computers", "m", "Computer", "Computer", "machine"),
    Noun("key", "keys", "m", "Schlüssel", "Schlüssel", "thing"),
    Noun("picture", "pictures", "n", "Bild", "Bilder", "thing"),
    Noun("ball", "balls", "m", "Ball", "Bälle", "thing"),
    Noun("stone", "stones", "m", "Stein", "Steine", "thing"),
    Noun("bone", "bones", "m", "Knochen", "Knochen", "thing"),
    Noun("mirror", "mirrors", "m", "Spiegel", "Spiegel", "thing"),
    Noun("carpet", "carpets", "m", "Teppich", "Teppiche", "thing"),
    Noun("blanket", "blankets", "f", "Decke", "Decken", "thing"),
    Noun("coin", "coins", "f", "Münze", "Münzen", "thing"),
    Noun("bell", "bells", "f", "Glocke", "Glocken", "thing"),
    Noun("towel", "towels", "n", "Handtuch", "Handtücher", "thing"),
    Noun("door", "doors", "f", "Tür", "Türen", "opening"),
    Noun("window", "windows", "n", "Fenster", "Fenster", "opening"),
    Noun("gate", "gates", "n", "Tor", "Tore", "opening"),
    Noun("house", "houses", "n", "Haus", "Häuser", "building"),
    Noun("school", "schools", "f", "Schule", "Schulen", "building"),
    Noun("church", "churches", "f", "Kirche", "Kirchen", "building"),
    Noun("hotel", "hotels", "n", "Hotel", "Hotels", "building"),
    Noun("castle", "castles", "n", "Schloss", "Schlösser", "building"),
    Noun("tower", "towers", "m", "Turm", "Türme", "building"),
    Noun("barn", "barns", "f", "Scheune", "Scheunen", "building"),
    Noun("stable", "stables", "m", "Stall", "Ställe", "building"),
    Noun("tent", "tents", "n", "Zelt", "Zelte", "building"),
    Noun("kitchen", "kitchens", "f", "Küche", "Küchen", "chamber"),
    Noun("room", "rooms", "n", "Zimmer", "Zimmer", "chamber"),
    Noun("office", "offices", "n", "Büro", "Büros", "chamber"),
    Noun("cellar", "cellars", "m", "Keller", "Keller", "chamber"),
    Noun("garden", "gardens", "m", "Garten", "Gärten", "place"),
    Noun("park", "parks", "m", "Park", "Parks", "place"),
    Noun("forest", "forests", "m", "Wald", "Wälder", "place"),
    Noun("village", "villages", "n", "Dorf", "Dörfer", "place"),
    Noun("city", "cities", "f", "Stadt", "Städte", "place"),
    Noun("cave", "caves", "f", "Höhle", "Höhlen", "place"),
    Noun("island", "islands", "f", "Insel", "Inseln", "place"),
    Noun("mountain", "mountains", "m", "Berg", "Berge", "height"),
    Noun("tree", "trees", "m", "Baum", "Bäume", "height"),
    Noun("roof", "roofs", "n", "Dach", "Dächer", "height"),
    Noun("lake", "lakes", "m", "See", "Seen", "way"),
    Noun("river", "rivers", "m", "Fluss", "Flüsse", "way"),
    Noun("stream", "streams", "m", "Bach", "Bäche", "way"),
    Noun("street", "streets", "f", "Straße", "Straßen", "way"),
    Noun("bridge", "bridges", "f", "Brücke", "Brücken", "way"),
    Noun("meadow", "meadows", "f", "Wiese", "Wiesen", "way"),
    Noun("square", "squares", "m", "Platz", "Plätze", "way"),
    Noun("field", "fields", "n", "Feld", "Felder", "way"),
    Noun("tunnel", "tunnels", "m", "Tunnel", "Tunnel", "way"),
    Noun("wall", "walls", "f", "Mauer", "Mauern", "barrier"),
    Noun("hedge", "hedges", "f", "Hecke", "Hecken", "barrier"),
    Noun("fence", "fences", "m", "Zaun", "Zäune", "barrier"),
    Noun("ditch", "ditches", "m", "Graben", "Gräben", "barrier"),
    Noun("hole", "holes", "n", "Loch", "Löcher", "barrier"),
    Noun("puddle", "puddles", "f", "Pfütze", "Pfützen", "barrier"),
    Noun("flower", "flowers", "f", "Blume", "Blumen", "plant"),
)


@cache
def matches(noun: Noun, wanted: str) -> bool:
    """Whether a noun or its kind is among these words."""
    words = wanted.split()
    return noun.english in words or noun.kind in words


@cache
def nouns(wanted: str) -> tuple[Noun, ...]:
    """All nouns among these words or of these kinds.

    >>> [noun.german for noun in nouns("height bus")]
    ['Bus', 'Berg', 'Baum', 'Dach']
    """
    known = {noun.kind for noun in NOUNS} | {noun.english for noun in NOUNS}
    assert known.issuperset(wanted.split()), f"no noun and no kind: {set(wanted.split()) - known}"
    return tuple(noun for noun in NOUNS if matches(noun, wanted))


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
    manner.english: manner
    for manner in (
        *(Manner("slowly", "langsam"), Manner("quickly", "schnell")),
        *(Manner("loudly", "laut"), Manner("quietly", "leise")),
        *(Manner("carefully", "vorsichtig"), Manner("well", "gut")),
        *(Manner("alone", "allein"), Manner("again", "wieder")),
    )
}


@cache
def adjectives(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that may modify a noun."""
    return tuple(adjective for adjective in ADJECTIVES if matches(noun, adjective.nouns))


@cache
def adjective(english: str) -> Adjective:
    """Look up an adjective by its English word."""
    return next(adjective for adjective in ADJECTIVES if adjective.english == english)
