"""The engine that is always there: the model itself, in torch, on any device."""

from collections.abc import Sequence

import torch

from transduce.data.batch import pad_source
from transduce.model.transformer import Transformer
from transduce.search.beam import beam_search
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import PLAIN, Request, Wishes


class TorchEngine:
    """Translates one batch of encoded sentences at a time."""

    def __init__(
        self, model: Transformer, *, pad: int, eos: int, device: torch.device | str
    ) -> None:
        """Take a model that is on `device` already."""
        self._model = model
        self._pad, self._eos = pad, eos
        self._device = device

    name = "torch"
    together = 1

    def refuses(self, requests: Sequence[Request], config: SearchConfig, wishes: Wishes) -> str:
        """Say what of this it cannot do: nothing."""
        return ""

    @torch.inference_mode()
    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        wishes: Wishes = PLAIN,
        *,
        detail: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of one batch. A model in training is back in training after it.

        See `Engine.search`; here ln p of each piece costs nothing and is always there.
        """
        if not requests:
            return []
        sources = [request.source for request in requests]
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
