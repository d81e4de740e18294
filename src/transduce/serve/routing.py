"""The table of operations, and what is derived from it: the routes and the OpenAPI 3.1 document.

An `Operation` is all there is to know about a path and method: handler, request and response
models, limits and error statuses. Routes and document are both generated from it, so they cannot
disagree. LibreTranslate's and DeepL's requests may be JSON, a form of either kind, or a query
string; the document says so in its description.
"""

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from http import HTTPStatus
from typing import Literal, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode, JsonSchemaValue, models_json_schema
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from transduce.io.machine import VERSION
from transduce.serve.access import QUOTA_EXCEEDED, ClientLimits
from transduce.serve.errors import HTTPError, is_deepl
from transduce.serve.requests import SHUTDOWN, HTTPRequest, read_body
from transduce.serve.settings import ServerSettings

LOG = logging.getLogger("transduce.serve")

JSON = "application/json"


class StrictModel(BaseModel):
    """Rejects unknown fields: all responses, and the requests of the native API."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LenientModel(BaseModel):
    """Ignores unknown fields: requests of APIs with many different clients."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class ErrorResponse(StrictModel):
    """Why a request failed, in LibreTranslate's and the native API."""

    error: str


class DeepLErrorResponse(StrictModel):
    """Why a request failed."""

    message: str


def error_model(path: str) -> type[ErrorResponse | DeepLErrorResponse]:
    """Return the format of errors of the API that a path belongs to."""
    return DeepLErrorResponse if is_deepl(path) else ErrorResponse


def json_response(model: BaseModel, status: int = 200) -> Response:
    """Serialize a model; fields that were not set are omitted."""
    return Response(model.model_dump_json(exclude_unset=True), status, media_type=JSON)


