"""LibreTranslate's API, compatible with its clients.

Paths, field names, statuses and messages are LibreTranslate's. A request is JSON, a form of either
kind, or a query string.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from transduce.documents.registry import SUFFIXES
from transduce.memory.store import Entry
from transduce.serve.batcher import BatchOptions
from transduce.serve.errors import LOG, REPAIR_S, HTTPError
from transduce.serve.model_registry import AUTO, ModelRegistry, same_code
from transduce.serve.parameters import read_fields
from transduce.serve.requests import HTTPRequest
from transduce.serve.routing import Content, LenientModel, Operation
from transduce.serve.settings import NO_LIMIT, ServerSettings
from transduce.serve.text_translation import MAX_BEAM, translate_texts


class TranslateRequest(LenientModel):
    """Texts to translate."""

    q: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    """A text or a list of texts; the response has the same form. NUL is treated as white space."""
    source: str = Field(min_length=1)
    """Code of the source language; "auto" detects it."""
    target: str = Field(min_length=1)
    """Code of the target language."""
    format: Literal["text", "html"] = "text"
    """"html" preserves tags."""
    alternatives: Annotated[int, BeforeValidator(lambda value: int(str(value)))] = Field(
        default=0, ge=0
    )  # neither a truth value nor a fraction
    """Number of alternative translations, at most 19; none for HTML. The k-th alternative of a text
    joins the k-th best translation of each sentence. The beam is widened if necessary."""
    api_key: str = ""


class DetectRequest(LenientModel):
    """A text whose language to detect."""

    q: str = Field(min_length=1)
    api_key: str = ""


class SuggestRequest(LenientModel):
    """A correction of a translation."""

    q: str = Field(min_length=1)
    """The source text."""
    s: str = Field(min_length=1)
    """Its correct translation."""
    source: str = Field(min_length=1)
    """Code of the source language."""
    target: str = Field(min_length=1)
    """Code of the target language."""
    api_key: str = ""


class LibreTranslateAPI:
    """Handlers of LibreTranslate's API."""

    def __init__(self, registry: ModelRegistry, settings: ServerSettings) -> None:
        self._registry = registry
        self._settings = settings

    @Operation("POST", "/translate", TranslateRequest, time_limits=1)
    async def translate(self, request: HTTPRequest) -> Content:
        """Translate a text or a list of texts."""
        fields = read_fields(request, TranslateRequest)
        html, alternatives = fields.format == "html", fields.alternatives
        limit = self._settings.alternatives_limit
        if limit != NO_LIMIT and alternatives > limit:
            raise HTTPError(400, f"Invalid request: alternatives parameter must be <= {limit}")
        texts = [fields.q] if isinstance(fields.q, str) else fields.q
        results = await translate_texts(
            self._registry,
            request.check_texts(_with_line_feeds(request, texts)),
            source=fields.source,
            target=fields.target,
            markup="html" if html else "placeholders",
            options=BatchOptions(
                beam=self._settings.beam, nbest=1 if html else min(1 + alternatives, MAX_BEAM)
            ),
        )

        def fold(items: Sequence[object]) -> object:
            return items[0] if isinstance(fields.q, str) else items

        answer = {"translatedText": fold([result.translation.text for result in results])}
        if same_code(fields.source, AUTO):
            answer["detectedLanguage"] = fold([result.detected for result in results])
        if alternatives > 0:
            answer["alternatives"] = fold(
                [result.translation.alternatives[:alternatives] for result in results]
            )
        return answer

    @Operation("POST", "/detect", DetectRequest)
    async def detect(self, request: HTTPRequest) -> Content:
        """Detect the language of a text among the loaded languages."""
        (text,) = request.check_texts([read_fields(request, DetectRequest).q])
        return await self._registry.detect(text)

    @Operation("GET", "/languages")
    async def languages(self, request: HTTPRequest) -> Content:
        """List the loaded languages and their target languages."""
        registry = self._registry
        known = {language.code: language for language in (*registry.sources(), *registry.targets())}
        return [
            {
                "code": language.code,
                "name": language.name,
                "targets": [target.code for target in registry.targets_of(language.code)],
            }
            for language in known.values()
        ]

    @Operation("GET", "/frontend/settings")
    async def frontend_settings(self, request: HTTPRequest) -> Content:
        """Return the settings that a page needs."""
        settings, first = self._settings, self._registry.directions[0]
        return {
            "apiKeys": bool(settings.keys),
            "charLimit": settings.char_limit,
            "filesTranslation": True,
            "frontendTimeout": settings.frontend_timeout,
            "keyRequired": bool(settings.keys),
            "language": {"source": first.source, "target": first.target},
            "suggestions": settings.memory is not None,
            "supportedFilesFormat": SUFFIXES,
        }

    @Operation("GET", "/health")
    async def health(self, request: HTTPRequest) -> Content:
        """Check that the server is running."""
        return {"status": "ok"}

    @Operation("GET", "/ready")
    async def ready(self, request: HTTPRequest) -> Content:
        """Check that the server has room for requests: no queue is full."""
        lengths = [direction.batcher.queue_length for direction in self._registry.directions]
        if max(lengths) >= self._settings.queue:
            raise HTTPError(503, "A request queue is full", retry_after=1)
        return {"status": "ok"}

    @Operation("POST", "/suggest", SuggestRequest)
    async def suggest(self, request: HTTPRequest) -> Content:
        """Store a correction in the translation memory."""
        fields = read_fields(request, SuggestRequest)
        direction = self._registry.find(fields.source, fields.target)
        memory = direction.memory
        if memory is None:
            raise HTTPError(403, "Suggestions are disabled on this server.")
        texts = _with_line_feeds(request, [fields.q, fields.s])
        text, correction = request.check_texts(texts, limit_number=False)
        entry = Entry(
            source=text,
            target=correction,
            source_lang=direction.source.code,
            target_lang=direction.target.code,
            user=request.user,
            model=direction.sha256,
        )
        try:
            stored = await asyncio.to_thread(memory.add, [entry])
        except ValueError as error:
            LOG.warning("WARNING: a correction was not stored: %s", error)
            raise HTTPError(
                503,
                "The correction was not stored: the translation memory cannot be written",
                retry_after=REPAIR_S,
            ) from None
        if not stored:
            name = "s" if text.strip() else "q"
            raise HTTPError(400, f"Invalid request: missing {name} parameter")
        return {"success": True}


def _with_line_feeds(request: HTTPRequest, texts: list[str]) -> list[str]:
    """Normalize the line ends of a form's texts, which are CR LF."""
    if request.data().json is not None:
        return texts
    return [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
