"""The quick engine: CTranslate2, which searches by our rule where it is asked in the right way.

Its beam search draws 2 x beam candidates, lets an EOS finish among the first `beam` of them and
stops when `beam` hypotheses have finished, as `search.beam` does. The rest is arranged here:

- It ranks by sums over length^exponent where we have the GNMT penalty. So it returns all `beam`
  hypotheses, and they are ranked again by their sums.
- It may have found more than `beam` when it stops, as several can finish in the last step, and
  drops the worst by its own ranking. So its exponent is chosen to have our penalty's slope at the
  length of the source, where the two rankings agree best; what differs is the last of the `beam`,
  and of a model that knows what it says not even that. With α 0 the two are one and the same. The
  exponent itself never is 0, for which it has another rule to stop.
- It has one limit a batch. A batch gets the highest of its sentences' limits, and the few whose
  translations reach their own are searched again with their like.
- It bars pieces before it takes ln p, we do so after it. For PAD both come to the same. Prefixes,
  repeats and early ends come to the same in greedy search alone, whose sums are then taken from a
  second reading; with a beam they are refused. Sampling is always refused.

What is left are ties: candidates whose sums differ in the sixth digit may change places.

With a shortlist none of this holds exactly: its pieces share all probability, so sums are a little
higher, and a sentence may say what others of its batch may. ln p of each piece is the model's own.
"""

import itertools
import json
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.autotune import Plans, compute_types, make_plans
from transduce.inference.engines.cache import Cache
from transduce.inference.engines.ct2_calls import Batch, Calls, Pair, Plan, Said
from transduce.inference.engines.ct2_model import (
    FORMAT,
    load_ctranslate2,
    positions,
    vocabulary,
    write_ctranslate2,
)
from transduce.inference.engines.shortlist import Shortlist
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis, length_penalty

ROWS = 64
"""Sentences of one batch, at most: with more a CPU is no quicker, and workers end less evenly."""

_NO_PENALTY = 1e-30  # as an exponent: every penalty is 1, and yet it is not 0
_IMPOSSIBLE = -1e6  # no sum of ln p is so low: something barred was taken for want of better


