"""Decoding: from text to hypotheses.

Sentences are encoded and split into requests; requests are searched in batches of similar length,
and again where a translation loops or lacks a term.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from transduce.data.corpus import tidy
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.interface import Engine, ScoringEngine
from transduce.inference.glossary import (
    Term,
    TermConstraint,
    is_word_end,
    match_terms,
    missing_terms,
    place_next_term,
    term_constraints,
)
from transduce.inference.mbr import normalised_probabilities, select_mbr
from transduce.inference.repetition import (
    detect_repetition,
    is_improvement,
    is_noise,
    novel_log_prob,
    retry_constraints,
)
from transduce.io.machine import TORCH_HINT, has_torch
from transduce.model.numpy_transformer import TransformerWeights
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.interruption import interruption_point

_NEXT_PIECES = 200  # most probable pieces among which one that starts a new word is looked for

Terms = Mapping[Request, tuple[TermConstraint, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Extras:
    """Steps around the search."""

    glossary: tuple[Term, ...] = ()
    """Terms whose target is required wherever their source matches."""

    mbr: bool = False
    """Minimum Bayes risk decoding over the beam or the samples."""

    retry_loops: bool = True
    """Flag repetitive output and translate it again with repetition blocked."""

    recase: bool = True
    """Translate capitals and title case in the usual case, and recase the translation."""

    protect: tuple[str, ...] = ()
    """Patterns of text to repeat unchanged, besides those of the model: names of
    `protection.BUILT_IN` or regular expressions. The model needs placeholders."""

    token_scores: bool = True
    """Return log-probabilities even where they cost extra time: of each piece and, with a beam of
    1, the sum."""


DEFAULT_EXTRAS = Extras()
"""Only the retry of repetitive output, and recasing."""

Ids = tuple[int, ...]


class RequestBatch(NamedTuple):
    """The search requests of some sentences."""

    requests: tuple[tuple[Request, ...], ...]
    """For each sentence its parts, in order; a blank sentence has none."""
    terms: dict[Request, tuple[TermConstraint, ...]]
    """The terms that a part's translation must contain, for parts that have any."""


def build_requests(
    sentences: Sequence[str],
    prefixes: Sequence[str],
    *,
    config: SearchConfig,
    tokenizer: Tokenizer,
    glossary: tuple[Term, ...] = (),
    first_line: int = 1,
) -> RequestBatch:
    """Tidy, encode and split sentences, and match glossary terms in them.

    Args:
        sentences: the input text.
        prefixes: the prefix of each translation, or "".
        config: the maximum source length, and what to do with longer sentences.
        tokenizer: the model's.
        glossary: terms that may apply.
        first_line: line number of the first sentence, for messages.

    Raises:
        ValueError: if a sentence is too long and must not be split, or the vocabulary cannot
            encode a prefix or a term.
    """
    tagged = [tokenizer.split_tag(tidy(sentence)) for sentence in sentences]
    texts = [text.strip() for _, text in tagged]
    terms: dict[Request, tuple[TermConstraint, ...]] = {}
    requests: list[tuple[Request, ...]] = []
    for line, (text, ids) in enumerate(
        zip(texts, tokenizer.encode_all(texts), strict=True), first_line
    ):
        tag = tuple(tagged[line - first_line][0])
        limit = replace(config, max_source=config.max_source - len(tag)) if tag else config
        parts = [Request((*tag, *part)) for part in split_source(ids, limit, tokenizer, line=line)]
        prefix = prefixes[line - first_line]
        if parts and prefix:
            parts[0] = parts[0]._replace(prefix=encode_prefix(prefix, tokenizer))
        for number, part in enumerate(parts if glossary else ()):
            ids = part.source[len(tag) :]
            part_text = text if len(parts) == 1 else tokenizer.decode(ids)
            if matched := match_terms(part_text, glossary):
                placed = term_constraints(part_text, ids, matched, tokenizer)
                part = part._replace(terms=tuple(term.target_ids for term in placed))
                parts[number] = part
                terms[part] = tuple(term.shifted(len(tag)) for term in placed)
        requests.append(tuple(parts))
    return RequestBatch(tuple(requests), terms)


def encode_prefix(text: str, tokenizer: Tokenizer) -> Ids:
    """Return the ids that a translation must begin with.

    Raises:
        ValueError: if the vocabulary lacks one of its characters.
    """
    ids = tuple(tokenizer.target.encode(tidy(text)))
    if tokenizer.UNK in ids:
        raise ValueError(
            f"no translation can begin with {text[:60]!r}: the model's vocabulary lacks one of its "
            f"characters; choose another spelling"
        )
    return ids


