"""The fast engine: CTranslate2, called such that it follows the same search rule as `search.beam`.

Like ours, its beam search takes the top 2 x beam candidates, lets EOS finish among the first `beam`
of them, and stops when `beam` hypotheses have finished. The differences are handled here:

- It ranks by sum / length^exponent, we use the GNMT penalty. So it returns all `beam` hypotheses,
  which are ranked again by their sums.
- It may have more than `beam` hypotheses when it stops, since several can finish in the last step,
  and drops the worst by its own ranking. So the exponent is chosen to match our penalty's slope at
  the source's length, where both rankings agree best; only the last of the `beam` may differ, and
  for a confident model not even that. With α = 0 both are equal. The exponent is never 0, because
  CTranslate2 then stops by another rule.
- It has one length limit per batch: the highest of its sentences' limits. The few sentences whose
  translations reach their own limit are searched again, grouped by limit.
- It masks pieces before the softmax, we do so after it. For PAD that is equivalent. For prefixes,
  repetition and minimum length it is equivalent in greedy search only, whose sums are then taken
  from a second pass that scores the output; with a beam they are unsupported, as is sampling.

What remains are ties: candidates whose sums differ in the sixth digit may change places.

With a shortlist this holds approximately: its pieces share all probability, so sums are slightly
higher, and a sentence may use pieces allowed by others of its batch. Token scores are exact.
"""

import ctypes
import itertools
import json
import math
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.ct2_model import (
    CACHE_PREFIX,
    FORMAT,
    Cache,
    Shortlist,
    load_ctranslate2,
    max_positions,
    vocabulary,
    write_ctranslate2,
)
from transduce.inference.engines.ct2_runtime import (
    Ct2Hypothesis,
    Ct2Model,
    Plan,
    Plans,
    SearchBatch,
    load_or_measure_plans,
    resolve_compute_types,
)
from transduce.inference.engines.interface import IdPair
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis, length_penalty, rank

MAX_ROWS = 64
"""Maximum sentences per batch: more are no faster on a CPU, and balance workers worse."""

_MIN_ROWS, _MAX_HYPOTHESES = 8, 80
"""Rows x beam that a CPU's caches hold: with a beam, more take longer per sentence. The record
(benchmarks/results/decoding-native) has 16 as the best batch of its int8 with a beam of 5."""

_SHORTLIST_ROWS = 24
"""Maximum sentences per batch with a shortlist: all of them share the pieces of each."""

_NO_PENALTY = 1e-30  # as an exponent: a penalty of 1, without being 0
_IMPOSSIBLE = -1e6  # below any log-probability: a masked piece was taken for lack of others

_ENGINES: "weakref.WeakSet[Ct2Engine]" = weakref.WeakSet()
"""All engines of this process, which load their models again in a forked child."""


