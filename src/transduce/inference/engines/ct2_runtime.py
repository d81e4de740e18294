"""CTranslate2 at run time: its calls on token ids, and how many workers and threads are fastest.

A single sentence benefits from threads that share its work, if they gain more than synchronisation
costs; a file benefits from workers that each translate their own sentences. The best plan depends
on model, machine and compute type, by a factor of up to ten. So a few are tried with the model
itself, in less than two seconds, and the result is cached for this model on this machine.

Single sentences and files use the same compute type, so that a sentence has one translation. It is
float32 by default, because only that gives torch's translations; "auto" measures float32 and int8.
"""

import hashlib
import itertools
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from transduce.data.tokenizer import EOS
from transduce.inference.engines.ct2_model import SOURCE_VOCABULARY, VMAP, Cache, load_ctranslate2
from transduce.inference.engines.forking import preserve_thread_count
from transduce.inference.engines.interface import scoring_batches
from transduce.io import machine
from transduce.search.config import DecodingConstraints, Request

SCORING_BATCH = 64
"""Maximum translations scored in one batch; long ones are fewer (`MAX_SCORE_LOGITS`)."""

COMPUTE_TYPES = (
    *("float32", "float16", "bfloat16", "int16"),
    *("int8", "int8_float32", "int8_float16", "int8_bfloat16"),
)
"""CTranslate2's number formats; machines support a subset."""

TIME_BUDGET = 1.2
"""Seconds after which no further plan is tried."""

_VERSION = 2  # of the measurement: cached results of other versions are ignored
_MIN_SECONDS, _MIN_TRIES = 0.2, 8  # that a plan is measured for
_MAX_SECONDS = 0.6  # a slow plan is measured no longer
_ROWS, _SOURCE, _STEPS = 16, 16, 8  # batch size, source pieces and steps of a trial
_GAIN = 0.8  # a later plan is preferred if it takes less than this share of the time


Ids = tuple[int, ...]


class Plan(NamedTuple):
    """How CTranslate2 computes."""

    compute_type: str
    """Number format, such as "float32" or "int8"."""
    workers: int
    """Batches translated in parallel."""
    threads: int
    """Threads per batch."""


class SearchBatch(NamedTuple):
    """Sentences that are searched together."""

    requests: tuple[Request, ...]
    limit: int
    """Maximum length of a translation in pieces, EOS included."""
    exponent: float
    """Exponent of the length that divides log-probabilities when hypotheses are ranked."""


class Ct2Hypothesis(NamedTuple):
    """A hypothesis as CTranslate2 returns it."""

    ids: Ids
    """With EOS at the end, if it was reached."""
    total: float
    """Sum of log-probabilities, without the prefix's; NaN if it was not asked for."""


