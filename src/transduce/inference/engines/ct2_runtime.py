"""CTranslate2 at run time: its calls on token ids, and shortlists.

A shortlist restricts the output: for each source piece, the few target pieces that it may
translate to. A translation consists of words that fit its source and of words that fit anywhere; an
engine that knows them leaves the rest of the vocabulary out of its last and widest matrix product,
and out of its search. The file is CTranslate2's `vmap.txt`: each line has a source piece, a tab and
space-separated target pieces; the line without a source piece lists those that are always allowed.
CTranslate2 allows a batch the union of what its sentences are allowed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, Protocol, runtime_checkable

from transduce.inference.engines.parallel import preserve_thread_count
from transduce.search.config import DecodingConstraints, Request

VMAP = "vmap.txt"
"""CTranslate2's name for the shortlist in a model folder."""

SCORING_BATCH = 64
"""Translations scored in one batch."""


def load_ctranslate2() -> ModuleType:
    """Import CTranslate2.

    Raises:
        ValueError: if it is not installed, or cannot be loaded.
    """
    try:
        return import_module("ctranslate2")
    except (ImportError, OSError) as error:
        raise ValueError(
            f"CTranslate2 cannot be used here ({error}): pip install ctranslate2"
        ) from None


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

    ids: tuple[int, ...]
    """With EOS at the end, if it was reached."""

    total: float
    """Sum of log-probabilities, without the prefix's."""


class ScoringPair(NamedTuple):
    """A source and a translation to score."""

    source: tuple[int, ...]

    target: tuple[int, ...]
    """With or without EOS at its end."""


@runtime_checkable
class _SearchResult(Protocol):
    hypotheses: list[list[str]]
    scores: list[float]


@runtime_checkable
class _PendingSearch(Protocol):
    def result(self) -> _SearchResult: ...


@runtime_checkable
class _ScoreResult(Protocol):
    log_probs: list[float]


@runtime_checkable
class _PendingScore(Protocol):
    def result(self) -> _ScoreResult: ...


