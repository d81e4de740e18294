"""DeepL's API, compatible with its official client libraries.

Covers texts, documents, glossaries, languages and usage. Parameters that would change a translation
in ways that no model here supports (a required formality, style rules) are rejected. Preferences
and hints without an effect, and unknown parameters, are named in the response's header
X-Ignored-Parameters.
"""

import re
from typing import Final, Literal

from pydantic import Field, RootModel
from starlette.responses import Response

from transduce.documents.html import TagRules
from transduce.serve.deepl_documents import DeepLDocumentAPI, TextOptions, with_ignored
from transduce.serve.deepl_glossaries import GlossaryAPI
from transduce.serve.deepl_parameters import (
    boolean,
    choice,
    language_code,
    names,
    text_parameter,
    unsupported,
)
from transduce.serve.documents import DocumentAPI
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import AUTO, ModelRegistry
from transduce.serve.requests import HTTPRequest, RequestData
from transduce.serve.routing import LenientModel, Operation, StrictModel, json_response
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import options_for_alternatives, translate_texts

MAX_BODY_BYTES = 128 * 1024
"""Maximum size of a request body, as in DeepL's API."""

LATENCY: Final = "latency_optimized"
"""Model type that translates greedily."""

QUALITY: Final = "quality_optimized"
"""Model type that translates with the server's beam."""

_UNSUPPORTED = (
    *("glossary_ids", "style_id", "custom_instructions"),
    *("translation_memory_id", "translation_memory_threshold"),
)
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
    tag_handling: Literal["html", "xml"] | None = None
    """Preserves tags."""
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    """Without an effect: the model translates one sentence at a time."""
    preserve_formatting: bool | None = None
    """White space is always preserved."""
    show_billed_characters: bool | None = None
    """Whether to return the number of characters; nothing is billed."""
    formality: Literal["default", "prefer_more", "prefer_less"] | None = None
    """A preference without an effect; "more" and "less" are rejected."""
    glossary_id: str | None = None
    """Requires `source_lang`."""
    model_type: (
        Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"] | None
    ) = None
    """"latency_optimized" translates greedily, the others with the server's beam."""
    ignore_tags: list[str] = Field(default=[])
    """Elements whose text is not translated."""
    splitting_tags: list[str] = Field(default=[])
    """Tags that separate sentences."""
    non_splitting_tags: list[str] = Field(default=[])
    """Tags that do not separate sentences."""
    outline_detection: bool | None = None
    """False: only `splitting_tags` separate sentences."""
    context: str | None = None
    """Without an effect: the model translates one sentence at a time."""


class DeepLLanguagesRequest(LenientModel):
    """Which languages to list."""

    type: Literal["source", "target"] = "source"


class DeepLTranslation(StrictModel):
    """A translated text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None
    model_type_used: str | None = None
    """Only if a type was requested."""


class DeepLTranslateResponse(StrictModel):
    """The translations, in the order of the texts."""

    translations: list[DeepLTranslation]


class DeepLLanguage(StrictModel):
    """A language."""

    language: str
    name: str
    supports_formality: bool | None = None
    """Target languages only."""


class DeepLUsage(StrictModel):
    """Characters of the current day, which begins with the first request."""

    character_count: int
    character_limit: int
    """The key's daily quota; without one, a number too large to reach."""


class DeepLLanguageList(RootModel[list[DeepLLanguage]]):
    """Languages."""


