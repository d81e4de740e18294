"""The native API: translations with scores, alternatives and attention weights.

JSON in, JSON out. A request is validated field by field before anything is computed.
"""

from collections.abc import Mapping
from itertools import starmap
from typing import Literal, NamedTuple

from pydantic import Field
from starlette.responses import Response

from transduce.bundle.bundle import Bundle
from transduce.data.corpus import tidy
from transduce.data.languages import base_language
from transduce.inference.glossary import Term
from transduce.inference.recasing import recase
from transduce.serve.batcher import BatchOptions, SentenceResult, estimate_work
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import (
    AUTO,
    NO_LANGUAGE,
    DetectedLanguage,
    Direction,
    ModelRegistry,
    same_code,
)
from transduce.serve.parameters import read_fields
from transduce.serve.requests import HTTPRequest, replace_nul
from transduce.serve.routing import JSON, Content, Operation, StrictModel, json_response
from transduce.serve.settings import NO_LIMIT, ServerSettings
from transduce.serve.text_translation import (
    MAX_BEAM,
    TranslatedText,
    offload,
    translate_in_direction,
)
from transduce.visualization.attention_page import trace_attention
from transduce.visualization.attention_view import attention_json

_DEMO_EXAMPLE = "The animal didn't cross the street because it was too tired."
_EXAMPLES = {
    "en": "A young woman with a red hat is reading a book in the park.",
    "de": "Eine junge Frau mit einem roten Hut liest im Park ein Buch.",
    "fr": "Une jeune femme au chapeau rouge lit un livre dans le parc.",
}

_COPIED = (
    *("source", "recased", "text", "score", "flag", "mended", "parts"),
    *("confidence", "unfamiliar"),
)
"""Fields of a translation that a response has likewise."""


class _TextRequest(StrictModel):
    """Fields of all requests."""

    text: str = Field(min_length=1)
    source: str = "auto"
    """Code of the source language; "auto" detects it."""
    target: str | None = None
    """Code of the target language; optional if the source has only one."""
    api_key: str = ""


class NativeTranslateRequest(_TextRequest):
    """A text to translate."""

    beam: int | None = Field(default=None, ge=1, le=MAX_BEAM)
    """Beam size (default: the model's)."""
    alpha: float | None = Field(default=None, ge=0, le=10, allow_inf_nan=False)
    """Exponent of the length penalty (default: the model's)."""
    nbest: int = Field(default=1, ge=1, le=MAX_BEAM)
    """Translations per sentence; at most the beam size."""
    prefix: str = ""
    """Forced beginning of the first sentence's translation."""
    markup: Literal["none", "placeholders", "html"] = "placeholders"
    """Markup to preserve."""
    glossary: dict[str, str] = Field(default={}, max_length=1000)
    """Terms with a prescribed translation, by the source."""


class AlternativesRequest(_TextRequest):
    """A position in a translation whose alternative continuations to list."""

    after: str = ""
    """The translation up to the position."""
    count: int = Field(default=5, ge=1, le=MAX_BEAM)


class AttentionRequest(_TextRequest):
    """A sentence whose attention weights to return."""

    translation: str | None = Field(default=None, min_length=1)
    """A given translation (default: the model's own)."""


class _Route(NamedTuple):
    """The direction for a text; None if the text is already in the target language."""

    direction: Direction | None
    source: str
    target: str
    detected: DetectedLanguage | None


