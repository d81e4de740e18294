"""Texts of any length: split into sentences, translated together, and put together again."""

import itertools
from collections.abc import Callable, Sequence

from transduce.documents.markup import (
    Markup,
    RestoredText,
    UnitTranslation,
    restore_text,
    segment_text,
)
from transduce.inference.translation import Translation
from transduce.inference.translator import Translator


def translate_texts(
    translator: Translator,
    texts: Sequence[str],
    *,
    markup: Markup | list[Markup] = "placeholders",
    decode: Callable[..., list[Translation]] | None = None,
    progress: Callable[[int], None] | None = None,
    on_translation: Callable[[Translation], None] | None = None,
    remembered: Callable[[str], str | None] = lambda text: None,
) -> list[RestoredText]:
    """Translate texts of any length, preserving placeholders and markup.

    All segments (sentences, and the text between placeholders) that are not remembered are
    translated in one call, so that batches are full; alignments are computed only where tags need
    them.

    Args:
        markup: what is preserved verbatim (`segment_text`), in all texts or in each.
        decode: the translator's `decode` with settings; None: without any.
        on_translation: called with the translation of each segment, in order.
        remembered: known translation of a text or sentence, used instead of the model's.
    """
    markups: list[Markup] = markup if isinstance(markup, list) else [markup] * len(texts)
    known = [
        None if text_markup == "html" else remembered(text)
        for text, text_markup in zip(texts, markups, strict=True)
    ]
    segmented = [
        segment_text(text if translation is None else "", text_markup)
        for text, text_markup, translation in zip(texts, markups, known, strict=True)
    ]
    segments = [segment for parts in segmented for segment in parts.units]
    stored = [None if segment.run else remembered(segment.text) for segment in segments]
    both = list(zip(segments, stored, strict=True))
    to_compute = [segment.text for segment, text in both if text is None]
    computed = iter((decode or translator.decode)(to_compute, progress=progress))
    translations = [
        next(computed) if text is None else stored_translation(segment.text, text)
        for segment, text in both
    ]
    if on_translation is not None:
        for translation in translations:
            on_translation(translation)
    translated = iter(
        UnitTranslation(t.text, translator.alignment(t, text=text) if segment.align else "")
        for (segment, text), t in zip(both, translations, strict=True)
    )
    return [
        restore_text(parts, list(itertools.islice(translated, len(parts.units))))
        if translation is None
        else RestoredText(translation, ())
        for parts, translation in zip(segmented, known, strict=True)
    ]


def stored_translation(source: str, text: str) -> Translation:
    """Return a translation that a memory has; it has no scores and no pieces."""
    return Translation(source=source, text=text, score=0.0, ids=(), pieces=(), log_probs=())
