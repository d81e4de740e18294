"""Parameters of requests: JSON, a form or a query string, rejected in the words of each API."""

from collections.abc import Iterable
from typing import Annotated, TypeVar, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails

from transduce.data.languages import base_language, normalized_base
from transduce.serve.errors import HTTPError, is_deepl
from transduce.serve.model_registry import Language, same_code
from transduce.serve.requests import HTTPRequest, RequestData, replace_nul
from transduce.serve.routing import StrictModel

ModelT = TypeVar("ModelT", bound=BaseModel)

Lowered = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
"""Accepts a choice in any case."""


def _split(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.lower().split(",") if name.strip()]


Names = Annotated[list[str], AfterValidator(_split)]
"""Names in a list, or in texts that separate them by commas."""

_MISSING = ("missing", "too_short", "string_too_short")

_UNSUPPORTED = (
    *("glossary_ids", "style_id", "custom_instructions"),
    *("translation_memory_id", "translation_memory_threshold"),
)


def unsupported(name: str, reason: str) -> HTTPError:
    """Return the error for an invalid value."""
    return HTTPError(400, f"Value for '{name}' not supported: {reason}.")


def language_code(requested: str, loaded: Iterable[Language], *, field: str) -> str:
    """Return the loaded language with that code, else one that differs only in its variant."""
    codes = [language.code for language in loaded]
    matches = [code for code in codes if same_code(code, requested)]
    base = normalized_base(requested)
    matches += [code for code in codes if base_language(code) == base]
    if matches:
        return matches[0]
    available = ", ".join(code.upper() for code in codes)
    raise unsupported(field, f"{requested[:60]!r}; available: {available}")


def read_fields(request: HTTPRequest, model: type[ModelT], *, key_field: str = "api_key") -> ModelT:
    """Authorize a request and validate its fields; an empty one is missing.

    The native API takes JSON only, without conversions. In DeepL's API, which authorizes by header,
    a single text is a list of one.

    Args:
        key_field: name of the field of the API key; "0" is none, as OPUS-CAT's plug-ins send it.

    Raises:
        HTTPError: as `HTTPRequest.authorize`; 400 in the API's words for the first invalid field.
    """
    native, deepl = issubclass(model, StrictModel), is_deepl(request.scope["path"])
    data = RequestData(json=request.json_object()) if native else request.data()
    if not deepl:
        key = data.value(key_field)
        request.authorize(None if key == "0" else key)
    values = data.texts if data.json is None else data.json
    fields = {name: data.value(name) for name in values}
    if deepl:
        for name, field in model.model_fields.items():
            if name in values and get_origin(field.annotation) is list:
                fields[name] = [values[name]] if isinstance(values[name], str) else values[name]
    if not native:
        fields |= {name: upload.content for name, upload in data.files.items()}
        fields = {n: v for n, v in fields.items() if v not in (None, "") and n != key_field}
    try:
        return model.model_validate(fields, strict=native)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        location = [*map(str, first["loc"])]
        if native:
            raise HTTPError(400, f"Invalid request: {'.'.join(location)}: {first['msg']}") from None
        if deepl:
            raise _deepl_error(first, location) from None
        raise HTTPError(400, _libretranslate_message(first, location)) from None


def _deepl_error(error: ErrorDetails, location: list[str]) -> HTTPError:
    name = ".".join(location[:-1] if isinstance(error["loc"][-1], int) else location)
    if error["type"] in _MISSING:
        return HTTPError(400, f"Parameter '{name}' not specified.")
    return unsupported(name, error["msg"])


def _libretranslate_message(error: ErrorDetails, location: list[str]) -> str:
    name, value = location[0], error["input"]
    if error["type"] in _MISSING or (name, value) == ("q", []):
        return f"Invalid request: missing {name} parameter"
    if name == "format":
        return f"{replace_nul(str(value))[:60]} format is not supported"
    if name == "alternatives":
        reason = "must be >= 0" if error["type"] == "greater_than_equal" else "is not a number"
    else:
        reason = f"is not a text{' or a list of texts' * (len(location) > 1 and value is not None)}"
    return f"Invalid request: {name} parameter {reason}"


def reject_unsupported(data: RequestData) -> None:
    """Reject parameters that would change a translation in ways that no model here supports."""
    for name in _UNSUPPORTED:
        if data.value(name):
            raise HTTPError(400, f"Parameter '{name}' is not supported by this server: remove it.")
    if str(data.value("formality")).lower() in ("more", "less"):
        raise unsupported(
            "formality",
            "Target languages of this server have no formality; remove it, or use prefer_more or "
            "prefer_less",
        )
