"""benchmarks/directions.py: one model of several directions and one for each have the same text."""

import gzip
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from transduce.config import load_recipe

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import directions as benchmark  # type: ignore[reportMissingImports]


def test_one_model_and_several_have_the_same_text(tmp_path: Path):
    for name in benchmark.SETS.values():
        for code, text in (("en", "a dog\na cat\n"), ("de", "ein Hund\neine Katze\n")):
            (tmp_path / f"{name}.{code}.gz").write_bytes(gzip.compress(text.encode()))

    benchmark.write_text(tmp_path, tmp_path / "text", {"train": 1})
    joint, alone = (
        load_recipe("tiny", benchmark.corpus_settings(name, tmp_path / "text")).data
        for name in ("joint", "en-xx")
    )

    (same,) = [part for part in joint.directions if str(part.pair) == "en-xx"]
    assert (same.train, same.validation, same.test) == (alone.train, alone.validation, alone.test)
    assert [str(part.pair) for part in joint.trained] == ["en-de", "de-en", "en-xx"]
    assert [str(part.pair) for part in joint.directions if not part.train] == ["de-xx"]
    texts = [path.read_text("utf-8") for path in alone.paths((*alone.train, *alone.test))]
    assert texts == ["a dog\n", "nie dnuH\n", "a dog\na cat\n", "nie dnuH\nenie eztaK\n"]


def test_what_has_an_outcome_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arguments = Namespace(pairs=0, validated=300, settings=[], updates=30, name="directions")
    trained: list[tuple[str, int]] = []

    def train(arguments: Namespace, seed: int, name: str, updates: int) -> dict[str, object]:
        trained.append((name, updates))
        scores = {"joint": {"en-de": 20.0, "de-xx (zero-shot)": 1.0}}
        return {
            "parameters": 10 + seed,
            "seconds": 1.0,
            "test": scores.get(name, {name: 20.0 + seed}),
        }

    monkeypatch.setattr(benchmark, "RESULTS", tmp_path)
    monkeypatch.setattr(benchmark, "train", train)

    seeds = [benchmark.measure(arguments, seed) for seed in (1, 2)]
    benchmark.measure(arguments, 1)

    assert trained == 2 * [("en-de", 10), ("de-en", 10), ("en-xx", 10), ("joint", 30)]
    assert benchmark.mean(seeds) == {
        "joint": {"en-de": 20.0, "de-xx (zero-shot)": 1.0},
        "separate": {"en-de": 21.5, "de-en": 21.5, "en-xx": 21.5},
        "parameters": {"joint": 11, "separate": 33},
    }
    arguments.updates = 60
    benchmark.model_outcome(arguments, 1, "en-de", 20)
    assert trained[8:] == [("en-de", 20)]
