"""Documents: uploaded, translated piece by piece, and kept for a while under a name nobody guesses.

A document takes its turn like everybody else: its segments go to a direction a few at a time, and
when the queue is full it waits. What was made lies in a folder of the server's own, is found by a
table and never by a path that a client says, and is deleted after a while and at the end.
"""

import asyncio
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import quote

from transduce.documents.formats import FORMATS, Document, Segment, read_document
from transduce.serve import libretranslate_models as models
from transduce.serve.answers import Reply, say
from transduce.serve.bodies import Sent, Upload
from transduce.serve.call import WORKING, Call, Operation
from transduce.serve.directions import AUTO, Directions
from transduce.serve.gate import char_limit, fit
from transduce.serve.job import How
from transduce.serve.libretranslate import text_of
from transduce.serve.refusal import Refusal
from transduce.serve.settings import Settings
from transduce.serve.texts import NOTHING, guess, same, translated

KEPT_SECONDS = 600.0
"""For how long a translated document can be had."""

KEPT = 100
"""How many at one time; the oldest goes."""

AT_ONCE = 32
"""Segments of a document that are asked for together."""

TIMES = 10
"""A document may take so many times as long as another request."""

_LOOKED_AT = 5000  # characters that tell a document's language
_HOST = re.compile(r"[A-Za-z0-9.-]+(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_WORDS = re.compile(r"[^\w.-]+")


class Shelf:
    """Translated documents, by name, for a while."""

    def __init__(self, *, seconds: float = KEPT_SECONDS, most: int = KEPT) -> None:
        """Make the folder; it goes with the shelf, or with the process."""
        self.folder = Path(tempfile.mkdtemp(prefix="transduce-serve-"))
        self._end = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._seconds, self._most = seconds, most
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def put(self, name: str, content: bytes) -> str:
        """Keep a document; return the name under which it can be had."""
        name = f"{secrets.token_urlsafe(18)}.{name}"
        (self.folder / name).write_bytes(content)
        self._timers[name] = asyncio.get_running_loop().call_later(self._seconds, self._drop, name)
        while len(self._timers) > self._most:
            self._drop(next(iter(self._timers)))
        return name

    def get(self, name: str) -> bytes | None:
        """The document of that name; None if there is none, or none any more."""
        if name not in self._timers:
            return None
        return (self.folder / name).read_bytes()

    def close(self) -> None:
        """Delete them all."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._end()

    def _drop(self, name: str) -> None:
        self._timers.pop(name).cancel()
        (self.folder / name).unlink(missing_ok=True)


class Files:
    """The handlers of documents."""

    def __init__(self, directions: Directions, settings: Settings, shelf: Shelf) -> None:
        """Take what is loaded, how it may be used, and where documents are kept."""
        self._directions, self._settings, self._shelf = directions, settings, shelf

    def operations(self) -> tuple[Operation, ...]:
        """What can be asked, and who answers."""
        return (
            Operation(
                path="/translate_file",
                verb="POST",
                name="translate_file",
                about=f"Translate a document: {', '.join(FORMATS)}. All but its texts stays.",
                handler=self.translate,
                asks=models.TranslateFile,
                bodies="file",
                answer=models.TranslatedFile,
                errors=WORKING,
                most=self._settings.body_limit,
                seconds=TIMES * self._settings.time_limit_s,
            ),
            Operation(
                path="/download_file/{name}",
                verb="GET",
                name="download_file",
                about="A translated document, for ten minutes.",
                handler=self.download,
                answer=None,
                kind="application/octet-stream",
                errors=(404, 500),
            ),
        )

    async def translate(self, call: Call) -> Reply:
        """Answer /translate_file."""
        sent = call.sent()
        characters = char_limit(self._settings, call, sent.value("api_key"))
        upload = _upload(sent)
        source, target = text_of(sent, "source"), text_of(sent, "target")
        name = _plain(upload.name)
        if PurePosixPath(name).suffix.lower() not in FORMATS:
            raise Refusal(400, "Invalid request: file format not supported")
        try:
            document = await asyncio.to_thread(read_document, name, upload.content)
        except ValueError as error:
            raise Refusal(400, f"Invalid request: {error}") from None
        texts = [segment.text for segment in document.segments]
        call.note(texts)
        fit(texts, characters=characters)
        if same(source, AUTO):
            found = await guess(self._directions, "\n".join(texts)[:_LOOKED_AT])
            source = source if found is NOTHING else found.language
        whole = await self._translated(document.segments, source=source, target=target)
        content = await asyncio.to_thread(_rebuilt, document, whole)
        kept = self._shelf.put(_renamed(name, target), content)
        url = f"{base_url(call)}/download_file/{quote(kept)}"
        return say(models.TranslatedFile(translatedFileUrl=url))

    async def download(self, call: Call) -> Reply:
        """Answer /download_file/<name>."""
        name = call.path("name")
        content = self._shelf.get(name)
        if content is None:
            raise Refusal(404, "There is no such file, or it is there no longer")
        shown = name.partition(".")[2]
        plain = shown.encode("ascii", "replace").decode().replace("?", "_")
        return Reply(
            content,
            kind="application/octet-stream",
            headers=(
                (
                    "content-disposition",
                    f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown)}",
                ),
                ("x-content-type-options", "nosniff"),
            ),
        )

    async def _translated(
        self, segments: Sequence[Segment], *, source: str, target: str
    ) -> list[str]:
        """Translate segments, some at a time, those of one kind together."""
        texts = [segment.text for segment in segments]
        for markup in sorted({segment.markup for segment in segments}):
            numbers = [n for n, segment in enumerate(segments) if segment.markup == markup]
            for at in range(0, len(numbers), AT_ONCE):
                some = numbers[at : at + AT_ONCE]
                part = [segments[n] for n in some]
                for number, text in zip(
                    some, await self._part(part, source=source, target=target), strict=True
                ):
                    texts[number] = text
        if not segments:  # the languages are checked all the same
            await self._part([], source=source, target=target)
        return texts

    async def _part(self, segments: Sequence[Segment], *, source: str, target: str) -> list[str]:
        """Translate a few segments of one kind; wait where the queue is full."""
        while True:
            try:
                found = await translated(
                    self._directions,
                    [segment.text for segment in segments],
                    source=source,
                    target=target,
                    markup=segments[0].markup if segments else "none",
                    how=How(beam=self._settings.beam),
                )
            except Refusal as refusal:
                if refusal.status != 429:
                    raise
                await asyncio.sleep(min(1.0, refusal.retry_after or 1.0))
            else:
                return [item.told.text for item in found]


def base_url(call: Call) -> str:
    """How the client calls this server; a Host header that is none is not repeated."""
    host = call.header(b"host")
    if not _HOST.fullmatch(host):
        server = call.scope.get("server") or ("localhost", None)
        host = f"{server[0]}:{server[1]}" if server[1] else server[0]
    scheme = "https" if call.header(b"x-forwarded-proto") == "https" else call.scope["scheme"]
    return f"{scheme}://{host}{call.scope.get('root_path', '')}"


def _upload(sent: Sent) -> Upload:
    found = sent.files.get("file")
    if found is None:
        raise Refusal(400, "Invalid request: missing file parameter")
    if not found.name:
        raise Refusal(400, "Invalid request: empty file")
    return found


def _rebuilt(document: Document, texts: Sequence[str]) -> bytes:
    return document.rebuild(texts)


def _plain(name: str) -> str:
    """A file's own name without folders, in letters, digits and a few signs."""
    name = PurePosixPath(PureWindowsPath(name).name).name
    return _WORDS.sub("_", name).lstrip(".")[-100:] or "file"


def _renamed(name: str, target: str) -> str:
    path = PurePosixPath(name)
    return f"{path.stem}_{_WORDS.sub('_', target)}{path.suffix}"
