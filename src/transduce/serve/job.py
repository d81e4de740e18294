"""What is asked of a batcher: sentences that wait, are computed share by share, and answered."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from transduce.translate.translation import Translation


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

    @property
    def run(self) -> int:
        """How many of its next sentences may be in one batch; 0 for a call."""
        rest = self.sentences[len(self.answers) :]
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
    """Deal out a batch's sentences: to each request in turn one, as long as it wants."""
    runs = [job.run for job in jobs[:most]]
    level = max(runs, default=0)
    if sum(runs) > most:
        low, level = 1, max(runs)  # the most that each may have, found by halving
        while low < level:
            middle = (low + level + 1) // 2
            if sum(min(run, middle) for run in runs) <= most:
                low = middle
            else:
                level = middle - 1
    return [Share(job, min(run, level)) for job, run in zip(jobs, runs, strict=False)]
