"""The verbs of the demo: forms in both languages, who does it, and to what."""

from functools import cache

from transduce.demo.words import Conjugation, Verb

HABEN = Conjugation("habe hast hat haben", "hatte", "gehabt")
SEIN = Conjugation("bin bist ist sind", "war", "gewesen", infinitive="sein")
WERDEN = Conjugation("werde wirst wird werden", "wurde", "geworden")
KÖNNEN = Conjugation("kann kannst kann können", "konnte", "gekonnt")
MÜSSEN = Conjugation("muss musst muss müssen", "musste", "gemusst")
WOLLEN = Conjugation("will willst will wollen", "wollte", "gewollt")

BE = Verb(english="be is was been being", german=SEIN, auxiliary="sein", aspect="copula")
RAIN = Verb(
    english="rain rains rained rained raining",
    german=Conjugation("regne regnest regnet regnen", "regnete", "geregnet"),
)
CLAUSE_VERBS = (
    Verb(
        english="know knows knew known knowing",
        german=Conjugation("weiß weißt weiß wissen", "wusste", "gewusst"),
        aspect="state",
    ),
    Verb(
        english="say says said said saying",
        german=Conjugation("sage sagst sagt sagen", "sagte", "gesagt"),
        aspect="state",
    ),
    Verb(
        english="think thinks thought thought thinking",
        german=Conjugation("glaube glaubst glaubt glauben", "glaubte", "geglaubt"),
        aspect="state",
    ),
)

