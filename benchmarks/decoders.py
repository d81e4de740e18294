"""Systems that benchmarks/decoding.py times: transduce, CTranslate2 and Hugging Face."""

import statistics
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, NamedTuple

import ctranslate2
import torch

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import EOS
from transduce.export.marian import why_not, write_huggingface
from transduce.inference.engines.base import select_engines
from transduce.inference.engines.ct2_model import Cache, vocabulary, write_ctranslate2
from transduce.inference.engines.forking import enable_worker_processes
from transduce.search.config import DecodingConstraints, Request

BATCH = 64
BEAMS = (1, 5)
CT2_BATCHES = (16, 32, 64, 128, 256)
"""Batch sizes that are tried for CTranslate2."""

TRIALS = 3
"""Timings of each setting of CTranslate2, of which the least counts."""

STUDENT_BEAM = "student, int8, shortlist, beam 3"
BEST = "CTranslate2 at its best"

Ids = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class System:
    """A system that translates."""

    translate: Callable[[Sequence[Ids], int], list[list[int]]]
    """Takes sources and a beam size; returns each best translation, with EOS if it ended."""

    same_weights: bool = True
    """Whether it has the model's weights; translations by random weights are not scored."""

    setup: str = ""
    """Threads, batches and weights, for the record."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """Input of all systems."""

    bundle: Bundle
    sources: Sequence[Ids]
    folder: Path
    """Folder for converted models."""

    shortlist: Path | None = None
    """Lexical shortlist for the system that uses one, which is left out without."""

    student: Bundle | None = None
    """Distilled model with the same vocabulary, for the systems that use one."""

    random: bool = False
    """Whether weights are random: no translation ends, so all have the sources' mean length."""

    @property
    def length(self) -> int:
        """Mean number of pieces of a source, with EOS."""
        return round(statistics.mean(map(len, self.sources))) + 1

    @property
    def longest(self) -> int:
        """Length limit of the systems that have a single limit for all sentences."""
        return max(map(len, self.sources)) + self.bundle.search.extra


def transduce_system(
    task: Task,
    *,
    engine: Literal["torch", "ctranslate2", "native"],
    kind: str = "float32",
    shortlist: bool = False,
    student: bool = False,
    most_beams: int = BEAMS[-1],
) -> System:
    """Load an engine of transduce; all but torch form batches themselves and get all sentences."""
    cache, bundle = Cache(task.folder / "cache"), task.student if student else task.bundle
    assert bundle is not None, "a student is timed where there is one"
    if engine == "torch":
        enable_worker_processes()  # as `transduce translate` does
        (loaded,) = select_engines(bundle, engine=engine, compute_type=kind).engines
        setup = f"a batch of {BATCH} on each of {loaded.preferred_batches} cores"
        chunk = BATCH * loaded.preferred_batches
    else:
        (loaded,) = select_engines(
            bundle,
            engine=engine,
            compute_type=kind,
            cache=cache,
            shortlist=task.shortlist if shortlist else None,
        ).engines
        setup = str(getattr(loaded, "plans", f"{getattr(loaded, 'threads', 1)} threads"))
        chunk = len(task.sources)
    constraints = (
        DecodingConstraints(max_length=task.length) if task.random else DecodingConstraints()
    )

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        config = replace(bundle.search, beam=min(beam, most_beams))

        def translate_batch(batch: Sequence[Ids]) -> list[list[int]]:
            requests = [Request(tuple(source)) for source in batch]
            results = loaded.search(requests, config, constraints, token_scores=False)
            return [list(hypotheses[0].ids) for hypotheses in results]

        return in_batches(sources, translate_batch, size=chunk)

    return System(translate=translate, setup=setup)


class Ct2Setting(NamedTuple):
    """Options of CTranslate2."""

    workers: int
    threads: int
    batch: int
    """`max_batch_size`, in sentences."""

    def __str__(self) -> str:
        return f"{self.workers} x {self.threads} threads, batches of {self.batch}"


