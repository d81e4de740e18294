"""The loaded models, one per language direction, and detection of the source language.

Detection (lingua) compares the loaded languages only, sources and targets: French text is
classified as English or German if only these are loaded. Short texts, and words that exist in
several languages, get a low confidence. Only the beginning of a long text counts; markup, scripts
and addresses are no evidence. Without a detector a text is in the only source language, with a
confidence of 0.
"""

import asyncio
import re
import threading
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from transduce.bundle.bundle import WEIGHTS, Bundle, find_bundle
from transduce.data.config import Languages
from transduce.data.languages import LanguagePair, base_language, language_name
from transduce.inference.engines.base import EngineName
from transduce.inference.engines.ct2_runtime import Plan
from transduce.inference.translator import Translator
from transduce.io.atomic_folder import path_identity, sha256
from transduce.memory.store import TranslationMemory
from transduce.serve.batcher import Batcher
from transduce.serve.errors import LOG, HTTPError
from transduce.serve.settings import NO_LIMIT, ServerSettings
from transduce.web.page import fits_one_page

if TYPE_CHECKING:
    from lingua import LanguageDetector as Lingua

AUTO = "auto"
"""Source language code that requests detection."""

_ALIASES = {"zh": "zh-hans", "zt": "zh-hant", "pb": "pt-br"}  # LibreTranslate's older codes
_DIRECTION = re.compile("({0})[-:]({0})".format("[a-z]+(?:-[A-Z][A-Za-z]+)?"))
# A run without spaces is searched for an address once: "\S+@\S+" would take quadratic time.
_HIDDEN = re.compile(r"<!--(?s:.*?)(?:-->|\Z)|(?is:<(script|style)\b.*?(?:</\1\s*>|\Z))")
_NO_TEXT = re.compile(
    r"</?[A-Za-z][^<>]*>|&\w{1,20};|\w{2,8}://\S+|(?<![^\s<>;])[^\s@<>;]++@\S+|\{\w*\}|%\w"
)
_CERTAIN, _LETTERS = 90.0, 24
"""Confidence and letters from which a text is taken to be in another language than a source."""
_SAMPLE = 5000  # characters whose language is detected
_WATCH_S = 2.0  # between looks at the models' folders
_REMEDY = "name the source language, or have the operator pip install 'transduce[detect]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """The code and the name of a language."""

    code: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectedLanguage:
    """A possible language of a text."""

    confidence: float
    """From 0 to 100, relative to the other loaded languages; 0 without letters, or if unknown."""
    language: str


NO_LANGUAGE = DetectedLanguage(language="en", confidence=0.0)
"""The guess for a text without words; LibreTranslate answers this for emoji."""


class LanguageDetector:
    """Classifies texts into a fixed set of languages."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str] = ()) -> None:
        """Store the codes of the languages to translate, and of others that a text may be in."""
        assert sources, "at least one language is required"
        known = set(map(_normalize, sources))
        self._sources = tuple(sources)
        self._others = tuple(code for code in targets if _normalize(code) not in known)
        self._lock = threading.Lock()

    def detect(self, text: str) -> list[DetectedLanguage]:
        """Return the possible languages of a text, most probable first.

        Raises:
            HTTPError: 400 if a detector is required but not installed; it says what to install.
        """
        text = _sample(text)
        if not any(map(str.isalpha, text)):
            return [DetectedLanguage(language=code, confidence=0.0) for code in self._sources]
        with self._lock:
            lingua, codes = self._lingua
        if lingua is None:
            return [DetectedLanguage(language=self._sources[0], confidence=0.0)]
        probabilities = {
            value.language.iso_code_639_1.name.lower(): value.value
            for value in lingua.compute_language_confidence_values(text)
        }
        percent = {code: round(100 * probabilities[base_language(code)], 1) for code in codes}
        ranked = sorted(codes, key=lambda code: -percent[code])
        return [DetectedLanguage(language=code, confidence=percent[code]) for code in ranked]

    @cached_property
    def _lingua(self) -> "tuple[Lingua | None, tuple[str, ...]]":
        """The detector and the codes that it compares; None where there is nothing to compare."""
        single = len(self._sources) == 1
        try:
            from lingua import IsoCode639_1, LanguageDetectorBuilder
        except ImportError:
            if single:
                return None, self._sources
            raise HTTPError(400, f"language detection is not installed: {_REMEDY}") from None
        supported = {name.lower() for name in dir(IsoCode639_1) if len(name) == 2}
        for code in self._sources:
            if base_language(code) not in supported:
                if single:
                    return None, self._sources
                raise HTTPError(400, f"{code} cannot be detected: name the source language")
        others = [code for code in self._others if base_language(code) in supported]
        codes = (*self._sources, *others)
        names = dict.fromkeys(map(base_language, codes))
        if len(names) == 1:
            return None, self._sources
        builder = LanguageDetectorBuilder.from_iso_codes_639_1(*map(IsoCode639_1.from_str, names))
        return builder.build(), codes