class Ct2Model:
    """A loaded model. Thread-safe; batches submitted in one call are computed in parallel."""

    def __init__(
        self, folder: Path, plan: Plan, *, pieces: Sequence[str], device: str = "cpu"
    ) -> None:
        """Load a model.

        Args:
            folder: written by `write_ctranslate2`. If it has a shortlist, searches use it; scores
                are computed over the whole vocabulary.
            plan: how to compute.
            pieces: its target vocabulary by id.
            device: "cpu", "cuda" or one of several, as "cuda:1".
        """
        self._pieces = list(pieces)
        self._ids = {piece: id for id, piece in enumerate(pieces)}
        separate = folder / SOURCE_VOCABULARY
        self._source_pieces = (
            list[str](json.loads(separate.read_bytes())) if separate.is_file() else self._pieces
        )
        self._has_shortlist = (folder / VMAP).is_file()
        kind, _, index = device.partition(":")
        with preserve_thread_count():
            self._translator = load_ctranslate2().Translator(
                str(folder),
                device=kind,
                device_index=int(index or 0),
                compute_type=plan.compute_type,
                inter_threads=plan.workers,
                intra_threads=plan.threads,
                max_queued_batches=-1,
            )

    def search(
        self,
        batches: Sequence[SearchBatch],
        *,
        beam: int,
        constraints: DecodingConstraints,
        sums: bool = True,
    ) -> list[list[list[Ct2Hypothesis]]]:
        """Return the hypotheses of each sentence of each batch.

        Args:
            batches: computed in parallel.
            beam: beam size, and number of hypotheses per sentence.
            constraints: minimum length and repetition.
            sums: whether the hypotheses' sums of log-probabilities are needed.
        """
        pending = [
            self._submit(batch, beam=beam, constraints=constraints, sums=sums) for batch in batches
        ]
        return [
            [
                [
                    # Undo CTranslate2's length normalisation to get the sum.
                    Ct2Hypothesis(
                        tuple(self._ids[piece] for piece in pieces),
                        score * len(pieces) ** batch.exponent,
                    )
                    for pieces, score in zip(
                        result.hypotheses, result.scores if sums else [math.nan], strict=True
                    )
                ]
                for result in (search.result() for search in searches)
            ]
            for batch, searches in zip(batches, pending, strict=True)
        ]

    def score(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target, given its source."""
        batches = list(scoring_batches(pairs, vocab_size=len(self._pieces), most=SCORING_BATCH))
        pending = [
            self._translator.score_batch(
                [self._to_source_pieces(pairs[i][0]) for i in batch],
                [self._to_pieces(id for id in pairs[i][1] if id != EOS) for i in batch],
                asynchronous=True,
                max_input_length=0,
            )
            for batch in batches
        ]
        chain = itertools.chain.from_iterable
        scores = dict(zip(chain(batches), chain(pending), strict=True))
        # CTranslate2 scores an EOS that the target may lack.
        return [
            tuple(scores[i].result().log_probs[: len(target)])
            for i, (_, target) in enumerate(pairs)
        ]

    def _submit(
        self, batch: SearchBatch, *, beam: int, constraints: DecodingConstraints, sums: bool
    ):
        prefixes = [self._to_pieces(request.prefix) for request in batch.requests]
        return self._translator.translate_batch(
            [self._to_source_pieces(request.source) for request in batch.requests],
            prefixes if any(prefixes) else None,
            asynchronous=True,
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=batch.exponent,
            max_input_length=0,
            max_decoding_length=batch.limit,
            min_decoding_length=constraints.min_length,
            no_repeat_ngram_size=constraints.no_repeat,
            use_vmap=self._has_shortlist,
            return_scores=sums,
            return_end_token=True,
        )

    def _to_source_pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._source_pieces[id] for id in ids]

    def _to_pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[id] for id in ids]


class Plans(NamedTuple):
    """The plans for single sentences and for many."""

    latency: Plan
    """For single sentences."""
    throughput: Plan
    """For many sentences."""


def available_threads() -> int:
    """Return the number of whole cores available, at most OMP_NUM_THREADS."""
    cores = max(1, int(machine.usable_cores()))
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdigit() and int(limit) else cores


def resolve_compute_types(requested: str, *, device: str) -> tuple[str, ...]:
    """Return the compute types to choose from for the requested one, which may be "auto".

    Raises:
        ValueError: if it does not exist, or this machine does not support it.
    """
    if requested != "auto" and requested not in COMPUTE_TYPES:
        raise ValueError(
            f"there is no compute type {requested!r}: choose auto or one of "
            f"{', '.join(COMPUTE_TYPES)}"
        )
    supported = load_ctranslate2().get_supported_compute_types(device)
    if requested == "auto":
        # Which is faster is measured on a CPU only.
        names = ("float32", "int8") if device == "cpu" else ("float32",)
        return tuple(name for name in names if name in supported)
    if requested not in supported:
        raise ValueError(
            f"CTranslate2 does not support {requested} on this machine's {device}: choose one of "
            f"{', '.join(sorted(supported))}"
        )
    return (requested,)


def load_or_measure_plans(
    folders: Mapping[str, Path], pieces: Sequence[str], *, device: str, cache: Cache
) -> Plans:
    """Return the plans for a model on this machine, from the cache or measured.

    Args:
        folders: the converted model by compute type, the most accurate first; a folder's name
            identifies the model.
        pieces: its vocabulary: EOS first, PAD last.
        device: plans are measured on "cpu" only; elsewhere they make little difference.
        cache: where plans are stored.
    """
    compute_types = tuple(folders)
    if device != "cpu" or (available_threads() == 1 and len(compute_types) == 1):
        return Plans(Plan(compute_types[0], 1, 1), Plan(compute_types[0], 1, 1))
    facts = [
        _VERSION,
        *(platform.machine(), machine.processor_name(), available_threads()),
        *(load_ctranslate2().__version__, *(folder.name for folder in folders.values()), *folders),
    ]
    name = f"plans-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]}.json"
    plans = _parse(cache.read_text(name), compute_types)
    if plans is None:
        plans = _measure(folders, pieces)
        cache.store_text(name, json.dumps(plans))
    return plans


def _parse(text: str, compute_types: Sequence[str]) -> Plans | None:
    """Parse cached plans; None if they are invalid."""
    try:
        plans = Plans(*(Plan(*plan) for plan in json.loads(text)))
    except (ValueError, TypeError):
        return None
    counts = [*plans.latency[1:], *plans.throughput[1:]]
    valid = all(type(count) is int and count >= 1 for count in counts)
    return plans if valid and all(plan.compute_type in compute_types for plan in plans) else None


def _measure(folders: Mapping[str, Path], pieces: Sequence[str]) -> Plans:
    """Try the likely best plans first, so that slow models get a good plan, too."""
    deadline = time.perf_counter() + TIME_BUDGET
    cores = available_threads()
    threads = [count for count in dict.fromkeys((1, 2, 4, cores)) if count <= cores]
    requests = _requests(len(pieces), _ROWS * cores)

    def seconds(plan: Plan, requests: Sequence[Request]) -> float:
        return _seconds(Ct2Model(folders[plan.compute_type], plan, pieces=pieces), requests)

    plans = [Plan(kind, cores // count, count) for count in threads for kind in folders]
    throughput = fastest(plans, lambda plan: seconds(plan, requests), deadline=deadline)
    single = [Plan(throughput.compute_type, 1, count) for count in threads]
    latency = fastest(
        single, lambda plan: seconds(plan, requests[:1]), deadline=deadline + TIME_BUDGET / 4
    )
    if latency.threads == throughput.threads:
        latency = throughput  # the same plan: the model is loaded once
    return Plans(latency, throughput)


def fastest(plans: Sequence[Plan], seconds: Callable[[Plan], float], *, deadline: float) -> Plan:
    """Measure plans in order; return the fastest, with a preference for earlier ones.

    Args:
        plans: a single one is returned unmeasured.
        seconds: measures a plan.
        deadline: time (`time.perf_counter`) after which no further plan is tried.
    """
    if len(plans) == 1:
        return plans[0]
    best, shortest = plans[0], seconds(plans[0])
    for plan in plans[1:]:
        if time.perf_counter() > deadline:
            break
        duration = seconds(plan)
        if duration < _GAIN * shortest:
            best, shortest = plan, duration
    return best


def _seconds(model: Ct2Model, requests: Sequence[Request]) -> float:
    """Measure the mean time to translate some sentences.

    Not the minimum: threads that share a sentence are fast on idle cores, but wait for each other
    many times longer when other programs use them.
    """
    batches = [
        SearchBatch(tuple(requests[first : first + _ROWS]), limit=_STEPS, exponent=1.0)
        for first in range(0, len(requests), _ROWS)
    ]
    times: list[float] = []
    while len(times) < _MIN_TRIES or sum(times) < _MIN_SECONDS:
        start = time.perf_counter()
        model.search(batches, beam=1, constraints=DecodingConstraints(min_length=_STEPS))
        times.append(time.perf_counter() - start)
        if sum(times) > _MAX_SECONDS:
            break
    warm = times[1:] or times  # the first try warms up
    return sum(warm) / len(warm)


def _requests(pieces: int, count: int) -> list[Request]:
    """Sentences that cycle through the vocabulary without EOS, UNK and PAD."""
    ids = [2 + turn * 7919 % (pieces - 3) for turn in range(count * _SOURCE)]
    return [Request(tuple(ids[first : first + _SOURCE])) for first in range(0, len(ids), _SOURCE)]