def split_source(
    ids: Sequence[int], config: SearchConfig, tokenizer: Tokenizer, *, line: int
) -> tuple[Ids, ...]:
    """Split a long sentence at word boundaries, or inside a word that is itself too long.

    Args:
        ids: the sentence, without EOS.
        config: the maximum source length, and whether to split.
        tokenizer: the model's; its pieces mark where words begin.
        line: line number, for the message.

    Raises:
        ValueError: if it is too long and `config.long` is "refuse".
    """
    if len(ids) <= config.max_source:
        return (tuple(ids),) if ids else ()
    if config.long == "refuse":
        raise ValueError(
            f"line {line} has {len(ids)} pieces, more than search.max_source "
            f"{config.max_source}: split it, set search.long to 'split', or raise the limit "
            f"(learned positions end at model.max_positions)"
        )
    starts_word = [piece.startswith("▁") for piece in tokenizer.pieces(ids)]
    parts: list[Ids] = []
    start = 0
    while len(ids) - start > config.max_source:
        end = start + config.max_source
        end = next((index for index in range(end, start, -1) if starts_word[index]), end)
        parts.append(tuple(ids[start:end]))
        start = end
    return (*parts, tuple(ids[start:]))


def combine_parts(
    parts: Sequence[Sequence[Hypothesis]], count: int
) -> list[tuple[Hypothesis, ...]]:
    """Return the `count` best ways to choose one hypothesis for every part, best first."""
    combinations: list[tuple[Hypothesis, ...]] = [()]
    for hypotheses in parts:
        extended = [(*head, last) for head, last in itertools.product(combinations, hypotheses)]
        combinations = sorted(extended, key=lambda choice: -total_score(choice))[:count]
    return combinations


def total_score(hypotheses: Sequence[Hypothesis]) -> float:
    """Return the score of a sentence: the sum over its parts."""
    return math.fsum(hypothesis.score for hypothesis in hypotheses)


