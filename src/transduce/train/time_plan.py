"""The plan of a training that must end at a given time (`train.time`) or score (`train.until`).

The recipe's schedule stays as it is; a plan maps updates to positions on it. At every validation
the updates that still fit are computed anew from the speed so far, and the rest of the schedule is
spread over them: on a machine that slows down, each update takes a longer step along the schedule,
so that the learning rate has no jump and its decay ends when the time does. A plan changes only
where a checkpoint is written, and is stored in it: a resumed run repeats the same updates.
"""

from dataclasses import dataclass, replace
from statistics import median
from typing import Annotated

from pydantic import Field

from transduce.data.store import Count
from transduce.train.config import TrainConfig

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_RECENT = 3  # validations, of whose durations the median counts: one may be slow by chance
_SHORTEST = 50  # a decay that comes late has at least such a part of the updates made
_SETTLED = 0.5  # share of the schedule after which translations have their final length


@dataclass(frozen=True, kw_only=True, slots=True)
class TimePlan:
    """The last update of a training, and the position of updates on its schedule."""

    updates: Count
    """The last update."""
    since: Count = 0
    """The update after which the plan was made."""
    position: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """The position of that update on the schedule, which ends at `TrainConfig.updates`."""
    validation_seconds: Seconds = 0.0
    """Of a validation, as measured before training."""
    final_share: Seconds = 0.0
    """Duration of all that follows the last validation, in validations."""
    recent: tuple[Seconds, ...] = ()
    """Seconds of the last validations."""
    setup_seconds: Seconds = 0.0
    """Before the first update of each session: preparing, measuring, loading."""
    fixed_interval: bool = False
    """Whether validations are `TrainConfig.validate_every` updates apart, as set by hand; else they
    keep their positions on the schedule."""

    def schedule_position(self, update: int, *, end: int) -> float:
        """Return the position of an update on a schedule of `end` updates."""
        if self.updates <= self.since:
            return float(end)
        share = (update - self.since) / (self.updates - self.since)
        return self.position + share * (end - self.position)

    def replan(
        self,
        update: int,
        *,
        config: TrainConfig,
        left: float,
        update_seconds: float,
        validation_seconds: float,
    ) -> "TimePlan":
        """Return the plan from an update on.

        Args:
            update: the last one made, after its validation.
            config: its `updates` and `validate_every` are the schedule's.
            left: seconds until the budget ends, final evaluation included.
            update_seconds: of one update, as measured lately.
            validation_seconds: of the last validation.
        """
        end, every = config.updates, config.validate_every
        position = self.schedule_position(update, end=end)
        recent = (*self.recent, validation_seconds)[-_RECENT:]
        expected = median(recent)
        # Translations of an untrained model run to the maximum length: those to come are shorter.
        if position < _SETTLED * end:
            expected = min(expected, self.validation_seconds)
        left -= self.final_share * expected
        update_seconds = max(update_seconds, 1e-9)
        if self.fixed_interval:
            fitting = fitting_updates(
                left, update=update_seconds, validation=expected, validate_every=every
            )
        else:
            validations = -(-end // every) - int(position / every)
            fitting = round((left - validations * expected) / update_seconds)
        updates = 0
        if position < end:  # a short decay, even where the time is up; a later plan extends none
            updates = max(1, min(update // _SHORTEST, self.updates - update), fitting)
        return replace(
            self, updates=update + updates, since=update, position=position, recent=recent
        )


def fitting_updates(
    seconds: float, *, update: float, validation: float, validate_every: int
) -> int:
    """Return how many updates fit into a time with validations at an interval and at the end.

    Args:
        seconds: of updates and validations.
        update: seconds of an update, above 0.
        validation: seconds of a validation.
        validate_every: updates between validations.

    >>> fitting_updates(100.0, update=1.0, validation=5.0, validate_every=15)
    75
    >>> fitting_updates(109.0, update=1.0, validation=5.0, validate_every=15)
    79
    """
    rounds, rest = divmod(seconds, validate_every * update + validation)
    return int(rounds) * validate_every + max(0, int((rest - validation) / update))
