"""Requests are searched by the engine that can; again for a loop, and again for a lacking term."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.unit.inference.scripted import Scripted, constant

from transduce.data.tokenizer import EOS, Tokenizer
from transduce.inference import decode
from transduce.inference import glossary as placing
from transduce.inference.alignment import group_pieces
from transduce.inference.decode import (
    DecodeOptions,
    DecodeResult,
    Extras,
    Searcher,
    SentenceProgress,
)
from transduce.inference.engines.interface import Engine, NextPiece
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.inference.glossary import TermConstraint
from transduce.model.transformer import Transformer
from transduce.search.config import (
    UNCONSTRAINED,
    DecodingConstraints,
    Request,
    SamplingConfig,
    SearchConfig,
)

HOW = DecodeOptions(config=SearchConfig(beam=2, extra=30), batch_tokens=500)
LOOP = 'repetition ("Ball" ×5)'


@pytest.fixture
def torch_engine(untrained: Transformer, tokenizer: Tokenizer) -> TorchEngine:
    return TorchEngine(untrained, pad=tokenizer.pad, eos=EOS, device="cpu")


@pytest.fixture
def request_(tokenizer: Tokenizer) -> Request:
    return Request(tuple(tokenizer.encode("two children play")))


def searched(
    engines: Sequence[Engine],
    tokenizer: Tokenizer,
    request: Request,
    *,
    model: Transformer,
    how: DecodeOptions = HOW,
    terms: tuple[TermConstraint, ...] = (),
) -> DecodeResult:
    searcher = Searcher(engines, tokenizer, model=model)
    return searcher.search(
        {request}, how, terms={request: terms}, progress=SentenceProgress([[request]], None)
    )


def text(result: DecodeResult, request: Request, tokenizer: Tokenizer) -> str:
    return tokenizer.decode(result.hypotheses[request][0].ids)


def looping(tokenizer: Tokenizer, *, second: str) -> Scripted:
    """Says a loop, and something else where repetition is forbidden."""
    loop, other = tokenizer.encode("Ball " * 4 + "Ball"), tokenizer.encode(second)
    return Scripted(lambda request, constraints: [other if constraints.no_repeat == 3 else loop])


def test_a_loop_is_searched_again_without_repetition(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = looping(tokenizer, second="zwei Kinder")

    result = searched([engine], tokenizer, request_, model=untrained)

    assert text(result, request_, tokenizer) == "zwei Kinder"
    assert engine.constraints == [UNCONSTRAINED, DecodingConstraints(no_repeat=3)]
    assert (result.flags, result.retried) == ({request_: LOOP}, {request_})


def test_of_two_loops_the_first_is_kept_and_flagged(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = looping(tokenizer, second="Buch Buch Buch Buch Buch Buch")

    result = searched([engine], tokenizer, request_, model=untrained)

    assert text(result, request_, tokenizer) == "Ball Ball Ball Ball Ball"
    assert (result.flags, result.retried) == ({request_: LOOP}, set())


@pytest.mark.parametrize(("nats", "taken"), [(0.2, True), (0.3, False)])
def test_a_second_try_is_taken_unless_it_is_far_less_probable_per_piece(
    untrained: Transformer,
    tokenizer: Tokenizer,
    request_: Request,
    monkeypatch: pytest.MonkeyPatch,
    nats: float,
    taken: bool,
):
    engine = looping(tokenizer, second="zwei Kinder")
    log_probs = iter([-1.0, -1.0 - nats])
    monkeypatch.setattr(decode, "novel_log_prob", lambda ids, values: next(log_probs))

    result = searched([engine], tokenizer, request_, model=untrained)

    assert text(result, request_, tokenizer) == ("zwei Kinder" if taken else "Ball " * 4 + "Ball")
    assert (result.flags, result.retried) == ({request_: LOOP}, {request_} if taken else set())


def test_a_loop_is_scored_where_the_search_has_left_that_out(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request, monkeypatch: pytest.MonkeyPatch
):
    seen: list[tuple[Sequence[int], Sequence[float]]] = []
    monkeypatch.setattr(decode, "novel_log_prob", lambda *given: seen.append(given) or 0.0)
    how = replace(HOW, extras=Extras(token_scores=False))
    engine = looping(tokenizer, second="ein Buch")

    searched([engine], tokenizer, request_, model=untrained, how=how)

    (loop, loop_scores), (second, second_scores) = seen
    assert engine.scored == [tuple(loop[:-1])]
    assert loop_scores == (-0.5,) * len(loop)
    assert engine.token_scores == [False, True]
    assert len(second_scores) == len(second)


def test_a_loop_that_the_length_limit_has_cut_is_scored_but_for_its_last_piece(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request, monkeypatch: pytest.MonkeyPatch
):
    seen: list[tuple[Sequence[int], Sequence[float]]] = []
    monkeypatch.setattr(decode, "novel_log_prob", lambda *given: seen.append(given) or 0.0)
    how = replace(HOW, extras=Extras(token_scores=False))
    engine = looping(tokenizer, second="ein Buch")
    search = engine.search

    def cut(*given: Any, **named: Any) -> object:
        results = search(*given, **named)
        return [[replace(best, ids=best.ids[:-1], finished=False)] for (best,) in results]

    monkeypatch.setattr(engine, "search", cut)
    searched([engine], tokenizer, request_, model=untrained, how=how)

    (scored,) = engine.scored
    assert scored == tuple(tokenizer.encode("Ball " * 4 + "Ball")[:-1])
    assert seen[0] == (scored, (-0.5,) * len(scored))


def test_a_retry_that_loops_too_is_not_scored(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = looping(tokenizer, second="Buch Buch Buch Buch Buch Buch")
    how = replace(HOW, extras=Extras(token_scores=False))

    searched([engine], tokenizer, request_, model=untrained, how=how)

    assert engine.scored == []


def test_a_loop_is_left_alone_where_that_is_asked(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = looping(tokenizer, second="zwei Kinder")
    how = replace(HOW, extras=Extras(retry_loops=False))

    result = searched([engine], tokenizer, request_, model=untrained, how=how)

    assert len(engine.batches) == 1
    assert (result.flags, result.retried) == ({}, set())


def test_a_loop_in_spite_of_forbidden_repetition_is_flagged_and_not_searched_again(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = looping(tokenizer, second="zwei Kinder")
    how = replace(HOW, constraints=DecodingConstraints(no_repeat=2))

    result = searched([engine], tokenizer, request_, model=untrained, how=how)

    assert len(engine.batches) == 1
    assert (result.flags, result.retried) == ({request_: LOOP}, set())


def test_a_source_that_is_only_repetition_is_flagged_and_not_searched_again(
    untrained: Transformer, tokenizer: Tokenizer
):
    """16 kB of "AAAA" cost 8 seconds: no second search can mend their translation."""
    noise = Request(tuple(tokenizer.encode("ball " * 9)))
    loop = tokenizer.encode("Ball " * 40)
    engine = Scripted(lambda request, constraints: [loop])

    result = searched([engine], tokenizer, noise, model=untrained)

    assert len(engine.batches) == 1
    assert (list(result.flags), result.retried) == ([noise], set())


def test_a_loop_that_no_engine_can_mend_is_flagged_and_no_error(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engine = Scripted(
        constant(tokenizer, "Ball Ball Ball Ball Ball"),
        refuse=lambda constraints: "no-repeat" if constraints.no_repeat else "",
    )

    result = searched([engine], tokenizer, request_, model=untrained)

    assert text(result, request_, tokenizer) == "Ball Ball Ball Ball Ball"
    assert (result.flags, result.retried) == ({request_: LOOP}, set())


def test_what_is_searched_again_keeps_to_the_batches_of_the_engine_that_can(
    untrained: Transformer, tokenizer: Tokenizer
):
    loop, other = ids(tokenizer, "Ball Ball Ball Ball Ball"), ids(tokenizer, "ein Buch")
    quick = Scripted(
        lambda request, constraints: [loop],
        refuse=lambda constraints: "repeats" * bool(constraints.no_repeat),
    )
    quick.preferred_batches = 8
    slow = Scripted(lambda request, constraints: [other])
    requests = {Request((2, 3, item)) for item in range(4, 9)}
    how = replace(HOW, batch_tokens=2 * 2 * 4)  # two rows of beam 2, EOS counted

    result = Searcher([quick, slow], tokenizer, model=untrained).search(
        requests, how, terms={}, progress=SentenceProgress([[item] for item in requests], None)
    )

    assert [len(batch) for batch in quick.batches] == [5]
    assert [len(batch) for batch in slow.batches] == [2, 2, 1]
    assert result.retried == requests


def test_what_no_engine_can_do_is_refused_where_there_is_nothing_to_search(
    untrained: Transformer, tokenizer: Tokenizer
):
    engine = Scripted(constant(tokenizer, "Ball"), refuse=lambda constraints: "sampling")

    with pytest.raises(
        ValueError, match=r"^scripted does not support sampling; choose engine auto"
    ):
        Searcher([engine], tokenizer, model=untrained).search(
            set(), HOW, terms={}, progress=SentenceProgress([], None)
        )


def test_the_first_engine_that_can_is_asked(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    picky = Scripted(constant(tokenizer, "Buch"), refuse=lambda constraints: "anything")
    able, third = (Scripted(constant(tokenizer, item)) for item in ("Ball", "Milch"))

    result = searched([picky, able, third], tokenizer, request_, model=untrained)

    assert text(result, request_, tokenizer) == "Ball"
    assert (picky.batches, third.batches) == ([], [])


def test_what_no_engine_can_do_is_refused_by_name(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    engines = [
        Scripted(constant(tokenizer, "Ball"), name=name, refuse=lambda constraints: "sampling")
        for name in ("one", "other")
    ]

    with pytest.raises(
        ValueError, match=r"^one does not support sampling; other does not support "
    ):
        searched(engines, tokenizer, request_, model=untrained)


def test_what_torch_alone_can_do_is_refused_where_it_was_left_out(
    untrained: Transformer, tokenizer: Tokenizer
):
    searcher = Searcher([Scripted(constant(tokenizer, "x"))], tokenizer, model=untrained)

    with pytest.raises(ValueError, match=r"^a score needs the torch engine: choose engine auto or"):
        searcher.scoring_engine("a score")


def test_the_hypothesis_that_the_others_agree_with_comes_first(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request
):
    texts = ("Milch am Fluss", "zwei Kinder spielen", "zwei Kinder spielen")
    how = replace(HOW, extras=Extras(mbr=True))

    result = searched(
        [Scripted(constant(tokenizer, *texts))], tokenizer, request_, model=untrained, how=how
    )

    assert text(result, request_, tokenizer) == "zwei Kinder spielen"
    assert len(result.hypotheses[request_]) == 3


@pytest.mark.parametrize(
    ("constraints", "best"),
    [
        (UNCONSTRAINED, "Milch am Fluss"),
        (DecodingConstraints(sampling=SamplingConfig()), "ein Buch"),
    ],
)
def test_draws_weigh_alike_and_hypotheses_of_a_beam_by_their_probability(
    untrained: Transformer,
    tokenizer: Tokenizer,
    request_: Request,
    constraints: DecodingConstraints,
    best: str,
):
    engine = Scripted(constant(tokenizer, "Milch am Fluss", "ein Buch", "ein Buch"), gap=5.0)
    how = replace(HOW, constraints=constraints, extras=Extras(mbr=True))

    result = searched([engine], tokenizer, request_, model=untrained, how=how)

    assert text(result, request_, tokenizer) == best


Looks = Callable[[dict[str, int]], None]


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> Looks:
    """Let words of a translation look at one place of the source each, all others at EOS."""

    def set_looks(words: dict[str, int]) -> None:
        def attention(
            model: Transformer, source: Sequence[int], target: Sequence[int]
        ) -> np.ndarray:
            pieces = tokenizer.pieces(target)
            places = np.full(len(target), len(source) - 1)
            for word in group_pieces(pieces):
                spelt = "".join(pieces[place] for place in word).strip("▁")
                places[list(word)] = words.get(spelt, len(source) - 1)
            return np.eye(len(source))[places][None, None]

        monkeypatch.setattr(placing, "cross_attention", attention)

    return set_looks


def ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text))


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A searcher whose engine goes on behind each prefix with what is written for it."""

    searcher: Searcher
    engine: Scripted
    request: Request
    tokenizer: Tokenizer

    def search(self, *terms: tuple[int, str], how: DecodeOptions = HOW) -> DecodeResult:
        """Search with terms, each with its place in the source."""
        wanted = tuple(TermConstraint((place,), ids(self.tokenizer, item)) for place, item in terms)
        tell = SentenceProgress([[self.request]], None)
        return self.searcher.search(
            {self.request}, how, terms={self.request: wanted}, progress=tell
        )

    def prefixes(self) -> list[str]:
        """What each search had to begin with."""
        return [self.tokenizer.decode(item.prefix) for (item,) in self.engine.batches]

    def translation(self, result: DecodeResult) -> str:
        return text(result, self.request, self.tokenizer)


