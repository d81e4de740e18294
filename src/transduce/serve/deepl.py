"""DeepL's API, compatible with its official client libraries.

Covers what they need to translate text: translate, languages, usage. Parameters that would change a
translation in ways no model here supports (DeepL glossaries, a required formality) are rejected;
preferences and hints are accepted and ignored.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field, RootModel
from starlette.responses import Response

from transduce.serve.model_registry import AUTO, Language, ModelRegistry, same_code
from transduce.serve.requests import HTTPError, HTTPRequest, RequestData
from transduce.serve.routing import LenientModel, Operation, StrictModel, json_response
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import options_for_alternatives, translate_texts

MAX_BODY_BYTES = 128 * 1024
"""Maximum size of a request body, as in DeepL's API."""

UNLIMITED_CHARACTERS = 10**12
"""DeepL's character limit of an account without a limit."""

_UNSUPPORTED = (
    *("glossary_id", "glossary_ids", "style_id", "custom_instructions"),
    *("translation_memory_id", "ignore_tags"),
)
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


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
    """Accepted and ignored: the model translates one sentence at a time."""
    preserve_formatting: bool | None = None
    """Accepted and ignored: white space is always preserved."""
    show_billed_characters: bool | None = None
    """Whether to return the number of characters; nothing is billed."""
    formality: Literal["default", "prefer_more", "prefer_less"] | None = None
    """A preference, ignored by these models; "more" and "less" are rejected."""


class DeepLLanguagesRequest(LenientModel):
    """Which languages to list."""

    type: Literal["source", "target"] = "source"


class DeepLTranslation(StrictModel):
    """A translated text."""

    detected_source_language: str
    text: str
    billed_characters: int | None = None


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
    """Characters translated since the server started."""

    character_count: int
    character_limit: int
    """A constant too large to reach."""


class DeepLLanguageList(RootModel[list[DeepLLanguage]]):
    """Languages."""


class DeepLAPI:
    """Handlers of DeepL's API, and the character count."""

    def __init__(self, registry: ModelRegistry, settings: ServerSettings) -> None:
        """Store the models and the limits."""
        self._registry = registry
        self._settings = settings
        self._character_count = 0

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
        request.authorize(None, missing_status=403)
        data = request.data()
        texts = request.check_texts(_texts(data))
        target = _language_code(
            _text(data, "target_lang"), self._registry.targets(), field="target_lang"
        )
        requested = _text(data, "source_lang", required=False)
        source = AUTO
        if requested:
            source = _language_code(requested, self._registry.sources(), field="source_lang")
        markup = "html" if _has_tags(data) else "placeholders"
        show_billed = _boolean(data, "show_billed_characters")
        _reject_unsupported(data)
        results = await translate_texts(
            self._registry,
            texts,
            source=source,
            target=target,
            markup=markup,
            options=options_for_alternatives(1, 0, beam=self._settings.beam),
        )
        self._character_count += sum(map(len, texts))
        translations = [
            DeepLTranslation(
                detected_source_language=result.source.upper(),
                text=result.translation.text,
                # An optional field that is not set is omitted from the response.
                **({"billed_characters": len(text)} if show_billed else {}),
            )
            for text, result in zip(texts, results, strict=True)
        ]
        return json_response(DeepLTranslateResponse(translations=translations))

    async def languages(self, request: HTTPRequest) -> Response:
        """List the source or target languages."""
        side = _text(request.data(), "type", required=False) or "source"
        if side not in ("source", "target"):
            raise _unsupported("type", "use source or target")
        is_target = side == "target"
        languages = self._registry.targets() if is_target else self._registry.sources()
        formality = {"supports_formality": False} if is_target else {}
        entries = [
            DeepLLanguage(language=language.code.upper(), name=language.name, **formality)
            for language in languages
        ]
        return json_response(DeepLLanguageList(entries))

    async def usage(self, request: HTTPRequest) -> Response:
        """Return the number of characters translated since the server started."""
        return json_response(
            DeepLUsage(character_count=self._character_count, character_limit=UNLIMITED_CHARACTERS)
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


def _unsupported(name: str, reason: str) -> HTTPError:
    return HTTPError(400, f"Value for '{name}' not supported: {reason}.")


def _text(data: RequestData, name: str, *, required: bool = True) -> str:
    value = data.value(name)
    if value is None or value == "":
        if required:
            raise HTTPError(400, f"Parameter '{name}' not specified.")
        return ""
    if not isinstance(value, str):
        raise _unsupported(name, "it must be a text")
    return value


def _language_code(requested: str, loaded: Iterable[Language], *, field: str) -> str:
    """Return the loaded language with that code, else one that differs only in its variant."""
    codes = [language.code for language in loaded]
    base = requested.partition("-")[0]
    matches = [code for code in codes if same_code(code, requested)]
    matches += [code for code in codes if same_code(code.partition("-")[0], base)]
    if matches:
        return matches[0]
    available = ", ".join(code.upper() for code in codes)
    raise _unsupported(field, f"{requested[:60]!r}; available: {available}")


def _has_tags(data: RequestData) -> bool:
    tag_handling = _text(data, "tag_handling", required=False)
    if tag_handling not in ("", "html", "xml"):
        raise _unsupported("tag_handling", "use html or xml")
    if data.value("split_sentences") not in (None, "", "0", "1", "nonewlines"):
        raise _unsupported("split_sentences", "use 0, 1 or nonewlines")
    _boolean(data, "preserve_formatting")
    return bool(tag_handling)


def _boolean(data: RequestData, name: str) -> bool:
    value = data.value(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    boolean = _BOOLEANS.get(str(value).lower())
    if boolean is None:
        raise _unsupported(name, "use true or false")
    return boolean


def _reject_unsupported(data: RequestData) -> None:
    for name in _UNSUPPORTED:
        if data.value(name):
            raise HTTPError(400, f"Parameter '{name}' is not supported by this server: remove it.")
    formality = data.value("formality")
    if formality not in (None, "", "default", "prefer_more", "prefer_less"):
        raise _unsupported(
            "formality",
            "the models of this server have no formality setting; remove it, or use prefer_more "
            "or prefer_less",
        )
