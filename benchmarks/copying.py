"""Copying of identifiers, addresses and numbers with and without `tokenizer.protect`.

    .venv/bin/python benchmarks/copying.py

Trains two small models on the same generated corpus: English sentences of technical documentation
with German translations, full of random identifiers, options, addresses and numbers. No identifier
of the test set occurs in training. The models differ only in `tokenizer.protect`; `transduce
evaluate` scores both. Writes benchmarks/results/copying/record.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from record import header, write

PATTERNS = ("code", "url", "number", "capitals")
TEST_PAIRS, VALIDATION_PAIRS = 400, 100
SYLLABLES = [c + v for c in "bcdfghklmnprstvw" for v in "aeiou"] + ["str", "ing", "con", "lim"]
NOUNS = [
    *(("table", "die Tabelle"), ("file", "die Datei"), ("user", "der Benutzer")),
    *(("server", "der Server"), ("value", "der Wert"), ("client", "der Client")),
    *(("password", "das Passwort"), ("folder", "der Ordner"), ("query", "die Abfrage")),
    *(("index", "der Index"), ("network", "das Netzwerk"), ("key", "der Schlüssel")),
    *(("column", "die Spalte"), ("buffer", "der Puffer"), ("page", "die Seite")),
    *(("version", "die Version"), ("program", "das Programm"), ("error", "der Fehler")),
]
ADJECTIVES = [
    *(("large", "groß"), ("empty", "leer"), ("old", "alt"), ("new", "neu"), ("slow", "langsam")),
    *(("secure", "sicher"), ("valid", "gültig"), ("missing", "verschwunden"), ("full", "voll")),
    *(("locked", "gesperrt"), ("active", "aktiv"), ("ready", "bereit"), ("free", "frei")),
]
# C: identifier, K: capitals, U: address, N: number, X, Y: nouns, A: adjective.
TEMPLATES = [
    ("Set C to N if the X is A.", "Setzen Sie C auf N, wenn Y A ist."),
    ("The statement K K [limit C] shows the X.", "Y steht in der Ausgabe von K K [limit C]."),
    ("The option C replaces C since N.", "Die Option C ersetzt seit N C."),
    ("See U for the X and C.", "Siehe U (das Thema: Y) und C."),
    ("If C is larger than N, the X is A.", "Wenn C größer als N ist, ist Y A."),
    ("Call C before C, or the X is A.", "Rufen Sie C vor C auf, sonst ist Y A."),
    ("K returns N when C is A.", "K gibt N zurück, wenn C A ist."),
    ("Copy C and C from U.", "Kopieren Sie C und C von U."),
    ("The X in C has at most N rows.", "Höchstens N Zeilen hat Y in C."),
    ("By default, C uses N of memory.", "Standardmäßig verwendet C N Speicher."),
    ("Write K in front of C, K, C and N.", "Schreiben Sie K vor C, K, C und N."),
    ("The X is A.", "Es gilt: Y ist A."),
    ("You can ask U why the X is A.", "Sie können U fragen, warum Y A ist."),
]


def span_generators(random: Random) -> dict[str, Callable[[], str]]:
    """Map each letter of the templates to a function that generates a span to copy."""

    def word(parts: int = 2) -> str:
        return "".join(random.choices(SYLLABLES, k=random.randint(1, parts) + 1))

    def code() -> str:
        snake = "_".join(word() for _ in range(random.randint(2, 3)))
        camel = word() + word().capitalize()
        return random.choice(
            [
                *(snake, snake, camel, f"{snake}()", f"{word()}{random.randint(2, 99)}"),
                *(f"{word()}.{word()}", f"--{word()}-{word()}", f"/{word()}/{word()}.{word(1)}"),
            ]
        )

    def number() -> str:
        value = str(random.randint(2, 10 ** random.randint(2, 6)))
        return value + random.choice(["", "", "", " MB", " GB", " ms"])

    return {
        "C": code,
        "K": lambda: word().upper(),
        "U": lambda: f"https://{word()}.{word(1)}.org/{word()}/{word()}",
        "N": number,
    }


def generate_pairs(count: int, random: Random, seen: set[str]) -> list[tuple[str, str]]:
    """Generate sentence pairs without the identifiers in `seen`, and add theirs to it."""
    generated: list[tuple[str, str]] = []
    draw = span_generators(random)
    new: set[str] = set()
    while len(generated) < count:
        source, target = (text.rstrip(".").split(" ") for text in random.choice(TEMPLATES))
        noun, adjective = random.choice(NOUNS), random.choice(ADJECTIVES)
        fills = [
            (letter, draw[letter]())
            for token in source
            if (letter := strip_punctuation(token)) in draw
        ]
        copies = {text for letter, text in fills if letter != "N"}
        if copies & seen:
            continue
        new |= copies
        words = {"X": noun[0], "Y": noun[1]}
        sides = [
            fill(side, fills, {**words, "A": adjective[number]})
            for number, side in enumerate((source, target))
        ]
        generated.append((sides[0], sides[1]))
    seen |= new
    return generated


def strip_punctuation(token: str) -> str:
    """Strip the punctuation of a template's token."""
    return token.strip("[],.")


