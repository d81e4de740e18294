"""The default engine on CPUs with a compiler: search in our own C++, by the rule of `search.beam`.

In float32 it gives torch's translations but for rounding. A translation does not depend on its
batch, in int8 and with a shortlist neither.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.ct2_model import Shortlist
from transduce.inference.engines.ct2_runtime import available_threads
from transduce.inference.engines.interface import IdPair, check_sides
from transduce.inference.engines.native_library import (
    INT8_NEEDS,
    LONGEST,
    NativeModel,
    RawHypothesis,
    Sentence,
    load_search,
    unsupported_shape,
)
from transduce.model.config import ModelConfig
from transduce.model.numpy_transformer import NumpyTransformer
from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SearchConfig,
    check_request,
)
from transduce.search.hypothesis import Hypothesis, rank
from transduce.search.interruption import interruption_point

_MAX_ROWS = 32
"""Maximum sentences of a group; 64 are slower, as their logits leave the caches."""

_MIN_ROWS, _MAX_HYPOTHESES = 8, 40
"""Rows x beam that the caches hold."""

_SHORTLIST_ROWS = 24
"""Maximum sentences of a group with a shortlist: the pieces of all are computed for each."""

_MAX_POSITIONS = 8192
"""Maximum rows x beam x longest side of a group, in pieces, as its memory grows with them."""

_MAX_BEAM = 100
"""Candidates are kept in order one by one, which takes long for very many."""

_GROUPS_PER_CALL = 4
"""Groups a thread takes between two points at which a search can be interrupted."""


def unavailable_reason(config: ModelConfig, *, device: str, compute_type: str) -> str:
    """Return why the native engine cannot run a model; empty if it can.

    Args:
        config: the model's shape.
        device: where to compute; only "cpu" is supported.
        compute_type: number format of products with weights.
    """
    if device != "cpu":
        return f"the device is {device}"
    if compute_type not in ("float32", "int8"):
        return f"it does not compute in {compute_type}"
    if feature := unsupported_shape(config):
        return f"it does not support {feature}"
    library, reason = load_search()
    if library is not None and compute_type == "int8" and not library.int8_instructions():
        return f"its int8 needs {INT8_NEEDS}"
    return reason


class NativeEngine:
    """Translates many encoded sentences at a time, several groups in parallel."""

    name = "native"

    def __init__(
        self, model: NumpyTransformer, *, int8: bool = False, shortlist: Shortlist | None = None
    ) -> None:
        """Pack the weights.

        Args:
            model: its embeddings are read where they are, and must not change.
            int8: whether products with weights are computed in int8, else in float32.
            shortlist: ids that may be generated; None is the whole vocabulary.

        Raises:
            ValueError: if the model cannot be run; see `unavailable_reason`.
        """
        self._model = NativeModel(model, int8=int8, shortlist=shortlist)
        self._pad, self._longest = model.config.pad, min(model.config.longest, LONGEST)
        self._eos = Tokenizer.EOS
        self._threads, self._process = available_threads(), os.getpid()
        self._has_shortlist = shortlist is not None

    @property
    def threads(self) -> int:
        """Groups that are searched at a time; in a forked child 1, as with torch."""
        return self._threads if os.getpid() == self._process else 1

    @property
    def preferred_batches(self) -> int:
        """Number of batches that keeps all threads busy."""
        return 8 * self.threads

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Name what this engine does not support; see `Engine`."""
        if constraints.sampling is not None:
            return "sampling"
        if config.beam > _MAX_BEAM:
            return f"a beam above {_MAX_BEAM}"
        if max((len(request.source) for request in requests), default=0) >= self._longest:
            return f"more than {self._longest} pieces"
        return ""

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        token_scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of some sentences; see `Engine.search`.

        With a shortlist, a second pass computes the token scores of the best translation over the
        whole vocabulary.

        Raises:
            ValueError: for unsupported options, or if the logits are NaN or infinite.
        """
        if reason := self.unsupported_reason(requests, config, constraints):
            raise ValueError(f"the native engine does not support {reason}; use the torch engine")
        sentences = [self._sentence(request, config, constraints) for request in requests]
        constrained = bool(constraints.no_repeat or constraints.min_length)
        results = [
            rank(
                [
                    Hypothesis.scored(ids, log_probs, alpha=config.alpha, eos=self._eos)
                    for ids, log_probs in hypotheses
                ],
                beam=config.beam,
                constrained=constrained or bool(request.prefix),
            )
            for request, hypotheses in zip(
                requests, self._run(sentences, config.beam, constraints), strict=True
            )
        ]
        if token_scores and not self._has_shortlist:
            return results
        pairs = [
            (request.source, best.ids)
            for request, (best, *_) in zip(requests, results, strict=True)
        ]
        log_probs = self._forced_scores(pairs) if token_scores else [()] * len(pairs)
        return [
            [replace(best, log_probs=exact), *others]
            for (best, *others), exact in zip(results, log_probs, strict=True)
        ]

    def score(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target and of its EOS."""
        check_sides(pairs, longest=self._longest)
        return self._forced_scores([(source, (*target, self._eos)) for source, target in pairs])

    def _forced_scores(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each id of each target, which may lack EOS."""
        sentences = [
            Sentence((*source, self._eos), len(target), prefix=target) for source, target in pairs
        ]
        results = self._run(sentences, 1, UNCONSTRAINED, whole_vocabulary=True)
        if not all(results):
            rank([], beam=1, constrained=False)  # raises an error that names the cause
        return [best.log_probs for best, *_ in results]

    def _run(
        self,
        sentences: Sequence[Sentence],
        beam: int,
        constraints: DecodingConstraints,
        *,
        whole_vocabulary: bool = False,
    ) -> list[list[RawHypothesis]]:
        """Translate sentences in groups of similar length, the longest first."""
        lengths = [max(len(sentence.source), len(sentence.prefix)) for sentence in sentences]
        order = sorted(range(len(sentences)), key=lambda index: -lengths[index])
        most = _SHORTLIST_ROWS if self._has_shortlist else _MAX_ROWS
        rows = min(most, max(_MIN_ROWS, _MAX_HYPOTHESES // beam), -(-len(order) // self.threads))
        groups: list[list[int]] = []
        for index in order:
            last = groups[-1] if groups else []
            if last and len(last) < min(rows, _MAX_POSITIONS // (beam * lengths[last[0]])):
                last.append(index)
            else:
                groups.append([index])
        results: list[list[RawHypothesis]] = [[] for _ in sentences]
        for first in range(0, len(groups), _GROUPS_PER_CALL * self.threads):
            interruption_point()
            call = groups[first : first + _GROUPS_PER_CALL * self.threads]
            searched = self._model.search(
                [[sentences[index] for index in group] for group in call],
                beam=beam,
                min_length=constraints.min_length,
                no_repeat=constraints.no_repeat,
                eos=self._eos,
                threads=self.threads,
                whole_vocabulary=whole_vocabulary,
            )
            for group, hypotheses in zip(call, searched, strict=True):
                for index, of_sentence in zip(group, hypotheses, strict=True):
                    results[index] = of_sentence
        return results

    def _sentence(
        self, request: Request, config: SearchConfig, constraints: DecodingConstraints
    ) -> Sentence:
        limit = min(constraints.limit(config.limit(len(request.source))), self._longest)
        check_request(request, constraints, limit=limit, eos=self._eos, pad=self._pad)
        return Sentence((*request.source, self._eos), limit, request.prefix)