class NativeAPI:
    """Handlers of the native API."""

    def __init__(self, registry: ModelRegistry, settings: ServerSettings) -> None:
        self._registry = registry
        self._settings = settings

    @Operation("GET", "/api/models")
    async def models(self, request: HTTPRequest) -> Content:
        """List the loaded models."""
        return [model_info(direction, self._settings) for direction in self._registry.directions]

    @Operation("POST", "/api/translate", NativeTranslateRequest, time_limits=1)
    async def translate(self, request: HTTPRequest) -> Response:
        """Translate a text; with scores, confidence, alternatives and alignments."""
        fields = read_fields(request, NativeTranslateRequest)
        (text,) = request.check_texts([fields.text])
        route = await self._route(text, fields)
        translation = TranslatedText(text)
        if route.direction is not None:
            beam = self._settings.beam if fields.beam is None else fields.beam
            max_nbest = route.direction.translator.search.beam if beam is None else beam
            if fields.nbest > max_nbest:
                raise HTTPError(
                    400, f"nbest: {fields.nbest} is larger than the beam size {max_nbest}"
                )
            (translation,) = await translate_in_direction(
                route.direction,
                [text],
                markup=fields.markup,
                options=BatchOptions(
                    beam,
                    fields.alpha,
                    fields.nbest,
                    detail=True,
                    glossary=tuple(starmap(Term, fields.glossary.items())),
                ),
                prefix=replace_nul(fields.prefix),
                align=True,
            )

        def respond() -> Response:
            return json_response(
                {
                    "source": route.source,
                    "target": route.target,
                    "detected": route.detected,
                    "text": translation.text,
                    "lost": translation.lost,
                    "from_memory": translation.from_memory,
                    "sentences": [_sentence(result) for result in translation.sentences],
                }
            )

        return await offload(len(text), respond)

    @Operation("POST", "/api/alternatives", AlternativesRequest, time_limits=1)
    async def alternatives(self, request: HTTPRequest) -> Content:
        """List the most probable continuations at a position of a translation."""
        fields = read_fields(request, AlternativesRequest)
        text, direction = await self._direction(request, fields)
        after, count = replace_nul(fields.after), fields.count
        work = estimate_work(
            len(text) + len(after), beam=direction.translator.search.beam, searches=count
        )

        def compute() -> Content:
            continuations = direction.translator.alternatives(text, after, count=count)
            return {"alternatives": [continuation._asdict() for continuation in continuations]}

        return await direction.batcher.run(compute, work=work)

    @Operation("POST", "/api/attention", AttentionRequest, time_limits=1)
    async def attention(self, request: HTTPRequest) -> Response:
        """Return the attention weights of a sentence: every kind, layer and head."""
        fields = read_fields(request, AttentionRequest)
        text, direction = await self._direction(request, fields)
        translation = None if fields.translation is None else replace_nul(fields.translation)

        def compute() -> str:
            source, translator = tidy(text), direction.translator
            if translation is None:  # as it would be translated
                source = recase(source, direction.bundle.tokenizer).text
            tagged = source and translator.tagged(source)
            traced = trace_attention(direction.bundle, tagged, translation)
            return attention_json(traced._replace(source=source))

        work = estimate_work(len(text) + len(translation or ""))
        return Response(await direction.batcher.run(compute, work=work), media_type=JSON)

    async def _direction(self, request: HTTPRequest, fields: _TextRequest) -> tuple[str, Direction]:
        """Return the text of a request, and the direction that it needs."""
        (text,) = request.check_texts([fields.text])
        route = await self._route(text, fields)
        if route.direction is None:
            raise HTTPError(400, f"the sentence is already in the target language, {route.target}")
        return text, route.direction

    async def _route(self, text: str, fields: _TextRequest) -> _Route:
        guess, source = None, fields.source
        if same_code(source, AUTO):
            guess = await self._registry.detect_source(text, fields.target)
            if guess is NO_LANGUAGE:  # any source language will do
                guess = None
            source = guess.language if guess else self._registry.directions[0].source.code
        target = self._default_target(source) if fields.target is None else fields.target
        loaded = any(same_code(target, language.code) for language in self._registry.languages)
        if same_code(source, target) and fields.target is not None and loaded:
            return _Route(None, source, target, guess)
        direction = self._registry.find(source, target)
        return _Route(direction, direction.source.code, direction.target.code, guess)

    def _default_target(self, source: str) -> str:
        """Return the only target language of a source language."""
        codes = [language.code for language in self._registry.targets_of(source)]
        if not codes:
            raise HTTPError(400, f"{source} is not supported")
        if len(codes) > 1:
            raise HTTPError(400, f"target: name one of {', '.join(codes)}")
        return codes[0]


def model_info(direction: Direction, settings: ServerSettings) -> dict[str, object]:
    """Describe a loaded model."""
    bundle = direction.bundle
    return {
        "name": direction.name,
        "source": direction.source,
        "target": direction.target,
        "parameters": bundle.weights.size,
        "engine": direction.translator.engine_description.removeprefix("engine: "),
        "beam": direction.translator.search.beam if settings.beam is None else settings.beam,
        "example": _example(bundle),
        "calibrated": bundle.confidence is not None,
        "explorer": f"explore/{direction.name}" if direction.explorable else "",
        "limits": {"characters": NO_LIMIT if settings.keys else settings.char_limit},
    }


def _example(bundle: Bundle) -> str:
    if any(line.strip() == 'name = "demo"' for line in bundle.provenance.recipe.splitlines()):
        return _DEMO_EXAMPLE
    return _EXAMPLES.get(base_language(bundle.languages.source), "")


def _sentence(result: SentenceResult) -> Mapping[str, object]:
    """Describe a sentence's translation; alignments are of words, counted from 0."""
    translation = result.translation
    log_probs = translation.log_probs or (None,) * len(translation.pieces)
    pieces = zip(translation.pieces, log_probs, strict=True)
    pairs = [pair.partition("-") for pair in result.alignment.split()]
    return {name: getattr(translation, name) for name in _COPIED} | {
        "pieces": [{"piece": piece, "log_prob": log_prob} for piece, log_prob in pieces],
        "others": translation.others,
        "words": [{"text": text, "confidence": score} for text, score in translation.words],
        "alignment": [(int(source), int(target)) for source, _, target in pairs],
    }
