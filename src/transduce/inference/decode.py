"""Requests in, hypotheses out: the engine that can, batch by batch; again for a loop or a term."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from transduce.data.tokenizer import Tokenizer
from transduce.inference.batching import Progress, batches
from transduce.inference.engines.base import Engine
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.mbr import most_agreed, shares
from transduce.inference.repetition import better, fault, remedy
from transduce.inference.term_placement import Wanted, ends_word, lacking, with_next_term
from transduce.model.transformer import Transformer
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig
from transduce.search.hypothesis import Hypothesis

_NEXT = 200  # pieces among which one is looked for that begins another word

Terms = Mapping[Request, tuple[Wanted, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class How:
    """How all requests of one call are searched."""

    config: SearchConfig
    constraints: DecodingConstraints = UNCONSTRAINED

    agree: bool = False
    """Whether that hypothesis comes first which the others agree with most."""

    mend: bool = True
    """Whether what came out as a loop is searched again."""

    detail: bool = True
    """Whether ln p of each piece is wanted though it costs something."""

    batch_tokens: int
    """Most rows x beam x longest source at one time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What was found for some requests."""

    hypotheses: dict[Request, list[Hypothesis]] = field(
        default_factory=dict[Request, list[Hypothesis]]
    )
    """That first which is to be given, the others best first."""

    flags: dict[Request, str] = field(default_factory=dict[Request, str])
    """What was at fault with the first translation of those that came out as a loop."""

    mended: set[Request] = field(default_factory=set[Request])
    """Those of them whose second translation is given."""


class Searcher:
    """Asks engines, in the order in which they are to be tried."""

    def __init__(
        self, engines: Sequence[Engine], tokenizer: Tokenizer, *, model: Transformer
    ) -> None:
        """`model` is the one that engines compute; it says what words look at."""
        assert engines, "something has to compute"
        self._engines = tuple(engines)
        self._tokenizer = tokenizer
        self.model = model

    def torch_engine(self, what: str) -> TorchEngine:
        """Return the engine that can score and look at the next piece; `what` is wanted of it.

        Raises:
            ValueError: if it was left out.
        """
        for engine in self._engines:
            if isinstance(engine, TorchEngine):
                return engine
        raise ValueError(f"{what} needs the torch engine: take engine auto or torch")

    def search(self, requests: set[Request], how: How, *, terms: Terms, tell: Progress) -> Found:
        """Search all there is to search, again what came out as a loop, and again for each term.

        Args:
            requests: the parts of all sentences.
            how: holds for all of them.
            terms: what the translations of some shall say.
            tell: is told of each batch.

        Raises:
            ValueError: if no engine can do what is wanted, or it cannot be met.
        """
        found = Found()
        engine = self.able(list(requests), how.config, how.constraints)
        for batch in batches(requests, how.config, how.batch_tokens, together=engine.together):
            here = self._asked(engine, {request: request for request in batch}, how)
            if how.mend:
                self._mend(here, {request: request for request in batch}, how, into=found)
            placed = self._place(here, terms, how)
            if how.mend and placed:
                self._mend(here, placed, how, into=found)
            found.hypotheses.update(here)
            tell.done(batch)
        return found

    def able(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> Engine:
        """Return the first engine that can do all of this.

        Raises:
            ValueError: if none can; it says why.
        """
        engine = self._ready(requests, config, constraints)
        if engine is None:
            why = ((one.name, one.refuses(requests, config, constraints)) for one in self._engines)
            said = "; ".join(f"{name} cannot do this: {reason}" for name, reason in why)
            raise ValueError(f"{said}; take engine auto or torch")
        return engine

    def _ready(
        self, requests: Sequence[Request], config: SearchConfig, constraints: DecodingConstraints
    ) -> Engine | None:
        able = (one for one in self._engines if not one.refuses(requests, config, constraints))
        return next(able, None)

    def _asked(
        self, engine: Engine, asked: Mapping[Request, Request], how: How
    ) -> dict[Request, list[Hypothesis]]:
        """Search what is asked in place of each request, and put first what is to be given."""
        found: dict[Request, list[Hypothesis]] = {}
        now = set(asked.values())
        for batch in batches(now, how.config, how.batch_tokens, together=engine.together):
            best = engine.search(batch, how.config, how.constraints, detail=how.detail)
            found |= zip(batch, best, strict=True)
        if how.agree:
            found = {request: self._agreed(best, how) for request, best in found.items()}
        return {request: found[now] for request, now in asked.items()}

    def _agreed(self, hypotheses: list[Hypothesis], how: How) -> list[Hypothesis]:
        """Put that first which the others agree with most: by probability, drawn ones alike."""
        texts = [self._tokenizer.decode(one.ids) for one in hypotheses]
        drawn = how.constraints.sampling is not None
        first = most_agreed(texts, None if drawn else shares([one.log_prob for one in hypotheses]))
        return [hypotheses[first], *hypotheses[:first], *hypotheses[first + 1 :]]

    def _mend(
        self,
        here: dict[Request, list[Hypothesis]],
        asked: Mapping[Request, Request],
        how: How,
        *,
        into: Found,
    ) -> None:
        """Search again, in place, where the first is at fault, if anything can be done about it."""
        pieces = self._tokenizer.pieces
        flags = {
            request: why
            for request in asked
            if (why := fault(pieces(request.source), pieces(here[request][0].ids)))
        }
        into.flags.update(flags)
        into.mended.difference_update(flags)
        cure = remedy(how.constraints)
        again = {request: asked[request] for request in flags}
        engine = self._ready(list(again.values()), how.config, cure) if flags and cure else None
        if cure is None or engine is None:
            return
        for request, second in self._asked(engine, again, replace(how, constraints=cure)).items():
            first, now = (pieces(one[0].ids) for one in (here[request], second))
            if better(pieces(request.source), first, now):
                here[request] = second
                into.mended.add(request)

    def _place(
        self, here: dict[Request, list[Hypothesis]], terms: Terms, how: How
    ) -> dict[Request, Request]:
        """Say the terms that are lacking, in place: one a round, the leftmost first.

        Returns:
            For each request that lacked one, what was asked in its place at last.
        """
        left = {request: list(terms[request]) for request in here if terms.get(request)}
        asked = {request: request for request in left}
        while left:
            again: dict[Request, Request] = {}
            for request, wanted in left.items():
                best = here[request][0]
                pieces = self._tokenizer.pieces(best.ids)
                if lack := lacking(best, wanted, pieces):
                    placed = with_next_term(self.model, asked[request], best, lack, pieces)
                    if len(placed.prefix) < self._room(request, how):
                        again[request] = placed
            if not again:
                break
            engine = self.able(list(again.values()), how.config, how.constraints)
            here.update(self._asked(engine, again, how))
            asked |= again
            asked |= self._closed(here, again, how)
            left = {
                request: [one for one in left[request] if placed.prefix[-len(one.ids) :] != one.ids]
                for request, placed in again.items()
            }
        return {request: now for request, now in asked.items() if now != request}

    def _closed(
        self, here: dict[Request, list[Hypothesis]], placed: Mapping[Request, Request], how: How
    ) -> dict[Request, Request]:
        """Search again, in place, where a term was made a longer word. Return what was asked."""
        closed: dict[Request, Request] = {}
        for request, now in placed.items():
            behind = self._tokenizer.pieces(here[request][0].ids)[len(now.prefix) :]
            if not ends_word(behind):
                piece = self._behind(now, how)
                if piece == Tokenizer.EOS:
                    here[request] = [self._ended(now, how)]
                else:
                    closed[request] = now._replace(prefix=(*now.prefix, piece))
        if closed:
            engine = self.able(list(closed.values()), how.config, how.constraints)
            here.update(self._asked(engine, closed, how))
        return closed

    def _behind(self, request: Request, how: How) -> int:
        """The likeliest piece behind a prefix that does not make its last word longer, or EOS."""
        length = len(request.prefix)
        if length + 1 >= self._room(request, how):
            return Tokenizer.EOS
        likely = [one.id for one in self._torch.next_pieces(request, _NEXT)]
        if length < how.constraints.min_length:
            likely = [one for one in likely if one != Tokenizer.EOS]
        pieces = self._tokenizer.pieces(likely)
        ending = (one for one, piece in zip(likely, pieces, strict=True) if ends_word([piece]))
        return next(ending, Tokenizer.EOS)

    def _ended(self, request: Request, how: How) -> Hypothesis:
        """The translation that is a prefix and nothing more."""
        (log_probs,) = self._torch.score([(request.source, request.prefix)])
        said = (*request.prefix, Tokenizer.EOS)
        return Hypothesis.scored(said, log_probs, alpha=how.config.alpha, finished=True)

    def _room(self, request: Request, how: How) -> int:
        """The most pieces of its translation, EOS among them."""
        usual = how.constraints.limit(how.config.limit(len(request.source)))
        return min(usual, self._torch.longest)

    @property
    def _torch(self) -> TorchEngine:
        return self.torch_engine("a glossary")
