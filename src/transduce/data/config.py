"""Settings of the data room: how many tokens make an update, and how many fit in the memory."""

from dataclasses import dataclass
from typing import Literal

MICRO_TOKENS = 4096
"""Positions of a micro-batch where nobody says another number. A CPU gets no faster by more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchConfig:
    """How sentences are gathered. The first number is about learning, the second only about memory.

    Raises:
        ValueError: if a value is below 1; the message names the setting and the value.
    """

    tokens: int = 25000
    """Target tokens of one update, EOS counted, padding not (about; paper, 5.1)."""

    micro_tokens: int | Literal["auto"] = MICRO_TOKENS
    """Most positions one forward sees: rows x the longest source or target, padding counted.
    It decides how an update is cut, never which sentences are in it. "auto" measures before
    training starts how many fit into the memory, of a CPU no more than 4096."""

    subword_sampling: float = 0.0
    """Subword regularisation: pieces are drawn anew whenever a sentence is learned from. For BPE
    the probability that a merge is left out (0.1 is usual), for unigram the exponent α that smooths
    the probabilities of the cuts (0.2 is usual); 0 takes the best cut. Translating never draws."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.subword_sampling < 1.0:
            raise ValueError(
                f"batch.subword_sampling must be in [0, 1), not {self.subword_sampling}"
            )
        if self.tokens < 1:
            raise ValueError(f"batch.tokens must be 1 or more, not {self.tokens}")
        if self.positions < 1:
            raise ValueError(f"batch.micro_tokens must be 1 or more, not {self.micro_tokens}")

    @property
    def positions(self) -> int:
        """`micro_tokens` as a number: where "auto" has not been measured, the usual one.

        >>> BatchConfig(micro_tokens="auto").positions
        4096
        """
        return MICRO_TOKENS if self.micro_tokens == "auto" else self.micro_tokens
