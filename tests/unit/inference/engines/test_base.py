"""The quick engine is taken where it can be, and a line says so, or why not."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from transduce.bundle.bundle import Bundle
from transduce.inference.engines import base as choosing
from transduce.inference.engines import ct2_model, native_engine
from transduce.inference.engines.base import EngineName, select_engines
from transduce.inference.engines.ct2_engine import Ct2Engine
from transduce.inference.engines.ct2_model import Cache
from transduce.inference.engines.ct2_runtime import Plan
from transduce.inference.engines.native_library import load_search
from transduce.io.compiler import Compiled
from transduce.model.transformer import Transformer
from transduce.search.config import Request, SearchConfig

LIBRARY, REASON = load_search()
needs_native = pytest.mark.skipif(LIBRARY is None, reason=f"no native engine: {REASON}")

REQUEST, CONFIG = Request(source=(5, 7, 6)), SearchConfig(beam=2)


@pytest.fixture
def odd(bundle: Bundle) -> Bundle:
    """A bundle that CTranslate2 does not support."""
    return replace(bundle, model=Transformer(replace(bundle.model.config, d_v=7)))


@pytest.fixture
def even(bundle: Bundle) -> Bundle:
    """A bundle that the native engine supports."""
    widths = {"d_model": 32, "d_ff": 32, "d_k": 16, "d_v": 16}
    return replace(bundle, model=Transformer(replace(bundle.model.config, **widths)))


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without g++."""
    for module in (choosing, native_engine):
        monkeypatch.setattr(module, "load_search", lambda: Compiled(None, "g++ is not installed"))


def names(choice: choosing.EngineSelection) -> list[str]:
    fallback = [choice.fallback()] if choice.fallback else []
    return [engine.name for engine in (*choice.engines, *fallback)]


@needs_native
def test_the_native_engine_comes_first_and_torch_takes_what_it_refuses(even: Bundle, cache: Cache):
    choice = select_engines(even, cache=cache)

    assert names(choice) == ["native", "torch"]
    assert choice.description == "engine: native float32"
    assert names(select_engines(even, engine="native", cache=cache)) == ["native"]
    assert list(cache.root.iterdir()) == []


@needs_native
@pytest.mark.parametrize("compute_type", ["int8", "auto"])
def test_the_native_engine_computes_in_int8_where_the_processor_does(
    even: Bundle, cache: Cache, compute_type: str
):
    choice = select_engines(even, compute_type=compute_type, cache=cache)

    has_int8 = LIBRARY is not None and LIBRARY.int8_instructions()
    assert choice.description.startswith(f"engine: {'native int8' if has_int8 else 'ctranslate2'}")


@needs_native
@pytest.mark.parametrize(
    ("engine", "has_ctranslate2", "description"),
    [
        ("native", True, "engine: native float32"),
        ("auto", False, "engine: native float32"),
        ("auto", True, "engine: ctranslate2 "),
    ],
)
def test_the_faster_format_is_float32_where_the_processor_has_no_int8(
    engine: EngineName,
    has_ctranslate2: bool,
    description: str,
    even: Bundle,
    cache: Cache,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(LIBRARY, "int8_instructions", lambda: b"")
    if not has_ctranslate2:
        monkeypatch.setattr(choosing, "find_spec", lambda name: None)

    choice = select_engines(even, engine=engine, compute_type="auto", cache=cache)

    assert choice.description.startswith(description)
    with pytest.raises(ValueError, match="int8 needs a processor with VNNI, or with AVX2"):
        select_engines(even, engine="native", compute_type="int8", cache=cache)


def test_the_faster_format_is_torchs_where_no_fast_engine_supports_the_model(
    odd: Bundle, cache: Cache
):
    choice = select_engines(odd, compute_type="auto", cache=cache)

    assert names(choice) == ["torch"]
    assert "CTranslate2 does not support d_k 11" in choice.description


@pytest.mark.parametrize("engine", ["auto", "native", "ctranslate2"])
def test_a_shortlist_for_separate_vocabularies_is_an_error(
    engine: EngineName, even: Bundle, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(type(even.tokenizer), "shared", False)

    with pytest.raises(ValueError, match="a shortlist needs a vocabulary of both sides: leave"):
        select_engines(even, engine=engine, shortlist=Path("vmap.txt"))


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_the_line_says_so(even: Bundle, cache: Cache):
    choice = select_engines(even, cache=cache)

    assert names(choice) == ["ctranslate2", "torch"]
    assert choice.description == (
        "engine: ctranslate2 float32, 1 worker x 1 thread (not native: g++ is not installed)"
    )
    with pytest.raises(ValueError, match=r"native engine is not available: g\+\+ is not installed"):
        select_engines(even, engine="native", cache=cache)


@needs_native
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"device": "cuda"}, "the device is cuda"),
        ({"compute_type": "bfloat16"}, "does not compute in bfloat16"),
        ({"plan": Plan("float32", 1, 1)}, "no plans"),
    ],
)
def test_what_the_native_engine_does_not_do_is_an_error_by_name(
    even: Bundle, options: dict[str, Any], reason: str
):
    with pytest.raises(ValueError, match=reason):
        select_engines(even, engine="native", **options)


