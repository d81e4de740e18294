"""Output of many lines that a killed program resumes when the same command is run again.

Until `NAME` is complete, `.NAME.partial` holds its beginning, and `.NAME.progress` the number of
input lines that this belongs to, checksums of both, and the settings.
"""

import hashlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from json import dumps
from pathlib import Path
from typing import BinaryIO

import pydantic

from transduce.io.atomic_folder import atomic_file, naming
from transduce.io.lock import writer_lock

_BLOCK = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class _Progress:
    lines: int
    input_sha256: str
    sizes: tuple[int, ...]
    output_sha256: tuple[str, ...]
    settings: dict[str, str]


class LineOutput:
    """Streams that receive the output of input lines."""

    def __init__(
        self,
        streams: Sequence[BinaryIO],
        *,
        progress_file: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Write to streams that the caller closes.

        Args:
            progress_file: what `commit` writes; None: the output is not resumable.
        """
        self._streams, self._progress_file = tuple(streams), progress_file
        self._settings = dict(settings or {})
        self._input, self._outputs = hashlib.sha256(), [hashlib.sha256() for _ in streams]
        self._sizes = [0] * len(self._streams)
        self.done = 0
        """Input lines whose output is committed, by this run or an earlier one."""
        self.last_line = ""
        """The last of them."""

    def write(self, text: str, *, stream: int = 0) -> None:
        """Write text to the stream of this index."""
        data = text.encode()
        self._streams[stream].write(data)
        self._outputs[stream].update(data)
        self._sizes[stream] += len(data)

    def commit(self, lines: Sequence[str]) -> None:
        """Make the output of these input lines, the next ones, permanent."""
        for stream in self._streams:
            stream.flush()
        for line in lines:
            self.last_line = line
            self._input.update(f"{line}\n".encode())
        self.done += len(lines)
        if self._progress_file is None:
            return
        for stream in self._streams:
            os.fsync(stream.fileno())
        progress = _Progress(
            lines=self.done,
            input_sha256=self._input.hexdigest(),
            sizes=tuple(self._sizes),
            output_sha256=tuple(checksum.hexdigest() for checksum in self._outputs),
            settings=self._settings,
        )
        with atomic_file(self._progress_file) as file:
            file.write(f"{dumps(asdict(progress), indent=2)}\n".encode())

    def resume(self, file: Path, lines: Iterator[str]) -> None:
        """Go on where an earlier run committed last, or begin, and advance the lines.

        Raises:
            ValueError: if the settings or the lines are others.
        """
        progress = self._read()
        if progress is None:
            for stream in self._streams:
                if stream.seek(0, os.SEEK_END):
                    stream.truncate(0)
            self._outputs = [hashlib.sha256() for _ in self._streams]
            return
        remedy = f"repeat that command, or delete {self._progress_file} to begin anew"
        if changed := changed_setting(progress.settings, self._settings):
            raise ValueError(f"{file} was begun with another {changed}: {remedy}")
        for line in islice(lines, progress.lines):
            self.last_line = line
            self._input.update(f"{line}\n".encode())
        if self._input.hexdigest() != progress.input_sha256:
            raise ValueError(f"{file} was begun with another input: {remedy}")
        for stream, size in zip(self._streams, progress.sizes, strict=True):
            stream.truncate(size)
        self.done, self._sizes = progress.lines, list(progress.sizes)

    def _read(self) -> _Progress | None:
        """Read the progress of an earlier run; None if it, or the output so far, is damaged."""
        assert self._progress_file is not None
        try:
            data = self._progress_file.read_bytes()
            progress = pydantic.TypeAdapter(_Progress).validate_json(data)
        except (FileNotFoundError, pydantic.ValidationError):
            return None
        if progress.settings != self._settings:
            return progress  # there may be other streams
        for stream, checksum, size in zip(
            self._streams, self._outputs, progress.sizes, strict=True
        ):
            stream.seek(0)
            for start in range(0, size, _BLOCK):
                checksum.update(stream.read(min(_BLOCK, size - start)))
        intact = tuple(checksum.hexdigest() for checksum in self._outputs)
        return progress if intact == progress.output_sha256 else None


def changed_setting(before: Mapping[str, str], current: Mapping[str, str]) -> str:
    """Return the alphabetically first setting that differs; "" if none does."""
    changed = (key for key in {**before, **current} if before.get(key) != current.get(key))
    return min(changed, default="")


def partial_file(file: Path) -> Path:
    """Return the file that holds the beginning of an output."""
    return file.with_name(f".{file.name}.partial")


@contextmanager
def resumable_output(
    files: Sequence[Path], lines: Iterator[str], *, settings: Mapping[str, str]
) -> Generator[LineOutput]:
    """Yield an output to write to; it becomes `files` when the block succeeds.

    If the block fails after a commit, or the process is killed, the next call resumes the output.

    Args:
        files: one for each stream; regular files, if they exist.
        lines: the input; lines whose output an earlier call committed are skipped.
        settings: what determines the output, besides the input.

    Raises:
        ValueError: if an earlier call had other settings or lines, another process is writing, or
            two of the files are one.
    """
    files = [file.resolve() for file in files]
    if len({*files}) < len(files):
        raise ValueError(f"{files[0]} is named for two outputs: name another file for one of them")
    partials = list(map(partial_file, files))
    progress_file = files[0].with_name(f".{files[0].name}.progress")
    with ExitStack() as stack:
        for file in files:
            stack.enter_context(writer_lock(file))
        try:
            with naming(files[0]), ExitStack() as opened:
                streams = [opened.enter_context(partial.open("a+b")) for partial in partials]
                output = LineOutput(streams, progress_file=progress_file, settings=settings)
                output.resume(files[0], lines)
                yield output
                for stream in streams:
                    stream.flush()
                    os.fsync(stream.fileno())
            for partial, file in zip(partials, files, strict=True):
                os.replace(partial, file)
            progress_file.unlink(missing_ok=True)
        except BaseException:
            if not progress_file.exists():
                for partial in partials:
                    with suppress(OSError):
                        partial.unlink()
            raise
