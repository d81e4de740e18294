"""Whole texts and pages: taken apart, translated in one call, put together.

Everything that a text asks for, each sentence and the runs between its placeholders, goes to the
translator at once, so that batches are full; alignments are computed only where tags need them.
"""

from collections.abc import Callable, Sequence

from transduce.documents.markup import (
    Markup,
    RestoredText,
    UnitTranslation,
    restore_text,
    segment_text,
)
from transduce.inference.translation import Translation
from transduce.inference.translator import BATCH_TOKENS, USUAL, Extras, Translator
from transduce.search.config import UNCONSTRAINED, DecodingConstraints


def translate_texts(
    translator: Translator,
    texts: Sequence[str],
    *,
    markup: Markup = "placeholders",
    beam: int | None = None,
    alpha: float | None = None,
    constraints: DecodingConstraints = UNCONSTRAINED,
    extras: Extras = USUAL,
    batch_tokens: int = BATCH_TOKENS,
    progress: Callable[[int], None] | None = None,
    seen: Callable[[Translation], None] | None = None,
) -> list[RestoredText]:
    """Translate texts of any length.

    Args:
        translator: of the language they are in.
        texts: with any number of sentences each.
        markup: what is to come out as it was (`segment_text`).
        beam, alpha, constraints, extras, batch_tokens: as in `Translator.translate`.
        progress: called with the number of sentences and runs done.
        seen: called with what became of each sentence and run, in order.

    Returns:
        A text each, with what of it is not as it was.

    Raises:
        ValueError: as `Translator.translate` does.
    """
    parts = [segment_text(text, markup) for text in texts]
    asks = [ask for apart in parts for ask in apart.units]
    found = translator.translate(
        [ask.text for ask in asks],
        beam=beam,
        alpha=alpha,
        constraints=constraints,
        extras=extras,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    said: list[UnitTranslation] = []
    for ask, one in zip(asks, found, strict=True):
        if seen is not None:
            seen(one)
        said.append(UnitTranslation(one.text, translator.alignment(one) if ask.align else ""))
    together: list[RestoredText] = []
    done = 0
    for apart in parts:
        together.append(restore_text(apart, said[done : done + len(apart.units)]))
        done += len(apart.units)
    return together
