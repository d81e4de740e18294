"""Documents of LibreTranslate's and DeepL's API: uploaded, translated in chunks, and downloaded.

LibreTranslate's have an unguessable name; DeepL's are translated in the background, and have a key.
The segments of a document go to a batcher a few at a time and wait while its queue is full, so
texts are not delayed. Results are deleted after a while and at shutdown.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Literal, NamedTuple
from urllib.parse import quote

from pydantic import Field
from starlette.responses import Response

from transduce.data.languages import base_language
from transduce.documents.document import Document, Slot
from transduce.documents.formats import read_document
from transduce.documents.markup import Markup
from transduce.documents.registry import format_of_file
from transduce.inference.glossary import Term
from transduce.serve.batcher import BatchOptions
from transduce.serve.client_store import ClientStore
from transduce.serve.errors import LOG, HTTPError
from transduce.serve.model_registry import AUTO, NO_LANGUAGE, ModelRegistry, same_code
from transduce.serve.parameters import Lowered, read_fields, reject_unsupported, unsupported
from transduce.serve.requests import HTTPRequest, RequestData, Upload
from transduce.serve.routing import Content, LenientModel, Operation, StrictModel, json_response
from transduce.serve.settings import ServerSettings
from transduce.serve.text_translation import TextResult, translate_texts

RETENTION_S = 600.0
"""Seconds for which a translated document can be downloaded."""

MAX_DOCUMENTS = 100
"""Maximum number of documents of DeepL's API that a process translates at a time."""

MAX_BYTES = 400 * 2**20
"""Size of the stored documents from which others are refused."""

CHUNK_SEGMENTS = 32
"""Segments of a document per translation call."""

TIME_LIMITS = 10
"""A document may take this many times the time limit of a text."""

BINARY = "application/octet-stream"

_READERS = 2  # threads that read documents: each may need hundreds of MiB
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_UNSAFE = re.compile(r"[^\w.-]+")

_DOCUMENT, _JOB = "document", "job"
Status = Literal["translating", "done", "error"]


class TranslateFileRequest(LenientModel):
    """A document to translate."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    api_key: str = ""


class DocumentUpload(LenientModel):
    """A document to translate."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    target_lang: str = Field(min_length=1)
    source_lang: str | None = None
    filename: str | None = None
    """Name of the file, whose ending is its format."""
    glossary_id: str | None = None
    output_format: str | None = None
    """Only that of the file."""
    formality: Annotated[Literal["default", "prefer_more", "prefer_less"] | None, Lowered] = None


class DocumentKey(LenientModel):
    """The key of an uploaded document."""

    document_key: str = Field(min_length=1)


class TextOptions(NamedTuple):
    """How a text or document is to be translated."""

    source: str
    """Code of a loaded language, or "auto"."""
    target: str
    glossary: tuple[Term, ...] = ()
    ignored: tuple[str, ...] = ()
    """Parameters without an effect."""


class DocumentJob(StrictModel):
    """A document that is or was translated."""

    document_id: str
    key: str
    characters: int
    deadline: float
    """Unix time by which it is translated, unless its process was killed."""
    status: Status = "translating"
    stored_name: str = ""
    error: str = ""


