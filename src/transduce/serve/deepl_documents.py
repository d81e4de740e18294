"""DeepL's documents: uploaded, translated in the background, and downloaded with a key."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field
from starlette.responses import Response

from transduce.documents.document import Document
from transduce.inference.glossary import Term
from transduce.serve.client_limits import QUOTA_EXCEEDED
from transduce.serve.client_store import ClientStore
from transduce.serve.documents import (
    BINARY,
    MAX_DOCUMENTS,
    RETENTION_S,
    TIME_LIMITS,
    DocumentAPI,
    uploaded_document,
)
from transduce.serve.errors import HTTPError
from transduce.serve.parameters import (
    Lowered,
    base_code,
    read_fields,
    reject_unsupported,
    unsupported,
)
from transduce.serve.requests import HTTPRequest, Upload
from transduce.serve.routing import LenientModel, Operation, StrictModel, json_response
from transduce.serve.settings import ServerSettings

LOG = logging.getLogger("transduce.serve")

_JOB = "job"
Status = Literal["translating", "done", "error"]


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


class DocumentHandle(StrictModel):
    """What identifies an uploaded document."""

    document_id: str
    document_key: str


class DocumentKey(LenientModel):
    """The key of an uploaded document."""

    document_key: str = Field(min_length=1)


class DocumentStatus(StrictModel):
    """The state of an uploaded document."""

    document_id: str
    status: Status
    seconds_remaining: int | None = None
    billed_characters: int | None = None
    error_message: str | None = None


class TextOptions(StrictModel):
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
    status: Status = "translating"
    stored_name: str = ""
    error: str = ""


class DeepLDocumentAPI:
    """Handlers of DeepL's documents, and the documents."""

    def __init__(
        self,
        documents: DocumentAPI,
        settings: ServerSettings,
        *,
        store: ClientStore,
        options: Callable[[HTTPRequest, DocumentUpload], TextOptions],
    ) -> None:
        """Store how documents are translated.

        Args:
            documents: translates and stores them.
            settings: limits.
            store: where the state of jobs is kept.
            options: reads the parameters that a document shares with a text.
        """
        self._documents, self._timeout_s = documents, TIME_LIMITS * settings.time_limit_s
        self._options, self._store = options, store
        self._tasks: set[asyncio.Task[None]] = set()

    @Operation(
        "POST",
        "/v2/document",
        DocumentUpload,
        DocumentHandle,
        operation_id="deepl_document_upload",
        error_statuses=(400, 404, 429, QUOTA_EXCEEDED),
    )
    async def upload(self, request: HTTPRequest) -> Response:
        """Accept a document, and translate it in the background."""
        data = request.data()
        reject_unsupported(data)
        fields = read_fields(request, DocumentUpload)
        options = self._options(request, fields)
        try:
            files = data.files
            if fields.filename:
                files = {"file": Upload(fields.filename, fields.file)}
            upload = uploaded_document(data._replace(files=files))
            document = await self._documents.read(request, upload)
        except HTTPError as error:
            if error.status != 400:
                raise
            reason = error.message.removeprefix("Invalid request: ")
            raise HTTPError(400, f"Invalid file: {reason}") from None
        output_format = (fields.output_format or "").lower()
        if output_format and not upload.name.lower().endswith(f".{output_format}"):
            raise unsupported("output_format", "the translation has the format of the file")
        characters = sum(len(segment.text) for segment in document.segments)
        job = DocumentJob(
            document_id=secrets.token_hex(16).upper(),
            key=secrets.token_hex(32).upper(),
            characters=characters,
        )
        self._check_number()
        self._save(job)
        task = asyncio.create_task(self._translate(job, document, options, upload.name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        handle = DocumentHandle(document_id=job.document_id, document_key=job.key)
        return with_ignored(json_response(handle), options.ignored)

    @Operation(
        "POST",
        "/v2/document/{document_id}",
        DocumentKey,
        DocumentStatus,
        operation_id="deepl_document_status",
        error_statuses=(400, 404),
    )
    async def status(self, request: HTTPRequest) -> Response:
        """Return the state of a document."""
        job = self._requested(request)
        extra: Mapping[str, object] = {
            "translating": {"seconds_remaining": 1},
            "done": {"billed_characters": job.characters},
            "error": {"error_message": job.error},
        }[job.status]
        fields = {"document_id": request.path_params["document_id"], "status": job.status, **extra}
        return json_response(DocumentStatus.model_validate(fields))

    @Operation(
        "POST",
        "/v2/document/{document_id}/result",
        DocumentKey,
        operation_id="deepl_document_result",
        media_type=BINARY,
        error_statuses=(400, 404, 503),
    )
    async def result(self, request: HTTPRequest) -> Response:
        """Return a translated document, for ten minutes."""
        job = self._requested(request)
        if job.status == "translating":
            raise HTTPError(503, "Document translation is not done", retry_after=1)
        content = self._documents.stored(job.stored_name)
        if content is None:
            raise HTTPError(404, job.error or "The document does not exist or has expired")
        return Response(content, media_type=BINARY)

    def _requested(self, request: HTTPRequest) -> DocumentJob:
        value = self._store.get(_JOB, request.path_params["document_id"].upper())
        key = read_fields(request, DocumentKey).document_key.encode()
        job = DocumentJob.model_validate_json(value) if value else None
        if job is None or not secrets.compare_digest(job.key.encode(), key.upper()):
            raise HTTPError(404, "Document not found")
        return job

    def _check_number(self) -> None:
        jobs = map(DocumentJob.model_validate_json, self._store.values(_JOB))
        if sum(job.status == "translating" for job in jobs) >= MAX_DOCUMENTS:
            raise HTTPError(429, "Too many documents are being translated", retry_after=10)

    def _save(self, job: DocumentJob) -> None:
        self._store.put(
            _JOB,
            job.document_id,
            job.model_dump_json().encode(),
            retention_s=self._timeout_s + RETENTION_S,
            max_count=2 * MAX_DOCUMENTS,
        )

    async def _translate(
        self, job: DocumentJob, document: Document, options: TextOptions, name: str
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                translated = await self._documents.translate_document(
                    document,
                    source=options.source,
                    target=options.target,
                    glossary=options.glossary,
                )
            if base_code(translated.source) == base_code(options.target):
                raise HTTPError(400, "Source and target language are equal.")
            stored_name = self._documents.store(name, translated.content)
            self._save(job.model_copy(update={"stored_name": stored_name, "status": "done"}))
            return
        except HTTPError as error:
            reason = error.message
        except TimeoutError:
            reason = f"The time limit of {self._timeout_s:g} seconds was exceeded"
        except Exception:
            LOG.exception("document failed")
            reason = "internal error"
        self._save(job.model_copy(update={"error": reason, "status": "error"}))


def with_ignored(response: Response, ignored: tuple[str, ...]) -> Response:
    """Name the parameters without an effect in a header of the response."""
    if ignored:
        response.headers["x-ignored-parameters"] = ", ".join(ignored)
    return response
