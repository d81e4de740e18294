"""The OpenAPI 3.1 document, made from the same table as the routes and from the models in use.

So it cannot tell of a path that is not there, nor keep quiet about a status. LibreTranslate's and
DeepL's requests come as JSON, as a form of either kind, or in the query string, which the document
says in words.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue, models_json_schema

from transduce.io.version import VERSION
from transduce.serve.call import Operation
from transduce.serve.directions import AUTO, Directions

REFERENCE = "#/components/schemas/{model}"
FORM, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"

ABOUT = """Translation with models of one's own, for clients of LibreTranslate and of DeepL, and a
look inside. What comes as a form may stand in the query string. Where the server wants an API key,
it is `api_key` of the request, or stands behind `Bearer` or `DeepL-Auth-Key` in the header
Authorization."""

Json = dict[str, object]


def document(operations: Sequence[Operation], directions: Directions) -> Json:
    """Make the document of some operations, with the languages that are loaded."""
    found, definitions = models_json_schema(_models(operations), ref_template=REFERENCE)
    schemas: Schemas = {
        (model, mode): schema
        for (model, mode), schema in found.items()
        if issubclass(model, BaseModel)
    }
    held = definitions.get("$defs", {})
    for one in operations:
        if one.asks is not None:
            name = schemas[one.asks, "validation"]["$ref"].rpartition("/")[2]
            _say_languages(held[name], directions)
    paths: dict[str, Json] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.verb.lower()] = _operation(
            operation, schemas, directions
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "transduce",
            "version": VERSION,
            "description": ABOUT,
        },
        "paths": paths,
        "components": {"schemas": held},
    }


Schemas = dict[tuple[type[BaseModel], JsonSchemaMode], JsonSchemaValue]


def _models(operations: Sequence[Operation]) -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    """Every model that is asked for or answered, each once."""
    found: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {}
    for one in operations:
        if one.asks is not None:
            found[one.asks, "validation"] = None
        if one.answer is not None:
            found[one.answer, "serialization"] = None
        found[one.error, "serialization"] = None
    return list(found)


def _say_languages(schema: JsonSchemaValue, directions: Directions) -> None:
    """Name the loaded languages where a request says one."""
    sources = [language.code for language in directions.sources()]
    targets = list(dict.fromkeys(way.target.code for way in directions.all))
    codes = {
        "source": [AUTO, *sources],
        "target": targets,
        "source_lang": [code.upper() for code in sources],
        "target_lang": [code.upper() for code in targets],
    }
    for name, field in schema["properties"].items():
        if name in codes:
            maybe = [None] if "anyOf" in field else []
            field["enum"] = [*codes[name], *maybe]


def _operation(operation: Operation, schemas: Schemas, directions: Directions) -> Json:
    said: Json = {
        "operationId": operation.name,
        "summary": operation.about,
        "responses": _responses(operation, schemas),
    }
    if "{name}" in operation.path:
        said["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if operation.asks is None:
        return said
    if operation.verb == "GET":
        said["parameters"] = _parameters(operation.asks)
        return said
    form = _form(operation.asks)
    _say_languages(form, directions)
    schema = schemas[operation.asks, "validation"]
    kinds = {"json": ["application/json"], "file": [PARTS]}
    kinds["any"] = ["application/json", FORM, PARTS]
    said["requestBody"] = {
        "required": True,
        "content": {
            kind: {"schema": schema if kind == "application/json" else form}
            for kind in kinds[operation.bodies]
        },
    }
    return said


def _parameters(asks: type[BaseModel]) -> list[Json]:
    """What a GET can say in its query string."""
    schema = _form(asks)
    return [
        {"name": name, "in": "query", "required": field.is_required(), "schema": one}
        for (name, field), one in zip(
            asks.model_fields.items(), schema["properties"].values(), strict=True
        )
    ]


def _form(asks: type[BaseModel]) -> JsonSchemaValue:
    """A model as the fields of a form, where nothing is null and a choice is a text."""
    schema = asks.model_json_schema(ref_template=REFERENCE)
    schema["properties"] = {
        name: _field(field, schema["properties"][name]) for name, field in asks.model_fields.items()
    }
    return schema


def _field(field: FieldInfo, schema: JsonSchemaValue) -> JsonSchemaValue:
    choices = schema.get("anyOf")
    if not choices:
        return schema
    (kept,) = [one for one in choices if one["type"] not in ("null", "array")]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    least = {"minLength": 1} if field.is_required() else {}
    return rest | kept | least


def _responses(operation: Operation, schemas: Schemas) -> Json:
    said: Json = {}
    if operation.answers_well:
        said["200"] = {
            "description": "Well answered",
            "content": {operation.kind: _content(operation, schemas)},
        }
    error = schemas[operation.error, "serialization"]
    for status in operation.errors:
        one: Json = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": error}},
        }
        if status in (429, 503):
            one["headers"] = {
                "Retry-After": {
                    "description": "Seconds after which trying again makes sense",
                    "schema": {"type": "string"},
                }
            }
        said[str(status)] = one
    return said


def _content(operation: Operation, schemas: Schemas) -> Json:
    if operation.answer is None:
        return {}
    return {"schema": schemas[operation.answer, "serialization"]}
