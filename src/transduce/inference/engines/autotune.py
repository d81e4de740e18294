"""With how many workers and threads CTranslate2 computes: measured, because it is hard to guess.

One sentence wants threads that share its work, if they gain more than they lose by waiting for each
other; a file wants workers that each take sentences of their own. Which is best depends on the
model, the machine and the numbers' kind, by a factor of up to ten. So a few are tried with the
model itself, in less than two seconds, and the answer is remembered for this model on this machine.

Whether one sentence or a file, the numbers' kind is one and the same: a sentence must not be
translated in two ways. It is float32 unless another is asked for, because only that is the same
translation as torch's; "auto" lets the measurement choose between float32 and int8.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.inference.engines.cache import Cache
from transduce.inference.engines.ct2_calls import Batch, Calls, Plan
from transduce.inference.engines.ct2_model import load_ctranslate2
from transduce.io import machine
from transduce.search.config import DecodingConstraints, Request

COMPUTE_TYPES = (
    *("float32", "float16", "bfloat16", "int16"),
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16"),
)
"""The kinds of numbers that CTranslate2 computes with, where the machine can."""

SECONDS = 1.2
"""After so many, nothing more is tried."""

_MEASURE = 2  # counts up when plans are measured in another way: old answers are forgotten
_TRIED, _TRIES = 0.2, 8  # seconds and times that a plan is tried for at least
_SLOW = 0.6  # seconds after which it is tried no more
_ROWS, _SOURCE, _STEPS = 16, 16, 8  # of what is tried
_WORTH = 0.8  # a plan must take so much less time to be preferred to one that is tried before it


class Plans(NamedTuple):
    """The plan for each of the two ways to be asked."""

    latency: Plan
    """For one sentence."""

    throughput: Plan
    """For many."""


def cores() -> int:
    """Whole cores that this process may use; OMP_NUM_THREADS can lower it."""
    most = max(1, int(machine.usable_cores()))
    said = os.environ.get("OMP_NUM_THREADS", "")
    return min(most, int(said)) if said.isdigit() and int(said) else most


def compute_types(asked: str, *, device: str) -> tuple[str, ...]:
    """The kinds of numbers to choose from, where `asked` is what the user said.

    Raises:
        ValueError: if there is no such kind, or this machine cannot compute with it.
    """
    if asked != "auto" and asked not in COMPUTE_TYPES:
        raise ValueError(
            f"there is no compute type {asked!r}: take auto or one of {', '.join(COMPUTE_TYPES)}"
        )
    here = load_ctranslate2().get_supported_compute_types(device)
    if asked == "auto":
        return tuple(kind for kind in ("float32", "int8") if kind in here)
    if asked not in here:
        raise ValueError(
            f"CTranslate2 does not compute with {asked} on this machine's {device}: take one of "
            f"{', '.join(sorted(here))}"
        )
    return (asked,)


def make_plans(
    folders: Mapping[str, Path], pieces: Sequence[str], *, device: str, cache: Cache
) -> Plans:
    """Return the plans for a model on this machine, from the cache or by trying some.

    Args:
        folders: by compute type, the most exact first, the model as CTranslate2 reads it; a
            folder's name says which model it is.
        pieces: its vocabulary: EOS first, PAD last.
        device: on "cpu" plans are tried; elsewhere it makes little difference.
        cache: where the answer is remembered.
    """
    kinds = tuple(folders)
    if device != "cpu" or (cores() == 1 and len(kinds) == 1):
        return Plans(Plan(kinds[0], 1, 1), Plan(kinds[0], 1, 1))
    name = _name(folders)
    plans = _understood(cache.text(name), kinds)
    if plans is None:
        plans = _measured(folders, pieces)
        cache.remember(name, json.dumps(plans))
    return plans


def _name(folders: Mapping[str, Path]) -> str:
    facts = [
        _MEASURE,
        *(platform.machine(), machine.processor_name(), cores()),
        *(load_ctranslate2().__version__, *(folder.name for folder in folders.values()), *folders),
    ]
    return f"plans-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}.json"


def _understood(text: str, kinds: Sequence[str]) -> Plans | None:
    """What was remembered, if it makes sense."""
    try:
        plans = Plans(*(Plan(*plan) for plan in json.loads(text)))
    except (ValueError, TypeError):
        return None
    for plan in plans:
        counts = (plan.workers, plan.threads)
        if plan.compute_type not in kinds or not all(type(n) is int and n >= 1 for n in counts):
            return None
    return plans


def _measured(folders: Mapping[str, Path], pieces: Sequence[str]) -> Plans:
    """Try first what is likely to be best, so that a slow model gets a good plan as well."""
    until = time.perf_counter() + SECONDS
    most = cores()
    threads = [count for count in dict.fromkeys((1, 2, 4, most)) if count <= most]
    requests = _requests(len(pieces), _ROWS * most)

    def seconds(plan: Plan, requests: Sequence[Request]) -> float:
        return _seconds(Calls(folders[plan.compute_type], plan, pieces=pieces, eos=0), requests)

    many = [Plan(kind, most // count, count) for count in threads for kind in folders]
    throughput = quickest(many, lambda plan: seconds(plan, requests), until=until)
    one = [Plan(throughput.compute_type, 1, count) for count in threads]
    latency = quickest(one, lambda plan: seconds(plan, requests[:1]), until=until + SECONDS / 4)
    if latency.threads == throughput.threads:
        latency = throughput  # its other workers do no harm, and the model is loaded once
    return Plans(latency, throughput)


def quickest(plans: Sequence[Plan], seconds: Callable[[Plan], float], *, until: float) -> Plan:
    """Try plans in their order and return the best: an earlier one unless a later is worth it.

    Args:
        plans: one is taken untried.
        seconds: tries a plan.
        until: the time of `time.perf_counter` after which nothing more is tried.
    """
    if len(plans) == 1:
        return plans[0]
    best, least = plans[0], seconds(plans[0])
    for plan in plans[1:]:
        if time.perf_counter() > until:
            break
        taken = seconds(plan)
        if taken < _WORTH * least:
            best, least = plan, taken
    return best


def _seconds(calls: Calls, requests: Sequence[Request]) -> float:
    """The mean time for some sentences after a first try that warms up.

    Not the least: threads that share a sentence are quick while nobody else wants their cores, and
    wait for each other many times longer when somebody does.
    """
    batches = [
        Batch(tuple(requests[first : first + _ROWS]), limit=_STEPS, exponent=1.0)
        for first in range(0, len(requests), _ROWS)
    ]
    tries: list[float] = []
    while len(tries) < _TRIES or sum(tries) < _TRIED:
        begun = time.perf_counter()
        calls.search(batches, beam=1, constraints=DecodingConstraints(min_length=_STEPS))
        tries.append(time.perf_counter() - begun)
        if sum(tries) > _SLOW:
            break
    warm = tries[1:] or tries
    return sum(warm) / len(warm)


def _requests(pieces: int, count: int) -> list[Request]:
    """Sentences that the pieces take part in by turns; EOS, UNK and PAD have no turn."""
    said = [2 + turn * 7919 % (pieces - 3) for turn in range(count * _SOURCE)]
    return [Request(tuple(said[first : first + _SOURCE])) for first in range(0, len(said), _SOURCE)]
