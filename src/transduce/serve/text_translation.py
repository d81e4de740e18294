"""Translation of texts: segmented into sentences, translated by the batchers and reassembled.

All sentences of a text request go to a batcher in one call, so the queue accepts or rejects the
request as a unit. The k-th alternative of a text joins the k-th best translation of each sentence
(the best where a sentence has fewer); for a single sentence, the alternatives are its n-best list.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from transduce.documents.html import HTML_RULES, TagRules
from transduce.documents.markup import (
    Markup,
    RestoredText,
    SegmentedText,
    TranslationUnit,
    UnitTranslation,
    restore_text,
    segment_text,
)
from transduce.inference.glossary import Term, whole_term
from transduce.search.interruption import interruptible, interruption_point
from transduce.serve.batcher import (
    Abandoned,
    BatchOptions,
    SentenceRequest,
    SentenceResult,
    estimate_work,
)
from transduce.serve.model_registry import (
    AUTO,
    NO_LANGUAGE,
    DetectedLanguage,
    Direction,
    ModelRegistry,
    same_code,
)

T = TypeVar("T")

MAX_BEAM = 20
"""Maximum beam size, and translations per sentence, of a request."""

LONG_TEXT = 5000
"""Characters from which work runs in a thread, so that it does not block the event loop."""


class TranslatedText(NamedTuple):
    """The translation of a text."""

    text: str
    alternatives: tuple[str, ...] = ()
    """The next best translations without duplicates."""
    lost: tuple[str, ...] = ()
    """Tags, placeholders and URLs that were not preserved."""
    sentences: tuple[SentenceResult, ...] = ()
    """The results of complete sentences, without those of the runs between their markup."""
    from_memory: int = 0
    """Number of sentences from the translation memory; 1 for a text that it has as a whole."""


class TextResult(NamedTuple):
    """The result for one text of a request."""

    translation: TranslatedText
    source: str
    """Code of its language."""
    detected: DetectedLanguage | None
    """None if the client named the language."""


async def translate_in_direction(
    direction: Direction,
    texts: Sequence[str],
    *,
    markup: Markup,
    options: BatchOptions,
    rules: TagRules = HTML_RULES,
    prefix: str = "",
    align: bool = False,
) -> list[TranslatedText]:
    """Translate texts in one direction.

    A text that the translation memory has is not translated, unless a prefix is given. A sentence
    that it has, or that is a term of the glossary as a whole, is replaced by its translation.

    Args:
        texts: texts of any length; parts without letters or digits are copied.
        rules: what tags mean, if the markup is "html".
        prefix: forced beginning of the translation of each text's first sentence.
        align: whether to align every sentence.

    Raises:
        HTTPError: 429 if the queue is full, 503 on shutdown, 400 for invalid input or too much.
    """
    size, work = sum(map(len, texts)), 0
    use_memory = direction.memory is not None and not prefix
    known = await _look_up(direction, texts) if use_memory and markup != "html" else {}
    direction.batcher.check_work(estimate_work(size, beam=options.beam))

    def check_work(unit: TranslationUnit) -> None:
        nonlocal work
        work += estimate_work(len(unit.text), beam=options.beam)
        direction.batcher.check_work(work)
        interruption_point()

    def segment() -> tuple[list[SegmentedText], list[SentenceRequest]]:
        segmented = [
            segment_text("" if text in known else text, markup, rules=rules, on_unit=check_work)
            for text in texts
        ]
        sentences = [
            SentenceRequest(
                part.text, prefix=prefix if index == 0 else "", align=align or part.align
            )
            for text in segmented
            for index, part in enumerate(text.units)
        ]
        return segmented, sentences

    segmented, sentences = await offload(size, segment)
    remembered = (
        await _look_up(direction, [sentence.text for sentence in sentences]) if use_memory else {}
    )
    results = iter(await direction.batcher.translate(sentences, options))

    def reassemble() -> list[TranslatedText]:
        translations = [
            _reassemble(text, results, glossary=options.glossary, remembered=remembered)
            for text in segmented
        ]
        return [
            TranslatedText(known[text], from_memory=1) if text in known else translation
            for text, translation in zip(texts, translations, strict=True)
        ]

    return await offload(size, reassemble)


async def translate_texts(
    registry: ModelRegistry,
    texts: Sequence[str],
    *,
    source: str,
    target: str,
    markup: Markup,
    options: BatchOptions,
    rules: TagRules = HTML_RULES,
) -> list[TextResult]:
    """Translate texts from `source`, or each from its detected language if that is "auto".

    A text in the target language, or without words, is returned unchanged.

    Args:
        source: code of their language, or "auto".
        rules: what tags mean, if the markup is "html".

    Raises:
        HTTPError: 400 for a language or direction that is not loaded, else as
            `translate_in_direction`.
    """
    registry.language(target)
    auto = same_code(source, AUTO)
    detected = [await registry.detect_source(text, target) if auto else None for text in texts]
    indices_of: dict[str, tuple[Direction, list[int]]] = {}
    translations = [TranslatedText(text) for text in texts]
    for index, guess in enumerate(detected):
        if guess is NO_LANGUAGE:
            continue
        language = guess.language if guess else source
        if same_code(language, target):
            continue
        direction = registry.find(language, target)
        indices_of.setdefault(direction.name, (direction, []))[1].append(index)
    for direction, indices in indices_of.values():
        part = [texts[index] for index in indices]
        translated = await translate_in_direction(
            direction, part, markup=markup, options=options, rules=rules
        )
        for index, translation in zip(indices, translated, strict=True):
            translations[index] = translation
    return [
        TextResult(translation, guess.language if guess else source, guess)
        for translation, guess in zip(translations, detected, strict=True)
    ]


async def offload(size: int, function: Callable[[], T]) -> T:
    """Run a function on long texts (`size` characters) in a thread.

    On cancellation it ends at its next `interruption_point`.
    """
    if size < LONG_TEXT:
        return function()
    cancelled = threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise Abandoned

    try:
        with interruptible(check):  # the thread has a copy of this context
            return await asyncio.to_thread(function)
    finally:
        cancelled.set()


async def _look_up(direction: Direction, texts: Sequence[str]) -> dict[str, str]:
    """Return the translations that the memory has; SQLite may wait for the disk, so in a thread."""
    memory, languages = direction.memory, (direction.source.code, direction.target.code)
    assert memory is not None

    def look_up() -> dict[str, str]:
        matches = {text: memory.exact(text, languages=languages) for text in texts}
        return {
            text: text.replace(text.strip(), match.entry.target)  # the white space around it stays
            for text, match in matches.items()
            if match
        }

    return await asyncio.to_thread(look_up)


def _reassemble(
    segmented: SegmentedText,
    all_results: Iterator[SentenceResult],
    *,
    glossary: tuple[Term, ...],
    remembered: Mapping[str, str],
) -> TranslatedText:
    """Take the results of a text, and insert them, or what replaces them."""
    results = tuple(islice(all_results, len(segmented.units)))
    replaced: dict[int, UnitTranslation] = {}
    from_memory = 0
    for index, unit in enumerate(segmented.units if glossary or remembered else ()):
        if term := whole_term(unit.text, glossary):
            replaced[index] = UnitTranslation(term.target)
        elif unit.text in remembered:
            replaced[index] = UnitTranslation(remembered[unit.text])
            from_memory += 1

    def restored(units: Iterable[UnitTranslation]) -> RestoredText:
        return restore_text(segmented, [replaced.get(i, unit) for i, unit in enumerate(units)])

    best = restored(
        UnitTranslation(result.translation.text, result.alignment) for result in results
    )
    count = max((len(result.translation.others) for result in results), default=0)
    alternatives = dict.fromkeys(
        restored(UnitTranslation(_kth_best(result, k)) for result in results).text
        for k in range(count)
    )
    alternatives.pop(best.text, None)
    both = zip(segmented.units, results, strict=True)
    sentences = tuple(result for unit, result in both if not unit.run)
    return TranslatedText(best.text, tuple(alternatives), best.lost, sentences, from_memory)


def _kth_best(result: SentenceResult, k: int) -> str:
    others = result.translation.others
    return others[k].text if k < len(others) else result.translation.text