MakeScene = Callable[[dict[str, tuple[int, ...]]], Scene]


@pytest.fixture
def scene(
    untrained: Transformer, tokenizer: Tokenizer, request_: Request, torch_engine: TorchEngine
) -> MakeScene:
    def make(behind: dict[str, tuple[int, ...]]) -> Scene:
        engine = Scripted(lambda request, constraints: [behind[tokenizer.decode(request.prefix)]])
        searcher = Searcher([engine, torch_engine], tokenizer, model=untrained)
        return Scene(searcher=searcher, engine=engine, request=request_, tokenizer=tokenizer)

    return make


def test_a_term_that_is_said_already_costs_no_second_search(scene: MakeScene, tokenizer: Tokenizer):
    example = scene({"": ids(tokenizer, "ein roter Ball am Fluss")})

    example.search((0, "Ball"))

    assert example.prefixes() == [""]


def test_a_term_goes_where_the_model_looks_at_its_source_and_the_search_goes_on_from_it(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks
):
    looks({"Markt": 2})
    example = scene(
        {
            "": ids(tokenizer, "ein Buch auf dem Markt und Milch"),
            "ein Buch auf dem Ball": ids(tokenizer, "im Garten"),
        }
    )

    result = example.search((2, "Ball"))

    assert example.prefixes() == ["", "ein Buch auf dem Ball"]
    assert example.translation(result) == "ein Buch auf dem Ball im Garten"


