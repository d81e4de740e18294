"""Dynamic batching: concurrent requests share batches, one worker thread per direction.

The event loop only moves text. While one batch computes, requests queue up for the next, so a busy
server fills its batches without delaying anyone. A deliberate wait helps in one case only: right
after a batch of several requests, whose clients are likely to send their next ones. An idle server
answers a single request at once.

A batch takes one sentence from each waiting request in turn, and a long sentence counts as several,
so neither a book nor a text without punctuation blocks short requests. The rest of a request is
queued again behind the others. Very long sentences have batches of their own. Between the steps of
work that takes long, short requests that wait are computed; work is abandoned as soon as no client
waits for it.
"""

import asyncio
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeVar

from transduce.inference.glossary import Term
from transduce.inference.translation import Translation
from transduce.inference.translator import BATCH_TOKENS, Extras, Translator
from transduce.search.interruption import interruptible, interruption_point
from transduce.serve.errors import HTTPError
from transduce.serve.requests import SHUTDOWN

T = TypeVar("T")

TYPICAL_CHARACTERS, TYPICAL_BEAM = 128, 4
"""Length of a typical sentence, and its beam size: the unit of work."""

_MAX_SHORT_COST = 8  # work above which a sentence or function is long: it never delays short ones
_MAX_QUEUED_REQUESTS = 4  # requests of the maximum work whose long work may be queued together
_MAX_SECONDS = 0.5  # seconds of a batch after which short requests are computed between its steps

_MANY_TOKENS, _FEW_TOKENS, _LONG_TOKENS = BATCH_TOKENS, BATCH_TOKENS // 4, BATCH_TOKENS // 64
"""Size limit of a search in batches of typical, longer and long sentences. CTranslate2 searches 16
times as much with two workers, and cannot be interrupted: so only two parts of a long sentence."""


