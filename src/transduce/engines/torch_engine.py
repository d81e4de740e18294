"""The engine that is always there: the model itself, in torch, on any device."""

from collections.abc import Sequence

import torch

from transduce.data.batch import pad_source
from transduce.model.transformer import Transformer
from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis


class TorchEngine:
    """Translates one batch of encoded sentences at a time."""

    def __init__(
        self, model: Transformer, *, pad: int, eos: int, device: torch.device | str
    ) -> None:
        """Take a model that is on `device` already."""
        self._model = model
        self._pad, self._eos = pad, eos
        self._device = device

    @torch.inference_mode()
    def search(
        self, sources: Sequence[Sequence[int]], config: SearchConfig
    ) -> list[list[Hypothesis]]:
        """Search the translations of one batch. A model in training is back in training after it.

        Args:
            sources: the sentences' ids, without EOS; sentences of one length pad nothing.
            config: beam, alpha, and the limit on a translation's length.

        Returns:
            For each sentence its hypotheses, best first: at least one, at most `config.beam`.

        Raises:
            ValueError: if the model answers with what is no number.
        """
        if not sources:
            return []
        ids, mask = pad_source(sources, pad=self._pad, eos=self._eos)
        training, longest = self._model.training, self._model.config.longest
        self._model.eval()
        try:
            steps = self._model.start(
                ids.to(self._device),
                None if mask is None else mask.to(self._device),
                beams=config.beam,
            )
            return beam_search(
                steps,
                limits=[min(config.limit(len(source)), longest) for source in sources],
                config=config,
                eos=self._eos,
                pad=self._pad,
                device=self._device,
            )
        finally:
            self._model.train(training)