def test_several_terms_are_placed_from_left_to_right(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks
):
    looks({"Buch": 5, "Markt": 2, "Fluss": 2})
    example = scene(
        {
            "": ids(tokenizer, "ein Buch auf dem Markt"),
            "ein Haus": ids(tokenizer, "am Fluss"),
            "ein Haus am Ball": (),
        }
    )

    result = example.search((2, "Ball"), (5, "Haus"))

    assert example.prefixes() == ["", "ein Haus", "ein Haus am Ball"]
    assert example.translation(result) == "ein Haus am Ball"


def test_a_term_that_would_not_fit_is_left(scene: MakeScene, tokenizer: Tokenizer, looks: Looks):
    looks({"Markt": 2})
    actual = ids(tokenizer, "ein Buch auf dem Markt")
    example = scene({"": actual})
    fits = len(ids(tokenizer, "ein Buch auf dem")) + len(ids(tokenizer, "Haus"))
    how = replace(HOW, constraints=DecodingConstraints(max_length=fits))

    result = example.search((2, "Haus"), how=how)

    assert example.prefixes() == [""]
    assert example.translation(result) == "ein Buch auf dem Markt"


def test_a_term_fits_if_eos_has_room_behind_it(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks
):
    looks({"Markt": 2})
    example = scene({"": ids(tokenizer, "ein Buch auf dem Markt"), "ein Buch auf dem Haus": ()})
    fits = len(ids(tokenizer, "ein Buch auf dem")) + len(ids(tokenizer, "Haus")) + 1
    how = replace(HOW, constraints=DecodingConstraints(max_length=fits))

    result = example.search((2, "Haus"), how=how)

    assert example.translation(result) == "ein Buch auf dem Haus"


