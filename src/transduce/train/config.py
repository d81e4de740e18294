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

    schedule: Literal["paper", "linear"] = "paper"
    """"paper" is equation (3). "linear" rises for `warmup` updates, then falls to zero."""

    warmup: int = 4000
    """Updates until the rate's peak."""

    rate: float = 1.0
    """"paper": a factor on equation (3). "linear": Adam's rate at the peak."""

    matrix_rate: float = 0.006
    """Muon's rate for the matrices at the peak; only "muon" reads it."""

    weight_decay: float = 0.0
    """Decoupled: every matrix shrinks by rate x weight_decay in an update."""

    validate_every: int = 1000
    """Updates between validations; each also writes a checkpoint."""

    average: int = 5
    """How many of the last checkpoints are averaged into the final model (section 6.1)."""

    patience: int = 0
    """Stop after so many validations without a better validation loss; 0 never stops early."""

    log_every: int = 20
    """Updates between lines of metrics.jsonl."""

    threads: int = 0
    """Threads of one matrix product on a CPU; 0 takes torch's choice, the number of cores."""

    device: str = "auto"
    """"auto" takes a CUDA device when there is one; else a name torch knows, such as "cpu"."""

    def __post_init__(self) -> None:
        for field in ("updates", "warmup", "validate_every", "average", "log_every"):
            if getattr(self, field) < 1:
                raise ValueError(f"train.{field} must be at least 1, not {getattr(self, field)}")
        for field in ("patience", "threads", "weight_decay"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"train.{field} must not be negative, not {getattr(self, field)}")
        for field in ("label_smoothing", "beta1", "beta2"):
            if not 0.0 <= getattr(self, field) < 1.0:
                raise ValueError(f"train.{field} must be in [0, 1), not {getattr(self, field)}")
        for field in ("epsilon", "rate", "matrix_rate"):
            if not getattr(self, field) > 0.0:  # written so that nan is refused too
                raise ValueError(f"train.{field} must be above 0, not {getattr(self, field)}")
        if self.optimizer not in ("adam", "muon"):
            raise ValueError(f'train.optimizer must be "adam" or "muon", not {self.optimizer!r}')
        if self.schedule not in ("paper", "linear"):
            raise ValueError(f'train.schedule must be "paper" or "linear", not {self.schedule!r}')
        if self.seed < 0:
            raise ValueError(f"train.seed must not be negative, not {self.seed}")
        if self.schedule == "linear" and self.rate > 0.1:
            raise ValueError(
                f'train.rate is the peak under schedule "linear", such as 0.001, not {self.rate}'
            )
        if self.schedule == "linear" and self.warmup > self.updates:
            raise ValueError(
                f"train.warmup must not exceed train.updates under schedule "
                f'"linear": {self.warmup} > {self.updates}'
            )
