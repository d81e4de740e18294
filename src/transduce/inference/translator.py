"""The translator: sentences in, translations out, in the order they came.

Sentences are tidied as the training text was, encoded, and searched in batches of like length. A
blank one never meets the model; one too long for it is translated in parts, or refused.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Confidence
from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.alignment import align, pharaoh
from transduce.inference.batching import Progress, joined, score
from transduce.inference.confidence import words_with_confidence
from transduce.inference.decode import Found, How, Searcher
from transduce.inference.engines.base import Engine
from transduce.inference.engines.ct2_calls import Plan
from transduce.inference.engines.selection import EngineName, choose
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.glossary import Term
from transduce.inference.requests import ask, beginning
from transduce.inference.translation import Alternative, GoingOn, Scored, Translation
from transduce.model.trace import trace
from transduce.model.transformer import Transformer
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

BATCH_TOKENS = 8192
"""Pieces of one batch by default: rows x beam x the longest source."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """What a translator does around the search."""

    glossary: tuple[Term, ...] = ()
    """Terms whose target side must be said wherever their source side stands."""

    agree: bool = False
    """Give the translation that the others of the beam agree with most (minimum Bayes risk)."""

    mend: bool = True
    """Translate again, with repetition forbidden, what came out as a loop; flag it."""

    detail: bool = True
    """Give ln p of each piece even where it costs something."""


USUAL = Extras()
"""Nothing but mending."""


class Translator:
    """Translates with one model, or with several as one. `load` makes one from a folder."""

    def __init__(
        self,
        engines: Sequence[Engine],
        tokenizer: Tokenizer,
        *,
        model: Transformer,
        search: SearchConfig,
        confidence: Confidence | None = None,
        why: str = "",
    ) -> None:
        """Take the engines in the order in which they are to be tried; `model` is what they run."""
        self._searcher = Searcher(engines, tokenizer, model=model)
        self.model = model
        """What the engines run; of several that decide together the first."""
        self._tokenizer = tokenizer
        self.search = search
        """The settings that hold where `translate` is told nothing else. `max_source` is never more
        than the model has positions for."""
        self.confidence = confidence
        """What the model's probabilities are worth; None where nobody has learned it."""
        self.why = why
        """Which engine was taken, in one line for people; empty if there was no choice."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        also: Sequence[str | Path] = (),
        device: torch.device | str = "cpu",
        engine: EngineName = "auto",
        compute_type: str = "float32",
        plan: Plan | None = None,
        shortlist: Path | None = None,
    ) -> "Translator":
        """Load a bundle, or the best bundle of a run's folder.

        Args:
            path: the model.
            also: further models of the same vocabulary, which decide together with the first, by
                the mean of their probabilities; they are torch's.
            device: where to compute.
            engine: "auto" takes the fastest that can express the model.
            compute_type: the kind of CTranslate2's numbers; only "float32" equals torch's.
            plan: workers and threads of CTranslate2, in place of what a measurement says.
            shortlist: a file with the pieces that CTranslate2 may say; None is all of them.

        Raises:
            ValueError: one line that names the file at fault, or why an engine cannot be had.
        """
        bundle = Bundle.load(path, device=device)
        if also and shortlist is not None:
            raise ValueError("several models have no shortlist: leave it out")
        if also:
            if engine == "ctranslate2" or compute_type != "float32" or plan is not None:
                raise ValueError(
                    "several models decide together in torch alone: take engine auto or torch, and "
                    "leave out compute types and plans"
                )
            return cls._ensemble(bundle, [path, *also], device=device)
        return cls.of(
            bundle,
            device=device,
            engine=engine,
            compute_type=compute_type,
            plan=plan,
            shortlist=shortlist,
        )

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        *,
        device: torch.device | str = "cpu",
        engine: EngineName = "auto",
        compute_type: str = "float32",
        plan: Plan | None = None,
        shortlist: Path | None = None,
    ) -> "Translator":
        """Translate with a bundle that is loaded on `device`. See `load`."""
        chosen = choose(
            bundle,
            engine=engine,
            device=str(device),
            compute_type=compute_type,
            plan=plan,
            shortlist=shortlist,
        )
        return cls(
            chosen.engines,
            bundle.tokenizer,
            model=bundle.model,
            search=_fitting(bundle.search, bundle.model),
            confidence=bundle.confidence,
            why=chosen.line,
        )

    @classmethod
    def from_parts(
        cls, model: Transformer, tokenizer: Tokenizer, *, search: SearchConfig
    ) -> "Translator":
        """Translate with a model in memory, on the device it is on, by torch."""
        device = model.embedding.weight.device
        engine = TorchEngine(model, pad=tokenizer.pad, eos=tokenizer.EOS, device=device)
        return cls([engine], tokenizer, model=model, search=_fitting(search, model))

    @classmethod
    def _ensemble(
        cls,
        first: Bundle,
        paths: Sequence[str | Path],
        *,
        device: torch.device | str,
    ) -> "Translator":
        bundles = [first, *(Bundle.load(path, device=device) for path in paths[1:])]
        for path, bundle in zip(paths, bundles, strict=True):
            if bundle.tokenizer.checksum != first.tokenizer.checksum:
                raise ValueError(
                    f"{path} has another vocabulary than {paths[0]}: models that decide together "
                    f"need one tokenizer.model"
                )
        models = [bundle.model for bundle in bundles]
        tokenizer = first.tokenizer
        ours = TorchEngine(models, pad=tokenizer.pad, eos=tokenizer.EOS, device=device)
        search = _fitting(first.search, min(models, key=lambda model: model.config.longest))
        return cls(
            [ours],
            tokenizer,
            model=first.model,
            search=search,
            why=f"engine: torch, as {len(models)} models decide together",
        )

    def translate(
        self,
        sentences: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        nbest: int = 1,
        constraints: DecodingConstraints = UNCONSTRAINED,
        extras: Extras = USUAL,
        prefix: str | Sequence[str] = "",
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
            constraints: repetition, lengths, and drawing at random.
            extras: glossary, agreement, mending.
            prefix: what every translation begins with, or one beginning a sentence.
            batch_tokens: most rows x beam x longest source at one time; memory grows with it.
            first_line: the number that a message gives to the first sentence.
            progress: called with the number of sentences done, now and then, and at the end.

        Returns:
            One translation a sentence, in their order.

        Raises:
            TypeError: if a sentence is no text, or `sentences` is a single one.
            ValueError: for a setting out of range, unsupported constraints, a line longer
                than `search.max_source` where `search.long` is "refuse", or a prefix or a term that
                the vocabulary cannot write; nothing has been translated by then. Also for a prefix
                that does not fit into a translation. A term that does not fit is left out.
        """
        config = self._settings(beam=beam, alpha=alpha)
        _check(config, nbest=nbest, agree=extras.agree, batch_tokens=batch_tokens)
        if extras.glossary:
            self._searcher.torch_engine("a glossary")  # or a line late in a text has nobody
        given = _checked(sentences, first_line=first_line)
        prefixes = [prefix] * len(given) if isinstance(prefix, str) else list(prefix)
        if len(prefixes) != len(given):
            raise ValueError(f"{len(prefixes)} prefixes for {len(given)} sentences: give one each")
        asked = ask(
            given,
            prefixes,
            config=config,
            tokenizer=self._tokenizer,
            glossary=extras.glossary,
            first_line=first_line,
        )
        tell = Progress(asked.requests, progress)
        every = {request for requests in asked.requests for request in requests}
        how = How(
            config=config,
            constraints=constraints,
            agree=extras.agree,
            mend=extras.mend,
            detail=extras.detail,
            batch_tokens=batch_tokens,
        )
        found = self._searcher.search(every, how, terms=asked.terms, tell=tell)
        return [
            self._translation(sentence, requests, found, nbest=nbest, agree=extras.agree)
            for sentence, requests in zip(given, asked.requests, strict=True)
        ]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Scored]:
        """Say how likely given translations are.

        Args:
            sources: one sentence each.
            targets: the translation of each; a blank one is the EOS alone.

        Raises:
            ValueError: for unequal numbers, a side longer than the model has positions for, or
                where torch was left out of the engines.
        """
        if len(sources) != len(targets):
            raise ValueError(
                f"there are {len(sources)} source lines but {len(targets)} targets: line n must "
                f"translate line n"
            )
        read = self._tokenizer.encode_all([tidy(text) for text in sources])
        said = self._tokenizer.target.encode_all([tidy(text) for text in targets])
        found = self._searcher.torch_engine("a score").score(list(zip(read, said, strict=True)))
        return [
            Scored(
                source=source,
                target=target,
                pieces=tuple(self._tokenizer.pieces([*ids, self._tokenizer.EOS])),
                log_probs=log_probs,
            )
            for source, target, ids, log_probs in zip(sources, targets, said, found, strict=True)
        ]

    def alternatives(self, sentence: str, after: str = "", *, count: int = 5) -> list[GoingOn]:
        """Say how a translation could go on at one place.

        Args:
            sentence: what is translated.
            after: how the translation begins; the place is behind it.
            count: how many ways.

        Returns:
            The likeliest next pieces, best first, each with the best translation through it.

        Raises:
            ValueError: for a blank or too long sentence, a beginning that leaves no room, a `count`
                below 1, or where torch was left out of the engines.
        """
        (ids,) = self._tokenizer.encode_all([tidy(sentence)])
        if not 0 < len(ids) <= self.search.max_source:
            raise ValueError(
                f"a sentence of 1 to {self.search.max_source} pieces can be looked into, not of "
                f"{len(ids)}"
            )
        begins = beginning(after, self._tokenizer)
        longest = self.search.limit(len(ids))
        if len(begins) + 1 >= longest:
            raise ValueError(
                f"a beginning of {len(begins)} pieces leaves no room in a translation of at most "
                f"{longest}: shorten it"
            )
        engine = self._searcher.torch_engine("an alternative")
        asked = Request(tuple(ids), prefix=begins)
        pieces = engine.next_pieces(asked, count)
        ways = {
            piece.id: asked._replace(prefix=(*begins, piece.id))
            for piece in pieces
            if piece.id != self._tokenizer.EOS  # behind it there is nothing
        }
        found = dict(zip(ways, engine.search(list(ways.values()), self.search), strict=True))
        return [
            GoingOn(
                piece=self._tokenizer.pieces([piece.id])[0],
                probability=math.exp(piece.log_prob),
                text=self._tokenizer.decode(
                    found[piece.id][0].ids if piece.id in found else begins
                ).strip(),
            )
            for piece in pieces
        ]

    def alignment(self, translation: Translation) -> str:
        """Return which words of a translation come from which of its source: "0-0 1-2".

        It is what the first model looks at while it says the translation. A sentence that was
        translated in parts has none.
        """
        ids = self._tokenizer.encode(tidy(translation.source))
        if not ids or translation.parts > 1:
            return ""
        source = [*ids, self._tokenizer.EOS]
        looks = trace(self.model, source, translation.ids)
        return pharaoh(align(looks, self._tokenizer.pieces(source), translation.pieces))

    def _settings(self, *, beam: int | None, alpha: float | None) -> SearchConfig:
        return replace(
            self.search,
            beam=self.search.beam if beam is None else beam,
            alpha=self.search.alpha if alpha is None else alpha,
        )

    def _translation(
        self,
        sentence: str,
        requests: Sequence[Request],
        found: Found,
        *,
        nbest: int,
        agree: bool,
    ) -> Translation:
        """Make a translation from the hypotheses of each part; a blank sentence has no part."""
        parts = [found.hypotheses[request] for request in requests]
        ways = [tuple(one[0] for one in parts)] if agree else joined(parts, nbest)
        best, *others = ways
        ids = [one for hypothesis in best for one in hypothesis.ids]
        pieces = tuple(self._tokenizer.pieces(ids))
        log_probs = tuple(one for hypothesis in best for one in hypothesis.log_probs)
        if len(log_probs) < len(ids):  # some part has none
            log_probs = ()
        sure = self.confidence or Confidence()
        return Translation(
            source=sentence,
            text=self._text(best),
            score=score(best),
            ids=tuple(ids),
            pieces=pieces,
            log_probs=log_probs,
            others=tuple(Alternative(text=self._text(o), score=score(o)) for o in others),
            parts=max(1, len(parts)),
            flag=next((found.flags[one] for one in requests if one in found.flags), ""),
            mended=any(request in found.mended for request in requests),
            confidence=sure.sentence_confidence(log_probs),
            words=words_with_confidence(sure, pieces, log_probs),
        )

    def _text(self, hypotheses: Sequence[Hypothesis]) -> str:
        texts = (self._tokenizer.decode(hypothesis.ids).strip() for hypothesis in hypotheses)
        return " ".join(text for text in texts if text)


def _fitting(search: SearchConfig, model: Transformer) -> SearchConfig:
    """The settings, with no source longer than the model has positions for, EOS counted."""
    return replace(search, max_source=min(search.max_source, model.config.longest - 1))


def _check(config: SearchConfig, *, nbest: int, agree: bool, batch_tokens: int) -> None:
    if agree and nbest != 1:
        raise ValueError(f"what a beam agrees with is one translation: nbest is 1, not {nbest}")
    if not 1 <= nbest <= config.beam:
        raise ValueError(
            f"nbest must be from 1 to the beam, which is {config.beam}, not {nbest}: "
            f"ask for fewer translations or a wider beam"
        )
    if batch_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, not {batch_tokens}")


def _checked(sentences: Iterable[str], *, first_line: int) -> list[str]:
    """The sentences; none of them is anything but text."""
    if isinstance(sentences, str):
        raise TypeError("translate takes a list of sentences, not one: put it in brackets")
    given = list(sentences)
    for line, sentence in enumerate(given, first_line):
        if not isinstance(sentence, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"line {line} is no text but {type(sentence).__name__}")
    return given