def longer(scene: MakeScene, tokenizer: Tokenizer) -> Scene:
    """The model would make "Ball" a longer word, whatever is before it."""
    e = ids(tokenizer, "Balle")[-1:]
    und = ids(tokenizer, "und")
    return scene(
        {
            "": ids(tokenizer, "ein Buch"),
            "ein Ball": e,
            f"ein Ball {tokenizer.decode(und[:1])}": und[1:],
        }
    )


def likely(monkeypatch: pytest.MonkeyPatch, *ids_: int) -> None:
    """Let these be the likeliest next pieces."""
    result = [NextPiece(item, -1.0 - rank) for rank, item in enumerate(ids_)]
    monkeypatch.setattr(TorchEngine, "next_pieces", lambda self, request, k: result)


def test_a_term_that_became_a_longer_word_is_closed_by_the_likeliest_other_piece(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks, monkeypatch: pytest.MonkeyPatch
):
    looks({"Buch": 2})
    example = longer(scene, tokenizer)
    likely(monkeypatch, ids(tokenizer, "Balle")[-1], ids(tokenizer, "und")[0], EOS)

    result = example.search((2, "Ball"))

    assert example.prefixes() == ["", "ein Ball", "ein Ball u"]
    assert example.translation(result) == "ein Ball und"


