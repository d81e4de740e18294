"""Many small requests become few large batches: one worker thread a direction.

The event loop only moves text. While one batch computes, the next one gathers, so that a server
that is busy has full batches without anybody waiting for them. Waiting on purpose helps in one
place: right after a batch that held several requests, as those who got its answers are about to
ask again. So an idle server answers a lone request at once.

A batch takes one sentence in turn of each request that waits, and a long one counts as several, so
neither a whole book nor a page without a stop keeps a word waiting; what is left of them goes
behind the others.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from transduce.inference.translation import Translation
from transduce.inference.translator import Extras
from transduce.serve.job import Answer, How, Job, Sentence, Share, deal
from transduce.serve.refusal import Refusal

__all__ = ["Answer", "Batcher", "How", "Ran", "Sentence", "Translates"]

T = TypeVar("T")


class Ran(NamedTuple):
    """One batch that was computed, for whoever counts."""

    requests: int
    sentences: int
    seconds: float


@runtime_checkable
class Translates(Protocol):
    """What a batcher needs of a translator."""

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam: int | None,
        alpha: float | None,
        nbest: int,
        extras: Extras,
        prefix: str | Sequence[str],
    ) -> list[Translation]:
        """Translate sentences, each for itself."""
        ...

    def alignment(self, translation: Translation) -> str:
        """Return which words of a translation come from which of its source."""
        ...


class Batcher:
    """Gathers the requests of one direction into batches."""

    def __init__(
        self,
        translator: Translates,
        *,
        wait: float = 0.003,
        most: int = 128,
        queue: int = 256,
    ) -> None:
        """Start the worker thread.

        Args:
            translator: what computes.
            wait: seconds that a batch waits at most for those whose answers were just given.
            most: sentences of usual length in a batch at most.
            queue: requests that may wait at one time.
        """
        self.watch: Callable[[Ran], None] = lambda ran: None
        """Is told of each batch, by the worker thread."""
        self._translator = translator
        self._wait, self._most, self._queue = wait, most, queue
        self._changed = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._closing = False
        self._pace = 0.05  # seconds a sentence, a running mean
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    async def translate(self, sentences: Sequence[Sentence], how: How) -> list[Answer]:
        """Translate sentences, together with those of others. Whoever stops waiting costs nothing.

        Returns:
            One answer a sentence, in their order.

        Raises:
            Refusal: 429 where too many wait, 503 when the server is being stopped.
            ValueError: what is wrong with one of the sentences, or with what is wanted.
        """
        if not sentences:
            return []
        job = Job(asyncio.get_running_loop(), sentences=sentences, how=how)
        await self._done(job)
        return job.answers

    async def run(self, call: Callable[[], T]) -> T:
        """Compute something else in the worker thread, in turn with the batches.

        Raises:
            Refusal: as `translate`.
        """
        found: list[T] = []
        await self._done(Job(asyncio.get_running_loop(), call=lambda: found.append(call())))
        return found[0]

    def close(self) -> None:
        """Accept no more, finish what was accepted, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    async def drain(self) -> None:
        """Close without keeping the loop from telling those who wait."""
        await asyncio.to_thread(self.close)

    async def _done(self, job: Job) -> None:
        with self._changed:
            if self._closing:
                raise Refusal(503, "the server is being stopped", retry_after=1)
            if len(self._waiting) >= self._queue:
                raise Refusal(
                    429, "Slowdown: too many requests are waiting", retry_after=self._patience()
                )
            self._waiting.append(job)
            self._changed.notify()
        try:
            await job.done
        except asyncio.CancelledError:
            with self._changed:
                if job in self._waiting:
                    self._waiting.remove(job)
            raise

    def _patience(self) -> int:
        """Seconds in which what waits now may be done."""
        left = sum(max(1, job.left) for job in self._waiting)
        return max(1, min(60, math.ceil(left * self._pace)))

    def _work(self) -> None:
        """Compute batch after batch until it is closed."""
        several, ended = 0, -math.inf  # requests of the batch before, and when it ended
        while batch := self._next(several, until=ended + self._wait):
            began = time.perf_counter()
            jobs = [one.job for one in batch]
            sentences = sum(one.many for one in batch)
            self._compute(batch)
            several, ended = len(jobs), time.perf_counter()
            seconds = ended - began
            if sentences:
                self._pace += 0.1 * (seconds / sentences - self._pace)
            with self._changed:
                self._waiting.extend(job for job in jobs if not job.over)
            _tell([job for job in jobs if job.over])
            self.watch(Ran(len(jobs), sentences, seconds))

    def _next(self, several: int, *, until: float) -> list[Share]:
        """Wait for requests, and take of each how many sentences to translate; none at the end."""
        with self._changed:
            while True:
                while not self._waiting:
                    if self._closing:
                        return []
                    self._changed.wait()
                while len(self._waiting) < several > 1 and not self._closing:
                    left = until - time.perf_counter()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                here = [job for job in self._waiting if not job.done.cancelled()]
                if here:
                    break
                self._waiting.clear()
            kind = here[0].kind
            alike = here[:1] if kind is None else [job for job in here if job.kind == kind]
            taken = deal(alike, self._most)
            chosen = {id(one.job) for one in taken}
            self._waiting = deque(job for job in here if id(job) not in chosen)
            return taken

    def _compute(self, batch: Sequence[Share]) -> None:
        """Compute a batch; if that fails, request by request, so that one alone has the error."""
        try:
            self._answer(batch)
        except Exception as error:  # whatever it is, somebody waits for it
            if len(batch) == 1:
                batch[0].job.error = error
                return
            for one in batch:
                if not one.job.done.cancelled():
                    self._compute([one])

    def _answer(self, batch: Sequence[Share]) -> None:
        first = batch[0].job
        if first.call is not None:
            first.call()
            first.called = True
            return
        asked = [sentence for one in batch for sentence in one.sentences]
        found = self._translator.translate(
            [one.text for one in asked],
            beam=first.how.beam,
            alpha=first.how.alpha,
            nbest=first.how.nbest,
            extras=Extras(detail=first.how.detail),
            prefix=[one.prefix for one in asked],
        )
        answers = iter(
            [
                Answer(each, self._translator.alignment(each) if one.align else "")
                for one, each in zip(asked, found, strict=True)
            ]
        )
        for one in batch:
            one.job.answers.extend(islice(answers, one.many))


def _tell(jobs: Sequence[Job]) -> None:
    """Wake up those who wait, with one call for all of a loop."""
    for loop in {job.loop for job in jobs}:
        here = [job for job in jobs if job.loop is loop]
        with suppress(RuntimeError):  # a loop that is closed has nobody waiting
            loop.call_soon_threadsafe(_tell_all, here)


def _tell_all(jobs: Sequence[Job]) -> None:
    for job in jobs:
        job.tell()