class DocumentAPI:
    """Handlers of LibreTranslate's document API."""

    def __init__(
        self, registry: ModelRegistry, settings: ServerSettings, *, store: ClientStore
    ) -> None:
        self._registry, self._settings, self._store = registry, settings, store
        self._readers = ThreadPoolExecutor(_READERS, "documents")

    def check_space(self) -> None:
        """Refuse another document while too many are stored.

        Raises:
            HTTPError: 429.
        """
        if max(map(self._store.size, (_DOCUMENT, _JOB))) >= MAX_BYTES:
            raise HTTPError(429, "Too many documents are stored", retry_after=60)

    def store(self, name: str, content: bytes) -> str:
        """Store a translated document; return the name for its download."""
        name = f"{secrets.token_urlsafe(18)}.{name}"
        self._store.put(_DOCUMENT, name, content, retention_s=RETENTION_S)
        return name

    @Operation("POST", "/translate_file", TranslateFileRequest, time_limits=TIME_LIMITS)
    async def translate(self, request: HTTPRequest) -> Content:
        """Translate a document, preserving its structure."""
        fields = read_fields(request, TranslateFileRequest)
        self.check_space()
        upload = uploaded_document(request.data())
        target = self._registry.language(fields.target).code
        document = await self.read(request, upload, target=target)
        content, _ = await self.translate_document(
            document, source=fields.source, target=fields.target
        )
        path = PurePosixPath(upload.name)
        stored_name = self.store(
            f"{path.stem}_{_UNSAFE.sub('_', fields.target)}{path.suffix}", content
        )
        base = f"{_base_url(request)}{self._settings.url_prefix}"
        return {"translatedFileUrl": f"{base}/download_file/{quote(stored_name)}"}

    async def read(self, request: HTTPRequest, upload: Upload, *, target: str) -> Document:
        """Parse a document, and check its length against the limits of the request.

        Raises:
            HTTPError: 400 if it is malformed or too long.
        """
        try:
            read = partial(read_document, upload.name, upload.content, target=target)
            document = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        except ValueError as error:
            raise HTTPError(400, f"Invalid request: {error}") from None
        texts = [segment.text for segment in document.segments]
        request.check_texts(texts, limit_number=False)
        return document

    async def translate_document(
        self, document: Document, *, source: str, target: str, glossary: tuple[Term, ...] = ()
    ) -> tuple[bytes, str]:
        """Return the translation of a document, and the code of its language.

        Args:
            source: code of its language, or "auto", which stays if it has no words.
            glossary: terms with a prescribed translation.

        Raises:
            HTTPError: as `translate_texts`, except 429.
        """
        if same_code(source, AUTO):
            text = "\n".join(segment.text for segment in document.segments)
            guess = await self._registry.detect_source(text, target)
            source = source if guess is NO_LANGUAGE else guess.language
        else:
            self._registry.language(source)
        translations = await self._translate_segments(
            document.segments, source=source, target=target, glossary=glossary
        )
        return await asyncio.to_thread(document.rebuild, translations), source

    @Operation("GET", "/download_file/{name}")
    async def download(self, request: HTTPRequest) -> Response:
        """Download a translated document, for ten minutes."""
        name = request.path_params["name"]
        content = self._store.get(_DOCUMENT, name)
        if content is None:
            raise HTTPError(404, "The file does not exist or has expired")
        file_name = name.partition(".")[2]
        ascii_name = file_name.encode("ascii", "replace").decode().replace("?", "_")
        disposition = f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(file_name)}"
        headers = {"content-disposition": disposition, "x-content-type-options": "nosniff"}
        return Response(content, headers=headers, media_type=BINARY)

    async def _translate_segments(
        self, segments: Sequence[Slot], *, source: str, target: str, glossary: tuple[Term, ...]
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
                part = partial(translate_texts, self._registry, [texts[i] for i in chunk])
                results = await _retried_while_full(
                    partial(part, source=source, target=target, markup=markup, options=options)
                )
                for i, result in zip(chunk, results, strict=True):
                    texts[i] = result.translation.text
        return texts


class DeepLDocumentAPI:
    """Handlers of DeepL's documents, and the documents."""

    def __init__(
        self,
        documents: DocumentAPI,
        settings: ServerSettings,
        *,
        store: ClientStore,
        options: Callable[[HTTPRequest, DocumentUpload], Awaitable[TextOptions]],
    ) -> None:
        """Store how documents are translated; `options` reads what they share with texts."""
        self._documents, self._timeout_s = documents, TIME_LIMITS * settings.time_limit_s
        self._options, self._store = options, store
        self._tasks: set[asyncio.Task[None]] = set()

    @Operation("POST", "/v2/document", DocumentUpload)
    async def upload(self, request: HTTPRequest) -> Response:
        """Accept a document, and translate it in the background."""
        data = request.data()
        reject_unsupported(data)
        fields = read_fields(request, DocumentUpload)
        self._documents.check_space()
        options = await self._options(request, fields)
        try:
            files = data.files
            if fields.filename:
                files = {"file": Upload(fields.filename, fields.file)}
            upload = uploaded_document(data._replace(files=files))
            document = await self._documents.read(request, upload, target=options.target)
        except HTTPError as error:
            if error.status != 400:
                raise
            reason = error.message.removeprefix("Invalid request: ")
            raise HTTPError(400, f"Invalid file: {reason}") from None
        output_format = (fields.output_format or "").lower()
        if output_format and not upload.name.lower().endswith(f".{output_format}"):
            raise unsupported("output_format", "the translation has the format of the file")
        if len(self._tasks) >= MAX_DOCUMENTS:
            raise HTTPError(429, "Too many documents are being translated", retry_after=10)
        job = DocumentJob(
            document_id=secrets.token_hex(16).upper(),
            key=secrets.token_hex(32).upper(),
            characters=sum(len(segment.text) for segment in document.segments),
            deadline=time.time() + self._timeout_s,
        )
        self._save(job)
        work = self._translate(job, document, options, upload.name, refund=request.refund)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        handle = {"document_id": job.document_id, "document_key": job.key}
        return with_ignored(json_response(handle), options.ignored)

    @Operation("POST", "/v2/document/{document_id}", DocumentKey)
    async def status(self, request: HTTPRequest) -> Content:
        """Return the state of a document."""
        job = self._requested(request)
        extra: Mapping[str, object] = {
            "translating": {"seconds_remaining": 1},
            "done": {"billed_characters": job.characters},
            "error": {"error_message": job.error},
        }[job.status]
        return {"document_id": request.path_params["document_id"], "status": job.status, **extra}

    @Operation("POST", "/v2/document/{document_id}/result", DocumentKey)
    async def result(self, request: HTTPRequest) -> Response:
        """Return a translated document, for ten minutes."""
        job = self._requested(request)
        if job.status == "translating":
            raise HTTPError(503, "Document translation is not done", retry_after=1)
        content = self._store.get(_DOCUMENT, job.stored_name)
        if content is None:
            raise HTTPError(404, job.error or "The document does not exist or has expired")
        return Response(content, media_type=BINARY)

    def _requested(self, request: HTTPRequest) -> DocumentJob:
        value = self._store.get(_JOB, request.path_params["document_id"].upper())
        key = read_fields(request, DocumentKey).document_key.encode()
        job = DocumentJob.model_validate_json(value) if value else None
        if job is None or not secrets.compare_digest(job.key.encode(), key.upper()):
            raise HTTPError(404, "Document not found")
        if job.status == "translating" and time.time() > job.deadline:
            reason = "The translation was interrupted: upload the document again"
            job = job.model_copy(update={"status": "error", "error": reason})
        return job

    def _save(self, job: DocumentJob) -> None:
        self._store.put(
            _JOB,
            job.document_id,
            job.model_dump_json().encode(),
            retention_s=self._timeout_s + RETENTION_S,
        )

    async def _translate(
        self,
        job: DocumentJob,
        document: Document,
        options: TextOptions,
        name: str,
        *,
        refund: Callable[[], None],
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                content, source = await self._documents.translate_document(
                    document,
                    source=options.source,
                    target=options.target,
                    glossary=options.glossary,
                )
            if base_language(source) == base_language(options.target):
                raise HTTPError(400, "Source and target language are equal.")
            stored_name = self._documents.store(name, content)
            self._save(job.model_copy(update={"stored_name": stored_name, "status": "done"}))
            return
        except HTTPError as error:
            reason = error.message
        except TimeoutError:
            reason = f"The time limit of {self._timeout_s:g} seconds was exceeded"
        except asyncio.CancelledError:
            refund()
            raise
        except Exception:
            LOG.exception("document failed")
            reason = "internal error"
        refund()
        with suppress(HTTPError):  # the store may be what failed
            self._save(job.model_copy(update={"error": reason, "status": "error"}))


async def _retried_while_full(
    translate: Callable[[], Awaitable[list[TextResult]]],
) -> list[TextResult]:
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


def with_ignored(response: Response, ignored: tuple[str, ...]) -> Response:
    """Name the parameters without an effect in a header of the response."""
    if ignored:
        response.headers["x-ignored-parameters"] = ", ".join(ignored)
    return response