def estimate_work(characters: int, *, beam: int | None = None, searches: int = 1) -> int:
    """Estimate the work of a request, in sentences of typical length with a typical beam.

    A search takes about as many steps as the source has pieces, and each step computes `beam` rows.
    The square of the length matters little up to that of the training, and longer sources are
    translated in parts: so work is proportional to the characters.

    Args:
        characters: length of source and prefix.
        beam: beam size; None is typical.
        searches: number of searches of this source, such as one per alternative.
    """
    rows = searches * max(1.0, (beam or TYPICAL_BEAM) / TYPICAL_BEAM)
    return math.ceil((1 + characters // TYPICAL_CHARACTERS) * rows)


class Abandoned(Exception):
    """No client waits for the batch any longer."""


class BatchOptions(NamedTuple):
    """Options that sentences must share to be translated in one batch."""

    beam: int | None = None
    """Beam size; None is the model's default."""
    alpha: float | None = None
    """Exponent of the length penalty; None is the model's default."""
    nbest: int = 1
    """Translations per sentence."""
    detail: bool = False
    """Whether to compute the log-probability of each piece, and confidence, at extra cost."""
    glossary: tuple[Term, ...] = ()
    """Terms with a prescribed translation."""


class SentenceRequest(NamedTuple):
    """A sentence to translate."""

    text: str
    prefix: str = ""
    """Forced beginning of the translation."""
    align: bool = False
    """Whether to return its alignment."""

    @property
    def cost(self) -> int:
        """Its work with a typical beam."""
        return estimate_work(len(self.text) + len(self.prefix))

    @property
    def batch_kind(self) -> tuple[bool, bool]:
        """What the sentences of a batch have in common: whether they have a prefix or are long."""
        return bool(self.prefix), self.cost > _MAX_SHORT_COST


class SentenceResult(NamedTuple):
    """The translation of a sentence."""

    translation: Translation
    alignment: str
    """Pairs of word positions as "0-0 1-2"; empty if not requested."""


@dataclass(eq=False, kw_only=True, slots=True)
class BatchJob:
    """A request while it is queued and computed: sentences, or another function to run."""

    sentences: Sequence[SentenceRequest] = ()
    options: BatchOptions = field(default_factory=BatchOptions)
    function: Callable[[], None] | None = None
    work: int = 0
    """As `estimate_work` computes it; that of the sentences is computed here."""
    future: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """What the client waits for, in its event loop."""
    results: list[SentenceResult] = field(default_factory=list[SentenceResult])
    function_called: bool = False
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.work += sum(map(self._work_of, self.sentences))

    @property
    def batch_key(self) -> tuple[BatchOptions, tuple[bool, bool]] | None:
        """Key that its next sentence shares with others of a batch; None for a function.

        Sentences with a prefix are batched apart: they may need a different engine.
        """
        if self.function is not None:
            return None
        return self.options, self.sentences[len(self.results)].batch_kind

    @property
    def next_is_short(self) -> bool:
        """Whether its next sentence, or the function, is short."""
        if self.function is None:
            return self._work_of(self.sentences[len(self.results)]) <= _MAX_SHORT_COST
        return self.work <= _MAX_SHORT_COST

    def _work_of(self, sentence: SentenceRequest) -> int:
        return estimate_work(len(sentence.text) + len(sentence.prefix), beam=self.options.beam)

    def run_length(self, limit: int) -> int:
        """Return how many of its next sentences, at most `limit`, share the batch key."""
        start = len(self.results)
        kinds = [sentence.batch_kind for sentence in self.sentences[start : start + limit]]
        others = (index for index, kind in enumerate(kinds) if kind != kinds[0])
        return next(others, len(kinds))

    @property
    def remaining(self) -> int:
        """Number of sentences without a result, or 1 for a function that was not called."""
        unfinished = self.function is not None and not self.function_called
        return len(self.sentences) - len(self.results) + unfinished

    @property
    def finished(self) -> bool:
        """Whether all of it is computed, or it failed."""
        return not self.remaining or self.error is not None

    def resolve(self) -> None:
        """Wake up the waiting task; must be called in the event loop."""
        if self.future.done():  # cancelled: the client disconnected
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(None)


class JobSlice(NamedTuple):
    """The next sentences of a job, as part of a batch."""

    job: BatchJob
    size: int

    @property
    def sentences(self) -> Sequence[SentenceRequest]:
        """Its sentences."""
        start = len(self.job.results)
        return self.job.sentences[start : start + self.size]


def fill_batch(jobs: Sequence[BatchJob], capacity: int) -> list[JobSlice]:
    """Fill a batch round-robin, one sentence per job and turn, up to `capacity`.

    A long sentence uses the capacity of several. The first one is taken whatever its length.
    """
    counts = Counter[int]()
    free = capacity
    for index, sentence in _round_robin(jobs[:capacity], capacity):
        free -= sentence.cost
        if free < 0 and counts:
            break
        counts[index] += 1
    slices = [JobSlice(job, counts[index]) for index, job in enumerate(jobs) if counts[index]]
    return slices or [JobSlice(jobs[0], 0)]  # a function has no sentences


def _round_robin(jobs: Sequence[BatchJob], limit: int) -> Iterator[tuple[int, SentenceRequest]]:
    """Yield the next sentences of the jobs in turn, with the index of their job."""
    lengths = [job.run_length(limit) for job in jobs]
    for turn in range(max(lengths)):
        for index, (job, length) in enumerate(zip(jobs, lengths, strict=True)):
            if turn < length:
                yield index, job.sentences[len(job.results) + turn]


class Batcher:
    """Groups the requests of one direction into batches."""

    def __init__(
        self,
        translator: Translator,
        *,
        wait_s: float = 0.003,
        max_sentences: int = 128,
        max_queue: int = 256,
        max_work: int | None = None,
    ) -> None:
        """Start the worker thread.

        Args:
            wait_s: maximum seconds a batch waits for clients that were just answered.
            max_sentences: maximum sentences of typical length per batch.
            max_queue: maximum number of queued requests.
            max_work: maximum work of a request, as `estimate_work` computes it; None: any.
        """
        self.on_batch: Callable[[int, float], None] = lambda sentences, seconds: None
        """Called by the worker thread after each batch, with its sentences and its seconds."""
        self.on_queue: Callable[[int], None] = lambda length: None
        """Called with the number of queued requests when it changes."""
        self.translator = translator
        """May be replaced at any time; a batch is computed by one translator."""
        self._wait_s, self._max_sentences, self._max_queue = wait_s, max_sentences, max_queue
        self._changed = threading.Condition()
        self._queue: deque[BatchJob] = deque()
        self._max_work = max_work
        self._closing = False
        self._nested = False  # computing a batch between the steps of another
        self._seconds_per_sentence = 0.05  # running mean
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    @property
    def queue_length(self) -> int:
        """Number of queued requests."""
        return len(self._queue)

    async def translate(
        self, sentences: Sequence[SentenceRequest], options: BatchOptions
    ) -> list[SentenceResult]:
        """Translate sentences, in order, in batches shared with other requests.

        If the awaiting task is cancelled, sentences that are still queued are not computed.

        Raises:
            HTTPError: 429 if the queue is full, or full of work and this is long, 503 if the server
                is shutting down, 400 if a sentence or an option is invalid.
        """
        job = BatchJob(sentences=sentences, options=options)
        if sentences:
            await self._submit(job)
        return job.results

    def check_work(self, work: int) -> None:
        """Check the work of a request, as `estimate_work` computes it.

        Raises:
            HTTPError: 400, naming the work and the limit.
        """
        if self._max_work is not None and work > self._max_work:
            raise HTTPError(
                400,
                f"Invalid request: request ({work} sentences of {TYPICAL_CHARACTERS} characters "
                f"at a beam of {TYPICAL_BEAM}) exceeds work limit ({self._max_work}): "
                f"send it in parts",
            )

    async def run(self, function: Callable[[], T], *, work: int = 1) -> T:
        """Run a function of some work (`estimate_work`) in the worker thread, between batches.

        Raises:
            HTTPError: as `check_work` and `translate`; 400 if the function raises a ValueError.
        """
        self.check_work(work)
        results: list[T] = []
        await self._submit(BatchJob(function=lambda: results.append(function()), work=work))
        return results[0]

    def close(self) -> None:
        """Reject new requests, finish the accepted ones and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    async def _submit(self, job: BatchJob) -> None:
        with self._changed:
            if self._closing:
                raise HTTPError(503, SHUTDOWN, retry_after=1)
            if len(self._queue) >= self._max_queue or self._is_full_for(job.work):
                raise HTTPError(
                    429, "Slowdown: the request queue is full", retry_after=self._retry_after()
                )
            self._queue.append(job)
            self.on_queue(len(self._queue))
            self._changed.notify()
        try:
            await job.future
        except ValueError as error:
            raise HTTPError(400, f"Invalid request: {error}") from None
        except asyncio.CancelledError:
            with self._changed:
                if job in self._queue:
                    self._queue.remove(job)
                    self.on_queue(len(self._queue))
            raise

    def _is_full_for(self, work: int) -> bool:
        """Return whether the queue has too much work for this; short work always fits."""
        if self._max_work is None or work <= _MAX_SHORT_COST:
            return False
        queued = sum(job.work for job in self._queue)
        return queued + work > _MAX_QUEUED_REQUESTS * self._max_work

    def _retry_after(self) -> int:
        sentences = sum(job.remaining for job in self._queue)
        return max(1, min(60, math.ceil(sentences * self._seconds_per_sentence)))

    def _work(self) -> None:
        previous_jobs, ended = 0, -math.inf
        while batch := self._next_batch(previous_jobs, wait_until=ended + self._wait_s):
            self._process(batch)
            previous_jobs, ended = len(batch), time.perf_counter()

    def _process(self, batch: Sequence[JobSlice]) -> None:
        """Compute a batch; answer the jobs that are finished and queue the others again."""
        started = time.perf_counter()
        jobs = [part.job for part in batch]
        sentences = sum(part.size for part in batch)
        with interruptible(lambda: self._between_steps(jobs, started)):
            self._compute(batch)
        seconds = time.perf_counter() - started
        if sentences:
            change = seconds / sentences - self._seconds_per_sentence
            self._seconds_per_sentence += 0.1 * change
        with self._changed:
            self._queue.extend(job for job in jobs if not job.finished)
            self.on_queue(len(self._queue))
        _resolve([job for job in jobs if job.finished])
        self.on_batch(sentences, seconds)

    def _between_steps(self, jobs: Sequence[BatchJob], started: float) -> None:
        """Abandon a batch that nobody waits for; if it takes long, let a short batch in between.

        Raises:
            Abandoned: if all jobs were cancelled.
        """
        if all(job.future.cancelled() for job in jobs):
            raise Abandoned
        if self._nested or not self._queue or time.perf_counter() - started < _MAX_SECONDS:
            return
        with self._changed:
            waiting = [job for job in self._queue if not job.future.cancelled()]
            batch = self._take_batch([job for job in waiting if job.next_is_short])
        if batch:
            self._nested = True
            try:
                self._process(batch)
            finally:
                self._nested = False

    def _next_batch(self, previous_jobs: int, *, wait_until: float) -> list[JobSlice]:
        """Wait for requests and return the next batch; empty once closed."""
        with self._changed:
            while True:
                while not self._queue:
                    if self._closing:
                        return []
                    self._changed.wait()
                # The clients of a shared batch were answered together; give them time to return.
                while len(self._queue) < previous_jobs > 1 and not self._closing:
                    left = wait_until - time.perf_counter()
                    if left <= 0:
                        break
                    self._changed.wait(left)
                jobs = [job for job in self._queue if not job.future.cancelled()]
                if jobs:
                    break
                self._queue.clear()
                self.on_queue(0)
            return self._take_batch(jobs)

    def _take_batch(self, jobs: Sequence[BatchJob]) -> list[JobSlice]:
        """Fill a batch for the first job and those that may share it; take them off the queue."""
        if not jobs:
            return []
        key = jobs[0].batch_key
        compatible = jobs[:1] if key is None else [job for job in jobs if job.batch_key == key]
        batch = fill_batch(compatible, self._max_sentences)
        taken = {id(part.job) for part in batch}
        self._queue = deque(
            job for job in self._queue if id(job) not in taken and not job.future.cancelled()
        )
        self.on_queue(len(self._queue))
        return batch

    def _compute(self, batch: Sequence[JobSlice]) -> None:
        """Compute a batch; on failure job by job, so that only the faulty one gets the error."""
        try:
            self._run_batch(batch)
        except Exception as error:  # of any type: the client is waiting for a response
            if len(batch) == 1:
                batch[0].job.error = error
                return
            for part in batch:
                if not part.job.future.cancelled():
                    self._compute([part])

    def _run_batch(self, batch: Sequence[JobSlice]) -> None:
        first = batch[0].job
        if first.function is not None:
            first.function()
            first.function_called = True
            return
        sentences = [sentence for part in batch for sentence in part.sentences]
        cost, translator = max(sentence.cost for sentence in sentences), self.translator
        batch_tokens = _FEW_TOKENS if cost > 1 else _MANY_TOKENS
        if cost > _MAX_SHORT_COST:
            batch_tokens = _LONG_TOKENS
        translations = translator.decode(
            [sentence.text for sentence in sentences],
            beam=first.options.beam,
            alpha=first.options.alpha,
            nbest=first.options.nbest,
            extras=Extras(glossary=first.options.glossary, token_scores=first.options.detail),
            prefix=[sentence.prefix for sentence in sentences],
            batch_tokens=batch_tokens,
        )
        alignments: list[str] = []
        for sentence, translation in zip(sentences, translations, strict=True):
            interruption_point()
            alignments.append(translator.alignment(translation) if sentence.align else "")
        results = map(SentenceResult, translations, alignments)
        for part in batch:
            part.job.results.extend(islice(results, part.size))


def _resolve(jobs: Sequence[BatchJob]) -> None:
    """Wake up the waiting tasks, with one call per event loop."""
    for loop in {job.future.get_loop() for job in jobs}:
        own_jobs = [job for job in jobs if job.future.get_loop() is loop]
        with suppress(RuntimeError):  # the loop is closed: no task is waiting
            loop.call_soon_threadsafe(_resolve_in_loop, own_jobs)


def _resolve_in_loop(jobs: Sequence[BatchJob]) -> None:
    for job in jobs:
        job.resolve()
