"""Parameters of DeepL's API: parsed from JSON, a form or a query string, rejected by name."""

from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import Language, same_code
from transduce.serve.requests import RequestData

ModelT = TypeVar("ModelT", bound=BaseModel)

_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


def unsupported(name: str, reason: str) -> HTTPError:
    """Return the error for an invalid value."""
    return HTTPError(400, f"Value for '{name}' not supported: {reason}.")


def text_parameter(data: RequestData, name: str, *, required: bool = True) -> str:
    """Return a text; "" if it is optional and missing."""
    value = data.value(name)
    if value is None or value == "":
        if required:
            raise HTTPError(400, f"Parameter '{name}' not specified.")
        return ""
    if not isinstance(value, str):
        raise unsupported(name, "it must be a text")
    return value


def choice(data: RequestData, name: str, choices: tuple[str, ...]) -> str:
    """Return a text of a few; "" if it is missing."""
    value = text_parameter(data, name, required=False).lower()
    if value and value not in choices:
        raise unsupported(name, f"use {', '.join(choices[:-1])} or {choices[-1]}")
    return value


def boolean(data: RequestData, name: str) -> bool | None:
    """Return a truth value; None if it is missing."""
    value = data.value(name)
    if value is None or isinstance(value, bool):
        return value
    parsed = _BOOLEANS.get(str(value).lower())
    if parsed is None:
        raise unsupported(name, "use true or false")
    return parsed


def names(data: RequestData, name: str) -> frozenset[str]:
    """Return the lower-cased names of a list, or of texts that separate them by commas."""
    value = data.texts.get(name, ()) if data.json is None else data.json.get(name)
    values = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(values, list | tuple) or not all(isinstance(text, str) for text in values):
        raise unsupported(name, "it must be a list of texts")
    return frozenset(
        tag.strip().lower() for text in values for tag in str(text).split(",") if tag.strip()
    )


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
    """Validate the fields of a request.

    Raises:
        HTTPError: 400, naming the first invalid field.
    """
    fields = data.json
    if fields is None:
        fields = {name: values[0] for name, values in data.texts.items()}
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            raise HTTPError(400, f"Parameter '{name}' not specified.") from None
        raise unsupported(name, first["msg"]) from None