class DeepLAPI:
    """Handlers of DeepL's API."""

    def __init__(
        self, registry: ModelRegistry, settings: ServerSettings, *, documents: DocumentAPI
    ) -> None:
        """Store the models, the limits, and what translates documents."""
        self._registry = registry
        self._settings = settings
        self._glossaries = GlossaryAPI(registry)
        self._documents = DeepLDocumentAPI(documents, settings, options=self._document_options)

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of this API."""
        return (
            Operation(
                "POST",
                "/v2/translate",
                self.translate,
                operation_id="deepl_translate",
                request_model=DeepLTranslateRequest,
                response_model=DeepLTranslateResponse,
                max_body_bytes=MAX_BODY_BYTES,
                time_limits=1,
            ),
            *self._glossaries.operations(),
            *self._documents.operations(),
            *(
                Operation(
                    method,
                    "/v2/languages",
                    self.languages,
                    operation_id=f"deepl_languages_{method.lower()}",
                    request_model=DeepLLanguagesRequest,
                    response_model=DeepLLanguageList,
                    error_statuses=(400, 413, 500),
                    max_body_bytes=MAX_BODY_BYTES,
                )
                for method in ("GET", "POST")
            ),
            Operation(
                "GET",
                "/v2/usage",
                self.usage,
                operation_id="deepl_usage",
                response_model=DeepLUsage,
            ),
        )

    async def translate(self, request: HTTPRequest) -> Response:
        """Translate texts, with DeepL's request and response format."""
        data = request.data()
        texts = request.check_texts(_texts(data))
        options = self._text_options(request, data, known=_TEXT_ONLY)
        tag_handling = choice(data, "tag_handling", ("html", "xml"))
        choice(data, "split_sentences", ("0", "1", "nonewlines"))
        boolean(data, "preserve_formatting")
        show_billed = boolean(data, "show_billed_characters")
        model_type = choice(data, "model_type", (QUALITY, f"prefer_{QUALITY}", LATENCY))
        beam = 1 if model_type == LATENCY else self._settings.beam
        results = await translate_texts(
            self._registry,
            texts,
            source=options.source,
            target=options.target,
            markup="html" if tag_handling else "placeholders",
            options=options_for_alternatives(1, 0, beam=beam)._replace(glossary=options.glossary),
            rules=_tag_rules(data),
        )
        # An optional field that is not set is omitted from the response.
        used = {"model_type_used": model_type.removeprefix("prefer_")} if model_type else {}
        translations = [
            DeepLTranslation.model_validate(
                {
                    "detected_source_language": result.source.upper(),
                    "text": result.translation.text,
                    **({"billed_characters": len(text)} if show_billed else {}),
                    **used,
                }
            )
            for text, result in zip(texts, results, strict=True)
        ]
        response = json_response(DeepLTranslateResponse(translations=translations))
        return with_ignored(response, options.ignored)

    async def languages(self, request: HTTPRequest) -> Response:
        """List the source or target languages."""
        is_target = choice(request.data(), "type", ("source", "target")) == "target"
        languages = self._registry.targets() if is_target else self._registry.sources()
        formality = {"supports_formality": False} if is_target else {}
        entries = [
            DeepLLanguage(language=language.code.upper(), name=language.name, **formality)
            for language in languages
        ]
        return json_response(DeepLLanguageList(entries))

    async def usage(self, request: HTTPRequest) -> Response:
        """Return the number of characters of the key's requests on the current day."""
        usage = request.usage()
        return json_response(
            DeepLUsage(character_count=usage.characters, character_limit=usage.limit)
        )

    def _document_options(self, request: HTTPRequest) -> TextOptions:
        return self._text_options(request, request.data(), known=_DOCUMENT_ONLY)

    def _text_options(
        self, request: HTTPRequest, data: RequestData, *, known: frozenset[str]
    ) -> TextOptions:
        """Read the parameters that texts and documents share; list those without an effect."""
        target = language_code(
            text_parameter(data, "target_lang"), self._registry.targets(), field="target_lang"
        )
        requested = text_parameter(data, "source_lang", required=False)
        source = AUTO
        if requested:
            source = language_code(requested, self._registry.sources(), field="source_lang")
        _reject_unsupported(data)
        glossary_id = text_parameter(data, "glossary_id", required=False)
        if glossary_id and not requested:
            raise HTTPError(400, "Parameter 'source_lang' is required with 'glossary_id'.")
        glossary = self._glossaries.find(request.api_key, glossary_id) if glossary_id else None
        return TextOptions(
            source=source,
            target=target,
            glossary=glossary.terms(source, target) if glossary else (),
            ignored=_without_effect(data, known=known),
        )


def _texts(data: RequestData) -> list[str]:
    if data.json is None:
        texts = list(data.texts.get("text", ()))
    else:
        value = data.json.get("text")
        value = [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            raise HTTPError(400, "Parameter 'text' must be a list of texts.")
        texts = [text for text in value if isinstance(text, str)]
    if not texts:
        raise HTTPError(400, "Parameter 'text' not specified.")
    return texts


def _tag_rules(data: RequestData) -> TagRules:
    return TagRules(
        boundaries=names(data, "splitting_tags"),
        inline=names(data, "non_splitting_tags"),
        untranslated=names(data, "ignore_tags"),
        html=boolean(data, "outline_detection") is not False,
    )


def _without_effect(data: RequestData, *, known: frozenset[str]) -> tuple[str, ...]:
    """Return the names of parameters that change nothing."""
    fields = data.texts if data.json is None else data.json
    given = [name for name in fields if data.value(name) not in (None, "")]
    if data.value("tag_handling"):
        known |= {"tag_handling"} | _TAGS
    defaults = {"formality": "default", "split_sentences": "1"}
    ignored = [name for name in given if name not in known]
    return tuple(
        name
        for name in ignored
        if data.value(name) != defaults.get(name) and _PARAMETER.fullmatch(name)
    )


def _reject_unsupported(data: RequestData) -> None:
    for name in _UNSUPPORTED:
        if data.value(name):
            raise HTTPError(400, f"Parameter '{name}' is not supported by this server: remove it.")
    formality = choice(data, "formality", ("default", "prefer_more", "prefer_less", "more", "less"))
    if formality in ("more", "less"):
        raise unsupported(
            "formality",
            "Target languages of this server have no formality; remove it, or use prefer_more or "
            "prefer_less",
        )
