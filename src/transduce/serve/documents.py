"""Document translation: upload, translation in chunks, and download under an unguessable name.

The segments of a document go to a batcher a few at a time and wait while its queue is full, so
texts are not delayed. Results are deleted after a while and at shutdown.
"""

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import NamedTuple
from urllib.parse import quote

from pydantic import Field
from starlette.responses import Response

from transduce.documents.document import Document, Segment
from transduce.documents.formats import read_document
from transduce.documents.markup import Markup
from transduce.documents.registry import format_of_file
from transduce.inference.glossary import Term
from transduce.serve.batcher import BatchOptions
from transduce.serve.client_store import ClientStore
from transduce.serve.errors import HTTPError
from transduce.serve.model_registry import AUTO, NO_LANGUAGE, ModelRegistry, same_code
from transduce.serve.parameters import read_fields
from transduce.serve.requests import HTTPRequest, RequestData, Upload
from transduce.serve.routing import LenientModel, Operation, StrictModel, json_response
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import TextResult, translate_texts

RETENTION_S = 600.0
"""Seconds for which a translated document can be downloaded."""

MAX_DOCUMENTS = 100
"""Maximum number of stored documents; the oldest is deleted first."""

CHUNK_SEGMENTS = 32
"""Segments of a document per translation call."""

TIME_LIMITS = 10
"""A document may take this many times the time limit of a text."""

BINARY = "application/octet-stream"

_DETECTION_CHARACTERS = 5000  # of a document, for language detection
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_UNSAFE = re.compile(r"[^\w.-]+")


class TranslateFileRequest(LenientModel):
    """A document to translate."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    api_key: str = ""


class TranslateFileResponse(StrictModel):
    """The URL of the translated document."""

    translatedFileUrl: str


class TranslatedDocument(NamedTuple):
    """A translated document."""

    content: bytes
    source: str
    """Code of its language; "auto" if it has no words."""


class DocumentAPI:
    """Handlers of LibreTranslate's document API."""

    def __init__(
        self, registry: ModelRegistry, settings: ServerSettings, *, store: ClientStore
    ) -> None:
        """Store the models, the limits, and where translated documents are kept."""
        self._registry, self._settings, self._store = registry, settings, store

    def store(self, name: str, content: bytes) -> str:
        """Store a translated document; return the name for its download."""
        name = f"{secrets.token_urlsafe(18)}.{name}"
        self._store.put("document", name, content, retention_s=RETENTION_S, max_count=MAX_DOCUMENTS)
        return name

    def stored(self, name: str) -> bytes | None:
        """Return a translated document; None if it does not exist or has expired."""
        return self._store.get("document", name)

    @Operation(
        "POST",
        "/translate_file",
        TranslateFileRequest,
        TranslateFileResponse,
        time_limits=TIME_LIMITS,
    )
    async def translate(self, request: HTTPRequest) -> Response:
        """Translate a document, preserving its structure."""
        fields = read_fields(request, TranslateFileRequest)
        upload = uploaded_document(request.data())
        document = await self.read(request, upload)
        translated = await self.translate_document(
            document, source=fields.source, target=fields.target
        )
        stored_name = self.store(_translated_name(upload.name, fields.target), translated.content)
        base = f"{_base_url(request)}{self._settings.url_prefix}"
        url = f"{base}/download_file/{quote(stored_name)}"
        return json_response(TranslateFileResponse(translatedFileUrl=url))

    async def read(self, request: HTTPRequest, upload: Upload) -> Document:
        """Parse a document, and check its length against the limits of the request.

        Raises:
            HTTPError: 400 if it is malformed or too long.
        """
        try:
            document = await asyncio.to_thread(read_document, upload.name, upload.content)
        except ValueError as error:
            raise HTTPError(400, f"Invalid request: {error}") from None
        texts = [segment.text for segment in document.segments]
        request.check_texts(texts, limit_number=False)
        return document

    async def translate_document(
        self, document: Document, *, source: str, target: str, glossary: tuple[Term, ...] = ()
    ) -> TranslatedDocument:
        """Translate a document.

        Args:
            document: the document.
            source: code of its language, or "auto".
            target: code of the target language.
            glossary: terms with a prescribed translation.

        Raises:
            HTTPError: as `translate_texts`, except 429.
        """
        if same_code(source, AUTO):
            text = "\n".join(segment.text for segment in document.segments)
            guess = await self._registry.detect_source(text[:_DETECTION_CHARACTERS], target)
            source = source if guess is NO_LANGUAGE else guess.language
        translations = await self._translate_segments(
            document.segments, source=source, target=target, glossary=glossary
        )
        return TranslatedDocument(await asyncio.to_thread(document.rebuild, translations), source)

    @Operation("GET", "/download_file/{name}", media_type=BINARY, error_statuses=(404,))
    async def download(self, request: HTTPRequest) -> Response:
        """Download a translated document, for ten minutes."""
        name = request.path_params["name"]
        content = self.stored(name)
        if content is None:
            raise HTTPError(404, "The file does not exist or has expired")
        file_name = name.partition(".")[2]
        ascii_name = file_name.encode("ascii", "replace").decode().replace("?", "_")
        disposition = f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(file_name)}"
        headers = {"content-disposition": disposition, "x-content-type-options": "nosniff"}
        return Response(content, headers=headers, media_type=BINARY)

    async def _translate_segments(
        self, segments: Sequence[Segment], *, source: str, target: str, glossary: tuple[Term, ...]
    ) -> list[str]:
        """Translate segments in chunks of the same markup."""
        self._registry.language(target)
        options = BatchOptions(beam=self._settings.beam, glossary=glossary)
        texts = [segment.text for segment in segments]
        markups: set[Markup] = {segment.markup for segment in segments}
        for markup in sorted(markups):
            indices = [i for i, segment in enumerate(segments) if segment.markup == markup]
            for start in range(0, len(indices), CHUNK_SEGMENTS):
                chunk = indices[start : start + CHUNK_SEGMENTS]
                translate = partial(
                    translate_texts,
                    self._registry,
                    [texts[i] for i in chunk],
                    source=source,
                    target=target,
                    markup=markup,
                    options=options,
                )
                results = await _retried_while_full(translate)
                for i, result in zip(chunk, results, strict=True):
                    texts[i] = result.translation.text
        return texts