def _sample(text: str) -> str:
    """Return the beginning of a text, without what is no evidence of its language."""
    text = text[: 100 * _SAMPLE]
    shown = _NO_TEXT.sub(" ", _HIDDEN.sub(" ", text))
    if not any(map(str.isalpha, shown)):
        shown = _NO_TEXT.sub(" ", text)  # "<style>" may be only mentioned
    return shown[:_SAMPLE]


def probable_source(
    text: str, guesses: Sequence[DetectedLanguage], sources: Collection[str]
) -> DetectedLanguage:
    """Return the language of a text to be translated from one of some languages.

    That a translation is wanted is evidence: a short or ambiguous text is taken to be in the most
    probable language that can be translated, and only a clear one in another.

    Args:
        guesses: its possible languages, most probable first.
        sources: codes of the languages with a model into the target.
    """
    best = guesses[0]
    letters = sum(map(str.isalpha, _sample(text)))
    if best.confidence >= _CERTAIN and letters >= _LETTERS:
        return best
    return next((guess for guess in guesses if guess.language in sources), best)


@dataclass(frozen=True, kw_only=True, slots=True)
class Direction:
    """A source and a target language, and the model that translates between them."""

    name: str
    """The two codes, as "en-de"."""

    source: Language
    target: Language
    translator: Translator
    bundle: Bundle
    batcher: Batcher
    memory: TranslationMemory | None = None
    path: Path | None = None
    """Folder of the model, or of its run."""
    sha256: str = ""
    """Of the model's weights."""
    explorable: bool = False
    """Whether there is an explorer's page of the model."""


