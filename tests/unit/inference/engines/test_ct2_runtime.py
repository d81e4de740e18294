"""How CTranslate2 computes is measured once, and remembered."""

import shutil
import time
from pathlib import Path

import pytest

from transduce.bundle.bundle import Bundle
from transduce.inference.engines import ct2_runtime as planning
from transduce.inference.engines.ct2_model import Cache, vocabulary, write_ctranslate2
from transduce.inference.engines.ct2_runtime import (
    Plan,
    Plans,
    available_threads,
    fastest,
    load_or_measure_plans,
    resolve_compute_types,
)

ONE = Plan("float32", 1, 1)
LATER = Plan("float32", 1, 2)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "available_threads", lambda: 2)


@pytest.fixture
def pieces(bundle: Bundle) -> list[str]:
    return vocabulary(bundle.tokenizer)


@pytest.fixture
def folder(bundle: Bundle, tmp_path: Path) -> Path:
    write_ctranslate2(bundle, tmp_path / "converted")
    return tmp_path / "converted"


def test_omp_num_threads_bounds_the_cores(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    assert available_threads() == 1


@pytest.mark.parametrize("setting", ["", "0", "many", "1000"])
def test_omp_num_threads_gives_no_core_that_is_not_there(
    setting: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OMP_NUM_THREADS")
    free = available_threads()

    monkeypatch.setenv("OMP_NUM_THREADS", setting)

    assert available_threads() == free


def test_where_there_is_nothing_to_choose_nothing_is_tried(cache: Cache):
    plans = load_or_measure_plans({"int8": Path("nowhere")}, [], device="cpu", cache=cache)

    assert plans == Plans(Plan("int8", 1, 1), Plan("int8", 1, 1))


@pytest.mark.usefixtures("two_cores")
def test_on_another_device_nothing_is_tried(cache: Cache):
    plans = load_or_measure_plans({"float16": Path("nowhere")}, [], device="cuda", cache=cache)

    assert plans == Plans(Plan("float16", 1, 1), Plan("float16", 1, 1))


@pytest.mark.usefixtures("two_cores")
def test_plans_are_measured_quickly_and_use_the_cores(
    folder: Path, pieces: list[str], cache: Cache
):
    begun = time.process_time()

    plans = load_or_measure_plans(
        {"float32": folder, "int8": folder}, pieces, device="cpu", cache=cache
    )

    assert time.process_time() - begun < 2.0
    assert plans.throughput.workers * plans.throughput.threads == 2
    assert plans.latency.compute_type == plans.throughput.compute_type


@pytest.mark.usefixtures("two_cores")
def test_plans_are_remembered(folder: Path, pieces: list[str], cache: Cache):
    plans = load_or_measure_plans({"float32": folder}, pieces, device="cpu", cache=cache)
    shutil.rmtree(folder)

    again = load_or_measure_plans(
        {"float32": folder}, pieces, device="cpu", cache=Cache(cache.root)
    )

    assert again == plans


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{}",
        "[[1]]",
        '[["float32", 1, 1]]',
        '[["float32", 0, 1], ["float32", 1, 1]]',
        '[["int8", 1, 1], ["int8", 1, 1]]',
        '[["float32", true, 1], ["float32", 1, 1]]',
    ],
)
def test_a_memory_that_makes_no_sense_is_measured_again(
    damage: str, folder: Path, pieces: list[str], cache: Cache, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(planning, "TIME_BUDGET", 0.0)
    load_or_measure_plans({"float32": folder}, pieces, device="cpu", cache=cache)
    (memory,) = cache.root.iterdir()
    memory.write_text(damage)

    plans = load_or_measure_plans({"float32": folder}, pieces, device="cpu", cache=cache)

    assert plans.throughput == Plan("float32", 2, 1)


def test_the_quickest_plan_is_taken():
    assert fastest([ONE, LATER], {ONE: 1.0, LATER: 0.5}.__getitem__, deadline=1e9) == LATER


def test_an_earlier_plan_gives_way_to_no_small_gain():
    assert fastest([ONE, LATER], {ONE: 1.0, LATER: 0.95}.__getitem__, deadline=1e9) == ONE


def test_when_time_is_up_nothing_more_is_tried():
    assert fastest([ONE, LATER], {ONE: 1.0, LATER: 0.5}.__getitem__, deadline=0.0) == ONE


def test_a_kind_of_numbers_is_taken_as_asked():
    assert resolve_compute_types("int8", device="cpu") == ("int8",)


def test_auto_chooses_between_the_exact_and_the_quick():
    assert resolve_compute_types("auto", device="cpu") == ("float32", "int8")


def test_on_a_gpu_where_nothing_is_measured_auto_is_exact(monkeypatch: pytest.MonkeyPatch):
    import ctranslate2

    supported = {"float32", "float16", "int8"}
    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: supported)

    assert resolve_compute_types("auto", device="cuda") == ("float32",)


def test_a_kind_of_numbers_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"no compute type 'int7': choose auto or one of float32"):
        resolve_compute_types("int7", device="cpu")


def test_a_kind_of_numbers_that_this_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch):
    import ctranslate2

    monkeypatch.setattr(ctranslate2, "get_supported_compute_types", lambda device: {"float32"})

    with pytest.raises(ValueError, match=r"int8 on this machine's cpu: choose one of float32"):
        resolve_compute_types("int8", device="cpu")