def fill(tokens: Sequence[str], fills: Sequence[tuple[str, str]], words: dict[str, str]) -> str:
    """Replace the letters of a template; copied spans in order."""
    remaining = list(fills)
    filled: list[str] = []
    for token in tokens:
        letter = strip_punctuation(token)
        text = words.get(letter, letter)
        if match := next((span for span in remaining if span[0] == letter), None):
            remaining.remove(match)
            text = match[1]
        filled.append(token.replace(letter, text) if letter else token)
    return " ".join(filled) + "."


def run_transduce(*command: object) -> str:
    """Run transduce and return its standard output."""
    line = [sys.executable, "-m", "transduce", *map(str, command)]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure(folder: Path, *, protect: Sequence[str], updates: int) -> dict[str, object]:
    """Train a model and score it on the test set."""
    files = {
        f"data.{name}": [str(folder / f"{name}.{side}") for side in ("en", "de")]
        for name in ("train", "validation")
    }
    settings = {
        **files,
        **{"tokenizer.vocab_size": 1000, "tokenizer.protect": list(protect)},
        **{"model.preset": "tiny", "model.encoder_layers": 2, "model.decoder_layers": 2},
        **{"model.dropout": 0.1, "batch.tokens": 2000, "train.updates": updates},
        **{"train.validate_every": updates, "train.warmup": 50, "train.average_checkpoints": 1},
    }
    out = folder / ("protected" if protect else "plain")
    changes = [
        part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")
    ]
    run_transduce("train", "tiny", "--out", out, *changes)
    test = ("--source", folder / "test.en", "--target", folder / "test.de", "--language", "de")
    scores = json.loads(run_transduce("evaluate", out, *test, "--json"))
    return {
        "protect": list(protect),
        "updates": updates,
        "scores": {score["name"]: round(score["value"], 2) for score in scores},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=12_000, help="training pairs")
    parser.add_argument("--updates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random = Random(arguments.seed)
    sizes = {"train": arguments.pairs, "validation": VALIDATION_PAIRS, "test": TEST_PAIRS}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        seen: set[str] = set()
        for name, count in sizes.items():
            generated = generate_pairs(count, random, seen)
            for side, ending in enumerate(("en", "de")):
                text = "".join(f"{pair[side]}\n" for pair in generated)
                (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")
        models = [
            measure(folder, protect=patterns, updates=arguments.updates)
            for patterns in (PATTERNS, ())
        ]
        record = {
            **header(
                f"benchmarks/copying.py --pairs {arguments.pairs} --updates {arguments.updates}"
            ),
            "corpus": {**sizes, "seed": arguments.seed},
            "models": models,
        }
        print(write("copying", record, hide={scratch: "FOLDER"}))


if __name__ == "__main__":
    main()