@needs_native
def test_a_shape_without_native_kernels_is_an_error_by_name(bundle: Bundle):
    with pytest.raises(ValueError, match=r"not available: .*d_model 22, which is no multiple of"):
        select_engines(bundle, engine="native")


def test_an_engine_that_does_not_exist_is_an_error(bundle: Bundle):
    with pytest.raises(ValueError, match="'tpu': choose auto, native, ctranslate2, torch or numpy"):
        select_engines(bundle, engine="tpu")  # type: ignore[arg-type]


def test_a_plan_is_of_ctranslate2(even: Bundle, cache: Cache):
    choice = select_engines(even, plan=Plan("float32", 1, 2), cache=cache)

    assert names(choice) == ["ctranslate2", "torch"]


def test_the_quick_engine_comes_first_and_torch_takes_what_it_refuses(bundle: Bundle, cache: Cache):
    choice = select_engines(bundle, cache=cache)

    assert names(choice) == ["ctranslate2", "torch"]
    assert choice.description == "engine: ctranslate2 float32, 1 worker x 1 thread"


def test_what_the_quick_engine_cannot_express_torch_translates(odd: Bundle, cache: Cache):
    choice = select_engines(odd, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.description == (
        "engine: torch (CTranslate2 does not support d_k 11 and d_v 7 other than d_model / heads)"
    )


def test_restricted_self_attention_is_torchs(bundle: Bundle, cache: Cache):
    near = replace(bundle, model=Transformer(replace(bundle.model.config, radius=2)))

    choice = select_engines(near, cache=cache)

    assert names(choice) == ["torch"]
    assert "CTranslate2 does not support model.radius 2" in choice.description


def test_where_the_quick_engine_is_missing_the_line_says_what_to_install(
    bundle: Bundle, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(choosing, "find_spec", lambda name: None)

    choice = select_engines(bundle, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.description == (
        "engine: torch (CTranslate2 is not installed: pip install ctranslate2)"
    )


def test_where_the_quick_engine_cannot_be_imported_the_line_says_why(
    bundle: Bundle, cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    def fail(name: str) -> None:
        raise ImportError("libgomp.so.1 is missing")

    monkeypatch.setattr(ct2_model, "import_module", fail)

    choice = select_engines(bundle, cache=cache)

    assert names(choice) == ["torch"]
    assert "torch (CTranslate2 cannot be used here (libgomp.so.1 is missing)" in choice.description
    with pytest.raises(ValueError, match=r"libgomp.* choose engine auto or torch"):
        select_engines(bundle, engine="ctranslate2", cache=cache)


def test_other_devices_are_torchs(bundle: Bundle, cache: Cache):
    choice = select_engines(bundle, device="cuda:1", cache=cache)

    assert names(choice) == ["torch"]
    assert choice.description == "engine: torch (the device is cuda:1)"
    with pytest.raises(ValueError, match="the device is cuda; leave out compute type, workers"):
        select_engines(bundle, device="cuda", compute_type="bfloat16", cache=cache)


@pytest.mark.parametrize("error", [OSError("no space left"), RuntimeError("no space left\nat all")])
def test_a_quick_engine_that_fails_gives_way(
    bundle: Bundle, cache: Cache, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Ct2Engine, "__init__", fail)

    choice = select_engines(bundle, cache=cache)

    assert names(choice) == ["torch"]
    assert choice.description == "engine: torch (CTranslate2 failed: no space left)"
    with pytest.raises(ValueError, match="no space left"):
        select_engines(bundle, engine="ctranslate2", cache=cache)


def test_an_engine_that_is_named_is_taken_alone(bundle: Bundle, cache: Cache):
    assert names(select_engines(bundle, engine="torch", cache=cache)) == ["torch"]
    assert names(select_engines(bundle, engine="ctranslate2", cache=cache)) == ["ctranslate2"]


def test_torch_is_taken_without_touching_the_cache(bundle: Bundle, cache: Cache):
    assert select_engines(bundle, engine="torch", cache=cache).description == "engine: torch"

    assert list(cache.root.iterdir()) == []


def test_the_quick_engine_by_name_is_an_error_where_it_cannot_be(odd: Bundle, cache: Cache):
    with pytest.raises(ValueError, match=r"is not available: .*does not support d_k 11"):
        select_engines(odd, engine="ctranslate2", cache=cache)


def test_the_kind_of_numbers_can_be_asked_for(bundle: Bundle, cache: Cache):
    choice = select_engines(bundle, compute_type="int8", cache=cache)

    assert choice.description == "engine: ctranslate2 int8, 1 worker x 1 thread"


def test_a_plan_can_be_asked_for(bundle: Bundle, cache: Cache):
    choice = select_engines(bundle, plan=Plan("float32", 3, 2), cache=cache)

    assert choice.description == "engine: ctranslate2 float32, 3 workers x 2 threads"


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_torch_does_not_quietly_stand_in_for_a_kind_of_numbers(odd: Bundle, engine: str):
    with pytest.raises(ValueError, match=r"does not support|not 'int8'"):
        select_engines(odd, engine=engine, compute_type="int8")  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["torch", "numpy"])
@pytest.mark.parametrize("options", [{"plan": Plan("float32", 1, 1)}, {"shortlist": Path("vmap")}])
def test_only_the_quick_engine_has_plans_and_shortlists(
    bundle: Bundle, engine: EngineName, options: dict[str, Any]
):
    with pytest.raises(ValueError, match=f"the {engine} engine has no plans or shortlists"):
        select_engines(bundle, engine=engine, **options)


@pytest.mark.parametrize("options", [{"compute_type": "int8"}, {"device": "cuda"}])
def test_numpy_computes_in_single_precision_on_the_cpu(bundle: Bundle, options: dict[str, Any]):
    with pytest.raises(ValueError, match="numpy engine computes in float32 on the CPU"):
        select_engines(bundle, engine="numpy", **options)


def test_torch_can_be_asked_to_compute_in_bfloat16_and_says_so(bundle: Bundle):
    before = {name: weight.clone() for name, weight in bundle.model.state_dict().items()}

    choice = select_engines(bundle, engine="torch", compute_type="bfloat16")

    assert choice.description == "engine: torch, bfloat16"
    ((best, *_),) = choice.engines[0].search([REQUEST], CONFIG)
    ((exact, *_),) = select_engines(bundle, engine="torch").engines[0].search([REQUEST], CONFIG)
    assert best.log_prob != exact.log_prob
    assert abs(best.log_prob - exact.log_prob) < 0.05 * abs(exact.log_prob)
    assert all(before[name].equal(weight) for name, weight in bundle.model.state_dict().items())
