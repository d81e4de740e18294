"""What the types of requests say of `openapi.json`, which the server completes and sends.

After a wanted change of a request: TRANSDUCE_FREEZE=1 make test, then look at the difference.
"""

import copy
import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from transduce.serve.routing import JSON, Operation, StrictModel

REFERENCE = "#/components/schemas/{model}"
LANGUAGES = ("source", "target", "source_lang", "target_lang")
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

JSONObject = dict[str, Any]


def described(document: JSONObject, operations: Sequence[Operation]) -> JSONObject:
    """Return the stored document with the requests and summaries of the operations."""
    document = copy.deepcopy(document)
    requests = {way.request for way in operations if way.request is not None}
    _, definitions = models_json_schema(
        [(model, "validation") for model in requests], ref_template=REFERENCE
    )
    schemas: JSONObject = document["components"]["schemas"]
    schemas |= definitions["$defs"]
    for model in requests:
        add_languages(schemas[model.__name__])
    for operation in operations:
        if operation.path not in document["paths"]:
            continue
        way = document["paths"][operation.path][operation.method.lower()]
        way["summary"] = (operation.handler.__doc__ or "").strip()
        parameters, body = request(operation, schemas)
        for key, value in (("parameters", parameters), ("requestBody", body)):
            way.pop(key, None)
            if value:
                way[key] = value
    return document


def statuses(operation: Operation) -> set[int]:
    """Return the error statuses of every such operation: its own come on top."""
    result = {500}
    if operation.request is not None:
        result |= {413, 415}
    if operation.time_limits:
        result |= {400, 403, 429, 503, 504}
    if operation.path.startswith(("/v2/", "/v3/")):
        result |= {403, 429} | ({456} if operation.time_limits else set())
    return result


def request(operation: Operation, schemas: JSONObject) -> tuple[list[JSONObject], JSONObject]:
    """Return the parameters of an operation and its body; adds the schemas of forms."""
    parameters: list[JSONObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    model = operation.request
    if model is None:
        return parameters, {}
    form = form_schema(model)
    if operation.method in ("GET", "DELETE"):
        fields = form["properties"]
        return parameters + [
            {"name": name, "in": "query", "required": field.is_required(), "schema": fields[name]}
            for name, field in model.model_fields.items()
        ], {}
    kinds = [JSON, FORM, MULTIPART]
    if "file" in model.model_fields:
        kinds = [MULTIPART]
    elif issubclass(model, StrictModel) or operation.path.startswith(("/v1/", "/v3/")):
        kinds = [JSON]
    add_languages(form)
    name = model.__name__
    form_name = name if form == schemas[name] else f"{name.removesuffix('Request')}Form"
    if kinds != [JSON]:
        schemas[form_name] = form
    references = [REFERENCE.format(model=name if kind == JSON else form_name) for kind in kinds]
    content = {
        kind: {"schema": {"$ref": reference}}
        for kind, reference in zip(kinds, references, strict=True)
    }
    return parameters, {"required": True, "content": content}


def add_languages(schema: JSONObject) -> None:
    """Leave places for the loaded languages in the language fields of a request."""
    for name, field in schema["properties"].items():
        if name in LANGUAGES:
            field["enum"] = [f"<{name}>", *([None] if "anyOf" in field else [])]


def form_schema(model: type[BaseModel]) -> JSONObject:
    """Describe a model as form fields, which are never null and where a union is a text."""
    schema = model.model_json_schema(ref_template=REFERENCE)
    schema.pop("$defs", None)
    for name, field in model.model_fields.items():
        given = schema["properties"][name]
        if "anyOf" in given:
            kinds = [kind for kind in given.pop("anyOf") if kind["type"] not in ("null", "array")]
            given.pop("default", None)
            given |= kinds[0] | ({"minLength": 1} if field.is_required() else {})
    return schema
