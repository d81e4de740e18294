"""The API reference at `/docs`: the OpenAPI document as a page for readers, without JavaScript.

Swagger UI and Redoc are loaded from another host or are megabytes of JavaScript; this server's
pages load nothing from elsewhere.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from transduce.visualization.page import Section, escape, page, table

JSONObject = Mapping[str, Any]

GROUPS: Final = (
    ("/api/", "Inside the model"),
    ("/v2/", "DeepL's API"),
    ("/v3/", "DeepL's API, version 3"),
    ("/", "LibreTranslate's API, and the server"),
)
"""Headings by the beginning of the path; the first that matches."""

REFERENCE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content-Security-Policy of the reference: its only style sheet is inline."""


def api_reference(document: JSONObject) -> str:
    """Make the page.

    Args:
        document: of `openapi_document`.
    """
    groups: dict[str, list[str]] = {}
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        group = next(title for prefix, title in GROUPS if path.startswith(prefix))
        for method, operation in methods.items():
            described = _operation(method.upper(), path, operation, schemas)
            groups.setdefault(group, []).append(described)
    sections = [Section(title, "\n".join(operations)) for title, operations in groups.items()]
    sections.append(
        Section(
            "For programs",
            '<p>The same as an OpenAPI document: <a href="openapi.json">openapi.json</a>.</p>\n',
        )
    )
    info = document["info"]
    return page(f"API of {info['title']} {info['version']}", sections, lead=info["description"])


def _operation(method: str, path: str, operation: JSONObject, schemas: JSONObject) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    rows = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    body = _resolved(next(iter(contents.values()), {}).get("schema", {}), schemas)
    required = body.get("required", ())
    for name, field in body.get("properties", {}).items():
        rows.append([name, _type(field), _default(field, required=name in required)])
    parts = [
        f"<h3><code>{method} {escape(path)}</code></h3>\n<p>{escape(operation['summary'])}</p>\n"
    ]
    if rows:
        parts.append(table(["field", "type", "default"], rows))
    if contents:
        parts.append(f"<p>Body: {escape(', '.join(contents))}.</p>\n")
    if "application/json" in contents:
        example = json.dumps({name: _example(body["properties"][name]) for name in required})
        parts.append(
            f"<pre>curl -H 'Content-Type: application/json' \\\n"
            f"  -d '{escape(example)}' ADDRESS{escape(path)}</pre>\n"
        )
    statuses = [
        f"{status} {response['description']}"
        for status, response in sorted(operation["responses"].items())
    ]
    parts.append(f"<p>Responses: {escape(', '.join(statuses))}.</p>\n")
    return "".join(parts)


def _parameter(parameter: JSONObject) -> list[str]:
    field = parameter["schema"]
    default = _default(field, required=parameter["required"])
    return [f"{parameter['name']} (in the {parameter['in']})", _type(field), default]


def _resolved(schema: JSONObject, schemas: JSONObject) -> JSONObject:
    """Follow a reference to the document's schemas."""
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def _type(field: JSONObject) -> str:
    if "enum" in field:
        return " | ".join(json.dumps(value) for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return field.get("format") or field.get("type") or "any"


def _default(field: JSONObject, *, required: bool) -> str:
    if required:
        return "required"
    return json.dumps(field["default"]) if "default" in field else ""


def _example(field: JSONObject) -> object:
    """Return a value that the field accepts."""
    if "enum" in field:
        return next(value for value in reversed(field["enum"]) if value is not None)
    if "anyOf" in field:
        return _example(field["anyOf"][0])
    kinds: dict[str, object] = {"array": ["Hello."], "integer": 1, "number": 1, "boolean": True}
    return kinds.get(field.get("type", ""), "Hello.")