def test_a_term_is_closed_by_the_translations_end_where_that_is_likeliest(
    scene: MakeScene,
    tokenizer: Tokenizer,
    looks: Looks,
    monkeypatch: pytest.MonkeyPatch,
    torch_engine: TorchEngine,
):
    looks({"Buch": 2})
    example = longer(scene, tokenizer)
    likely(monkeypatch, ids(tokenizer, "Balle")[-1], EOS, ids(tokenizer, "und")[0])

    result = example.search((2, "Ball"))

    (only,) = result.hypotheses[example.request]
    assert example.prefixes() == ["", "ein Ball"]
    assert only.ids == (*ids(tokenizer, "ein Ball"), EOS)
    assert only.log_probs == torch_engine.score([(example.request.source, only.ids[:-1])])[0]


def test_a_term_is_closed_by_the_end_where_nothing_else_has_room(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks, monkeypatch: pytest.MonkeyPatch
):
    looks({"Buch": 2})
    example = longer(scene, tokenizer)
    likely(monkeypatch, ids(tokenizer, "und")[0])
    how = replace(
        HOW, constraints=DecodingConstraints(max_length=len(ids(tokenizer, "ein Ball")) + 1)
    )

    result = example.search((2, "Ball"), how=how)

    assert example.translation(result) == "ein Ball"


def test_an_end_that_comes_too_early_closes_no_term(
    scene: MakeScene, tokenizer: Tokenizer, looks: Looks, monkeypatch: pytest.MonkeyPatch
):
    looks({"Buch": 2})
    example = longer(scene, tokenizer)
    likely(monkeypatch, EOS, ids(tokenizer, "und")[0])

    result = example.search(
        (2, "Ball"), how=replace(HOW, constraints=DecodingConstraints(min_length=5))
    )

    assert example.translation(result) == "ein Ball und"


def test_a_loop_behind_a_term_is_searched_again_behind_it(
    tokenizer: Tokenizer,
    request_: Request,
    looks: Looks,
    untrained: Transformer,
    torch_engine: TorchEngine,
):
    looks({"Buch": 2})

    def say(request: Request, constraints: DecodingConstraints) -> list[tuple[int, ...]]:
        if not request.prefix:
            return [ids(tokenizer, "ein Buch")]
        return [ids(tokenizer, "im Garten" if constraints.no_repeat else "und und und und und")]

    engine = Scripted(say)
    searcher = Searcher([engine, torch_engine], tokenizer, model=untrained)
    example = Scene(searcher=searcher, engine=engine, request=request_, tokenizer=tokenizer)

    result = example.search((2, "Ball"))

    assert example.prefixes() == ["", "ein Ball", "ein Ball"]
    assert example.translation(result) == "ein Ball im Garten"
    assert result.flags == {request_: 'repetition ("und" ×5)'}
    assert result.retried == {request_}


def test_the_translation_that_is_agreed_on_says_the_terms(
    tokenizer: Tokenizer,
    request_: Request,
    looks: Looks,
    untrained: Transformer,
    torch_engine: TorchEngine,
):
    looks({"Buch": 2})

    def say(request: Request, constraints: DecodingConstraints) -> list[tuple[int, ...]]:
        texts = ["im Garten"] if request.prefix else ["ein Ball", "ein Buch", "ein Buch"]
        return [ids(tokenizer, item) for item in texts]

    engine = Scripted(say)
    searcher = Searcher([engine, torch_engine], tokenizer, model=untrained)
    example = Scene(searcher=searcher, engine=engine, request=request_, tokenizer=tokenizer)

    result = example.search((2, "Ball"), how=replace(HOW, extras=Extras(mbr=True)))

    assert example.translation(result) == "ein Ball im Garten"
