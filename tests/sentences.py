"""English sentences and their German twins, of many lengths, none twice: a corpus to plant in."""

import random
from itertools import product
from pathlib import Path

from transduce.data.corpus import Pair

_WHO = [
    ("the dog", "der Hund"),
    ("my sister", "meine Schwester"),
    ("a young man with a hat", "ein junger Mann mit einem Hut"),
    ("the old teacher of our school", "die alte Lehrerin unserer Schule"),
    ("a child", "ein Kind"),
]
_DOES = [
    ("sees", "sieht"),
    ("is looking for", "sucht"),
    ("has not found", "findet nicht"),
    ("wants to buy", "kauft"),
]
_WHAT = [
    ("the house", "das Haus"),
    ("an apple", "einen Apfel"),
    ("the book that lies on the table", "das Buch, das auf dem Tisch liegt"),
    ("his friends", "seine Freunde"),
    ("the way to the station", "den Weg zum Bahnhof"),
]
_WHEN = [
    ("", ""),
    (" today", " heute"),
    (" in the evening after a long day", " am Abend nach einem langen Tag"),
    (" with her brother", " mit ihrem Bruder"),
    (" for the first time in her life", " zum ersten Mal in ihrem Leben"),
]


def sentences(count: int, *, seed: int = 7) -> list[Pair]:
    """So many distinct pairs, at most 500."""
    pairs = [
        Pair(f"{who[0]} {does[0]} {what[0]}{when[0]}.", f"{who[1]} {does[1]} {what[1]}{when[1]}.")
        for who, does, what, when in product(_WHO, _DOES, _WHAT, _WHEN)
    ]
    random.Random(seed).shuffle(pairs)
    return [
        Pair(source[0].upper() + source[1:], target[0].upper() + target[1:])
        for source, target in pairs[:count]
    ]


def write_sides(folder: Path, name: str, pairs: list[Pair]) -> tuple[Path, Path]:
    """Two files, NAME.en and NAME.de."""
    files = (folder / f"{name}.en", folder / f"{name}.de")
    for file, side in zip(files, zip(*pairs, strict=True), strict=True):
        file.write_bytes("".join(f"{text}\n" for text in side).encode(errors="surrogateescape"))
    return files
