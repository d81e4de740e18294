"""How a model is trained. Free of torch, so that `--help` stays quick."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The regime of section 5. Every default is the paper's for its base model.

    Raises:
        ValueError: if a value cannot train a model; the message names the field and the value.
    """

    updates: int = 100_000
    """Optimizer steps in all; micro-batches are not updates."""

    seed: int = 1
    """Decides the initial weights, dropout, and the order of the sentences."""

    label_smoothing: float = 0.1

    optimizer: Literal["adam", "muon"] = "adam"
    """"adam" is the paper. "muon" orthogonalises the matrices' momentum, to need fewer tokens."""

    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    """Of Adam, and of the Adam that "muon" leaves embeddings, biases and gains to."""

    schedule: Literal["paper", "linear", "cosine", "constant", "wsd"] = "paper"
    """"paper" is equation (3). All others rise in a straight line for `warmup` updates; then
    "linear" falls to zero in a straight line, "cosine" as half a wave, "constant" stays, and "wsd"
    stays until the last `decay` of training falls to zero (warm up, stable, decay)."""

    warmup: int = 4000
    """Updates until the rate's peak."""

    decay: float = 0.2
    """Share of the updates in the final descent; only "wsd" reads it."""

    learning_rate: float = 1.0
    """"paper": a factor on equation (3). All other schedules: Adam's rate at the peak."""

    muon_learning_rate: float = 0.006
    """Muon's rate for the matrices at the peak; only "muon" reads it."""

    weight_decay: float = 0.0
    """Decoupled: every matrix shrinks by rate x weight_decay in an update."""

    validate_every: int = 1000
    """Updates between validations; each also writes a checkpoint."""

    average_checkpoints: int = 5
    """How many of the last checkpoints are averaged into the final model (section 6.1)."""

    ema: float = 0.0
    """Decay of a running mean of the weights, such as 0.999; then it is the mean that is validated
    and kept as the best. 0 keeps none."""

    r_drop: float = 0.0
    """α of R-Drop: every batch is read twice and the readings are drawn together, which doubles the
    cost of an update; its authors took 5 for translation. 0 reads once."""

    patience: int = 0
    """Stop after so many validations without a better validation loss; 0 never stops early."""

    max_skipped_updates: int = 10
    """Updates in a row that may be skipped, because their loss or gradient is no number; one more
    stops the run."""

    log_every: int = 20
    """Updates between lines of metrics.jsonl."""

    tensorboard: bool = False
    """Draw the curves of metrics.jsonl for TensorBoard too, which has to be installed."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What updates are computed in. "bfloat16" makes the products of matrices in it, for weights
    that are float32 wherever they are learned, validated or written. "auto" takes it where the
    device has units for it."""

    compile: bool = False
    """Whether torch compiles layers and loss as they are first passed: for long runs on a GPU."""

    fsdp: bool = False
    """Whether several processes share out the weights, gradients and Adam's memory in place of
    holding all of them each: for models that one device is too small for. Slower."""

    intra_op_threads: int = 0
    """Threads of one matrix product on a CPU; 0 takes torch's choice, the number of cores."""

    device: str = "auto"
    """"auto" takes a CUDA device when there is one; else a name torch knows, such as "cpu"."""

    def __post_init__(self) -> None:
        for field in ("updates", "warmup", "validate_every", "average_checkpoints", "log_every"):
            if getattr(self, field) < 1:
                raise ValueError(f"train.{field} must be at least 1, not {getattr(self, field)}")
        for field in (
            "patience",
            "intra_op_threads",
            "weight_decay",
            "r_drop",
            "max_skipped_updates",
        ):
            if not getattr(self, field) >= 0:
                raise ValueError(f"train.{field} must not be negative, not {getattr(self, field)}")
        for field in ("label_smoothing", "beta1", "beta2", "ema"):
            if not 0.0 <= getattr(self, field) < 1.0:
                raise ValueError(f"train.{field} must be in [0, 1), not {getattr(self, field)}")
        for field in ("epsilon", "learning_rate", "muon_learning_rate"):
            if not getattr(self, field) > 0.0:  # written so that nan is refused too
                raise ValueError(f"train.{field} must be above 0, not {getattr(self, field)}")
        if self.optimizer not in ("adam", "muon"):
            raise ValueError(f'train.optimizer must be "adam" or "muon", not {self.optimizer!r}')
        if self.precision not in ("auto", "float32", "bfloat16"):
            raise ValueError(
                f'train.precision must be "auto", "float32" or "bfloat16", not {self.precision!r}'
            )
        if self.fsdp and self.precision == "bfloat16":
            raise ValueError(
                'train.precision "bfloat16" needs whole weights: set train.fsdp to false, or '
                'train.precision to "float32"'
            )
        whole = {
            'train.optimizer "muon"': self.optimizer == "muon",
            f"train.ema {self.ema}": self.ema,
            "train.compile": self.compile,
        }
        if self.fsdp and (needs := [name for name, wanted in whole.items() if wanted]):
            raise ValueError(
                f"{needs[0]} needs whole weights: set train.fsdp to false, or leave it out"
            )
        if self.seed < 0:
            raise ValueError(f"train.seed must not be negative, not {self.seed}")
        self._check_schedule()

    def _check_schedule(self) -> None:
        if self.schedule not in ("paper", "linear", "cosine", "constant", "wsd"):
            raise ValueError(
                'train.schedule must be "paper", "linear", "cosine", "constant" or "wsd", '
                f"not {self.schedule!r}"
            )
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
        """Updates of the final descent of "wsd": `decay` of them all, and at least one."""
        return max(1, round(self.decay * self.updates))