class ModelRegistry:
    """All loaded models, found by language codes."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        assert directions, "at least one direction is required"
        self.directions = tuple(directions)
        self.watcher: ModelWatcher | None = None
        self.detector = LanguageDetector(
            [language.code for language in self.sources()],
            [language.code for language in self.targets()],
        )

    def sources(self) -> tuple[Language, ...]:
        """Return the source languages without duplicates."""
        return _unique(direction.source for direction in self.directions)

    def targets(self) -> tuple[Language, ...]:
        """Return the target languages without duplicates."""
        return _unique(direction.target for direction in self.directions)

    def targets_of(self, code: str) -> tuple[Language, ...]:
        """Return the target languages of a source language."""
        return _unique(
            direction.target
            for direction in self.directions
            if _same_language(direction.source.code, code)
        )

    def find(self, source: str, target: str) -> Direction:
        """Return the direction between two languages; "auto" works if it is unambiguous.

        Raises:
            HTTPError: 400 with LibreTranslate's message if there is none.
        """
        target_language = self.language(target)
        candidates = [
            direction
            for direction in self.directions
            if _same_language(direction.target.code, target)
        ]
        if _normalize(source) == AUTO:
            if len(candidates) == 1:
                return candidates[0]
            raise HTTPError(400, f"{AUTO} is not supported: name the source language")
        source_language = self.language(source)
        for direction in candidates:
            if _same_language(direction.source.code, source):
                return direction
        raise HTTPError(
            400,
            f"{target_language.name} ({target_language.code}) is not available as a target "
            f"language from {source_language.name} ({source_language.code})",
        )

    @property
    def languages(self) -> list[Language]:
        """The source and target language of every direction."""
        return [
            language
            for direction in self.directions
            for language in (direction.source, direction.target)
        ]

    async def detect(self, text: str) -> Sequence[DetectedLanguage]:
        """Return the possible languages of a text, by the detector, which is slow, in a thread."""
        return await asyncio.to_thread(self.detector.detect, text)

    async def detect_source(self, text: str, target: str | None = None) -> DetectedLanguage:
        """Return the language that a text is to be translated from, into `target` if it is known.

        A text without words has `NO_LANGUAGE`.
        """
        if not any(map(str.isalnum, text)):
            return NO_LANGUAGE
        sources = [
            direction.source.code
            for direction in self.directions
            if target is None or _same_language(direction.target.code, target)
        ]

        def detect() -> DetectedLanguage:
            return probable_source(text, self.detector.detect(text), sources)

        return await asyncio.to_thread(detect)

    def close(self) -> None:
        """Finish the accepted requests and end the worker threads."""
        if self.watcher:
            self.watcher.close()
        for direction in self.directions:
            direction.batcher.close()
            if direction.memory is not None:  # its truth is whether it has entries
                direction.memory.close()

    def language(self, code: str) -> Language:
        """Return a loaded language.

        Raises:
            HTTPError: 400 with LibreTranslate's message if it is not loaded.
        """
        for language in self.languages:
            if _same_language(language.code, code):
                return language
        raise HTTPError(400, f"{code[:60]} is not supported")


def load_models(
    models: Sequence[Path],
    settings: ServerSettings,
    *,
    languages: Sequence[str] = (),
    engine: EngineName = "auto",
    compute_type: str = "float32",
    plan: Plan | None = None,
    shortlist: Path | None = None,
) -> ModelRegistry:
    """Load models, one per direction, and warm each up with one translation.

    Args:
        models: bundles or run directories.
        settings: batching and decoding defaults.
        languages: of the models without, in order, each as "en-de".
        engine: inference engine; "auto" takes the fastest that supports a model.
        compute_type: number format.
        plan: CTranslate2's workers and threads; None measures them.
        shortlist: file with the target pieces that the only model may generate; None is all.

    Raises:
        ValueError: if a model cannot be read, an engine is unavailable, two models have the same
            direction, or `languages` do not fit.
    """
    if shortlist and len(models) > 1:
        raise ValueError("a shortlist is of one model: serve one, or leave out --shortlist")
    pending = [parse_direction(text) for text in languages]
    paths: dict[tuple[str, str], Path] = {}
    directions: list[Direction] = []
    identities = [path_identity(find_bundle(path)) for path in models]  # before loading

    def load_translator(bundle: Bundle) -> Translator:
        translator = Translator.from_bundle(
            bundle, engine=engine, compute_type=compute_type, plan=plan, shortlist=shortlist
        )
        # Sources longer than those of the training are translated no better, at quadratic cost.
        trained = tomllib.loads(bundle.provenance.recipe).get("data", {}).get("max_pieces")
        max_source = min(translator.search.max_source, trained or bundle.search.max_source)
        translator.search = replace(translator.search, max_source=max_source)
        warm = _translator_of(translator, bundle, _pairs(bundle)[0].target)
        warm.decode(["a"], beam=settings.beam)
        return translator

    for path in models:
        bundle = Bundle.load(path)
        if pending and bundle.languages.missing:
            _set_languages(bundle, pending.pop(0))
        for source, target in _pairs(bundle):
            earlier = paths.setdefault((_normalize(source), _normalize(target)), path)
            if earlier is not path:
                raise ValueError(
                    f"{earlier} and {path} both translate {source} into {target}: load only one of "
                    f"them{', or name their --languages' * bool(bundle.languages.missing)}"
                )
        translator, digest = load_translator(bundle), sha256(find_bundle(path) / WEIGHTS)
        for pair in _pairs(bundle):
            direction = make_direction(bundle, translator, settings, pair=pair)
            directions.append(replace(direction, path=path, sha256=digest))
    if pending:
        raise ValueError(
            f"--languages {pending[0].source}-{pending[0].target}: every model has languages; "
            f"`transduce relabel` corrects them"
        )
    registry = ModelRegistry(directions)
    registry.watcher = ModelWatcher(
        dict(zip(models, identities, strict=True)), registry, load_translator=load_translator
    )
    return registry


class ModelWatcher:
    """Loads a model again when another one takes its place, without an interruption."""

    def __init__(
        self,
        identities: Mapping[Path, tuple[int, ...]],
        registry: ModelRegistry,
        *,
        load_translator: Callable[[Bundle], Translator],
    ) -> None:
        """Look for changes every few seconds, until `close`.

        Args:
            identities: of the folders when they were loaded.
            registry: whose directions get the new models.
            load_translator: makes a bundle's translator.
        """
        self._identities, self._registry = dict(identities), registry
        self._load_translator = load_translator
        self._closing = threading.Event()
        threading.Thread(target=self._watch, name="model watcher", daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(_WATCH_S):
            for path, loaded in list(self._identities.items()):
                try:
                    identity = path_identity(find_bundle(path))
                    if identity and identity != loaded:
                        self._identities[path] = identity
                        self._reload(path)
                except Exception as error:  # of any type: the thread has to go on
                    LOG.warning(
                        "WARNING: %s was not loaded, the previous model stays: %s",
                        *(path, error),
                        exc_info=not isinstance(error, OSError | ValueError),
                    )

    def _reload(self, path: Path) -> None:
        directions = self._registry.directions
        own = [direction for direction in directions if direction.path == path]
        bundle, before = Bundle.load(path), own[0].bundle
        if bundle.languages.missing:
            _set_languages(bundle, before.languages)
        if _pairs(bundle) != _pairs(before):
            names = ", ".join(direction.name for direction in own)
            raise ValueError(f"it does not translate {names}: restart the server")
        translator, digest = self._load_translator(bundle), sha256(find_bundle(path) / WEIGHTS)

        def reloaded(direction: Direction) -> Direction:
            if direction.path != path:
                return direction
            fresh = _translator_of(translator, bundle, direction.target.code)
            direction.batcher.translator = fresh
            return replace(direction, bundle=bundle, translator=fresh, sha256=digest)

        self._registry.directions = tuple(map(reloaded, directions))
        LOG.info("%s: a new model was loaded from %s", _pairs(bundle)[0], path)


def parse_direction(text: str) -> Languages:
    """Return the languages of a text such as "en-de" or "pt-BR-en".

    Raises:
        ValueError: if it has another form.
    """
    match = _DIRECTION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"--languages takes SOURCE-TARGET, such as en-de, not {text!r}")
    return Languages(source=match[1], target=match[2])


def _pairs(bundle: Bundle) -> tuple[LanguagePair, ...]:
    """The directions that a model was trained on; zero-shot ones are not served."""
    languages = bundle.languages
    return bundle.directions or (LanguagePair(languages.source, languages.target),)


def _set_languages(bundle: Bundle, languages: Languages) -> None:
    """Name the languages of a model without; the targets of several directions follow their tags.

    Raises:
        ValueError: if the target is none of several directions.
    """
    targets = dict.fromkeys(pair.target for pair in bundle.directions)
    if targets and languages.target not in (*targets, bundle.languages.target):
        raise ValueError(
            f"--languages {languages.source}-{languages.target}: the model without languages "
            f"translates into {', '.join(targets)}: name one of these targets"
        )
    bundle.relabel(languages)


def _translator_of(translator: Translator, bundle: Bundle, target: str) -> Translator:
    return translator.to(target) if bundle.directions else translator


def make_direction(
    bundle: Bundle,
    translator: Translator,
    settings: ServerSettings,
    *,
    pair: LanguagePair | None = None,
) -> Direction:
    """Make a direction of a model: start its batcher, open the translation memory.

    Args:
        settings: batching limits, and the file of the memory.
        pair: the direction, of a model that has several.
    """
    names, pair = bundle.languages, pair or _pairs(bundle)[0]
    display = {names.source: names.source_name, names.target: names.target_name}
    source, target = (
        Language(code=code, name=display.get(code) or language_name(code)) for code in pair
    )
    translator = _translator_of(translator, bundle, pair.target)
    return Direction(
        name=str(pair),
        source=source,
        target=target,
        translator=translator,
        bundle=bundle,
        batcher=Batcher(
            translator,
            wait_s=settings.wait_ms / 1000,
            max_sentences=settings.batch_sentences,
            max_queue=settings.queue,
            max_work=None if settings.work_limit == NO_LIMIT else settings.work_limit,
        ),
        memory=TranslationMemory(settings.memory) if settings.memory else None,
        explorable=settings.explorer and fits_one_page(bundle),
    )


def same_code(code: str, other: str) -> bool:
    """Return whether two codes are equal up to case."""
    return code.lower() == other.lower()


def _same_language(code: str, other: str) -> bool:
    return _normalize(code) == _normalize(other)


def _normalize(code: str) -> str:
    """Lower-case a code and replace older codes by newer ones."""
    lower = code.strip().lower().replace("_", "-")
    return _ALIASES.get(lower, lower)


def _unique(languages: Iterable[Language]) -> tuple[Language, ...]:
    """Return languages without duplicates, the first name of each."""
    by_code: dict[str, Language] = {}
    for language in languages:
        by_code.setdefault(_normalize(language.code), language)
    return tuple(by_code.values())
