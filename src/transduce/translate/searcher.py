"""Requests in, hypotheses out: the engine that can, batch by batch; again for a loop or a term."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transduce.engines.engine import Engine
from transduce.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.search.config import SearchConfig
from transduce.search.hypothesis import Hypothesis
from transduce.search.request import Request, Wishes
from transduce.text.tokenizer import Tokenizer
from transduce.translate.loops import better, fault, remedy
from transduce.translate.parts import Progress, batches
from transduce.translate.placing import Wanted, ends_word, lacking, with_next_term

_NEXT = 200  # pieces among which one is looked for that begins another word

Terms = Mapping[Request, tuple[Wanted, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What was found for some requests."""

    hypotheses: dict[Request, list[Hypothesis]]
    """Best first."""

    flags: dict[Request, str]
    """What was at fault with the first translation of those that came out as a loop."""

    mended: set[Request]
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

    @property
    def torch_engine(self) -> TorchEngine:
        """The engine that can score, and look at the next piece.

        Raises:
            ValueError: if it was left out.
        """
        for engine in self._engines:
            if isinstance(engine, TorchEngine):
                return engine
        raise ValueError("only the torch engine can do this: take engine auto or torch")

    def search(
        self,
        requests: set[Request],
        config: SearchConfig,
        wishes: Wishes,
        *,
        terms: Terms,
        mend: bool,
        detail: bool,
        batch_tokens: int,
        tell: Progress,
    ) -> Found:
        """Search all there is to search, again what came out as a loop, and again for each term."""
        found = Found(hypotheses={}, flags={}, mended=set())
        if not requests:
            return found
        engine = self.able(list(requests), config, wishes)
        for batch in batches(requests, config, batch_tokens, together=engine.together):
            best = engine.search(batch, config, wishes, detail=detail)
            here = dict(zip(batch, best, strict=True))
            if mend:
                self._mend(here, config, wishes, detail=detail, into=found)
            self._place(here, terms, config, wishes, detail=detail)
            found.hypotheses.update(here)
            tell.done(batch)
        return found

    def able(self, requests: Sequence[Request], config: SearchConfig, wishes: Wishes) -> Engine:
        """Return the first engine that can do all of this.

        Raises:
            ValueError: if none can; it says why.
        """
        why: list[str] = []
        for engine in self._engines:
            refused = engine.refuses(requests, config, wishes)
            if not refused:
                return engine
            why.append(f"{engine.name} cannot do this: {refused}")
        raise ValueError(f"{'; '.join(why)}; take engine auto or torch")

    def _mend(
        self,
        here: dict[Request, list[Hypothesis]],
        config: SearchConfig,
        wishes: Wishes,
        *,
        detail: bool,
        into: Found,
    ) -> None:
        """Search again where the best is at fault, in place; note what was at fault."""
        pieces = self._tokenizer.pieces
        flags = {
            request: why
            for request, hypotheses in here.items()
            if (why := fault(pieces(request.source), pieces(hypotheses[0].ids)))
        }
        into.flags.update(flags)
        cure = remedy(wishes)
        if not flags or cure is None:
            return
        again = list(flags)
        seconds = self.able(again, config, cure).search(again, config, cure, detail=detail)
        for request, second in zip(again, seconds, strict=True):
            first, now = (pieces(one[0].ids) for one in (here[request], second))
            if better(pieces(request.source), first, now):
                here[request] = second
                into.mended.add(request)

    def _place(
        self,
        found: dict[Request, list[Hypothesis]],
        terms: Terms,
        config: SearchConfig,
        wishes: Wishes,
        *,
        detail: bool,
    ) -> None:
        """Say the terms that are lacking, in place: one a round, the leftmost first."""
        left = {request: list(terms[request]) for request in found if terms.get(request)}
        asked = {request: request for request in left}
        while left:
            again: dict[Request, Request] = {}
            for request, wanted in left.items():
                best = found[request][0]
                pieces = self._tokenizer.pieces(best.ids)
                if lack := lacking(best, wanted, pieces):
                    placed = with_next_term(self.model, asked[request], best, lack, pieces)
                    if len(placed.prefix) < wishes.limit(config.limit(len(request.source))):
                        again[request] = asked[request] = placed
            if not again:
                return
            engine = self.able(list(again.values()), config, wishes)
            best = engine.search(list(again.values()), config, wishes, detail=detail)
            found.update(zip(again, best, strict=True))
            closed = {
                request: placed._replace(prefix=(*placed.prefix, self._behind(placed)))
                for request, placed in again.items()
                if not ends_word(
                    self._tokenizer.pieces(found[request][0].ids)[len(placed.prefix) :]
                )
            }
            if closed:
                best = engine.search(list(closed.values()), config, wishes, detail=detail)
                found.update(zip(closed, best, strict=True))
                asked |= closed
            left = {
                request: [
                    term
                    for term in left[request]
                    if request_now.prefix[-len(term.ids) :] != term.ids
                ]
                for request, request_now in again.items()
            }

    def _behind(self, request: Request) -> int:
        """The likeliest piece behind a prefix that does not make its last word longer."""
        likely = self.torch_engine.next_pieces(request, _NEXT)
        pieces = self._tokenizer.pieces([one.id for one in likely])
        ending = (one.id for one, piece in zip(likely, pieces, strict=True) if ends_word([piece]))
        return next(ending, self._tokenizer.EOS)
