"""The demo's files: six of them, made of distinct sentences, the same for the same seed."""

from pathlib import Path
from random import Random

from transduce.demo.sentences import sentence
from transduce.text.corpus import Pair


def write_corpus(folder: Path, *, pairs: int = 30_000, held_out: int = 500, seed: int = 1) -> None:
    """Write train, validation and test as `.en` and `.de` files of one sentence a line.

    The sets share no source sentence, and no target sentence with the training set, so that a held
    out sentence is not a known one with "didn't" for "did not". Every source has one target.

    Args:
        folder: made if it is missing; files of these names in it are replaced.
        pairs: sentences of the training set.
        held_out: sentences of the validation set, and as many of the test set.
        seed: what is drawn; the same seed writes the same files.

    Raises:
        ValueError: if `pairs` or `held_out` is below 1.
    """
    for name, count in (("pairs", pairs), ("held_out", held_out)):
        if count < 1:
            raise ValueError(f"{name} must be at least 1, not {count}")
    folder.mkdir(parents=True, exist_ok=True)
    rng = Random(seed)
    translations: dict[str, str] = {}
    sets = {
        "test": _draw(rng, held_out, translations=translations),
        "validation": _draw(rng, held_out, translations=translations),
    }
    kept_back = frozenset(translations.values())
    sets["train"] = _draw(rng, pairs, translations=translations, kept_back=kept_back)
    for name, sentences in sets.items():
        for side, suffix in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in sentences)
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8", newline="\n")


def _draw(
    rng: Random,
    count: int,
    *,
    translations: dict[str, str],
    kept_back: frozenset[str] = frozenset(),
) -> list[Pair]:
    """New pairs; `translations` remembers what was drawn."""
    drawn: list[Pair] = []
    while len(drawn) < count:
        pair = sentence(rng)
        known = translations.get(pair.source)
        assert known in (None, pair.target), f"{pair.source}: {known} or {pair.target}?"
        if known is None and pair.target not in kept_back:
            translations[pair.source] = pair.target
            drawn.append(pair)
    return drawn
