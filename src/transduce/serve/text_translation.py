"""Translation of texts: segmented into sentences, translated by the batchers and reassembled.

All sentences of a text request that the translation memory lacks go to a batcher in one call, so
the queue accepts or rejects the request as a unit. The k-th alternative of a text joins the k-th
best translation of each sentence (the best where a sentence has fewer); for a single sentence, the
alternatives are its n-best list.
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
from transduce.inference.texts import stored_translation
from transduce.search.interruption import interruptible, interruption_point
from transduce.serve.batcher import (
    Abandoned,
    BatchOptions,
    SentenceRequest,
    SentenceResult,
    estimate_work,
)
from transduce.serve.errors import LOG
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
        options: how to search; the beam is widened to the number of translations.
        rules: what tags mean, if the markup is "html".
        prefix: forced beginning of the translation of each text's first sentence.
        align: whether to align every sentence.

    Raises:
        HTTPError: 429 if the queue is full, 503 on shutdown, 400 for invalid input or too much.
    """
    if options.nbest > (options.beam or direction.translator.search.beam):
        options = options._replace(beam=options.nbest)
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
    stored = await _stored_results(direction, segmented, align=align) if use_memory else {}
    computed = iter(
        await direction.batcher.translate(
            [sentence for sentence in sentences if sentence.text not in stored], options
        )
    )
    results = (stored.get(sentence.text) or next(computed) for sentence in sentences)

    def reassemble() -> list[TranslatedText]:
        translations = [
            _reassemble(text, results, glossary=options.glossary, stored=stored)
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
    """Return the translations that the memory has, none if it cannot be read.

    SQLite may wait for the disk, so in a thread.
    """
    memory, languages = direction.memory, (direction.source.code, direction.target.code)
    assert memory is not None

    def look_up() -> dict[str, str]:
        try:
            matches = {text: memory.exact(text, languages=languages) for text in texts}
        except ValueError as error:
            LOG.warning("WARNING: texts are translated without the memory: %s", error)
            return {}
        return {text: match.replace(text) for text, match in matches.items() if match}

    return await asyncio.to_thread(look_up)


async def _stored_results(
    direction: Direction, segmented: Sequence[SegmentedText], *, align: bool
) -> dict[str, SentenceResult]:
    """Return the translations of sentences that the memory has, aligned where tags need it."""
    units = [unit for text in segmented for unit in text.units if not unit.run]
    targets = await _look_up(direction, [unit.text for unit in units])
    stored = {source: stored_translation(source, target) for source, target in targets.items()}
    aligned = {unit.text: "" for unit in units if unit.text in stored and (align or unit.align)}

    def compute() -> None:
        for source in aligned:
            interruption_point()
            translation = stored[source]
            aligned[source] = direction.translator.alignment(translation, text=translation.text)

    if aligned:
        await direction.batcher.run(compute, work=estimate_work(sum(map(len, aligned))))
    return {
        source: SentenceResult(translation, aligned.get(source, ""))
        for source, translation in stored.items()
    }


def _reassemble(
    segmented: SegmentedText,
    all_results: Iterator[SentenceResult],
    *,
    glossary: tuple[Term, ...],
    stored: Mapping[str, SentenceResult],
) -> TranslatedText:
    """Take the results of a text, and insert them, or terms that replace them."""
    units = segmented.units
    results = tuple(islice(all_results, len(units)))
    terms = {
        index: UnitTranslation(term.target)
        for index, unit in enumerate(units if glossary else ())
        if (term := whole_term(unit.text, glossary))
    }
    from_memory = sum(
        unit.text in stored and not unit.run and index not in terms
        for index, unit in enumerate(units)
    )

    def restored(translations: Iterable[UnitTranslation]) -> RestoredText:
        return restore_text(segmented, [terms.get(i, t) for i, t in enumerate(translations)])

    best = restored(
        UnitTranslation(result.translation.text, result.alignment) for result in results
    )
    count = max((len(result.translation.others) for result in results), default=0)
    alternatives = dict.fromkeys(
        restored(_kth_best(result, k) for result in results).text for k in range(count)
    )
    alternatives.pop(best.text, None)
    both = zip(units, results, strict=True)
    sentences = tuple(result for unit, result in both if not unit.run)
    return TranslatedText(best.text, tuple(alternatives), best.lost, sentences, from_memory)


def _kth_best(result: SentenceResult, k: int) -> UnitTranslation:
    best, others = result.translation, result.translation.others
    if k < len(others):
        return UnitTranslation(others[k].text)
    return UnitTranslation(best.text, result.alignment)