class Ct2Engine:
    """Translates many encoded sentences at a time, some batches of them side by side."""

    name = "ctranslate2"

    def __init__(
        self,
        folder: Path,
        *,
        plans: Plans,
        pieces: Sequence[str],
        longest: int,
        device: str,
        cache: Cache,
        shortlist: Shortlist | None = None,
    ) -> None:
        """Use `of`, which converts a model and finds plans.

        Args:
            folder: a model as `write_ctranslate2` writes it.
            plans: how to compute.
            pieces: its vocabulary: EOS first, PAD last.
            longest: the positions it has, EOS counted.
            device: "cpu", "cuda" or one of several, as "cuda:1".
            cache: where the folder is; a temporary one goes with its last user.
            shortlist: the one in the folder, if there is one.
        """
        self.plans = plans
        self._pieces, self._longest = list(pieces), longest
        self._folder, self._device, self._cache = folder, device, cache
        self._shortlist = shortlist
        self._choice = len(shortlist.always if shortlist else pieces)
        self._lock = threading.Lock()
        self._loaded: dict[Plan, Calls] = {}
        self._calls(plans.throughput)

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        *,
        device: str = "cpu",
        compute_type: str = "float32",
        plan: Plan | None = None,
        shortlist: Shortlist | None = None,
        cache: Cache | None = None,
    ) -> "Ct2Engine":
        """Convert a model, or find it converted in the cache, and load it.

        Args:
            bundle: the model; it is not needed afterwards.
            device: where to compute, "cpu", "cuda" or "cuda:1".
            compute_type: the kind of numbers; only float32 gives the translations that torch gives.
                "auto" takes what is quickest.
            plan: how to compute, in place of what a measurement says; its compute type counts.
            shortlist: what may be said; None is the whole vocabulary, as the model learned it.
            cache: None takes the user's.

        Raises:
            ValueError: if CTranslate2 is not installed, cannot express the model, or cannot compute
                in this way here.
            OSError: if the model can be written nowhere.
        """
        cache = cache or Cache()
        kind = device.partition(":")[0]
        kinds = compute_types(plan.compute_type if plan else compute_type, device=kind)
        pieces = vocabulary(bundle.tokenizer)
        name = f"ct2-{_checksum(bundle)[:32]}"
        if shortlist:
            name += f"-{sha256(shortlist.to_text(pieces).encode()).hexdigest()[:16]}"
        folders = {one: _converted(bundle, name, one, shortlist, cache) for one in kinds}
        if plan is None:
            plans = make_plans(folders, pieces, device=kind, cache=cache)
        else:
            plans = Plans(plan, plan)
        return cls(
            folders[plans.throughput.compute_type],
            plans=plans,
            pieces=pieces,
            longest=positions(bundle.model.config),
            device=device,
            cache=cache,
            shortlist=shortlist,
        )

    @property
    def together(self) -> int:
        """How many batches it likes to be given at one time: all workers shall have enough."""
        return 8 * self.plans.throughput.workers

    def refuses(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> str:
        """Say what of this it cannot do, or not by our rule."""
        if constraints.sampling is not None:
            return "sampling"
        if self._shortlist and (constraints.no_repeat or any(one.prefix for one in requests)):
            return "a prefix or no-repeat with a shortlist"  # it would bar other pieces than meant
        if any(not request.source for request in requests):
            return "an empty source"
        prefix = max((len(request.prefix) for request in requests), default=0)
        if config.beam > 1 and (prefix or constraints.no_repeat or constraints.min_length):
            named = "a prefix" if prefix else "no-repeat" if constraints.no_repeat else "min-length"
            return f"{named} with a beam above 1"
        limits = [self._limit(request, config, constraints) for request in requests]
        if max(prefix, constraints.min_length) >= min(limits, default=self._longest):
            return "a prefix or min-length as long as the longest translation"
        sources = [len(request.source) + 1 for request in requests]
        if max([*sources, *limits], default=0) > self._longest:
            return f"more than {self._longest} pieces in one go"
        barred = 2 + (max(limits, default=0) if constraints.no_repeat else 0)
        if 2 * config.beam > self._choice - barred:
            return f"a beam of {config.beam} over so few pieces"
        return ""

    def search(
        self,
        requests: Sequence[Request],
        config: SearchConfig,
        constraints: DecodingConstraints = UNCONSTRAINED,
        *,
        detail: bool = True,
    ) -> list[list[Hypothesis]]:
        """Search the translations of some sentences. See `Engine.search`.

        Raises:
            ValueError: for what it refuses, or if the model answers with what is no number.
        """
        reason = self.refuses(requests, config, constraints)
        if reason:
            raise ValueError(f"CTranslate2 cannot do this: {reason}; use the torch engine")
        calls = self._calls(self.plans.latency if len(requests) == 1 else self.plans.throughput)
        limits = [self._limit(request, config, constraints) for request in requests]
        groups = list(_groups(requests, workers=self.plans.throughput.workers))
        said = _searched(calls, groups, requests, limits, config, constraints)
        said |= _searched(
            calls, _again(groups, limits, said), requests, limits, config, constraints
        )
        pairs = [Pair(one.source, each.ids) for at, one in enumerate(requests) for each in said[at]]
        barred = (
            constraints.no_repeat or constraints.min_length or any(one.prefix for one in requests)
        )
        read = iter(calls.read(pairs) if detail or barred else [()] * len(pairs))
        return [
            _ranked([_scored(one, next(read), config, sure=not barred) for one in said[at]])
            for at in range(len(requests))
        ]

    def _limit(
        self, request: Request, config: SearchConfig, constraints: DecodingConstraints
    ) -> int:
        return constraints.limit(min(config.limit(len(request.source)), self._longest))

    def _calls(self, plan: Plan) -> Calls:
        """The model as it computes by a plan, loaded when it is first asked for."""
        with self._lock:
            if plan not in self._loaded:
                self._loaded[plan] = Calls(
                    self._folder,
                    plan,
                    pieces=self._pieces,
                    eos=Tokenizer.EOS,
                    device=self._device,
                )
            return self._loaded[plan]


def _converted(
    bundle: Bundle, name: str, compute_type: str, shortlist: Shortlist | None, cache: Cache
) -> Path:
    """The model in the cache: whatever is computed in 8 bits is written in them, and by us."""
    quantization = "int8" if compute_type.startswith("int8") else None
    return cache.folder(
        f"{name}-{quantization}" if quantization else name,
        lambda place: write_ctranslate2(
            bundle, place, quantization=quantization, shortlist=shortlist
        ),
    )


_Group = Sequence[int]  # which of the requests are searched together


def _groups(requests: Sequence[Request], *, workers: int) -> Iterator[_Group]:
    """Put like lengths together, the longest first: they take longest, and none shall end alone."""
    order = sorted(range(len(requests)), key=lambda at: -len(requests[at].source))
    rows = min(ROWS, -(-len(requests) // workers))
    for first in range(0, len(order), rows or 1):
        yield order[first : first + rows]


def _again(
    groups: Sequence[_Group], limits: Sequence[int], said: Mapping[int, Sequence[Said]]
) -> list[_Group]:
    """Find whose search went on to its own limit or past it, unstopped; group them by that limit.

    If a search went past a limit, what it found last is longer and is among what was returned.
    """
    short = [
        at
        for group in groups
        for at in group
        if limits[at] < max(limits[other] for other in group)
        and any(len(one.ids) >= limits[at] for one in said[at])
    ]
    short.sort(key=lambda at: limits[at])
    return [list(alike) for _, alike in itertools.groupby(short, key=lambda at: limits[at])]


def _searched(
    calls: Calls,
    groups: Sequence[_Group],
    requests: Sequence[Request],
    limits: Sequence[int],
    config: SearchConfig,
    constraints: DecodingConstraints,
) -> dict[int, list[Said]]:
    """What is said in place of each request of these groups."""
    batches = [
        Batch(
            requests=tuple(requests[at] for at in group),
            limit=max(limits[at] for at in group),
            exponent=_exponent([requests[at] for at in group], config),
        )
        for group in groups
    ]
    found = calls.search(batches, beam=config.beam, constraints=constraints)
    chain = itertools.chain.from_iterable
    return dict(zip(chain(groups), chain(found), strict=True))


def _exponent(requests: Sequence[Request], config: SearchConfig) -> float:
    """Where length^exponent grows as ((5 + length) / 6)^α does, in a number that floats hold."""
    if config.beam == 1 or not config.alpha:
        return _NO_PENALTY
    length = 1 + sum(len(request.source) for request in requests) / len(requests)
    return max(1, round(64 * config.alpha * length / (5 + length))) / 64


def _scored(
    said: Said, log_probs: tuple[float, ...], config: SearchConfig, *, sure: bool
) -> Hypothesis:
    """Score by our rule; unless the sum is `sure` it is taken from what was read."""
    total = said.total if sure else math.fsum(log_probs)
    return Hypothesis(
        ids=said.ids,
        log_probs=log_probs,
        log_prob=total,
        score=total / length_penalty(len(said.ids), config.alpha),
        finished=said.ids[-1] == Tokenizer.EOS,
    )


def _ranked(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    likely = [one for one in hypotheses if one.log_prob > _IMPOSSIBLE]  # so is no NaN
    if not likely:
        raise ValueError(
            "the model's logits are not numbers: its weights or precision are at fault"
        )
    return sorted(likely, key=lambda one: -one.score)


def _checksum(bundle: Bundle) -> str:
    """SHA-256 of all that the converted model depends on."""
    facts = [FORMAT, load_ctranslate2().__version__, asdict(bundle.model.config)]
    digest = sha256(json.dumps(facts).encode())
    digest.update(bundle.tokenizer.to_bytes())
    for name, tensor in bundle.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().contiguous().numpy())
    return digest.hexdigest()