def ctranslate2_system(task: Task, *, tuned: bool, kind: str = "default") -> System:
    """Load CTranslate2 with the settings that are fastest on these sentences, or its defaults.

    Tuned, one sentence is translated by one thread.
    """
    write_ctranslate2(task.bundle, task.folder / "ctranslate2")
    load = partial(
        ctranslate2.Translator, str(task.folder / "ctranslate2"), device="cpu", compute_type=kind
    )
    pieces = vocabulary(task.bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(pieces)}
    limits = {"max_decoding_length": task.longest}
    if task.random:
        limits = {"min_decoding_length": task.length, "max_decoding_length": task.length}

    def run(
        translator: ctranslate2.Translator, sources: Sequence[Ids], beam: int, batch: int
    ) -> list[list[int]]:
        tokens = [[pieces[piece] for piece in source] for source in sources]
        results = translator.translate_batch(tokens, beam_size=beam, max_batch_size=batch, **limits)
        outputs = [[ids[piece] for piece in result.hypotheses[0]] for result in results]
        # CTranslate2 can return EOS, but then counts it for the length penalty.
        limit = limits["max_decoding_length"]
        return [output if len(output) == limit else [*output, EOS] for output in outputs]

    if not tuned:
        default = load()
        return System(
            translate=lambda sources, beam: run(default, sources, beam, BATCH),
            setup=f"its defaults, batches of {BATCH}",
        )
    cores, single = torch.get_num_threads(), load(intra_threads=1)
    translators = {
        (workers, cores // workers): load(inter_threads=workers, intra_threads=cores // workers)
        for workers in {1, cores}
    }

    def seconds(setting: Ct2Setting, beam: int) -> float:
        translate = partial(run, translators[setting[:2]], task.sources, beam, setting.batch)
        return min(timeit.repeat(translate, number=1, repeat=TRIALS))

    settings = [Ct2Setting(*key, batch) for key in translators for batch in CT2_BATCHES]
    best: dict[int, Ct2Setting] = {}
    for beam in BEAMS:
        for translator in translators.values():
            run(translator, task.sources, beam, CT2_BATCHES[0])  # warm-up of all workers
        best[beam] = min(settings, key=partial(seconds, beam=beam))

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        if len(sources) == 1:
            return run(single, sources, beam, 1)
        return run(translators[best[beam][:2]], sources, beam, best[beam].batch)

    setup = "; ".join(f"beam {beam}: {setting}" for beam, setting in best.items())
    return System(translate=translate, setup=f"{setup}; a sentence 1 thread")


def huggingface_system(task: Task, *, dtype: torch.dtype = torch.float32) -> System:
    """Load a Hugging Face model, with the bundle's weights if Marian or Pegasus can hold them."""
    from transformers import AutoModelForSeq2SeqLM, MarianConfig, MarianMTModel

    reason, model_config = why_not(task.bundle), task.bundle.model.config
    pad = model_config.pad
    limits = {"max_new_tokens": task.longest}
    if reason or task.random:
        config = MarianConfig(
            vocab_size=model_config.vocab_size,
            d_model=model_config.d_model,
            encoder_layers=model_config.encoder_layers,
            decoder_layers=model_config.decoder_layers,
            encoder_ffn_dim=model_config.d_ff,
            decoder_ffn_dim=model_config.d_ff,
            encoder_attention_heads=model_config.heads,
            decoder_attention_heads=model_config.heads,
            pad_token_id=pad,
            eos_token_id=EOS,
            decoder_start_token_id=pad,
            forced_eos_token_id=None,
        )
        torch.manual_seed(1)
        model = MarianMTModel(config).eval()
        limits = {"min_new_tokens": task.length, "max_new_tokens": task.length}
    else:
        write_huggingface(task.bundle, task.folder / "marian")
        model = AutoModelForSeq2SeqLM.from_pretrained(task.folder / "marian").eval()
    model.to(dtype)

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        def translate_batch(batch: Sequence[Ids]) -> list[list[int]]:
            longest = max(map(len, batch)) + 1
            rows = [[*source, EOS, *[pad] * (longest - len(source) - 1)] for source in batch]
            ids = torch.tensor(rows)
            with torch.inference_mode():
                output = model.generate(
                    ids, attention_mask=(ids != pad).long(), num_beams=beam, **limits
                )
            return [[piece for piece in row if piece != pad] for row in output.tolist()]

        return in_batches(sources, translate_batch, size=BATCH)

    setup = f"random weights, as Marian cannot express {reason}" if reason else "our weights"
    if task.random:
        setup = "random weights"
    return System(
        translate=translate,
        same_weights=not reason,
        setup=f"{setup}; {torch.get_num_threads()} threads, batches of {BATCH}",
    )


def in_batches(
    sources: Sequence[Ids],
    translate_batch: Callable[[Sequence[Ids]], list[list[int]]],
    *,
    size: int,
) -> list[list[int]]:
    """Translate sources in batches of similar length; return translations in the original order."""
    order = sorted(range(len(sources)), key=lambda position: -len(sources[position]))
    outputs: list[list[int]] = [[]] * len(sources)
    for first in range(0, len(order), size):
        positions = order[first : first + size]
        for position, output in zip(
            positions, translate_batch([sources[position] for position in positions]), strict=True
        ):
            outputs[position] = output
    return outputs


SYSTEMS: Mapping[str, Callable[[Task], System]] = {
    "ours, torch": partial(transduce_system, engine="torch"),
    "ours, torch bfloat16": partial(transduce_system, engine="torch", kind="bfloat16"),
    "ours, native": partial(transduce_system, engine="native"),
    "ours, native int8": partial(transduce_system, engine="native", kind="int8"),
    "ours, native int8, shortlist": partial(
        transduce_system, engine="native", kind="int8", shortlist=True
    ),
    "ours, ctranslate2": partial(transduce_system, engine="ctranslate2"),
    "ours, int8": partial(transduce_system, engine="ctranslate2", kind="int8"),
    "ours, int8, shortlist": partial(
        transduce_system, engine="ctranslate2", kind="int8", shortlist=True
    ),
    "student, int8": partial(transduce_system, engine="native", kind="int8", student=True),
    "student, int8, shortlist": partial(
        transduce_system, engine="native", kind="int8", shortlist=True, student=True
    ),
    STUDENT_BEAM: partial(
        transduce_system, engine="native", kind="int8", shortlist=True, student=True, most_beams=3
    ),
    BEST: partial(ctranslate2_system, tuned=True),
    "CTranslate2 int8": partial(ctranslate2_system, tuned=True, kind="int8"),
    "CTranslate2 as it comes": partial(ctranslate2_system, tuned=False),
    "Hugging Face": huggingface_system,
    "Hugging Face bfloat16": partial(huggingface_system, dtype=torch.bfloat16),
}


def run_system(connection: Connection, name: str, task: Task) -> None:
    """Load a system, send its setup, and translate requests until an empty one.

    Each system runs in its own process: idle threads spin and would take cores from others.
    """
    system = SYSTEMS[name](task)
    connection.send((system.setup, system.same_weights))
    while request := connection.recv():
        sources, beam = request
        started = time.perf_counter()
        outputs = system.translate(sources, beam)
        connection.send((time.perf_counter() - started, outputs))
