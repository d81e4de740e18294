"""Parameters of DeepL's API: parsed from JSON, a form or a query string, rejected by name."""

from collections.abc import Iterable
from typing import Annotated, TypeVar, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError

from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import Language, same_code
from transduce.serve.requests import RequestData

ModelT = TypeVar("ModelT", bound=BaseModel)

Lowered = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
"""Accepts a choice in any case."""


def _split(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.lower().split(",") if name.strip()]


Names = Annotated[list[str], AfterValidator(_split)]
"""Names in a list, or in texts that separate them by commas."""

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
    matches += [code for code in codes if base_code(code) == base_code(requested)]
    if matches:
        return matches[0]
    available = ", ".join(code.upper() for code in codes)
    raise unsupported(field, f"{requested[:60]!r}; available: {available}")


def base_code(code: str) -> str:
    """Return a language code without its variant, in lower case."""
    return code.partition("-")[0].lower()


def parsed_request(model: type[ModelT], data: RequestData) -> ModelT:
    """Validate the fields of a request; an empty one is missing, a single text is a list of one.

    Raises:
        HTTPError: 400, naming the first invalid field.
    """
    given = data.texts if data.json is None else data.json
    fields = {name: data.value(name) for name in given}
    for name, field in model.model_fields.items():
        if name in given and get_origin(field.annotation) is list:
            fields[name] = [given[name]] if isinstance(given[name], str) else given[name]
    fields |= {name: upload.content for name, upload in data.files.items()}
    try:
        return model.model_validate({n: v for n, v in fields.items() if v not in (None, "")})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = first["loc"][:-1] if isinstance(first["loc"][-1], int) else first["loc"]
        name = ".".join(map(str, place))
        if first["type"] in ("missing", "too_short"):
            raise HTTPError(400, f"Parameter '{name}' not specified.") from None
        raise unsupported(name, first["msg"]) from None


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
