"""The table of operations, and what is derived from it: the routes and the OpenAPI 3.1 document.

An `Operation` is all there is to know about a path and method: handler, request and response
models, limits and error statuses. Routes and document are both generated from it, so they cannot
disagree. LibreTranslate's and DeepL's requests may be JSON, a form of either kind, or a query
string; the document says so in its description.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue, models_json_schema
from starlette.types import Message, Receive, Scope, Send

from transduce.io.machine import VERSION
from transduce.serve.requests import ClientDisconnected, HTTPError, HTTPRequest, read_body

LOG = logging.getLogger("transduce.serve")

JSON = "application/json"

RequestFormat = Literal["none", "json", "any", "file"]
"""Accepted bodies: none; JSON only; JSON, a form or a query string; a form with a file."""


class StrictModel(BaseModel):
    """Rejects unknown fields: all responses, and the requests of the native API."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LenientModel(BaseModel):
    """Ignores unknown fields: requests of APIs with many different clients."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class ErrorResponse(StrictModel):
    """Why a request failed, in LibreTranslate's and the native API."""

    error: str


class HTTPResponse(NamedTuple):
    """A complete response."""

    body: bytes
    status: int = 200
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, model: BaseModel) -> "HTTPResponse":
        """Serialize a model; fields that were not set are omitted."""
        return cls(model.model_dump_json(exclude_unset=True).encode())


Handler = Callable[[HTTPRequest], Awaitable[HTTPResponse]]


def error_response(error: HTTPError, error_model: type[BaseModel]) -> HTTPResponse:
    """Format an error as the error model of an API, whose only field is the message."""
    (field,) = error_model.model_fields
    headers = () if error.retry_after is None else (("retry-after", str(error.retry_after)),)
    body = error_model.model_validate({field: error.message}).model_dump_json().encode()
    return HTTPResponse(body, error.status, headers=headers)


async def send_response(response: HTTPResponse, send: Send) -> None:
    """Send a complete response."""
    headers = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in response.headers]
    if response.status != 304:  # there these headers would describe the body that is not sent
        headers.append((b"content-type", response.media_type.encode("latin-1")))
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A path and method: its handler, request and responses."""

    path: str
    method: Literal["GET", "POST"]
    operation_id: str
    """Name of the operation in clients generated from the document."""
    handler: Handler
    """Its docstring is the summary in the document."""
    response_model: type[BaseModel] | None
    """JSON content of a 200 response; None if it is not JSON."""
    request_model: type[BaseModel] | None = None
    request_format: RequestFormat = "none"
    media_type: str = JSON
    """Content type of a 200 response."""
    error_statuses: tuple[int, ...] = (500,)
    error_model: type[BaseModel] = ErrorResponse
    max_body_bytes: int = 0
    timeout_s: float | None = None
    """Maximum seconds for a response, cancelled early if the client disconnects; None waits
    without watching the client. Set for requests that run a model."""
    can_succeed: bool = True
    """Whether a 200 response exists at all."""

    @property
    def statuses(self) -> tuple[int, ...]:
        """Error statuses, including those of a queue if it runs a model."""
        return (
            self.error_statuses if self.timeout_s is None else (400, 403, 413, 429, 500, 503, 504)
        )


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(self, operation: Operation) -> None:
        """Store the operation."""
        self.operation = operation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; nothing is sent to a client that disconnected."""
        operation = self.operation
        try:
            body = b""
            if operation.request_format != "none":
                body = await read_body(scope, receive, max_bytes=operation.max_body_bytes)
            work = operation.handler(HTTPRequest(scope=scope, body=body))
            if operation.timeout_s is None:
                response = await work
            else:
                response = await _with_timeout(work, receive, operation.timeout_s)
        except ClientDisconnected:
            return
        except HTTPError as error:
            response = error_response(error, operation.error_model)
        except Exception:
            response = internal_error(scope, operation.error_model)
        await send_response(response, send)


def internal_error(scope: Scope, error_model: type[BaseModel]) -> HTTPResponse:
    """Log the current exception; the response reveals only the request ID."""
    name = request_id(scope)
    LOG.exception("request %s: %s %r failed", name, scope["method"], scope["path"])
    return error_response(HTTPError(500, f"internal error, request {name}"), error_model)


def request_id(scope: Scope) -> str:
    """Return the ID of a request in the log and in its response."""
    return scope.get("state", {}).get("request_id", "")


async def _with_timeout(
    work: Awaitable[HTTPResponse], receive: Receive, seconds: float
) -> HTTPResponse:
    """Await a response for at most `seconds`, and only while the client is connected.

    The work runs in the task of the request, so cancelling that task abandons it.
    """
    task = asyncio.current_task()
    assert task is not None
    disconnects: list[Message] = []
    watcher = asyncio.create_task(_cancel_on_disconnect(receive, task, disconnects))
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise HTTPError(504, f"The time limit of {seconds:g} seconds was exceeded") from None
    except asyncio.CancelledError:
        if not disconnects:  # cancelled by the server, not by the watcher
            raise
        task.uncancel()
        raise ClientDisconnected from None
    finally:
        watcher.cancel()


