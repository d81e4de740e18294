"""The time that training still takes, from what updates and validations have taken so far."""

HALF_LIFE = 180.0  # seconds after which a measurement counts half


class TimeLeft:
    """Estimates the seconds until the last validation of a training.

    What follows it (averaging, evaluation) is not included.
    """

    def __init__(self, *, validate_every: int, half_life: float = HALF_LIFE) -> None:
        """Start without any measurement of a training whose last update is validated, too."""
        self._half_life, self._validate_every = half_life, validate_every
        self._update_seconds = self._measured_updates = 0.0
        self._validation_seconds = self._validations = 0.0

    def add_updates(self, count: int, seconds: float) -> None:
        """Count updates; earlier ones lose weight, because the speed of a machine changes."""
        weight = 0.5 ** (seconds / self._half_life)
        self._update_seconds = weight * self._update_seconds + seconds
        self._measured_updates = weight * self._measured_updates + count

    def add_validation(self, seconds: float) -> None:
        """Count a validation; the latest counts most, as translations get longer or shorter."""
        self._validation_seconds = self._validation_seconds / 2 + seconds
        self._validations = self._validations / 2 + 1

    def update_seconds(self, count: int, seconds: float) -> float:
        """Return the mean duration of the latest updates, `count` more than were added included."""
        measured = self._update_seconds + seconds
        return measured / max(1e-9, self._measured_updates + count)

    def after(self, update: int, *, last: int) -> float:
        """Return the seconds left after an update, before its validation; `last` ends the run."""
        left = last - update
        seconds = left * self._update_seconds / max(self._measured_updates, 1e-9)
        if self._validations and left:
            every = self._validate_every
            due = last // every - (update - 1) // every + (last % every > 0)
            seconds += due * self._validation_seconds / self._validations
        return seconds
