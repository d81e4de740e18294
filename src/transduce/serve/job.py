"""What is asked of a batcher: sentences that wait, are computed share by share, and answered."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transduce.inference.translation import Translation

_USUAL = 128  # characters of a sentence


class How(NamedTuple):
    """What sentences must share to be translated together."""

    beam: int | None = None
    """Hypotheses followed; None is the model's own."""

    alpha: float | None = None
    """Of the length penalty; None is the model's own."""

    nbest: int = 1
    """Translations wanted of each sentence."""

    detail: bool = False
    """Whether ln p of each piece is wanted, and confidence, though it costs something."""


class Sentence(NamedTuple):
    """What is to be translated."""

    text: str

    prefix: str = ""
    """What its translation begins with."""

    align: bool = False
    """Whether its alignment is wanted with it."""

    @property
    def size(self) -> int:
        """For how many sentences of usual length it counts."""
        return 1 + (len(self.text) + len(self.prefix)) // _USUAL


class Answer(NamedTuple):
    """What became of a sentence."""

    translation: Translation

    alignment: str
    """As "0-0 1-2"; empty where none was wanted."""


class Job:
    """A request while it waits and is computed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        sentences: Sequence[Sentence] = (),
        how: How | None = None,
        call: Callable[[], None] | None = None,
    ) -> None:
        """Take sentences, or a call of another kind, and the loop in which somebody waits."""
        self.loop, self.how, self.call = loop, how or How(), call
        self.sentences = tuple(sentences)
        self.answers: list[Answer] = []
        self.done: asyncio.Future[None] = loop.create_future()
        self.error: Exception | None = None
        self.called = False

    @property
    def kind(self) -> tuple[How, bool] | None:
        """What its next sentence must share with others; None for what is computed alone.

        A sentence with a prefix is apart: one could make another engine compute a whole batch.
        """
        if self.call is not None:
            return None
        return self.how, bool(self.sentences[len(self.answers)].prefix)

    def run(self, most: int) -> int:
        """How many of its next sentences, of `most`, may be in one batch; 0 for a call."""
        begun = len(self.answers)
        rest = self.sentences[begun : begun + most]
        return next(
            (at for at, one in enumerate(rest) if bool(one.prefix) != bool(rest[0].prefix)),
            len(rest),
        )

    @property
    def left(self) -> int:
        """How many sentences have no answer."""
        return len(self.sentences) - len(self.answers)

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do for it."""
        whole = not self.left if self.call is None else self.called
        return whole or self.error is not None

    def tell(self) -> None:
        """Wake up who waits; in the loop."""
        if self.done.done():  # whoever waited went away
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(None)


class Share(NamedTuple):
    """What of a request is in a batch: its next sentences."""

    job: Job
    many: int

    @property
    def sentences(self) -> tuple[Sentence, ...]:
        begun = len(self.job.answers)
        return self.job.sentences[begun : begun + self.many]


def deal(jobs: Sequence[Job], most: int) -> list[Share]:
    """Deal out a batch: to each request in turn one sentence, while it wants and there is room.

    A long sentence takes the room of several. The first has its place whatever it takes.
    """
    many = Counter[int]()
    room = most
    for at, sentence in _turns(jobs[:most], most):
        room -= sentence.size
        if room < 0 and many:
            break
        many[at] += 1
    shares = [Share(job, many[at]) for at, job in enumerate(jobs) if many[at]]
    return shares or [Share(jobs[0], 0)]  # a call has no sentences


def _turns(jobs: Sequence[Job], most: int) -> Iterator[tuple[int, Sentence]]:
    """The next sentences of some requests, one of each in turn; and whose they are."""
    runs = [job.run(most) for job in jobs]
    for turn in range(max(runs)):
        for at, (job, run) in enumerate(zip(jobs, runs, strict=True)):
            if turn < run:
                yield at, job.sentences[len(job.answers) + turn]
