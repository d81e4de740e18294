"""Training settings. Imports no torch, so that `--help` stays fast."""

import re
from dataclasses import dataclass
from typing import Literal

from transduce.io.settings import check_choices


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The training regime of section 5; every default is the paper's for its base model.

    Raises:
        ValueError: if a value is out of range; the message names the setting and the value.
    """

    updates: int = 100_000
    """Optimizer steps of the run; micro-batches are not updates."""

    epochs: int = 0
    """Passes over the corpus, which set `updates` once it is prepared; 0: `updates` counts."""

    time: str = ""
    """The whole run's duration, preparing and evaluation included, such as "40m" or "1h30m": the
    updates are planned from a measurement, and planned again at each validation."""

    until: float = 0.0
    """BLEU of a validation at which training ends: with a decay to zero, if the schedule has one,
    of `decay` of all updates; 0: after `updates`."""

    seed: int = 1
    """Seed of the initial weights, dropout, and the order of the sentences."""

    label_smoothing: float = 0.1

    optimizer: Literal["adam", "muon"] = "adam"
    """"adam" is the paper's; "muon" orthogonalises matrix momentum: needs fewer tokens."""

    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    """Of Adam, which under "muon" still updates embeddings, biases and gains."""

    schedule: Literal["paper", "linear", "cosine", "constant", "wsd"] = "paper"
    """"paper" is equation (3). All others warm up linearly for `warmup` updates; then "linear" and
    "cosine" decay to zero, "constant" stays, and "wsd" (warmup, stable, decay) stays until the
    last `decay` of the updates, which decay linearly to zero."""

    warmup: int = 4000
    """Updates until the learning rate's peak."""

    decay: float = 0.2
    """Share of the updates in the final decay: of "wsd", and of one that `until` begins."""

    learning_rate: float = 1.0
    """"paper": a factor on equation (3). Other schedules: Adam's learning rate at the peak."""

    muon_learning_rate: float = 0.006
    """Muon's learning rate for the matrices at the peak; only for "muon"."""

    weight_decay: float = 0.0
    """Decoupled: an update shrinks every matrix by learning rate x weight_decay."""

    validate_every: int = 1000
    """Updates between validations; each also writes a checkpoint."""

    average_checkpoints: int = 5
    """Number of last checkpoints that are averaged into the final model (section 6.1)."""

    keep_checkpoints: int = 0
    """Number of last checkpoints kept on disk, at least those that are averaged. Many of them show
    how a model learned: `transduce export --to web --history`."""

    ema: float = 0.0
    """Decay of an exponential moving average of the weights, such as 0.999; the average is then
    what is validated and kept as the best. 0: none."""

    r_drop: float = 0.0
    """α of R-Drop: each batch is passed twice, with different dropout, and disagreement of the two
    predictions is penalised; an update takes about 1.5 times as long. Its authors used 5 for
    translation. 0: one pass."""

    tune_length_penalty: bool = False
    """At the end, choose `search.alpha` on validation, if there are at least 100 pairs; the model
    keeps the choice. The default of runs without a recipe."""

    patience: int = 0
    """Early stopping: validations without a better loss before training stops; 0: never."""

    max_skipped_updates: int = 10
    """Updates in a row that may be skipped because loss or gradient is NaN or infinite; one more
    stops the run."""

    log_every: int = 20
    """Updates between lines of metrics.jsonl."""

    log_to: tuple[Literal["tensorboard", "wandb", "trackio", "mlflow"], ...] = ()
    """Trackers that also get the figures of metrics.jsonl; each has to be installed."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """"bfloat16" is mixed precision: matrix products in bfloat16, master weights in float32.
    "auto" uses it where the device has units for it."""

    fsdp: bool = False
    """Shard weights, gradients and Adam's moments over the processes (FSDP): for models that do not
    fit on one device. Slower."""

    intra_op_threads: int = 0
    """Threads of one CPU operation; 0: torch's default, the number of cores."""

    device: str = "auto"
    """"auto": a CUDA device if there is one, else Apple's MPS, else the CPU; or a torch name such
    as "cpu"."""

    def __post_init__(self) -> None:
        check_choices("train", self)
        for field in ("updates", "warmup", "validate_every", "average_checkpoints", "log_every"):
            if getattr(self, field) < 1:
                raise ValueError(f"train.{field} must be at least 1, not {getattr(self, field)}")
        not_negative = ("epochs", "patience", "intra_op_threads", "weight_decay", "r_drop", "seed")
        for field in (*not_negative, "keep_checkpoints", "max_skipped_updates"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"train.{field} must not be negative, not {getattr(self, field)}")
        if self.seed >= 2**64:  # torch seeds its generators with 64 bits
            raise ValueError(f"train.seed must be below 2**64, not {self.seed}")
        for field in ("label_smoothing", "beta1", "beta2", "ema"):
            if not 0.0 <= getattr(self, field) < 1.0:
                raise ValueError(f"train.{field} must be in [0, 1), not {getattr(self, field)}")
        for field in ("epsilon", "learning_rate", "muon_learning_rate"):
            if not getattr(self, field) > 0.0:  # written so that nan is refused too
                raise ValueError(f"train.{field} must be above 0, not {getattr(self, field)}")
        if self.fsdp and self.precision == "bfloat16":
            raise ValueError(
                'train.precision "bfloat16" needs unsharded weights: set train.fsdp to false, or '
                'train.precision to "float32"'
            )
        unsharded_only = {
            'train.optimizer "muon"': self.optimizer == "muon",
            f"train.ema {self.ema}": self.ema,
        }
        if self.fsdp and (needs := [name for name, enabled in unsharded_only.items() if enabled]):
            raise ValueError(
                f"{needs[0]} needs unsharded weights: set train.fsdp to false, or leave it out"
            )
        if not 0.0 <= self.until <= 100.0:
            raise ValueError(f"train.until must be a BLEU score up to 100, not {self.until}")
        parse_duration(self.time)
        self._check_schedule()

    def _check_schedule(self) -> None:
        if not 0.0 < self.decay < 1.0:
            raise ValueError(f"train.decay must be above 0 and below 1, not {self.decay}")
        under = f'under train.schedule "{self.schedule}"'
        if self.schedule == "paper":
            if self.learning_rate < 0.05:
                raise ValueError(
                    f"train.learning_rate {under} is a factor on equation (3), such as 1.0, "
                    f"not {self.learning_rate}"
                )
            return  # a short run may end within the paper's warmup
        if self.learning_rate > 0.1:
            raise ValueError(
                f"train.learning_rate {under} is the peak, such as 0.001, not {self.learning_rate}"
            )
        if self.warmup >= self.updates:
            raise ValueError(
                f"train.warmup must be below train.updates {under}: {self.warmup} is not below "
                f"{self.updates}"
            )
        if self.schedule == "wsd" and self.warmup + self.decay_updates > self.updates:
            raise ValueError(
                f"train.warmup {self.warmup} and the {self.decay_updates} updates of train.decay "
                f"{self.decay} do not fit into train.updates {self.updates}: lower one of the two"
            )

    @property
    def decay_updates(self) -> int:
        """Updates of the final decay of "wsd": `decay` of all, and at least one."""
        return max(1, round(self.decay * self.updates))


def parse_duration(text: str) -> int:
    """Return the seconds of a duration such as "90s", "40m", "2h" or "1h30m"; 0 for "".

    >>> [parse_duration(text) for text in ("90s", "40m", "1h30m", "")]
    [90, 2400, 5400, 0]

    Raises:
        ValueError: for other text, or no time at all.
    """
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()) if parts else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if text and not total:
        raise ValueError(
            f'train.time must be a duration such as "90s", "40m" or "1h30m", not {text!r}'
        )
    return total
