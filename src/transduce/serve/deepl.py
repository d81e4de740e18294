"""DeepL's API, compatible with its official client libraries.

Covers texts, documents, glossaries, languages and usage. Parameters that would change a translation
in ways that no model here supports (a required formality, style rules) are rejected. Preferences
and hints without an effect, and unknown parameters, are named in the response's header
X-Ignored-Parameters.
"""

import re
from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from transduce.documents.html import TagRules
from transduce.serve.batcher import BatchOptions
from transduce.serve.client_store import ClientStore
from transduce.serve.deepl_glossaries import GlossaryAPI
from transduce.serve.documents import (
    DeepLDocumentAPI,
    DocumentAPI,
    DocumentUpload,
    TextOptions,
    with_ignored,
)
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import AUTO, ModelRegistry
from transduce.serve.parameters import (
    Lowered,
    Names,
    language_code,
    read_fields,
    reject_unsupported,
)
from transduce.serve.requests import HTTPRequest, RequestData
from transduce.serve.routing import Content, LenientModel, Operation, json_response, operations_of
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import translate_texts

MAX_BODY_BYTES = 128 * 1024
"""Maximum size of a request body, as in DeepL's API."""

_COMMON = frozenset({"text", "target_lang", "source_lang", "glossary_id", "auth_key"})
_TEXT_ONLY = _COMMON | {"show_billed_characters", "preserve_formatting", "model_type"}
_DOCUMENT_ONLY = _COMMON | {"filename", "output_format"}
_TAGS = frozenset({"ignore_tags", "splitting_tags", "non_splitting_tags", "outline_detection"})
_PARAMETER = re.compile("[a-z_]{1,40}")


class DeepLTranslateRequest(LenientModel):
    """Texts to translate. Parameters that only DeepL's models support are rejected if relevant."""

    text: list[str] = Field(min_length=1)
    """In a form, `text` is repeated."""
    target_lang: str = Field(min_length=1)
    """Code of the target language; a variant such as EN-GB selects the loaded one."""
    source_lang: str | None = None
    """Code of the source language; detected if omitted."""
    tag_handling: Annotated[Literal["html", "xml"] | None, Lowered] = None
    """Preserves tags."""
    split_sentences: Annotated[Literal["0", "1", "nonewlines"] | None, Lowered] = None
    """Without an effect: the model translates one sentence at a time."""
    preserve_formatting: bool | None = None
    """White space is always preserved."""
    show_billed_characters: bool | None = None
    """Whether to return the number of characters; nothing is billed."""
    formality: Annotated[Literal["default", "prefer_more", "prefer_less"] | None, Lowered] = None
    """A preference without an effect; "more" and "less" are rejected."""
    glossary_id: str | None = None
    """Requires `source_lang`."""
    model_type: Annotated[
        Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None,
        Lowered,
    ] = None
    """"latency_optimized" translates greedily, the others with the server's beam."""
    ignore_tags: Names = Field(default=[])
    """Elements whose text is not translated."""
    splitting_tags: Names = Field(default=[])
    """Tags that separate sentences."""
    non_splitting_tags: Names = Field(default=[])
    """Tags that do not separate sentences."""
    outline_detection: bool | None = None
    """False: only `splitting_tags` separate sentences."""
    context: str | None = None
    """Without an effect: the model translates one sentence at a time."""


class DeepLLanguagesRequest(LenientModel):
    """Which languages to list."""

    type: Annotated[Literal["source", "target"], Lowered] = "source"


