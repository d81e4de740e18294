"""Whole texts and pages: taken apart, translated in one call, put together.

Everything that a text asks for, each sentence and the runs between its placeholders, goes to the
translator at once, so that batches are full; alignments are computed only where tags need them.
"""

from collections.abc import Callable, Sequence

from transduce.documents.markup import Markup, Said, Together, put_together, take_apart
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
) -> list[Together]:
    """Translate texts of any length.

    Args:
        translator: of the language they are in.
        texts: with any number of sentences each.
        markup: what is to come out as it was (`take_apart`).
        beam, alpha, constraints, extras, batch_tokens: as in `Translator.translate`.
        progress: called with the number of sentences and runs done.
        seen: called with what became of each sentence and run, in order.

    Returns:
        A text each, with what of it is not as it was.

    Raises:
        ValueError: as `Translator.translate` does.
    """
    parts = [take_apart(text, markup) for text in texts]
    asks = [ask for apart in parts for ask in apart.ask]
    found = translator.translate(
        [ask.text for ask in asks],
        beam=beam,
        alpha=alpha,
        constraints=constraints,
        extras=extras,
        batch_tokens=batch_tokens,
        progress=progress,
    )
    said: list[Said] = []
    for ask, one in zip(asks, found, strict=True):
        if seen is not None:
            seen(one)
        said.append(Said(one.text, translator.alignment(one) if ask.align else ""))
    together: list[Together] = []
    done = 0
    for apart in parts:
        together.append(put_together(apart, said[done : done + len(apart.ask)]))
        done += len(apart.ask)
    return together
