"""A shortlist restricts what is said; where there is none, nothing changes."""

from pathlib import Path

import pytest

from transduce.bundle.bundle import Bundle
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.base import select_engines
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import VMAP, Cache, Shortlist, read_shortlist, vocabulary
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.search.config import UNCONSTRAINED, DecodingConstraints, Request, SearchConfig

ONE, OTHER = Request((5, 7, 11)), Request((13, 2, 3, 17))
SHORT = Shortlist(
    always=(0, 1, *range(20, 31)), by_source={5: (40, 41), 7: (43,), 13: (53, 59), 3: (61,)}
)


@pytest.fixture
def pieces(tokenizer: Tokenizer) -> list[str]:
    return vocabulary(tokenizer)


@pytest.fixture
def file(tmp_path: Path, pieces: list[str]) -> Path:
    (tmp_path / "list").write_text(SHORT.to_text(pieces))
    return tmp_path / "list"


def generated_ids(engine: Ct2Engine | TorchEngine, *requests: Request) -> set[int]:
    result = engine.search(list(requests), SearchConfig(beam=3))
    return {item for best in result for hypothesis in best for item in hypothesis.ids}


@pytest.mark.parametrize("request_", [ONE, OTHER])
def test_only_what_the_source_allows_is_said(bundle: Bundle, cache: Cache, request_: Request):
    engine = Ct2Engine(bundle, shortlist=SHORT, cache=cache)

    assert generated_ids(engine, request_) <= SHORT.allowed(request_.source)


def test_without_it_more_is_said(bundle: Bundle, cache: Cache):
    engine = Ct2Engine(bundle, cache=cache)

    assert not generated_ids(engine, ONE) <= SHORT.allowed(ONE.source)


def test_a_model_in_the_cache_with_a_shortlist_is_another_one(bundle: Bundle, cache: Cache):
    exact = TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=0, device="cpu")
    Ct2Engine(bundle, shortlist=SHORT, cache=cache)

    engine = Ct2Engine(bundle, cache=cache)

    assert generated_ids(engine, ONE, OTHER) == generated_ids(exact, ONE, OTHER)
    assert len(list(cache.root.glob(f"ct2-*/{VMAP}"))) == 1


def test_a_list_of_everything_changes_nothing(bundle: Bundle, cache: Cache):
    every = Shortlist(always=tuple(range(bundle.tokenizer.pad)), by_source={})

    engine = Ct2Engine(bundle, shortlist=every, cache=cache)

    assert generated_ids(engine, ONE, OTHER) == generated_ids(
        Ct2Engine(bundle, cache=cache), ONE, OTHER
    )


def test_pieces_keep_the_probability_that_the_whole_model_gives_them(bundle: Bundle, cache: Cache):
    engine = Ct2Engine(bundle, shortlist=SHORT, cache=cache)
    exact = TorchEngine(bundle.model, pad=bundle.tokenizer.pad, eos=0, device="cpu")

    ((best, *_),) = engine.search([ONE], SearchConfig(beam=3))

    ((*all_of_them, _),) = exact.score([(ONE.source, best.ids[:-1])])
    assert best.log_probs[:-1] == pytest.approx(all_of_them, abs=1e-4)
    assert best.log_prob > sum(best.log_probs)


@pytest.mark.parametrize("beam", [1, 3])
def test_what_was_searched_before_makes_no_difference(bundle: Bundle, cache: Cache, beam: int):
    """CTranslate2 remembers numbers of an earlier batch: PAD's was beyond the next one's end."""
    config, requests = SearchConfig(beam=beam), [ONE, OTHER, Request((9,)), ONE, OTHER]
    alone = [Ct2Engine(bundle, shortlist=SHORT, cache=cache) for _ in requests]
    engine = Ct2Engine(bundle, shortlist=SHORT, cache=cache)

    result = [engine.search([request], config) for request in requests]

    assert result == [
        fresh.search([request], config) for fresh, request in zip(alone, requests, strict=True)
    ]


@pytest.mark.parametrize(
    ("request_", "constraints"),
    [(ONE._replace(prefix=(20,)), UNCONSTRAINED), (ONE, DecodingConstraints(no_repeat=2))],
)
def test_what_counts_on_those_numbers_is_refused(
    bundle: Bundle, cache: Cache, request_: Request, constraints: DecodingConstraints
):
    engine = Ct2Engine(bundle, shortlist=SHORT, cache=cache)

    assert "with a shortlist" in engine.unsupported_reason(
        [request_], SearchConfig(beam=1), constraints
    )


def test_a_beam_wider_than_the_list_is_refused(bundle: Bundle, cache: Cache):
    engine = Ct2Engine(bundle, shortlist=Shortlist(always=(0, 1, 7, 8), by_source={}), cache=cache)

    assert "a beam of 4" in engine.unsupported_reason([ONE], SearchConfig(beam=4), UNCONSTRAINED)


def test_what_is_written_is_read(file: Path, pieces: list[str]):
    assert read_shortlist(file, pieces) == SHORT


def test_the_line_says_that_there_is_one(bundle: Bundle, cache: Cache, file: Path):
    choice = select_engines(bundle, shortlist=file, cache=cache)

    assert choice.description.endswith(", shortlist")
    assert isinstance(choice.engines[0], Ct2Engine)
    assert generated_ids(choice.engines[0], ONE) <= SHORT.allowed(ONE.source)


def test_torch_has_none(bundle: Bundle, file: Path):
    with pytest.raises(ValueError, match="shortlists: choose ctranslate2"):
        select_engines(bundle, engine="torch", shortlist=file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\xff\t\n", "not UTF-8"),
        (b"no tab\n", "line 1 has no tab"),
        (b"\t</s> <unk>\nzzzz\t</s>\n", "line 2: the model has no piece 'zzzz'"),
        (b"", "always allowed"),
    ],
)
def test_what_is_no_shortlist_is_refused(
    tmp_path: Path, pieces: list[str], text: bytes, message: str
):
    (tmp_path / "odd").write_bytes(text)

    with pytest.raises(ValueError, match=message):
        read_shortlist(tmp_path / "odd", pieces)


def test_batches_with_a_shortlist_are_small(bundle: Bundle, cache: Cache, batch_sizes: list[int]):
    engine = Ct2Engine(bundle, shortlist=SHORT, cache=cache)

    engine.search([ONE] * 100, SearchConfig(beam=1, extra=1))

    assert max(batch_sizes) == 24
