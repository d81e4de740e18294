"""The engine for what CTranslate2 does not do, where torch is not installed: the model in NumPy."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from transduce.inference.engines.interface import IdPair, Ids, NextPiece, score_in_batches
from transduce.model.numpy_transformer import NumpyDecoder, NumpyTransformer
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.numpy_beam import numpy_beam_search


class NumpyEngine:
    """Searches sentence by sentence, scores and ranks next pieces; see `ScoringEngine`."""

    name = "numpy"
    preferred_batches = 1

    def __init__(self, model: NumpyTransformer, *, eos: int) -> None:
        """Take the model; `eos` is the id of EOS."""
        self._model, self._eos = model, eos
        self._pad = model.config.pad
        self.longest = model.config.longest

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Everything but sampling is supported."""
        return "sampling" if constraints.sampling is not None else ""

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of some sentences; token scores are always returned."""
        results: list[list[Hypothesis]] = []
        with np.errstate(over="ignore", invalid="ignore"):  # NaN is refused by name
            for request in requests:
                limit = constraints.limit(config.limit(len(request.source)))
                results.append(
                    numpy_beam_search(
                        NumpyDecoder(self._model, [*request.source, self._eos]),
                        request,
                        limit=min(limit, self.longest),
                        config=config,
                        constraints=constraints,
                        eos=self._eos,
                        pad=self._pad,
                    )
                )
        return results

    def score(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target and of its EOS."""
        vocab_size = self._model.config.vocab_size
        return score_in_batches(
            pairs, self._score_batch, longest=self.longest, vocab_size=vocab_size
        )

    def _score_batch(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[list[float]]:
        target_out = self._padded(targets)
        log_probs = self._log_probs(sources, target_out)
        return np.take_along_axis(log_probs, target_out[:, :, None], axis=2)[:, :, 0].tolist()

    def next_pieces(self, request: Request, k: int) -> list[NextPiece]:
        """Return the `k` most probable pieces after the prefix, best first, EOS among them."""
        log_probs = self._log_probs([request.source], self._padded([request.prefix]))[0, -1]
        best = np.argsort(-log_probs, kind="stable")[: min(k, self._pad)]
        return list(map(NextPiece, best.tolist(), log_probs[best].tolist()))

    def _log_probs(
        self, sources: Sequence[Sequence[int]], target_out: Int[np.ndarray, "batch target"]
    ) -> Float[np.ndarray, "batch target vocab"]:
        """Return the log-probabilities of all pieces at each target position (teacher forcing)."""
        source = self._padded(sources)
        mask = (source != self._pad)[:, None, None]
        start = np.full_like(target_out[:, :1], self._pad)
        target_in = np.concatenate([start, target_out[:, :-1]], axis=1)
        memory = self._model.project_memory(self._model.encode(source, mask))
        return self._model.log_probs(self._model.decode(memory, mask, target_in))

    def _padded(self, sentences: Sequence[Sequence[int]]) -> Int[np.ndarray, "batch width"]:
        """One row per sentence: its ids, EOS, then PAD."""
        ids = np.full((len(sentences), max(map(len, sentences)) + 1), self._pad)
        for row, sentence in zip(ids, sentences, strict=True):
            row[: len(sentence) + 1] = [*sentence, self._eos]
        return ids
