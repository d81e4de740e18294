"""The translator: sentences in, translations out, in the order they came.

Sentences are tidied as the training text was, encoded, and searched in batches of like length. A
blank one never meets the model; one too long for it is translated in parts, or refused.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transduce.bundle import Bundle
from transduce.engines.engine import Engine
from transduce.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request
from transduce.text.corpus import tidy
from transduce.text.tokenizer import Tokenizer

BATCH_TOKENS = 8192
"""Pieces of one batch by default: rows x beam x the longest source."""

_Part = tuple[int, ...]  # the ids of a sentence, or of one part of a long one
_Found = dict[_Part, list[Hypothesis]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """Another translation of the same sentence."""

    text: str
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Translation:
    """What became of one sentence."""

    source: str
    """The sentence as it was given."""

    text: str

    score: float
    """ln p of the pieces over the length penalty; of a long line, the sum over its parts."""

    pieces: tuple[str, ...]
    """What the model said, piece by piece; each part ends in "</s>" unless the limit cut it."""

    log_probs: tuple[float, ...]
    """ln p of each piece."""

    others: tuple[Alternative, ...] = ()
    """The next best, best first, if more than one translation was asked for."""

    parts: int = 1
    """In how many parts the sentence was translated; above 1 it was too long for one."""


class Translator:
    """Translates with one model. `load` makes one from a folder."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer, *, search: SearchConfig) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self.search = search
        """The settings that hold where `translate` is told nothing else. `max_source` is never more
        than the model has positions for."""

    @classmethod
    def load(cls, path: str | Path, *, device: torch.device | str = "cpu") -> "Translator":
        """Load a bundle, or the best bundle of a run's folder.

        Raises:
            ValueError: one line that names the file at fault.
        """
        bundle = Bundle.load(path, device=device)
        return cls.from_parts(bundle.model, bundle.tokenizer, search=bundle.search)

    @classmethod
    def from_parts(
        cls, model: Transformer, tokenizer: Tokenizer, *, search: SearchConfig
    ) -> "Translator":
        """Translate with a model in memory, on the device it is on."""
        device = model.embedding.weight.device
        engine = TorchEngine(model, pad=tokenizer.pad, eos=tokenizer.EOS, device=device)
        longest = min(search.max_source, model.config.longest - 1)  # EOS has a position as well
        return cls(engine, tokenizer, search=replace(search, max_source=longest))

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        batch_tokens: int = BATCH_TOKENS,
        first_line: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """Translate sentences, each for itself: batches change only the time it takes.

        Args:
            sentences: one sentence each. They are all read before the first is translated.
            beam: hypotheses followed for each sentence; 1 is greedy search. None: the model's own.
            alpha: the length penalty's exponent. None: the model's own.
            nbest: translations wanted for each sentence; all after the first go to `others`.
            batch_tokens: most rows x beam x longest source at one time; memory grows with it.
            first_line: the number that a message gives to the first sentence.
            progress: called with the number of sentences done, now and then, and at the end.

        Returns:
            One translation a sentence, in their order.

        Raises:
            TypeError: if a sentence is no text, or `sentences` is a single one.
            ValueError: for a setting out of range, or a line longer than `search.max_source` where
                `search.long` is "refuse"; nothing has been translated by then.
        """
        config = self._settings(beam=beam, alpha=alpha)
        if not 1 <= nbest <= config.beam:
            raise ValueError(
                f"nbest must be from 1 to the beam, which is {config.beam}, not {nbest}: "
                f"ask for fewer translations or a wider beam"
            )
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens must be at least 1, not {batch_tokens}")
        given = _checked(sentences, first_line=first_line)
        encoded = self._tokenizer.encode_all([tidy(sentence) for sentence in given])
        parted = [
            self._parts(ids, config, line=line) for line, ids in enumerate(encoded, first_line)
        ]
        found: _Found = {}
        tell = _Progress(parted, progress)
        for batch in _batches({part for parts in parted for part in parts}, config, batch_tokens):
            asked = [Request(part) for part in batch]
            found.update(zip(batch, self._engine.search(asked, config), strict=True))
            tell.done(batch)
        return [
            self._joined(sentence, [found[part] for part in parts], nbest=nbest)
            for sentence, parts in zip(given, parted, strict=True)
        ]

    def _settings(self, *, beam: int | None, alpha: float | None) -> SearchConfig:
        return replace(
            self.search,
            beam=self.search.beam if beam is None else beam,
            alpha=self.search.alpha if alpha is None else alpha,
        )

    def _parts(self, ids: Sequence[int], config: SearchConfig, *, line: int) -> list[_Part]:
        """Cut a sentence where a word begins, or within one that alone is too long."""
        if len(ids) <= config.max_source:
            return [tuple(ids)] if ids else []
        if config.long == "refuse":
            raise ValueError(
                f"line {line} has {len(ids)} pieces, more than search.max_source "
                f"{config.max_source}: split it, set search.long to 'split', or raise the limit "
                f"(learned positions end at model.max_positions)"
            )
        starts_word = [piece.startswith("▁") for piece in self._tokenizer.pieces(ids)]
        parts: list[_Part] = []
        start = 0
        while len(ids) - start > config.max_source:
            end = start + config.max_source
            end = next((cut for cut in range(end, start, -1) if starts_word[cut]), end)
            parts.append(tuple(ids[start:end]))
            start = end
        return [*parts, tuple(ids[start:])]

    def _joined(
        self, sentence: str, parts: Sequence[Sequence[Hypothesis]], *, nbest: int
    ) -> Translation:
        """Make a translation from the hypotheses of each part; a blank sentence has no part."""
        best, *others = _combined(parts, nbest)
        ids = [one for hypothesis in best for one in hypothesis.ids]
        return Translation(
            source=sentence,
            text=self._text(best),
            score=_score(best),
            pieces=tuple(self._tokenizer.pieces(ids)),
            log_probs=tuple(one for hypothesis in best for one in hypothesis.log_probs),
            others=tuple(Alternative(text=self._text(o), score=_score(o)) for o in others),
            parts=max(1, len(parts)),
        )

    def _text(self, hypotheses: Sequence[Hypothesis]) -> str:
        texts = (self._tokenizer.decode(hypothesis.ids).strip() for hypothesis in hypotheses)
        return " ".join(text for text in texts if text)