class Ct2Model:
    """A loaded model. Thread-safe; batches submitted in one call are computed in parallel."""

    def __init__(
        self, folder: Path, plan: Plan, *, pieces: Sequence[str], eos: int, device: str = "cpu"
    ) -> None:
        """Load a model.

        Args:
            folder: written by `write_ctranslate2`. If it has a shortlist, searches use it; scores
                are computed over the whole vocabulary.
            plan: how to compute.
            pieces: its vocabulary by id.
            eos: the id of EOS.
            device: "cpu", "cuda" or one of several, as "cuda:1".
        """
        self._pieces = list(pieces)
        self._ids = {piece: id for id, piece in enumerate(pieces)}
        self._eos = eos
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
        self, batches: Sequence[SearchBatch], *, beam: int, constraints: DecodingConstraints
    ) -> list[list[list[Ct2Hypothesis]]]:
        """Return the hypotheses of each sentence of each batch.

        Args:
            batches: computed in parallel.
            beam: beam size, and number of hypotheses per sentence.
            constraints: minimum length and repetition.
        """
        pending = [
            self._submit_search(batch, beam=beam, constraints=constraints) for batch in batches
        ]
        return [
            [self._hypotheses(search.result(), batch.exponent) for search in searches]
            for batch, searches in zip(batches, pending, strict=True)
        ]

    def score(self, pairs: Sequence[ScoringPair]) -> list[tuple[float, ...]]:
        """Return the log-probability of each piece of each target."""
        order = sorted(range(len(pairs)), key=lambda index: -len(pairs[index].source))
        pending = [
            score
            for first in range(0, len(order), SCORING_BATCH)
            for score in self._submit_scoring(
                [pairs[index] for index in order[first : first + SCORING_BATCH]]
            )
        ]
        scores: list[tuple[float, ...]] = [()] * len(pairs)
        for index, score in zip(order, pending, strict=True):
            # CTranslate2 scores an EOS that the target may lack.
            scores[index] = tuple(score.result().log_probs[: len(pairs[index].target)])
        return scores

    def _submit_search(
        self, batch: SearchBatch, *, beam: int, constraints: DecodingConstraints
    ) -> list[_PendingSearch]:
        prefixes = [self._to_pieces(request.prefix) for request in batch.requests]
        return self._translator.translate_batch(
            [self._to_pieces(request.source) for request in batch.requests],
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
            return_scores=True,
            return_end_token=True,
        )

    def _submit_scoring(self, pairs: Sequence[ScoringPair]) -> list[_PendingScore]:
        return self._translator.score_batch(
            [self._to_pieces(pair.source) for pair in pairs],
            [self._to_pieces(id for id in pair.target if id != self._eos) for pair in pairs],
            asynchronous=True,
            max_input_length=0,
        )

    def _hypotheses(self, result: _SearchResult, exponent: float) -> list[Ct2Hypothesis]:
        return [
            # Undo CTranslate2's length normalisation to get the sum.
            Ct2Hypothesis(
                tuple(self._ids[piece] for piece in pieces), score * len(pieces) ** exponent
            )
            for pieces, score in zip(result.hypotheses, result.scores, strict=True)
        ]

    def _to_pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[id] for id in ids]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortlist:
    """The target ids that may be generated. `export.shortlist` learns one."""

    always: tuple[int, ...]
    """Allowed for any source; EOS and UNK are among them."""

    by_source: Mapping[int, tuple[int, ...]]
    """Additional ids for each source piece."""

    def allowed(self, source: Iterable[int]) -> frozenset[int]:
        """Return the ids allowed for a sentence.

        >>> sorted(Shortlist(always=(0, 1), by_source={5: (7, 5), 6: (8,)}).allowed([5, 9]))
        [0, 1, 5, 7]
        """
        return frozenset(self.always).union(*(self.by_source.get(id, ()) for id in source))

    def coverage(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> float:
        """Return the share of the targets' pieces, EOS not counted, that their sources allow.

        >>> Shortlist(always=(0, 1), by_source={5: (7,)}).coverage([([5], [7, 7, 8]), ([6], [1])])
        0.75
        """
        covered = total = 0
        for source, target in pairs:
            allowed = self.allowed(source)
            covered += sum(id in allowed for id in target)
            total += len(target)
        return covered / total if total else 1.0

    def to_text(self, pieces: Sequence[str]) -> str:
        """Format it as `vmap.txt`.

        Args:
            pieces: the vocabulary by id. Pieces that contain whitespace cannot be written.
        """
        lines = [("", self.always), *((pieces[id], ids) for id, ids in self.by_source.items())]
        return "".join(
            f"{piece}\t{' '.join(pieces[id] for id in ids if _is_writable(pieces[id]))}\n"
            for piece, ids in lines
            if not piece or _is_writable(piece)
        )


def read_shortlist(file: Path, pieces: Sequence[str]) -> Shortlist:
    """Read a shortlist that was written for a vocabulary.

    Args:
        file: written by `Shortlist.to_text`.
        pieces: the vocabulary by id.

    Raises:
        ValueError: if it is not a shortlist, or for another vocabulary; the message names the file.
        OSError: if it cannot be read.
    """
    ids = {piece: id for id, piece in enumerate(pieces)}
    entries: dict[str, tuple[int, ...]] = {}
    try:
        lines = file.read_bytes().decode().split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a shortlist: it is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        source, tab, targets = line.partition("\t")
        if line and not tab:
            raise ValueError(f"{file} is not a shortlist: line {number} has no tab")
        for piece in (source, *targets.split(" ")):
            if piece and piece not in ids:
                raise ValueError(
                    f"{file}, line {number}: the model has no piece {piece!r}; use the shortlist "
                    f"that was learned from this model"
                )
        if line:
            entries[source] = tuple(ids[piece] for piece in targets.split(" ") if piece)
    always = entries.pop("", ())
    if not always:
        raise ValueError(f"{file} is not a shortlist: it has no line of pieces always allowed")
    return Shortlist(
        always=always, by_source={ids[piece]: allowed for piece, allowed in entries.items()}
    )


def _is_writable(piece: str) -> bool:
    return not any(space in piece for space in " \t\n\r")