VERBS = (
    Verb(
        english="have has had had having",
        german=HABEN,
        aspect="state",
        objects="dog cat horse car bicycle thing book house garden",
    ),
    Verb(
        english="see sees saw seen seeing",
        german=Conjugation("sehe siehst sieht sehen", "sah", "gesehen"),
        aspect="perception",
        subjects="person kin animal",
        objects="person animal kin vehicle house bridge tree",
        pronouns=True,
    ),
    Verb(
        english="like likes liked liked liking",
        german=Conjugation("mag magst mag mögen", "mochte", "gemocht"),
        aspect="state",
        objects="animal person kin house garden city picture book food",
        pronouns=True,
        indefinite="no",
    ),
    Verb(
        english="know knows knew known knowing",
        german=Conjugation("kenne kennst kennt kennen", "kannte", "gekannt"),
        aspect="state",
        objects="person kin city village street",
        pronouns=True,
        indefinite="no",
    ),
    Verb(
        english="look looks looked looked looking",
        particle="for",
        german=Conjugation("suche suchst sucht suchen", "suchte", "gesucht"),
        objects="animal child key bag book bicycle letter",
        pronouns=True,
        because="sad",
        indefinite="one",
        habit=False,
    ),
    Verb(
        english="find finds found found finding",
        german=Conjugation("finde findest findet finden", "fand", "gefunden"),
        aspect="event",
        subjects="person kin animal",
        objects="animal child key bag food letter",
        pronouns=True,
    ),
    Verb(
        english="buy buys bought bought buying",
        german=Conjugation("kaufe kaufst kauft kaufen", "kaufte", "gekauft"),
        objects="car bicycle thing food drink text house horse dog",
        beside="for",
        habit=False,
    ),
    Verb(
        english="sell sells sold sold selling",
        german=Conjugation("verkaufe verkaufst verkauft verkaufen", "verkaufte", "verkauft"),
        objects="car bicycle thing food book newspaper house horse cow pig",
        habit=False,
    ),
    Verb(
        english="read reads read read reading",
        german=Conjugation("lese liest liest lesen", "las", "gelesen"),
        objects="text",
        where="garden park kitchen room school tree",
        because="sick happy",
    ),
    Verb(
        english="write writes wrote written writing",
        german=Conjugation("schreibe schreibst schreibt schreiben", "schrieb", "geschrieben"),
        objects="letter book",
        where="garden kitchen room school tree",
        because="sad happy",
        habit=False,
    ),
    Verb(
        english="eat eats ate eaten eating",
        german=Conjugation("esse isst isst essen", "aß", "gegessen"),
        objects="food",
        where="garden park kitchen school tree",
        because="hungry",
        because_not="sick sad",
    ),
    Verb(
        english="eat eats ate eaten eating",
        german=Conjugation("fresse frisst frisst fressen", "fraß", "gefressen"),
        subjects="animal",
        objects="apple bread potato",
        where="garden forest field tree",
        because_not="",
    ),
    Verb(
        english="drink drinks drank drunk drinking",
        german=Conjugation("trinke trinkst trinkt trinken", "trank", "getrunken"),
        objects="drink",
        where="garden park kitchen tree",
        because="thirsty tired",
        because_not="sick",
    ),
    Verb(
        english="drink drinks drank drunk drinking",
        german=Conjugation("trinke trinkst trinkt trinken", "trank", "getrunken"),
        subjects="animal",
        objects="milk water",
        where="garden forest tree",
        because_not="",
    ),
    Verb(
        english="cook cooks cooked cooked cooking",
        german=Conjugation("koche kochst kocht kochen", "kochte", "gekocht"),
        objects="soup egg potato",
        because="hungry",
        beside="for",
    ),
    Verb(
        english="wash washes washed washed washing",
        german=Conjugation("wasche wäschst wäscht waschen", "wusch", "gewaschen"),
        objects="car bicycle dog horse shirt window apple",
        indefinite="one",
    ),
    Verb(
        english="repair repairs repaired repaired repairing",
        german=Conjugation("repariere reparierst repariert reparieren", "reparierte", "repariert"),
        objects="car bus bicycle lamp table opening",
        indefinite="one",
        habit=False,
    ),
    Verb(
        english="carry carries carried carried carrying",
        german=Conjugation("trage trägst trägt tragen", "trug", "getragen"),
        objects="bag box table child lamp",
        indefinite="one",
    ),
    Verb(
        english="visit visits visited visited visiting",
        german=Conjugation("besuche besuchst besucht besuchen", "besuchte", "besucht"),
        objects="person kin city village school",
        pronouns=True,
        because="sad happy",
        indefinite="one",
    ),
    Verb(
        english="open opens opened opened opening",
        german=Conjugation("mache machst macht machen", "machte", "aufgemacht"),
        prefix="auf",
        objects="opening bag box letter",
        indefinite="one",
    ),
    Verb(
        english="close closes closed closed closing",
        german=Conjugation("mache machst macht machen", "machte", "zugemacht"),
        prefix="zu",
        objects="opening bag box book",
        indefinite="one",
    ),
    Verb(
        english="call calls called called calling",
        german=Conjugation("rufe rufst ruft rufen", "rief", "angerufen"),
        prefix="an",
        objects="person kin",
        pronouns=True,
        because="sad happy sick",
        indefinite="one",
    ),
    Verb(
        english="invite invites invited invited inviting",
        german=Conjugation("lade lädst lädt laden", "lud", "eingeladen"),
        prefix="ein",
        objects="person kin",
        pronouns=True,
        because="happy",
        indefinite="one",
        habit=False,
    ),
    Verb(
        english="clean cleans cleaned cleaned cleaning",
        particle="up",
        german=Conjugation("räume räumst räumt räumen", "räumte", "aufgeräumt"),
        prefix="auf",
        objects="room house",
        indefinite="no",
    ),
    Verb(
        english="help helps helped helped helping",
        german=Conjugation("helfe hilfst hilft helfen", "half", "geholfen"),
        objects="person kin animal",
        case="dative",
        where="garden kitchen school forest street",
        pronouns=True,
        indefinite="one",
    ),
    Verb(
        english="follow follows followed followed following",
        german=Conjugation("folge folgst folgt folgen", "folgte", "gefolgt"),
        auxiliary="sein",
        subjects="person animal",
        objects="person kin animal car",
        case="dative",
        pronouns=True,
        indefinite="one",
    ),
    Verb(
        english="wait waits waited waited waiting",
        particle="for",
        german=Conjugation("warte wartest wartet warten", "wartete", "gewartet"),
        objects="bus train person kin letter",
        preposition="auf",
        pronouns=True,
        indefinite="one",
    ),
    Verb(
        english="give gives gave given giving",
        german=Conjugation("gebe gibst gibt geben", "gab", "gegeben"),
        objects="thing food text",
        receivers="person kin",
    ),
    Verb(
        english="show shows showed shown showing",
        german=Conjugation("zeige zeigst zeigt zeigen", "zeigte", "gezeigt"),
        objects="picture key bag shirt lamp text animal house garden car",
        receivers="person kin",
        habit=False,
    ),
    Verb(
        english="cross crosses crossed crossed crossing",
        german=Conjugation("überquere überquerst überquert überqueren", "überquerte", "überquert"),
        subjects="person animal",
        objects="way",
        indefinite="one",
    ),
    Verb(
        english="sleep sleeps slept slept sleeping",
        german=Conjugation("schlafe schläfst schläft schlafen", "schlief", "geschlafen"),
        subjects="person kin animal",
        where="garden house room forest park tree",
        because="tired",
        because_not="hungry sick sad",
    ),
    Verb(
        english="play plays played played playing",
        german=Conjugation("spiele spielst spielt spielen", "spielte", "gespielt"),
        subjects="child boy girl dog cat student friend",
        where="garden park house school street square tree",
        because="happy",
        beside="with",
        because_not="tired sick sad",
    ),
    Verb(
        english="work works worked worked working",
        german=Conjugation("arbeite arbeitest arbeitet arbeiten", "arbeitete", "gearbeitet"),
        where="garden house kitchen school city village",
        beside="with",
    ),
    Verb(
        english="sing sings sang sung singing",
        german=Conjugation("singe singst singt singen", "sang", "gesungen"),
        subjects="person kin bird",
        where="garden park house school street square tree",
        because="happy",
        beside="with",
        because_not="tired sick sad",
    ),
    Verb(
        english="live lives lived lived living",
        german=Conjugation("wohne wohnst wohnt wohnen", "wohnte", "gewohnt"),
        aspect="state",
        where="city village house",
        needs_place=True,
    ),
    Verb(
        english="go goes went gone going",
        german=Conjugation("gehe gehst geht gehen", "ging", "gegangen"),
        auxiliary="sein",
        subjects="person kin",
        motion=True,
        needs_place=True,
        because="hungry",
        beside="with",
    ),
    Verb(
        english="run runs ran run running",
        german=Conjugation("laufe läufst läuft laufen", "lief", "gelaufen"),
        auxiliary="sein",
        subjects="child boy girl dog cat horse mouse pig",
        motion=True,
        needs_place=True,
    ),
    Verb(
        english="get gets got got getting",
        particle="up",
        german=Conjugation("stehe stehst steht stehen", "stand", "aufgestanden"),
        prefix="auf",
        auxiliary="sein",
        because="hungry thirsty",
    ),
    Verb(
        english="come comes came come coming",
        particle="back",
        german=Conjugation("komme kommst kommt kommen", "kam", "zurückgekommen"),
        prefix="zurück",
        auxiliary="sein",
        because="hungry tired sad",
    ),
)


@cache
def verb(english: str, *, subjects: str = "person") -> Verb:
    """The verb with this English base form whose subjects include a kind."""
    return next(
        verb
        for verb in VERBS
        if verb.english.split()[0] == english and subjects in verb.subjects.split()
    )