def error_response(error: HTTPError, path: str) -> Response:
    """Format an error for the API of the path."""
    model = error_model(path)
    (field,) = model.model_fields
    response = json_response(model.model_validate({field: error.message}), error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    return response


Handler = Callable[[HTTPRequest], Awaitable[Response | BaseModel | None]]
"""Returns a response, the content of a JSON one, or None for one without content."""
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
OperationRow = tuple[Method, str, Handler, type[BaseModel] | None]
"""Method, path, handler and request of one of many similar operations."""
_MARK = "operation"
MethodT = TypeVar("MethodT", bound=Callable[..., Awaitable[Response | BaseModel | None]])


async def _unbound(request: HTTPRequest) -> Response:
    raise NotImplementedError("operations_of binds the handler")


@dataclass(frozen=True, slots=True)
class Operation:
    """A path and method: its handler, request and responses. As a decorator, of its handler."""

    method: Method
    path: str
    """DeepL's API (`/v2/`, `/v3/`) requires a key for every operation, if the server has keys."""
    request: type[BaseModel] | None = None
    """Fields of the request; None if its body is not read."""
    _: KW_ONLY
    handler: Handler = _unbound
    """Its docstring is the summary in the document, its type the content of a success."""
    operation_id: str = ""
    """Name of the operation in clients generated from the document; "" takes it from the path."""
    success_status: int = 200
    """A response with 204 has no content."""
    media_type: str = JSON
    """Content type of a 200 response."""
    error_statuses: tuple[int, ...] = ()
    """Error statuses besides 500, and those of a body and of a queue (`time_limits`)."""
    max_body_bytes: int = sys.maxsize
    """Maximum size of a request body, if below the server's."""
    time_limits: int = 0
    """Maximum duration as a multiple of the server's time limit, ended early if the client
    disconnects; 0 waits without watching the client. Set for requests that run a model."""

    @property
    def response(self) -> type[BaseModel] | None:
        """JSON content of a successful response, as its handler's type; None if it is not JSON."""
        returned = get_type_hints(self.handler)["return"]
        types = [kind for kind in (returned, *get_args(returned)) if isinstance(kind, type)]
        return next((kind for kind in types if issubclass(kind, BaseModel)), None)

    @property
    def name(self) -> str:
        """The operation's ID: `/frontend/settings` has frontend_settings."""
        return self.operation_id or self.path.partition("{")[0].strip("/").replace("/", "_")

    def __call__(self, method: MethodT) -> MethodT:
        """Mark a method as the handler, for `operations_of`."""
        setattr(method, _MARK, self)
        return method


def operations_of(api: object, *, prefix: str = "") -> tuple[Operation, ...]:
    """Return the operations that decorate methods of an API, in their order.

    Args:
        api: the object with the methods.
        prefix: of IDs that are the method's name; "" keeps those of the operations.
    """
    operations: list[Operation] = []
    for name in vars(type(api)):
        method = getattr(api, name)
        if operation := getattr(method, _MARK, None):
            identity = prefix + name if prefix else operation.operation_id
            operations.append(replace(operation, handler=method, operation_id=identity))
    return tuple(operations)


class Endpoint:
    """An operation as an ASGI application."""

    def __init__(
        self, operation: Operation, settings: ServerSettings, clients: ClientLimits
    ) -> None:
        self._operation = operation
        self._settings, self._clients = settings, clients
        self._max_body_bytes = min(settings.body_limit, operation.max_body_bytes)
        self._timeout_s = operation.time_limits * settings.time_limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; nothing is sent to a client that disconnected."""
        try:
            body = b""
            if self._operation.request is not None:
                body = await read_body(scope, receive, max_bytes=self._max_body_bytes)
            request = HTTPRequest(scope, body, self._settings, self._clients)
            if is_deepl(self._operation.path):
                request.authorize(None, missing_status=403)
            work = self._handle(request)
            limited = _with_timeout(work, receive, self._timeout_s) if self._timeout_s else work
            response = await limited
        except ClientDisconnect:
            return
        except HTTPError as error:
            response = error_response(error, scope["path"])
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or error.args != (SHUTDOWN,):
                raise
            task.uncancel()
            response = error_response(HTTPError(503, SHUTDOWN, retry_after=1), scope["path"])
        except Exception:
            response = internal_error(scope)
        await response(scope, receive, send)

    async def _handle(self, request: HTTPRequest) -> Response:
        await request.parse_if_large()
        result = await self._operation.handler(request)
        request.charge()
        status = self._operation.success_status
        if isinstance(result, BaseModel):
            return json_response(result, status)
        return result or Response(status_code=status)


def internal_error(scope: Scope) -> Response:
    """Log the current exception; the response reveals only the request ID."""
    name = scope.get("state", {}).get("request_id", "")
    LOG.exception("request %s: %s %r failed", name, scope["method"], scope["path"])
    return error_response(HTTPError(500, f"internal error, request {name}"), scope["path"])


async def _with_timeout(work: Awaitable[Response], receive: Receive, seconds: float) -> Response:
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
        raise ClientDisconnect from None
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
_JSON_ONLY = ("/v1/", "/v3/")  # besides the native API
FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"

DESCRIPTION = """Translation with your own models, for clients of LibreTranslate and of DeepL, and
access to the model's internals. Form fields may also be sent in the query string. If the server
requires an API key, send it as `api_key`, or in the Authorization header after `Bearer` or
`DeepL-Auth-Key`."""

JSONObject = dict[str, object]
_RETRY_AFTER: JSONObject = {
    "description": "Seconds to wait before the next attempt",
    "schema": {"type": "string"},
}
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
        if operation.request is not None:
            name = schemas[operation.request, "validation"]["$ref"].rpartition("/")[2]
            _add_language_codes(components[name], languages)
    paths: dict[str, JSONObject] = {}
    for operation in operations:
        description = _describe(operation, schemas, languages)
        paths.setdefault(operation.path, {})[operation.method.lower()] = description
    return {
        "openapi": "3.1.0",
        "info": {"title": "transduce", "version": VERSION, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": components},
    }


def _models(operations: Sequence[Operation]) -> list[tuple[type[BaseModel], JsonSchemaMode]]:
    """Return every request and response model once."""
    models: list[tuple[type[BaseModel] | None, JsonSchemaMode]] = []
    for operation in operations:
        models.append((operation.request, "validation"))
        models.append((operation.response, "serialization"))
        models.append((error_model(operation.path), "serialization"))
    return list(dict.fromkeys((model, mode) for model, mode in models if model is not None))


def _add_language_codes(schema: JsonSchemaValue, languages: LanguageCodes) -> None:
    """Enumerate the loaded languages in a request's language fields."""
    for name, field in schema["properties"].items():
        if name in languages:
            null = [None] if "anyOf" in field else []
            field["enum"] = [*languages[name], *null]


def _describe(operation: Operation, schemas: Schemas, languages: LanguageCodes) -> JSONObject:
    description: JSONObject = {
        "operationId": operation.name,
        "summary": (operation.handler.__doc__ or "").strip(),
        "responses": _responses(operation, schemas),
    }
    parameters: list[JSONObject] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    in_query = operation.method in ("GET", "DELETE")
    if in_query and operation.request is not None:
        parameters += _query_parameters(operation.request)
    if parameters:
        description["parameters"] = parameters
    if in_query or operation.request is None:
        return description
    form = _form_schema(operation.request)
    _add_language_codes(form, languages)
    schema = schemas[operation.request, "validation"]
    media_types = [JSON, FORM, MULTIPART]
    if "file" in operation.request.model_fields:
        media_types = [MULTIPART]
    elif issubclass(operation.request, StrictModel) or operation.path.startswith(_JSON_ONLY):
        media_types = [JSON]
    content = {name: {"schema": schema if name == JSON else form} for name in media_types}
    description["requestBody"] = {"required": True, "content": content}
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
    success: JSONObject = {"description": HTTPStatus(operation.success_status).phrase}
    if operation.success_status != HTTPStatus.NO_CONTENT:
        schema = operation.response and {"schema": schemas[operation.response, "serialization"]}
        success["content"] = {operation.media_type: schema or {}}
    responses[str(operation.success_status)] = success
    error = schemas[error_model(operation.path), "serialization"]
    statuses = {500, *operation.error_statuses}
    if operation.request is not None:
        statuses |= {413, 415}
    if operation.time_limits:
        statuses |= {400, 403, 429, 503, 504}
    if is_deepl(operation.path):
        statuses |= {403, 429, *((QUOTA_EXCEEDED,) if operation.time_limits else ())}
    for status in sorted(statuses):
        phrase = "Quota Exceeded" if status == QUOTA_EXCEEDED else HTTPStatus(status).phrase
        response: JSONObject = {"description": phrase, "content": {JSON: {"schema": error}}}
        if status in (429, QUOTA_EXCEEDED, 503):
            response["headers"] = {"Retry-After": _RETRY_AFTER}
        responses[str(status)] = response
    return responses
