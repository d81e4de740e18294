"""Systems that benchmarks/decoding.py times: ours, CTranslate2 and Hugging Face."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import ctranslate2
import torch

from transduce.bundle.bundle import Bundle
from transduce.export.marian import why_not, write_huggingface
from transduce.inference.engines.base import select_engines
from transduce.inference.engines.ct2_model import Cache, vocabulary, write_ctranslate2
from transduce.inference.engines.forking import enable_worker_processes
from transduce.search.config import DecodingConstraints, Request

BATCH = 64

Ids = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to translate."""

    translate: Callable[[Sequence[Ids], int], list[list[int]]]
    """Takes sources and a beam, gives the best translation of each."""

    says: bool = True
    """Whether what it says means anything."""

    how: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all systems do."""

    bundle: Bundle
    sources: Sequence[Ids]
    folder: Path
    """Where models are written for others to read."""

    random: bool = False
    """Whether weights are random: nothing would end by itself, so all translations are as long as
    sources are on average."""

    @property
    def length(self) -> int:
        """Pieces of a source on average, EOS counted."""
        return round(statistics.mean(map(len, self.sources))) + 1

    @property
    def longest(self) -> int:
        """The limit of those who are told one for all sentences."""
        return max(map(len, self.sources)) + self.bundle.search.extra


def ours(task: Task, *, engine: Literal["torch", "ctranslate2"], kind: str = "float32") -> System:
    """An engine of ours; one that gathers batches itself gets all sentences together."""
    cache = Cache(task.folder / "cache")
    if engine == "torch":
        enable_worker_processes()  # as `transduce translate` does
        (made,) = select_engines(task.bundle, engine=engine, compute_type=kind).engines
        how, at_once = (
            f"a batch of {BATCH} on each of {made.preferred_batches} cores",
            BATCH * made.preferred_batches,
        )
    else:
        (made,) = select_engines(task.bundle, engine=engine, compute_type=kind, cache=cache).engines
        how, at_once = str(tuple(getattr(made, "plans"))), len(task.sources)  # noqa: B009
    constraints = (
        DecodingConstraints(max_length=task.length) if task.random else DecodingConstraints()
    )

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        config = replace(task.bundle.search, beam=beam)

        def some(batch: Sequence[Ids]) -> list[list[int]]:
            asked = [Request(tuple(one)) for one in batch]
            found = made.search(asked, config, constraints, token_scores=False)
            return [list(hypotheses[0].ids) for hypotheses in found]

        return in_batches(sources, some, size=at_once)

    return System(translate=translate, how=how)


def ctranslate2_alone(task: Task, *, best: bool) -> System:
    """The converted model: a worker with one thread a core, one for a sentence; or its defaults."""
    folder = str(task.folder / "ctranslate2")
    write_ctranslate2(task.bundle, task.folder / "ctranslate2")
    workers = torch.get_num_threads()
    if best:
        options = {"inter_threads": workers, "intra_threads": 1}
        many = ctranslate2.Translator(folder, device="cpu", **options)
        one = ctranslate2.Translator(folder, device="cpu", intra_threads=1)
        how = f"{workers} workers x 1 thread; a sentence 1 thread"
    else:
        one = many = ctranslate2.Translator(folder, device="cpu")
        how = "its defaults"
    pieces = vocabulary(task.bundle.tokenizer)
    ids = {piece: number for number, piece in enumerate(pieces)}
    limits = {"max_decoding_length": task.longest}
    if task.random:
        limits = {"min_decoding_length": task.length, "max_decoding_length": task.length}

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        named = [[pieces[one] for one in source] for source in sources]
        translator = one if len(sources) == 1 else many
        found = translator.translate_batch(named, beam_size=beam, max_batch_size=BATCH, **limits)
        return [[ids[piece] for piece in one.hypotheses[0]] for one in found]

    return System(translate=translate, how=how)


def hugging_face(task: Task, *, kind: torch.dtype = torch.float32) -> System:
    """`generate`, with our weights if a class can hold them; all of it in one precision."""
    from transformers import AutoModelForSeq2SeqLM, MarianConfig, MarianMTModel

    reason, shape = why_not(task.bundle), task.bundle.model.config
    limits = {"max_new_tokens": task.longest}
    if reason or task.random:
        config = MarianConfig(
            vocab_size=shape.vocab_size,
            d_model=shape.d_model,
            encoder_layers=shape.encoder_layers,
            decoder_layers=shape.decoder_layers,
            encoder_ffn_dim=shape.d_ff,
            decoder_ffn_dim=shape.d_ff,
            encoder_attention_heads=shape.heads,
            decoder_attention_heads=shape.heads,
            pad_token_id=shape.pad,
            eos_token_id=0,
            decoder_start_token_id=shape.pad,
            forced_eos_token_id=None,
        )
        torch.manual_seed(1)
        model = MarianMTModel(config).eval()
        limits = {"min_new_tokens": task.length, "max_new_tokens": task.length}
    else:
        write_huggingface(task.bundle, task.folder / "marian")
        model = AutoModelForSeq2SeqLM.from_pretrained(task.folder / "marian").eval()
    model.to(kind)

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        def some(batch: Sequence[Ids]) -> list[list[int]]:
            longest = max(map(len, batch)) + 1
            rows = [[*one, 0, *[shape.pad] * (longest - len(one) - 1)] for one in batch]
            ids = torch.tensor(rows)
            with torch.inference_mode():
                said = model.generate(
                    ids, attention_mask=(ids != shape.pad).long(), num_beams=beam, **limits
                )
            return [[one for one in row if one not in (0, shape.pad)] for row in said.tolist()]

        return in_batches(sources, some, size=BATCH)

    how = f"random weights, as Marian cannot express {reason}" if reason else "our weights"
    if task.random:
        how = "random weights"
    return System(
        translate=translate,
        says=not reason,
        how=f"{how}; {torch.get_num_threads()} threads, batches of {BATCH}",
    )


def in_batches(
    sources: Sequence[Ids], some: Callable[[Sequence[Ids]], list[list[int]]], *, size: int
) -> list[list[int]]:
    """Translate like lengths together, and give all back in their order."""
    order = sorted(range(len(sources)), key=lambda at: -len(sources[at]))
    said: list[list[int]] = [[]] * len(sources)
    for first in range(0, len(order), size):
        places = order[first : first + size]
        for at, one in zip(places, some([sources[at] for at in places]), strict=True):
            said[at] = one
    return said


SYSTEMS: Mapping[str, Callable[[Task], System]] = {
    "ours, torch": partial(ours, engine="torch"),
    "ours, torch bfloat16": partial(ours, engine="torch", kind="bfloat16"),
    "ours, ctranslate2": partial(ours, engine="ctranslate2"),
    "ours, int8": partial(ours, engine="ctranslate2", kind="int8"),
    "CTranslate2 at its best": partial(ctranslate2_alone, best=True),
    "CTranslate2 as it comes": partial(ctranslate2_alone, best=False),
    "Hugging Face": hugging_face,
    "Hugging Face bfloat16": partial(hugging_face, kind=torch.bfloat16),
}


def answer(line: Connection, name: str, task: Task) -> None:
    """Load a system, say how it computes, and translate what is asked until nothing more is.

    Each lives in a process of its own: the threads of one wait for work by turning, and would keep
    those of another from a core.
    """
    system = SYSTEMS[name](task)
    line.send((system.how, system.says))
    while asked := line.recv():
        sources, beam = asked
        begun = time.perf_counter()
        said = system.translate(sources, beam)
        line.send((time.perf_counter() - begun, said))