class DeepLAPI:
    """Handlers of DeepL's API."""

    def __init__(
        self,
        registry: ModelRegistry,
        settings: ServerSettings,
        *,
        documents: DocumentAPI,
        store: ClientStore,
        glossaries: ClientStore,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._glossaries = GlossaryAPI(registry, glossaries)
        self._documents = DeepLDocumentAPI(
            documents, settings, store=store, options=self._text_options
        )

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of this API."""
        apis = (self, self._glossaries, self._documents)
        return tuple(operation for api in apis for operation in operations_of(api))

    @Operation(
        "POST", "/v2/translate", DeepLTranslateRequest, max_body_bytes=MAX_BODY_BYTES, time_limits=1
    )
    async def translate(self, request: HTTPRequest) -> Response:
        """Translate texts, with DeepL's request and response format."""
        reject_unsupported(request.data())
        fields = read_fields(request, DeepLTranslateRequest)
        texts = request.check_texts(fields.text)
        options = await self._text_options(request, fields)
        beam = 1 if fields.model_type == "latency_optimized" else self._settings.beam
        results = await translate_texts(
            self._registry,
            texts,
            source=options.source,
            target=options.target,
            markup="html" if fields.tag_handling else "placeholders",
            options=BatchOptions(beam=beam, glossary=options.glossary),
            rules=TagRules(
                boundaries=frozenset(fields.splitting_tags),
                inline=frozenset(fields.non_splitting_tags),
                untranslated=frozenset(fields.ignore_tags),
                html=fields.outline_detection is not False,
                xml=fields.tag_handling == "xml",
            ),
        )
        translations: list[dict[str, object]] = []
        for text, result in zip(texts, results, strict=True):
            translation: dict[str, object] = {
                "detected_source_language": result.source.upper(),
                "text": result.translation.text,
            }
            if fields.show_billed_characters:
                translation["billed_characters"] = len(text)
            if fields.model_type:
                translation["model_type_used"] = fields.model_type.removeprefix("prefer_")
            translations.append(translation)
        return with_ignored(json_response({"translations": translations}), options.ignored)

    @Operation("GET", "/v2/languages", DeepLLanguagesRequest, max_body_bytes=MAX_BODY_BYTES)
    @Operation("POST", "/v2/languages", DeepLLanguagesRequest, max_body_bytes=MAX_BODY_BYTES)
    async def languages(self, request: HTTPRequest) -> Content:
        """List the source or target languages."""
        is_target = read_fields(request, DeepLLanguagesRequest).type == "target"
        languages = self._registry.targets() if is_target else self._registry.sources()
        formality = {"supports_formality": False} if is_target else {}
        return [
            {"language": language.code.upper(), "name": language.name, **formality}
            for language in languages
        ]

    @Operation("GET", "/v2/usage")
    async def usage(self, request: HTTPRequest) -> Content:
        """Return the number of characters of the key's requests on the current day."""
        count, limit = request.usage()
        return {"character_count": count, "character_limit": limit}

    async def _text_options(
        self, request: HTTPRequest, fields: DeepLTranslateRequest | DocumentUpload
    ) -> TextOptions:
        """Read the parameters that texts and documents share; list those without an effect."""
        registry, source = self._registry, AUTO
        target = language_code(fields.target_lang, registry.targets(), field="target_lang")
        if fields.source_lang:
            source = language_code(fields.source_lang, registry.sources(), field="source_lang")
        glossary_id = fields.glossary_id
        if glossary_id and not fields.source_lang:
            raise HTTPError(400, "Parameter 'source_lang' is required with 'glossary_id'.")
        find = self._glossaries.find
        glossary = await find(request.user, glossary_id) if glossary_id else None
        known = _TEXT_ONLY if isinstance(fields, DeepLTranslateRequest) else _DOCUMENT_ONLY
        return TextOptions(
            source=source,
            target=target,
            glossary=glossary.terms(source, target) if glossary else (),
            ignored=_without_effect(request.data(), known=known),
        )


def _without_effect(data: RequestData, *, known: frozenset[str]) -> tuple[str, ...]:
    """Return the names of parameters that change nothing."""
    fields = data.texts if data.json is None else data.json
    sent = [name for name in fields if data.value(name) not in (None, "")]
    if data.value("tag_handling"):
        known |= {"tag_handling"} | _TAGS
    defaults = {"formality": "default", "split_sentences": "1"}
    ignored = [name for name in sent if name not in known]
    return tuple(
        name
        for name in ignored
        if data.value(name) != defaults.get(name) and _PARAMETER.fullmatch(name)
    )
