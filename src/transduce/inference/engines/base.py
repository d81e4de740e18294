"""What the translator asks of whoever computes: one verb, and an honest word on what it cannot."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis


@runtime_checkable  # the shape checks of the tests ask whether something is one
class Engine(Protocol):
    """Searches translations of encoded sentences. All engines follow one rule (`search.beam`)."""

    @property
    def name(self) -> str:
        """What to call it: "torch", "ctranslate2"."""
        ...

    @property
    def together(self) -> int:
        """How many batches it likes to be given at one time, as one list."""
        ...

    def refuses(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Say in a few words what of this it cannot do; empty if it can do it all."""
        ...

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        detail: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of some sentences, of like length where that can be had.

        Args:
            requests: the sentences.
            config: beam, α and the limit on length.
            constraints: what this call asks beyond that.
            detail: whether ln p of each piece is wanted. Where it is not, an engine for which that
                is dear may leave `Hypothesis.log_probs` empty; the sum is there always.

        Returns:
            For each sentence its hypotheses, best first: at least one, at most `config.beam`.

        Raises:
            ValueError: if a sentence's wishes cannot be met together, or the model answers with
                what is no number.
        """
        ...
