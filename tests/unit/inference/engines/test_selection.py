"""The quick engine is taken where it can be, and a line says so, or why not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce.bundle.bundle import Bundle
from transduce.inference.engines import selection as choosing
from transduce.inference.engines.cache import Cache
from transduce.inference.engines.ct2_calls import Plan
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.selection import choose
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig

REQUEST, CONFIG = Request(source=(5, 7, 6)), SearchConfig(beam=2)


@pytest.fixture
def odd(bundle: Bundle) -> Bundle:
    """A bundle that CTranslate2 cannot express."""
    return replace(bundle, model=Transformer(replace(bundle.model.config, d_v=7)))


def names(choice: choosing.Choice) -> list[str]:
    return [engine.name for engine in choice.engines]


def test_the_quick_engine_comes_first_and_torch_takes_what_it_refuses(bundle: Bundle, cache: Cache):
    choice = choose(bundle, cache=cache)

    assert names(choice) == ["ctranslate2", "torch"]
    assert choice.line == "engine: ctranslate2 float32, 1 worker x 1 thread"


def test_what_the_quick_engine_cannot_express_torch_translates(odd: Bundle, cache: Cache):
    choice = choose(odd, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.line == (
        "engine: torch, as CTranslate2 cannot express d_k 11 and d_v 7 that are not d_model / heads"
    )


def test_restricted_self_attention_is_torchs(bundle: Bundle, cache: Cache):
    near = replace(bundle, model=Transformer(replace(bundle.model.config, radius=2)))

    choice = choose(near, cache=cache)

    assert names(choice) == ["torch"]
    assert "CTranslate2 cannot express model.radius 2" in choice.line


def test_where_the_quick_engine_is_missing_the_line_says_what_to_install(
    bundle: Bundle, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(choosing, "find_spec", lambda name: None)

    choice = choose(bundle, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.line == (
        "engine: torch, as CTranslate2 is not installed: pip install ctranslate2"
    )


def test_other_devices_are_torchs(bundle: Bundle, cache: Cache):
    choice = choose(bundle, device="cuda:1", cache=cache)

    assert names(choice) == ["torch"]
    assert choice.line == "engine: torch, as the device is cuda:1"


@pytest.mark.parametrize("error", [OSError("no space left"), RuntimeError("no space left\nat all")])
def test_a_quick_engine_that_fails_gives_way(
    bundle: Bundle, cache: Cache, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Ct2Engine, "of", fail)

    choice = choose(bundle, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.line == "engine: torch, as CTranslate2 failed: no space left"
    with pytest.raises(ValueError, match="no space left"):
        choose(bundle, engine="ctranslate2", cache=cache)


def test_an_engine_that_is_named_is_taken_alone(bundle: Bundle, cache: Cache):
    assert names(choose(bundle, engine="torch", cache=cache)) == ["torch"]
    assert names(choose(bundle, engine="ctranslate2", cache=cache)) == ["ctranslate2"]


def test_torch_is_taken_without_touching_the_cache(bundle: Bundle, cache: Cache):
    assert choose(bundle, engine="torch", cache=cache).line == "engine: torch"

    assert list(cache.root.iterdir()) == []


def test_the_quick_engine_by_name_is_an_error_where_it_cannot_be(odd: Bundle, cache: Cache):
    with pytest.raises(ValueError, match=r"cannot translate here: .*cannot express d_k 11"):
        choose(odd, engine="ctranslate2", cache=cache)


def test_the_kind_of_numbers_can_be_asked_for(bundle: Bundle, cache: Cache):
    choice = choose(bundle, compute_type="int8", cache=cache)

    assert choice.line == "engine: ctranslate2 int8, 1 worker x 1 thread"


def test_a_plan_can_be_asked_for(bundle: Bundle, cache: Cache):
    choice = choose(bundle, plan=Plan("float32", 3, 2), cache=cache)

    assert choice.line == "engine: ctranslate2 float32, 3 workers x 2 threads"


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_torch_does_not_quietly_stand_in_for_a_kind_of_numbers(odd: Bundle, engine: str):
    with pytest.raises(ValueError, match=r"cannot express|not in 'int8'"):
        choose(odd, engine=engine, compute_type="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", [{"plan": Plan("float32", 1, 1)}, {"shortlist": Path("vmap")}])
def test_torch_has_no_plans_or_shortlists(bundle: Bundle, asked: dict[str, Any]):
    with pytest.raises(ValueError, match="no plans or shortlists"):
        choose(bundle, engine="torch", **asked)


def test_torch_can_be_asked_to_compute_in_bfloat16_and_says_so(bundle: Bundle):
    before = {name: weight.clone() for name, weight in bundle.model.state_dict().items()}

    choice = choose(bundle, engine="torch", compute_type="bfloat16")

    assert choice.line == "engine: torch, bfloat16"
    ((best, *_),) = choice.engines[0].search([REQUEST], CONFIG)
    ((exact, *_),) = choose(bundle, engine="torch").engines[0].search([REQUEST], CONFIG)
    assert best.log_prob != exact.log_prob
    assert abs(best.log_prob - exact.log_prob) < 0.05 * abs(exact.log_prob)
    assert all(before[name].equal(weight) for name, weight in bundle.model.state_dict().items())
