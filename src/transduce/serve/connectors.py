"""APIs of programs for translators: OmegaT's Apertium connector, OPUS-CAT's plug-ins, and chat.

Each names languages in its own way: `en|de`, three letters, regions that no model has, or words in
a prompt. They become the codes of a loaded direction; what is not named is detected, or is the only
one there is.
"""

import json
import re
import time
from dataclasses import replace
from typing import Final

from pydantic import Field
from starlette.responses import Response

from transduce.data.languages import base_language, language_name
from transduce.serve.batcher import BatchOptions
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import AUTO, ModelRegistry
from transduce.serve.parameters import language_code, read_fields
from transduce.serve.requests import HTTPRequest
from transduce.serve.routing import JSON, Content, LenientModel, Operation, operations_of
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import translate_texts

OPUS_CAT = "/MTRestService/"
OPUS_CAT_TOO = "/MtRestService/"
"""OPUS-CAT's plug-ins spell the path in both ways; its own server ignores case."""

_BREAK = "<br />"  # how SubtitleEdit sends a line break
_EVENTS: Final = "text/event-stream"
_ENGLISH_WORDS = (
    *("am", "an", "as", "be", "he", "her", "him", "hi"),
    *("id", "is", "it", "my", "no", "or", "so"),
)
"""Language codes that are rather words where a prompt has them in lower case."""
_INSTRUCTION = re.compile(r"\s*(?:please\s+)?translate\b[^\n]*\n\s*\n", re.IGNORECASE)


class ApertiumRequest(LenientModel):
    """A text to translate, as Apertium's clients send it."""

    q: str = Field(min_length=1)
    langpair: str = Field(pattern=r"^[^|]+\|[^|]+$")
    """Codes of both languages, as "en|de"."""
    markUnknown: str = "no"
    """Without an effect: a model marks no unknown words."""
    key: str = ""
    """The API key."""


class OpusCatRequest(LenientModel):
    """A text to translate, as OPUS-CAT's plug-ins send it."""

    input: str = ""
    srcLangCode: str = ""
    """Detected if omitted."""
    trgLangCode: str = ""
    """Optional if there is only one target language."""
    tokenCode: str = ""
    """The API key; "0" is none."""


class ChatPart(LenientModel):
    """A part of a message; without a text, as an image, it has no effect."""

    text: str | None = None