async def _cancel_on_disconnect(
    receive: Receive, task: "asyncio.Task[object]", disconnects: list[Message]
) -> None:
    while (message := await receive())["type"] != "http.disconnect":
        pass
    disconnects.append(message)
    task.cancel()


REFERENCE = "#/components/schemas/{model}"
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

DESCRIPTION = """Translation with your own models, for clients of LibreTranslate and of DeepL, and
access to the model's internals. Form fields may also be sent in the query string. If the server
requires an API key, send it as `api_key`, or in the Authorization header after `Bearer` or
`DeepL-Auth-Key`."""

JSONObject = dict[str, object]
Schemas = dict[tuple[type[BaseModel], JsonSchemaMode], JsonSchemaValue]


LanguageCodes = Mapping[str, Sequence[str]]
"""Values of the language fields of requests, by the name of the field."""


def openapi_document(operations: Sequence[Operation], languages: LanguageCodes) -> JSONObject:
    """Generate the document of the operations, with the loaded languages as enumerations."""
    references, definitions = models_json_schema(_models(operations), ref_template=REFERENCE)
    schemas: Schemas = {
        (model, mode): schema
        for (model, mode), schema in references.items()
        if issubclass(model, BaseModel)
    }
    components = definitions.get("$defs", {})
    for operation in operations:
        if operation.request_model is not None:
            name = schemas[operation.request_model, "validation"]["$ref"].rpartition("/")[2]
            _add_language_codes(components[name], languages)
    paths: dict[str, JSONObject] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(
            operation, schemas, languages
        )
    return {
        "openapi": "3.1.0",
        "info": {"title": "transduce", "version": VERSION, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components},
    }


def _models(operations: Sequence[Operation]) -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    """Return every request and response model once."""
    models: dict[tuple[type[BaseModel], Literal["validation", "serialization"]], None] = {}
    for operation in operations:
        if operation.request_model is not None:
            models[operation.request_model, "validation"] = None
        if operation.response_model is not None:
            models[operation.response_model, "serialization"] = None
        models[operation.error_model, "serialization"] = None
    return list(models)


def _add_language_codes(schema: JsonSchemaValue, languages: LanguageCodes) -> None:
    """Enumerate the loaded languages in a request's language fields."""
    for name, field in schema["properties"].items():
        if name in languages:
            null = [None] if "anyOf" in field else []
            field["enum"] = [*languages[name], *null]


def _describe(operation: Operation, schemas: Schemas, languages: LanguageCodes) -> JSONObject:
    description: JSONObject = {
        "operationId": operation.operation_id,
        "summary": (operation.handler.__doc__ or "").strip(),
        "responses": _responses(operation, schemas),
    }
    if "{name}" in operation.path:
        description["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if operation.request_model is None:
        return description
    if operation.method == "GET":
        description["parameters"] = _query_parameters(operation.request_model)
        return description
    form = _form_schema(operation.request_model)
    _add_language_codes(form, languages)
    schema = schemas[operation.request_model, "validation"]
    media_types = {"json": [JSON], "file": [MULTIPART], "any": [JSON, FORM, MULTIPART]}
    description["requestBody"] = {
        "required": True,
        "content": {
            media_type: {"schema": schema if media_type == JSON else form}
            for media_type in media_types[operation.request_format]
        },
    }
    return description


def _query_parameters(model: type[BaseModel]) -> list[JSONObject]:
    properties = _form_schema(model)["properties"]
    return [
        {"name": name, "in": "query", "required": field.is_required(), "schema": properties[name]}
        for name, field in model.model_fields.items()
    ]


def _form_schema(model: type[BaseModel]) -> JsonSchemaValue:
    """Describe a model as form fields, which are never null and where a union is a text."""
    schema = model.model_json_schema(ref_template=REFERENCE)
    schema["properties"] = {
        name: _form_field(field, schema["properties"][name])
        for name, field in model.model_fields.items()
    }
    return schema


def _form_field(field: FieldInfo, schema: JsonSchemaValue) -> JsonSchemaValue:
    union = schema.get("anyOf")
    if not union:
        return schema
    (member,) = [option for option in union if option["type"] not in ("null", "array")]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    non_empty = {"minLength": 1} if field.is_required() else {}
    return rest | member | non_empty


def _responses(operation: Operation, schemas: Schemas) -> JSONObject:
    responses: JSONObject = {}
    if operation.can_succeed:
        content: JSONObject = {}
        if operation.response_model is not None:
            content["schema"] = schemas[operation.response_model, "serialization"]
        responses["200"] = {"description": "OK", "content": {operation.media_type: content}}
    error = schemas[operation.error_model, "serialization"]
    for status in operation.statuses:
        response: JSONObject = {
            "description": HTTPStatus(status).phrase,
            "content": {JSON: {"schema": error}},
        }
        if status in (429, 503):
            response["headers"] = {
                "Retry-After": {
                    "description": "Seconds to wait before the next attempt",
                    "schema": {"type": "string"},
                }
            }
        responses[str(status)] = response
    return responses