class SentenceProgress:
    """Counts the sentences all of whose parts are translated."""

    def __init__(
        self, requests: Sequence[Sequence[Request]], callback: Callable[[int], None] | None
    ) -> None:
        """Count over the parts of each sentence; `callback` receives the count."""
        self._callback = callback
        self._pending = [len(set(parts)) for parts in requests]
        self._owners: dict[Request, list[int]] = {}
        for sentence, parts in enumerate(requests):
            for request in set(parts):
                self._owners.setdefault(request, []).append(sentence)
        self._count = self._pending.count(0)
        if callback is not None and self._count:
            callback(self._count)

    def update(self, batch: Sequence[Request]) -> None:
        """Record a translated batch and report the number of complete sentences."""
        for request in batch:
            for sentence in self._owners[request]:
                self._pending[sentence] -= 1
                self._count += self._pending[sentence] == 0
        if self._callback is not None:
            self._callback(self._count)


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeOptions:
    """Options that hold for all requests of one call."""

    config: SearchConfig
    constraints: DecodingConstraints = UNCONSTRAINED
    extras: Extras = DEFAULT_EXTRAS
    batch_tokens: int
    """Batch size limit: rows x beam x longest source, in pieces."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeResult:
    """The hypotheses of some requests."""

    hypotheses: dict[Request, list[Hypothesis]] = field(
        default_factory=dict[Request, list[Hypothesis]]
    )
    """The selected hypothesis first, then the others, best first."""
    flags: dict[Request, str] = field(default_factory=dict[Request, str])
    """For repetitive output, what was wrong with the first translation."""
    retried: set[Request] = field(default_factory=set[Request])
    """Flagged requests whose second translation was taken."""


class Searcher:
    """Decodes with the first of several engines that supports a request."""

    def __init__(
        self,
        engines: Sequence[Engine],
        tokenizer: Tokenizer,
        *,
        model: TransformerWeights,
        fallback: Callable[[], Engine] | None = None,
    ) -> None:
        """Take the engines in order of preference; attention is read from `model`."""
        assert engines or fallback, "at least one engine is needed"
        self._engines, self._fallback = tuple(engines), fallback
        self._tokenizer = tokenizer
        self.model = model

    def scoring_engine(self, feature: str) -> ScoringEngine:
        """Return the engine that scores text and ranks next pieces, as CTranslate2's does not.

        Raises:
            ValueError: if it was left out; `feature` names what needs it.
        """
        for engine in self._all_engines():
            if isinstance(engine, ScoringEngine):
                return engine
        raise ValueError(f"{feature} needs the torch engine: choose engine auto or torch")

    def _all_engines(self) -> Iterator[Engine]:
        yield from self._engines
        if self._fallback is not None:  # made when it is first needed
            yield self._fallback()

    def search(
        self,
        requests: set[Request],
        options: DecodeOptions,
        *,
        terms: Terms,
        progress: SentenceProgress,
    ) -> DecodeResult:
        """Search all requests; retry repetitive output, and search again for each missing term.

        Args:
            requests: the parts of all sentences.
            options: hold for all of them.
            terms: glossary terms by request.
            progress: updated after each batch.

        Raises:
            ValueError: if no engine supports the options, or constraints cannot be satisfied.
        """
        result = DecodeResult()
        engine = self._select_engine(list(requests), options)
        for batch in _batches(requests, options, engine=engine):
            originals = {request: request for request in batch}
            hypotheses = self._run(originals, options, engine=engine)
            if options.extras.retry_loops:
                self._retry_loops(hypotheses, originals, options, result=result)
            placed = self._place_terms(hypotheses, terms, options)
            if options.extras.retry_loops and placed:
                self._retry_loops(hypotheses, placed, options, result=result)
            result.hypotheses.update(hypotheses)
            progress.update(batch)
        return result

    def _select_engine(self, requests: Sequence[Request], options: DecodeOptions) -> Engine:
        """Return the first engine that supports all of this, or raise with each one's reason."""
        reasons: list[str] = []
        for engine in self._all_engines():
            reason = engine.unsupported_reason(requests, options.config, options.constraints)
            if not reason:
                return engine
            reasons.append(f"{engine.name} does not support {reason}")
        remedy = "choose engine auto or torch" if has_torch() else f"install PyTorch: {TORCH_HINT}"
        raise ValueError(f"{'; '.join(reasons)}; {remedy}")

    def _run(
        self,
        searched: Mapping[Request, Request],
        options: DecodeOptions,
        *,
        engine: Engine | None = None,
    ) -> dict[Request, list[Hypothesis]]:
        """Search the values of `searched`; return hypotheses by its keys, reranked if asked for."""
        results: dict[Request, list[Hypothesis]] = {}
        engine = engine or self._select_engine(list(searched.values()), options)
        for batch in _batches(set(searched.values()), options, engine=engine):
            interruption_point()
            hypotheses = engine.search(
                batch, options.config, options.constraints, token_scores=options.extras.token_scores
            )
            results |= zip(batch, hypotheses, strict=True)
        if options.extras.mbr:
            results = {request: self._rerank(best, options) for request, best in results.items()}
        return {original: results[request] for original, request in searched.items()}

    def _rerank(self, hypotheses: list[Hypothesis], options: DecodeOptions) -> list[Hypothesis]:
        """Rerank by minimum Bayes risk, weighting by probability (uniformly if sampled)."""
        texts = [self._tokenizer.target.decode(hypothesis.ids) for hypothesis in hypotheses]
        sampled = options.constraints.sampling is not None
        log_probs = [hypothesis.log_prob for hypothesis in hypotheses]
        first = select_mbr(texts, None if sampled else normalised_probabilities(log_probs))
        return [hypotheses[first], *hypotheses[:first], *hypotheses[first + 1 :]]

    def _retry_loops(
        self,
        hypotheses: dict[Request, list[Hypothesis]],
        searched: Mapping[Request, Request],
        options: DecodeOptions,
        *,
        result: DecodeResult,
    ) -> None:
        """Flag repetitive translations and replace those that a constrained search improves."""
        source_pieces, pieces = self._tokenizer.pieces, self._tokenizer.target.pieces
        reasons = {
            request: detect_repetition(
                source_pieces(request.source), pieces(hypotheses[request][0].ids)
            )
            for request in searched
        }
        flags = {request: reason for request, reason in reasons.items() if reason}
        result.flags.update(flags)
        result.retried.difference_update(flags)
        constraints = retry_constraints(options.constraints)
        retries = {r: searched[r] for r in flags if not is_noise(source_pieces(r.source))}
        if not retries or constraints is None:
            return
        options = replace(options, extras=replace(options.extras, token_scores=True))
        blocking = replace(options, constraints=constraints)
        try:
            engine = self._select_engine(list(retries.values()), blocking)
        except ValueError:  # no engine blocks repetition: the flag remains
            return
        seconds = {
            request: second
            for request, second in self._run(retries, blocking, engine=engine).items()
            if is_improvement(source_pieces(request.source), pieces(second[0].ids), loss=0.0)
        }
        firsts = {request: hypotheses[request][0] for request in seconds}
        log_probs = self._token_scores(firsts, self._select_engine([*retries.values()], options))
        for request, second in seconds.items():
            values = log_probs[request]
            first = novel_log_prob(firsts[request].ids[: len(values)], values)
            loss = first - novel_log_prob(second[0].ids, second[0].log_probs)
            if is_improvement(source_pieces(request.source), pieces(second[0].ids), loss=loss):
                hypotheses[request] = second
                result.retried.add(request)

    def _token_scores(
        self, hypotheses: Mapping[Request, Hypothesis], engine: Engine
    ) -> dict[Request, tuple[float, ...]]:
        """Return the log-probability of each piece, scored where a search has left it out.

        It then lacks the last piece of a cut hypothesis: EOS after it may have no position.
        """
        scores = {request: best.log_probs for request, best in hypotheses.items()}
        unscored = [request for request, values in scores.items() if not values]
        if not unscored:
            return scores
        pairs = [(request.source, hypotheses[request].ids[:-1]) for request in unscored]
        for request, values in zip(unscored, engine.score(pairs), strict=True):
            scores[request] = values if hypotheses[request].finished else values[:-1]
        return scores

    def _place_terms(
        self, hypotheses: dict[Request, list[Hypothesis]], terms: Terms, options: DecodeOptions
    ) -> dict[Request, Request]:
        """Force missing terms, in place, one per round; return what was searched instead."""
        pending = {request: list(terms[request]) for request in hypotheses if terms.get(request)}
        searched = {request: request for request in pending}
        while pending:
            forced: dict[Request, Request] = {}
            left: dict[Request, list[TermConstraint]] = {}
            for request, constraints in pending.items():
                best, tokenizer = hypotheses[request][0], self._tokenizer.target
                if missing := missing_terms(best, constraints, tokenizer):
                    placed, placed_term = place_next_term(
                        self.model, searched[request], best, missing, tokenizer
                    )
                    if len(placed.prefix) < self._max_length(request, options):
                        forced[request] = placed
                        left[request] = [term for term in constraints if term != placed_term]
            if not forced:
                break
            hypotheses.update(self._run(forced, options))
            searched |= forced
            searched |= self._close_words(hypotheses, forced, options)
            pending = left
        return {request: last for request, last in searched.items() if last != request}

    def _close_words(
        self,
        hypotheses: dict[Request, list[Hypothesis]],
        forced: Mapping[Request, Request],
        options: DecodeOptions,
    ) -> dict[Request, Request]:
        """Search again where a term starts a longer word; return what was searched instead."""
        closed: dict[Request, Request] = {}
        decode = self._tokenizer.target.decode
        for request, placed in forced.items():
            if not is_word_end(decode(placed.prefix), decode(hypotheses[request][0].ids)):
                piece = self._next_piece(placed, options)
                if piece == Tokenizer.EOS:
                    hypotheses[request] = [self._finish(placed, options)]
                else:
                    closed[request] = placed._replace(prefix=(*placed.prefix, piece))
        if closed:
            hypotheses.update(self._run(closed, options))
        return closed

    def _next_piece(self, request: Request, options: DecodeOptions) -> int:
        """Return the most probable piece that does not extend the prefix's last word, or EOS."""
        length = len(request.prefix)
        if length + 1 >= self._max_length(request, options):
            return Tokenizer.EOS
        ids = [piece.id for piece in self._scoring.next_pieces(request, _NEXT_PIECES)]
        if length < options.constraints.min_length:
            ids = [id for id in ids if id != Tokenizer.EOS]
        decode = self._tokenizer.target.decode
        text = decode(request.prefix)
        candidates = (id for id in ids if is_word_end(text, decode((*request.prefix, id))))
        return next(candidates, Tokenizer.EOS)

    def _finish(self, request: Request, options: DecodeOptions) -> Hypothesis:
        """Return the translation that consists of the prefix only."""
        (log_probs,) = self._scoring.score([(request.source, request.prefix)])
        ids = (*request.prefix, Tokenizer.EOS)
        return Hypothesis.scored(ids, log_probs, alpha=options.config.alpha, eos=Tokenizer.EOS)

    def _max_length(self, request: Request, options: DecodeOptions) -> int:
        """Return the maximum length of its translation in pieces, EOS included."""
        limit = options.constraints.limit(options.config.limit(len(request.source)))
        return min(limit, self._scoring.longest)

    @property
    def _scoring(self) -> ScoringEngine:
        return self.scoring_engine("a glossary")


def _batches(
    requests: set[Request], options: DecodeOptions, *, engine: Engine
) -> Iterator[list[Request]]:
    """Batch sources of similar length, the longest first, so that lack of memory shows at once.

    Equal requests are searched once, and the input order does not matter.
    """
    tokens = options.batch_tokens * engine.preferred_batches
    batch: list[Request] = []
    for request in sorted(requests, key=lambda request: (-len(request.source), request)):
        longest = len((batch[0] if batch else request).source) + 1
        if batch and (len(batch) + 1) * options.config.beam * longest > tokens:
            yield batch
            batch = []
        batch.append(request)
    if batch:
        yield batch
