"""Whole texts through the batchers: taken apart, translated, put together.

All sentences of a request go to a batcher in one call, so it is accepted or refused as a whole. A
text's k-th alternative joins the k-th best of each of its sentences, or the best where a sentence
has fewer; so the alternatives of one sentence are the n-best.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from transduce.documents.markup import Apart, Markup, Said, put_together, take_apart
from transduce.serve.detect import Detected
from transduce.serve.directions import AUTO, Direction, Directions
from transduce.serve.job import Answer, How, Sentence
from transduce.serve.refusal import Refusal

T = TypeVar("T")

WIDEST = 20
"""Translations of a sentence, and hypotheses followed for it, that a client can have at most."""

LONG = 5000
"""Characters from which taking apart is left to a thread, so that nobody else waits for it."""

NOTHING = Detected("en", 0.0)
"""The language of a text without words; LibreTranslate says so of emoji."""


class Told(NamedTuple):
    """What became of a text."""

    text: str
    others: tuple[str, ...] = ()
    """The next best, each different from all before it."""
    lost: tuple[str, ...] = ()
    """What of its tags, placeholders and URLs did not come out whole."""
    apart: Apart | None = None
    answers: tuple[Answer, ...] = ()
    """For each part that was asked for."""

    @property
    def whole(self) -> list[Answer]:
        """The answers to sentences that were asked whole, without those to the runs in them."""
        found: list[Answer] = []
        done = 0
        for part in self.apart.parts if self.apart else ():
            asked = 0 if isinstance(part, str) else len(part.asks())
            found += self.answers[done : done + min(asked, 1)]
            done += asked
        return found


class Translated(NamedTuple):
    """A text of a request."""

    told: Told
    source: str
    """Code of its language."""
    detected: Detected | None
    """None where the client said the language."""


async def tell(
    direction: Direction,
    texts: Sequence[str],
    *,
    markup: Markup,
    how: How,
    prefix: str = "",
    align: bool = False,
) -> list[Told]:
    """Translate texts in one direction.

    Args:
        direction: who translates.
        texts: any text; what is no sentence comes back as it is.
        markup: what in it is to stay whole.
        how: what is wanted of each sentence.
        prefix: what the translation of the first sentence of each begins with.
        align: whether the alignment of every sentence is wanted.

    Raises:
        Refusal: 429 if the queue is full, 503 at the end, 400 for what cannot be asked.
    """
    size = sum(map(len, texts))
    aparts = await _aside(size, lambda: [take_apart(text, markup) for text in texts])
    asked = [
        Sentence(ask.text, prefix=prefix if number == 0 else "", align=align or ask.align)
        for apart in aparts
        for number, ask in enumerate(apart.ask)
    ]
    try:
        found = iter(await direction.batcher.translate(asked, how) if asked else ())
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {error}") from None
    answers = [tuple(islice(found, len(apart.ask))) for apart in aparts]
    return await _aside(size, lambda: list(map(_told, aparts, answers)))


async def _aside(size: int, work: Callable[[], T]) -> T:
    """Do what takes long for a long text elsewhere than in the loop."""
    return work() if size < LONG else await asyncio.to_thread(work)


async def translated(
    directions: Directions,
    texts: Sequence[str],
    *,
    source: str,
    target: str,
    markup: Markup,
    how: How,
) -> list[Translated]:
    """Translate texts, each from the language that was said, or from its own if that is "auto".

    A text that is in the target language already, or has no words, comes back as it is.

    Raises:
        Refusal: for a language or direction that is not loaded, and as `tell`.
    """
    check_target(directions, target)
    auto = source.lower() == AUTO
    detected = [await guess(directions, text) if auto else None for text in texts]
    ways: dict[str, tuple[Direction, list[int]]] = {}
    told = [Told(text) for text in texts]
    for number, found in enumerate(detected):
        if found is NOTHING:
            continue
        language = found.language if found else source
        if same(language, target):
            continue
        direction = directions.find(language, target)
        ways.setdefault(direction.name, (direction, []))[1].append(number)
    for direction, numbers in ways.values():
        some = await tell(direction, [texts[n] for n in numbers], markup=markup, how=how)
        for number, one in zip(numbers, some, strict=True):
            told[number] = one
    return [
        Translated(one, found.language if found else source, found)
        for one, found in zip(told, detected, strict=True)
    ]


def check_target(directions: Directions, code: str) -> None:
    """Refuse a language that is not loaded.

    Raises:
        Refusal: 400, in LibreTranslate's words.
    """
    if is_loaded(directions, code):
        return
    refusal: Refusal | None = None
    for language in directions.sources():
        try:
            directions.find(language.code, code)  # it knows other names of languages
        except Refusal as found:
            refusal = found
        else:
            return
    assert refusal is not None
    raise refusal


def is_loaded(directions: Directions, code: str) -> bool:
    """Whether a loaded direction has that language on either side."""
    return any(same(code, way.target.code) or same(code, way.source.code) for way in directions.all)


def same(one: str, other: str) -> bool:
    """Whether two codes mean the same language."""
    return one.lower() == other.lower()


def how_many(direction_beam: int, alternatives: int, beam: int | None) -> How:
    """What to ask of a sentence so that it has so many alternatives, as far as the widest goes."""
    nbest = min(alternatives + 1, WIDEST)
    own = direction_beam if beam is None else beam
    return How(beam=beam if nbest <= own else nbest, nbest=nbest)


async def guesses(directions: Directions, text: str) -> Sequence[Detected]:
    """The languages that a text may be in, likeliest first; detectors are slow, so in a thread."""
    if len(directions.sources()) == 1:
        return directions.detector.detect(text)
    return await asyncio.to_thread(directions.detector.detect, text)


async def guess(directions: Directions, text: str) -> Detected:
    """The language that a text is in; `NOTHING` for one without words."""
    if not any(map(str.isalnum, text)):
        return NOTHING
    return (await guesses(directions, text))[0]


def _told(apart: Apart, answers: tuple[Answer, ...]) -> Told:
    best = put_together(
        apart, [Said(answer.translation.text, answer.alignment) for answer in answers]
    )
    most = max((len(answer.translation.others) for answer in answers), default=0)
    others: dict[str, None] = {}
    for k in range(most):
        others[put_together(apart, [Said(_nth(answer, k)) for answer in answers]).text] = None
    others.pop(best.text, None)
    return Told(best.text, tuple(others), best.lost, apart, answers)


def _nth(answer: Answer, k: int) -> str:
    others = answer.translation.others
    return others[k].text if k < len(others) else answer.translation.text