async def _retried_while_full(
    translate: Callable[[], Awaitable[list[TextResult]]],
) -> list[TextResult]:
    """Translate, again and again while the queue is full."""
    while True:
        try:
            return await translate()
        except HTTPError as error:
            if error.status != 429:
                raise
            await asyncio.sleep(min(1.0, error.retry_after or 1.0))


def _base_url(request: HTTPRequest) -> str:
    """Return the server's URL as the client sees it; an invalid Host header is not echoed."""
    scope = request.scope
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        server = scope.get("server") or ("localhost", None)
        host = f"{server[0]}:{server[1]}" if server[1] else server[0]
    scheme = "https" if request.headers.get("x-forwarded-proto") == "https" else scope["scheme"]
    return f"{scheme}://{host}{scope.get('root_path', '')}"


def uploaded_document(data: RequestData) -> Upload:
    """Return the uploaded file, under a safe name.

    Raises:
        HTTPError: 400 if there is none, or its format is not supported.
    """
    upload = data.files.get("file")
    if upload is None or not upload.name:
        reason = "missing file parameter" if upload is None else "empty file"
        raise HTTPError(400, f"Invalid request: {reason}")
    name = _safe_name(upload.name)
    if format_of_file(name) is None:
        raise HTTPError(400, "Invalid request: file format not supported")
    return Upload(name, upload.content)


def _safe_name(name: str) -> str:
    """Return a file name without directories, limited to word characters, "." and "-"."""
    name = PurePosixPath(PureWindowsPath(name).name).name
    return _UNSAFE.sub("_", name).lstrip(".")[-100:] or "file"


def _translated_name(name: str, target: str) -> str:
    path = PurePosixPath(name)
    return f"{path.stem}_{_UNSAFE.sub('_', target)}{path.suffix}"
