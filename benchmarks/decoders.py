"""The systems that benchmarks/decoding.py times: ours, CTranslate2 and Hugging Face."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import ctranslate2
import torch

from transduce.bundle import Bundle
from transduce.engines.cache import Cache
from transduce.engines.choose import choose
from transduce.engines.ct2_model import vocabulary, write_ctranslate2
from transduce.engines.engine import Engine
from transduce.engines.threads import threads_kept
from transduce.export.marian import why_not, write_marian
from transduce.search.config import SearchConfig
from transduce.search.request import Request

BATCH = 64

Ids = Sequence[int]


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to translate."""

    name: str
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
    """Whether weights are random: nothing would end by itself, so all translations end with the
    limit, ours a piece longer than their sources, the others' as long as that on average."""

    @property
    def search(self) -> SearchConfig:
        """How ours search."""
        return replace(self.bundle.search, extra=1) if self.random else self.bundle.search

    @property
    def length(self) -> int:
        """Pieces of a source on average, EOS counted."""
        return round(statistics.mean(map(len, self.sources))) + 1

    @property
    def longest(self) -> int:
        """The limit of those who are told one for all sentences."""
        return max(map(len, self.sources)) + self.bundle.search.extra


def all_systems(task: Task) -> Iterator[System]:
    """Every way to translate, loaded."""
    cache = Cache(task.folder / "cache")
    (engine,) = choose(task.bundle, engine="torch").engines
    yield System(
        name="ours, torch",
        translate=by(engine, task.search, at_once=BATCH),
        how=f"{torch.get_num_threads()} threads, batches of {BATCH}",
    )
    for name, kind in (("ours, ctranslate2", "float32"), ("ours, int8", "int8")):
        (engine,) = choose(
            task.bundle, engine="ctranslate2", compute_type=kind, cache=cache
        ).engines
        plans = getattr(engine, "plans")  # noqa: B009
        yield System(
            name=name, translate=by(engine, task.search, at_once=None), how=str(tuple(plans))
        )
    write_ctranslate2(task.bundle, task.folder / "ctranslate2")
    with threads_kept():
        plain = [
            by_ctranslate2(task, name="CTranslate2 at its best", workers=torch.get_num_threads()),
            by_ctranslate2(task, name="CTranslate2 as it comes", workers=0),
        ]
    yield from plain
    yield hugging_face(task)


def by(
    engine: Engine, search: SearchConfig, *, at_once: int | None
) -> Callable[[Sequence[Ids], int], list[list[int]]]:
    """An engine of ours; one that gathers batches itself gets all sentences together."""

    def translate(sources: Sequence[Ids], beam: int) -> list[list[int]]:
        config = replace(search, beam=beam)

        def some(batch: Sequence[Ids]) -> list[list[int]]:
            found = engine.search([Request(tuple(one)) for one in batch], config, detail=False)
            return [list(hypotheses[0].ids) for hypotheses in found]

        return in_batches(sources, some, size=at_once or len(sources))

    return translate


def by_ctranslate2(task: Task, *, name: str, workers: int) -> System:
    """CTranslate2 alone: one thread a worker, one worker for a sentence; 0 leaves its defaults."""
    folder = str(task.folder / "ctranslate2")
    if workers:
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

    return System(name=name, translate=translate, how=how)


def hugging_face(task: Task) -> System:
    """`generate`, with our weights if Marian can hold them."""
    from transformers import MarianConfig, MarianMTModel

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
        write_marian(task.bundle, task.folder / "marian")
        model = MarianMTModel.from_pretrained(task.folder / "marian").eval()

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
        name="Hugging Face",
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