class Ct2Engine:
    """Translates many encoded sentences at a time, several batches in parallel."""

    name = "ctranslate2"

    def __init__(
        self,
        bundle: Bundle,
        *,
        device: str = "cpu",
        compute_type: str = "float32",
        plan: Plan | None = None,
        shortlist: Shortlist | None = None,
        cache: Cache | None = None,
    ) -> None:
        """Convert a model, unless the cache has it, and load it.

        Args:
            bundle: the model; not needed afterwards.
            device: where to compute, "cpu", "cuda" or "cuda:1".
            compute_type: number format; only float32 gives torch's translations. "auto" is the
                fastest.
            plan: how to compute, instead of measuring; overrides `compute_type`.
            shortlist: ids that may be generated; None is the whole vocabulary.
            cache: None is the user's.

        Raises:
            ValueError: if CTranslate2 is not installed, or does not support the model or the
                compute type here.
            OSError: if the model cannot be written anywhere.
        """
        kind = device.partition(":")[0]
        requested = plan.compute_type if plan else compute_type
        compute_types = resolve_compute_types(requested, device=kind)
        self._cache = cache or Cache()  # kept alive: a temporary one goes with its last user
        self._device, self._shortlist = device, shortlist
        self._pieces = vocabulary(bundle.tokenizer.target)
        self._fewest_pieces = len(shortlist.always if shortlist else self._pieces)  # to choose from
        self._longest = max_positions(bundle.weights.config)
        name = f"{CACHE_PREFIX}{_checksum(bundle)[:32]}"
        if shortlist:
            name += f"-{sha256(shortlist.to_text(self._pieces).encode()).hexdigest()[:16]}"
        folders: dict[str, Path] = {}
        for number_format in compute_types:
            quantization = "int8" if number_format.startswith("int8") else None  # shared by all
            folders[number_format] = self._cache.folder(
                f"{name}-{quantization}" if quantization else name,
                partial(write_ctranslate2, bundle, quantization=quantization, shortlist=shortlist),
            )
        self.plans = (
            Plans(plan, plan)
            if plan
            else load_or_measure_plans(folders, self._pieces, device=kind, cache=self._cache)
        )
        """How to compute single sentences, and many."""
        self._folder = folders[self.plans.throughput.compute_type]
        self._lock = threading.Lock()
        self._loaded: dict[Plan, Ct2Model] = {}
        self._model(self.plans.throughput)
        _ENGINES.add(self)

    @property
    def preferred_batches(self) -> int:
        """Number of batches that keeps all workers busy."""
        return 8 * self.plans.throughput.workers

    def unsupported_reason(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Name what CTranslate2 does not support, or not by our search rule; see `Engine`."""
        if constraints.sampling is not None:
            return "sampling"
        if self._shortlist and (
            constraints.no_repeat or any(request.prefix for request in requests)
        ):
            return "a prefix or no-repeat with a shortlist"  # it would block the wrong pieces
        if any(not request.source for request in requests):
            return "an empty source"
        prefix = max((len(request.prefix) for request in requests), default=0)
        if config.beam > 1 and (prefix or constraints.no_repeat or constraints.min_length):
            option = "no-repeat" if constraints.no_repeat else "min-length"
            return f"{'a prefix' if prefix else option} with a beam above 1"
        limits = self._limits(requests, config, constraints)
        if max(prefix, constraints.min_length) >= min(limits, default=self._longest):
            return "a prefix or min-length as long as the longest translation"
        sources = [len(request.source) + 1 for request in requests]
        if max([*sources, *limits], default=0) > self._longest:
            return f"more than {self._longest} pieces"
        blocked = 2 + (max(limits, default=0) if constraints.no_repeat else 0)
        if 2 * config.beam > self._fewest_pieces - blocked:
            return f"a beam of {config.beam} with so few pieces"
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

        Token scores are computed in a second pass. On a CPU greedy search
        computes no sums without them.

        Raises:
            ValueError: for unsupported options, or if the logits are NaN or infinite.
        """
        reason = self.unsupported_reason(requests, config, constraints)
        if reason:
            raise ValueError(f"CTranslate2 does not support {reason}; use the torch engine")
        model = self._model(self.plans.latency if len(requests) == 1 else self.plans.throughput)
        limits = self._limits(requests, config, constraints)
        masked = any(request.prefix for request in requests)
        masked = masked or bool(constraints.no_repeat or constraints.min_length)
        # Greedy search compares logits: without sums it needs no softmax. In a GPU's precisions
        # logits can overflow, which the sums show.
        sums = token_scores or masked or config.beam > 1 or self._device != "cpu"

        def search(groups: Sequence[_Group]) -> dict[int, list[Ct2Hypothesis]]:
            batches = [
                SearchBatch(
                    requests=tuple(requests[index] for index in group),
                    limit=max(limits[index] for index in group),
                    exponent=_exponent([requests[index] for index in group], config),
                )
                for group in groups
            ]
            results = model.search(batches, beam=config.beam, constraints=constraints, sums=sums)
            chain = itertools.chain.from_iterable
            return dict(zip(chain(groups), chain(results), strict=True))

        rows = MAX_ROWS
        if self._device == "cpu":
            rows = min(
                _SHORTLIST_ROWS if self._shortlist else MAX_ROWS,
                max(_MIN_ROWS, _MAX_HYPOTHESES // config.beam),
            )
        workers = self.plans.throughput.workers
        groups = list(_group_by_length(requests, workers=workers, most=rows))
        results = search(groups)
        results |= search(_groups_to_repeat(groups, limits, results))
        pairs = [(r.source, best.ids) for i, r in enumerate(requests) for best in results[i]]
        scores = iter(model.score(pairs) if token_scores or masked else [()] * len(pairs))
        rescored = [
            [_rescore(best, next(scores), config, sum_scores=masked) for best in results[i]]
            for i in range(len(requests))
        ]
        # The comparison also drops NaN.
        valid = [
            [best for best in hypotheses if not sums or best.log_prob > _IMPOSSIBLE]
            for hypotheses in rescored
        ]
        return [rank(hypotheses, beam=config.beam, constrained=False) for hypotheses in valid]

    def score(self, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target and of its EOS."""
        ended = [(tuple(source), (*target, Tokenizer.EOS)) for source, target in pairs]
        return self._model(self.plans.throughput).score(ended)

    def _limits(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> list[int]:
        lengths = (config.limit(len(request.source)) for request in requests)
        return [constraints.limit(min(length, self._longest)) for length in lengths]

    def unload_after_fork(self) -> None:
        """Load models anew, on first use: CTranslate2's threads did not survive the fork."""
        for model in self._loaded.values():
            # Never freed: the destructor would wait for these threads, if only at the exit.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(model))
        self._loaded.clear()
        self._lock = threading.Lock()  # a thread that is gone may have held it

    def _model(self, plan: Plan) -> Ct2Model:
        """Return the model for a plan, loaded on first use."""
        with self._lock:
            if plan not in self._loaded:
                self._loaded[plan] = Ct2Model(
                    self._folder, plan, pieces=self._pieces, device=self._device
                )
            return self._loaded[plan]


def _unload_after_fork() -> None:
    for engine in list(_ENGINES):
        engine.unload_after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_unload_after_fork)


_Group = Sequence[int]  # indices of requests that are searched together


def _group_by_length(requests: Sequence[Request], *, workers: int, most: int) -> Iterator[_Group]:
    """Group similar lengths, the longest first: so that no worker starts a long group last.

    Args:
        requests: what is searched.
        workers: groups that are searched in parallel.
        most: maximum size of a group.
    """
    order = sorted(range(len(requests)), key=lambda index: -len(requests[index].source))
    rows = min(most, -(-len(requests) // workers))
    for first in range(0, len(order), rows or 1):
        yield order[first : first + rows]


def _groups_to_repeat(
    groups: Sequence[_Group], limits: Sequence[int], results: Mapping[int, Sequence[Ct2Hypothesis]]
) -> list[_Group]:
    """Find sentences whose search passed their own limit unnoticed; group them by that limit.

    If a search passed a limit, its last hypothesis is longer and is among those returned.
    """
    unlimited = [
        index
        for group in groups
        for index in group
        if limits[index] < max(limits[other] for other in group)
        and any(len(hypothesis.ids) >= limits[index] for hypothesis in results[index])
    ]
    by_limit = itertools.groupby(sorted(unlimited, key=limits.__getitem__), limits.__getitem__)
    return [list(group) for _, group in by_limit]


def _exponent(requests: Sequence[Request], config: SearchConfig) -> float:
    """Return the exponent where length^exponent has the slope of ((5 + length) / 6)^α."""
    if config.beam == 1 or not config.alpha:
        return _NO_PENALTY
    length = 1 + sum(len(request.source) for request in requests) / len(requests)
    # In 64ths: exact in float32, in which CTranslate2 computes.
    return max(1, round(64 * config.alpha * length / (5 + length))) / 64


def _rescore(
    hypothesis: Ct2Hypothesis,
    log_probs: tuple[float, ...],
    config: SearchConfig,
    *,
    sum_scores: bool,
) -> Hypothesis:
    """Score by our penalty, from CTranslate2's sum or, with `sum_scores`, from the token scores."""
    total = math.fsum(log_probs) if sum_scores else hypothesis.total
    return Hypothesis(
        ids=hypothesis.ids,
        log_probs=log_probs,
        log_prob=total,
        score=total / length_penalty(len(hypothesis.ids), config.alpha),
        finished=hypothesis.ids[-1] == Tokenizer.EOS,
    )


def _checksum(bundle: Bundle) -> str:
    """SHA-256 of everything that the converted model depends on."""
    facts = [FORMAT, load_ctranslate2().__version__, asdict(bundle.weights.config)]
    digest = sha256(json.dumps(facts).encode())
    digest.update(bundle.tokenizer.to_bytes())
    for name, weight in sorted(bundle.weights.to_numpy().weights.items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(weight).data)
    return digest.hexdigest()