class _Progress:
    """Counts the sentences all of whose parts are translated."""

    def __init__(
        self, parted: Sequence[Sequence[_Part]], tell: Callable[[int], None] | None
    ) -> None:
        self._tell = tell
        self._missing = [len(set(parts)) for parts in parted]
        self._owners: dict[_Part, list[int]] = {}
        for sentence, parts in enumerate(parted):
            for part in set(parts):
                self._owners.setdefault(part, []).append(sentence)
        self._count = self._missing.count(0)
        if tell is not None and self._count:
            tell(self._count)

    def done(self, batch: Sequence[_Part]) -> None:
        for part in batch:
            for sentence in self._owners[part]:
                self._missing[sentence] -= 1
                self._count += self._missing[sentence] == 0
        if self._tell is not None:
            self._tell(self._count)


def _checked(sentences: Iterable[str], *, first_line: int) -> list[str]:
    if isinstance(sentences, str):
        raise TypeError("translate takes a list of sentences, not one: put it in brackets")
    given = list(sentences)
    for line, sentence in enumerate(given, first_line):
        if not isinstance(sentence, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"line {line} is no text but {type(sentence).__name__}")
    return given


def _batches(parts: set[_Part], config: SearchConfig, tokens: int) -> Iterator[list[_Part]]:
    """Gather sources of like length, the longest first, so that a want of memory shows at once.

    Equal sources are translated once, and the order of the input does not matter.
    """
    batch: list[_Part] = []
    for part in sorted(parts, key=lambda part: (-len(part), part)):
        longest = len(batch[0] if batch else part) + 1
        if batch and (len(batch) + 1) * config.beam * longest > tokens:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _combined(parts: Sequence[Sequence[Hypothesis]], nbest: int) -> list[tuple[Hypothesis, ...]]:
    """The `nbest` ways to take one hypothesis of every part, best first."""
    ways: list[tuple[Hypothesis, ...]] = [()]
    for hypotheses in parts:
        longer = [(*way, one) for way, one in itertools.product(ways, hypotheses)]
        ways = sorted(longer, key=lambda way: -_score(way))[:nbest]
    return ways


def _score(hypotheses: Sequence[Hypothesis]) -> float:
    return math.fsum(hypothesis.score for hypothesis in hypotheses)