class ChatMessage(LenientModel):
    """A message of a chat."""

    role: str
    content: str | list[ChatPart] | None = None
    """A text, or parts, each of which begins a line."""

    @property
    def text(self) -> str:
        """The content as a text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class ChatRequest(LenientModel):
    """A chat whose last message of the user is translated."""

    messages: list[ChatMessage] = Field(min_length=1)
    """A message, or a first paragraph, such as "Translate from English to German:" selects the
    languages, if `model` does not."""
    model: str = ""
    """`transduce-en-de` for English to German."""
    stream: bool = False
    """Whether to answer with events; the translation is one of them."""


class ConnectorAPI:
    """Handlers of the three APIs."""

    def __init__(self, registry: ModelRegistry, settings: ServerSettings) -> None:
        self._registry, self._beam = registry, settings.beam

    def operations(self) -> tuple[Operation, ...]:
        """Return the operations of all three."""
        operations = operations_of(self)
        respelled = [
            replace(operation, path=operation.path.replace(OPUS_CAT, OPUS_CAT_TOO))
            for operation in operations
            if operation.path.startswith(OPUS_CAT)
        ]
        return (*operations, *respelled)

    @Operation("GET", "/translate", ApertiumRequest, time_limits=1)
    async def apertium(self, request: HTTPRequest) -> Content:
        """Translate a text, as Apertium's server does for OmegaT."""
        fields = read_fields(request, ApertiumRequest, key_field="key")
        source, _, target = fields.langpair.partition("|")
        text = await self._translate(request, fields.q, source=source, target=target)
        return {
            "responseData": {"translatedText": text},
            "responseDetails": None,
            "responseStatus": 200,
        }

    @Operation("GET", "/v1/models")
    async def chat_models(self, request: HTTPRequest) -> Content:
        """List the directions as chat models."""
        names = [f"transduce-{direction.name}" for direction in self._registry.directions]
        model = {"object": "model", "created": 0, "owned_by": "transduce"}
        return {"object": "list", "data": [{"id": name, **model} for name in names]}

    @Operation("POST", "/v1/chat/completions", ChatRequest, time_limits=1)
    async def chat(self, request: HTTPRequest) -> Response | Content:
        """Translate the last message of the user, as a chat model would."""
        fields = read_fields(request, ChatRequest)
        messages = fields.messages
        last = ([message for message in messages if message.role == "user"] or messages)[-1]
        if last.content is None:
            raise HTTPError(400, "Invalid request: the last of the messages has no content")
        text = last.text
        match = _INSTRUCTION.match(text)
        prompt = "\n".join([message.text for message in messages if message.role == "system"])
        if match and self._named_languages(match[0])[1]:
            prompt, text = match[0], text[match.end() :]
        source, target = self._model_languages(fields.model) or self._named_languages(prompt)
        plain = text.replace(_BREAK, "\n")
        answer = await self._translate(request, plain, source=source, target=target)
        if plain != text:
            answer = answer.replace("\n", _BREAK)
        head: dict[str, object] = {
            "id": f"chatcmpl-{request.state.request_id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": fields.model,
        }
        message = {"role": "assistant", "content": answer}
        if fields.stream:
            return _events(head, message)
        return head | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    @Operation("GET", f"{OPUS_CAT}TranslateJson", OpusCatRequest, time_limits=1)
    @Operation("POST", f"{OPUS_CAT}TranslatePost", OpusCatRequest, time_limits=1)
    async def opus_cat_json(self, request: HTTPRequest) -> Content:
        """Translate a text, as OPUS-CAT does for its plug-ins."""
        text = await self._opus_cat_text(request)
        return {"translation": text, "Translation": text}  # both spellings are in use

    @Operation("GET", f"{OPUS_CAT}Translate", OpusCatRequest, time_limits=1)
    async def opus_cat_text(self, request: HTTPRequest) -> Content:
        """Translate a text, into a JSON string."""
        return await self._opus_cat_text(request)

    @Operation("GET", f"{OPUS_CAT}ListSupportedLanguagePairs")
    async def opus_cat_pairs(self, request: HTTPRequest) -> Content:
        """List the loaded language pairs."""
        return [direction.name for direction in self._registry.directions]

    @Operation("GET", f"{OPUS_CAT}GetLanguagePairModelTags")
    async def opus_cat_tags(self, request: HTTPRequest) -> Content:
        """List the tags of models, of which there are none."""
        return []

    @Operation("GET", f"{OPUS_CAT}CheckModelStatus", OpusCatRequest)
    async def opus_cat_status(self, request: HTTPRequest) -> Content:
        """Say in a sentence whether a direction is loaded."""
        fields = read_fields(request, OpusCatRequest, key_field="tokenCode")
        source, target = self._codes(fields.srcLangCode, fields.trgLangCode)
        direction = self._registry.find(source, target)
        return f"Model {direction.name} is available."

    @Operation("POST", f"{OPUS_CAT}PreOrderBatch")
    async def opus_cat_order(self, request: HTTPRequest) -> Response:
        """Accept an announcement of texts, which changes nothing."""
        return Response("null", media_type=JSON)

    async def _opus_cat_text(self, request: HTTPRequest) -> str:
        fields = read_fields(request, OpusCatRequest, key_field="tokenCode")
        source, target = fields.srcLangCode, fields.trgLangCode
        return await self._translate(request, fields.input, source=source, target=target)

    async def _translate(self, request: HTTPRequest, text: str, *, source: str, target: str) -> str:
        """Translate a text between languages as a connector names them; "" is unknown."""
        source, target = self._codes(source, target)
        (result,) = await translate_texts(
            self._registry,
            request.check_texts([text]),
            source=source,
            target=target,
            markup="placeholders",
            options=BatchOptions(beam=self._beam),
        )
        return result.translation.text

    def _codes(self, source: str, target: str) -> tuple[str, str]:
        registry = self._registry
        targets = registry.targets()
        if not target and len(targets) > 1:
            models = ", ".join(f"transduce-{direction.name}" for direction in registry.directions)
            raise HTTPError(400, f"Invalid request: name the target language, or one of {models}")
        source = language_code(source, registry.sources(), field="source") if source else AUTO
        return source, language_code(
            target or registry.directions[0].target.code, targets, field="target"
        )

    def _model_languages(self, model: str) -> tuple[str, str] | None:
        directions = {direction.name.lower(): direction for direction in self._registry.directions}
        direction = directions.get(model.lower().removeprefix("transduce-"))
        return (direction.source.code, direction.target.code) if direction else None

    def _named_languages(self, prompt: str) -> tuple[str, str]:
        """Return the codes of the source and target language that a prompt names; "" for none."""
        languages = (*self._registry.sources(), *self._registry.targets())
        names = {  # without variants: the names of languages take precedence
            language_name(base_language(language.code)).lower(): language.code
            for language in reversed(languages)
        }
        names |= {language.name.lower(): language.code for language in languages}
        codes = {language.code.lower(): language.code for language in languages}

        def code_after(words: str) -> str:
            for choices in (names, codes):  # a code may be a word, as "it": names come first
                choice = "|".join(map(re.escape, sorted(choices, key=len, reverse=True)))
                pattern = rf"\b(?:{words})\s+({choice})(?!\w)"
                for match in re.finditer(pattern, prompt, re.IGNORECASE):
                    code = choices.get(match[1].lower())  # none of "ı", which matches "i"
                    if code and match[1] not in _ENGLISH_WORDS:
                        return code
            return ""

        return code_after("from"), code_after("to|into")


def _events(head: dict[str, object], message: dict[str, str]) -> Response:
    """Return an answer as the events of a stream: its text, and its end."""
    chunk = head | {"object": "chat.completion.chunk"}
    steps = [
        chunk | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    lines = [json.dumps(step, ensure_ascii=False) for step in steps]
    return Response("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), media_type=_EVENTS)
