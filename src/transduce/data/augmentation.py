"""Rough text for training: capitals, typing errors, stray spaces, emoji, no final punctuation.

A corpus is cleaner than what people type. Some of its sentences are varied each time they are used,
so that the model has seen a headline, a heading and a slip of the fingers. The usual rates of upper
case, title case, typing errors and missing punctuation are those of Firefox Translations
(OpusTrainer): .07, .05, .05 and .2.
"""

import re
from collections.abc import Callable
from random import Random

from transduce.data.config import AugmentConfig
from transduce.data.corpus import Pair

Variation = Callable[[Pair, Random], Pair]

_TYPING_ERRORS = 0.1  # share of the words that get an error

_END_PUNCTUATION = (".。．।۔։።", "!！՜", "?？؟;", ":：", ",，、،", ";；؛", "…")
"""By kind, in several scripts; an ellipsis of full stops stays."""
_ENDS = frozenset("".join(_END_PUNCTUATION))

_EMOJI = "😀😂😊😉😍😢😎🙂🤔👍🙏🎉❤🔥"


def vary(pair: Pair, config: AugmentConfig, rng: Random) -> Pair:
    """Vary a pair of sentences at random; most stay as they are.

    >>> vary(Pair("A dog.", "Ein Hund."), AugmentConfig(upper_case=1.0), Random(0))
    Pair(source='A DOG.', target='EIN HUND.')
    """
    for variation in draw_variations(config, rng):
        pair = variation(pair, rng)
    return pair


def draw_variations(config: AugmentConfig, rng: Random) -> list[Variation]:
    """Draw what happens to a pair: mostly nothing; of upper and title case at most one."""
    case, error, end, space, emoji = (rng.random() for _ in range(5))
    variations: list[Variation] = []
    if error < config.typing_errors:
        variations.append(
            lambda pair, rng: pair._replace(source=with_typing_errors(pair.source, rng))
        )
    if end < config.no_end_punctuation:
        variations.append(_without_end_punctuation)
    if case < config.upper_case:
        variations.append(lambda pair, rng: Pair(pair.source.upper(), pair.target.upper()))
    elif case < config.upper_case + config.title_case:
        variations.append(lambda pair, rng: Pair(*map(title_case, pair)))
    if space < config.stray_spaces:
        variations.append(
            lambda pair, rng: pair._replace(source=with_stray_space(pair.source, rng))
        )
    if emoji < config.emoji:
        variations.append(_with_emoji)
    return variations


def title_case(text: str) -> str:
    """Begin every word with a capital.

    >>> title_case("a dog's life")
    "A Dog's Life"
    """
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


def with_typing_errors(text: str, rng: Random) -> str:
    """Swap, leave out or double a letter in a word of ten, and in one at least.

    Words below three letters, numbers and symbols stay.

    >>> with_typing_errors("the weather is nice", Random(1))
    'te weather is nice'
    """
    words = text.split(" ")
    eligible = [index for index, word in enumerate(words) if len(word) > 2 and word.isalpha()]
    count = min(len(eligible), max(1, round(len(words) * _TYPING_ERRORS)))
    for index in rng.sample(eligible, count):
        word = words[index]
        position = rng.randrange(1, len(word) - 1)  # the first letter is rarely wrong
        before, letter, after = word[:position], word[position], word[position + 1 :]
        words[index] = rng.choice(
            (
                f"{before}{after[0]}{letter}{after[1:]}",
                f"{before}{after}",
                f"{before}{letter}{letter}{after}",
            )
        )
    return " ".join(words)


def with_stray_space(text: str, rng: Random) -> str:
    """Double a space, leave one out, or put one before a punctuation mark.

    >>> with_stray_space("wait, the door is open.", Random(3))
    'wait,the door is open.'
    """
    positions = [match.start() for match in re.finditer(r"(?<=\S)(?: (?=\S)|[.,;:!?])", text)]
    if not positions:
        return text
    position = rng.choice(positions)
    space = rng.choice(("", "  ")) if text[position] == " " else " "
    return text[:position] + space + text[position:].removeprefix(" ")


def _with_emoji(pair: Pair, rng: Random) -> Pair:
    emoji = rng.choice(_EMOJI)
    return Pair(*(f"{side} {emoji}" for side in pair))


def _without_end_punctuation(pair: Pair, _: Random) -> Pair:
    """Leave out the last character of both sides, if it is punctuation of the same kind."""
    (source, before), (target, other) = ((side[-1:], side[:-1].rstrip()) for side in pair)
    alike = any(source in kind and target in kind for kind in _END_PUNCTUATION)
    if alike and before and other and _ENDS.isdisjoint((before[-1], other[-1])):
        return Pair(before, other)
    return pair
