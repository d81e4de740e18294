"""A run of a given duration through the command line, small in every respect."""

import json
from pathlib import Path

from tests.conftest import SMALL, Transduce, write_corpus

from transduce.config import load_recipe


def settings() -> list[str]:
    """The small run's settings, without its length."""
    values = [word for word in SMALL if word != "--set"]
    lengths = ("train.updates", "train.warmup", "train.validate_every")
    return [w for v in values if not v.startswith(lengths) for w in ("--set", v)]


def test_a_run_of_a_few_seconds(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    out = tmp_path / "run"

    dry = transduce("train", "tiny", *files, *settings(), "--time", "1h", "--dry-run")
    assert dry.code == 0, dry.err
    assert dry.out.startswith("1h: ")
    assert dry.out.endswith("; nothing was written\n")

    said = transduce("train", "tiny", *files, *settings(), "--time", "8s", "--out", out)

    assert said.code == 0, said.err
    train = load_recipe(out / "recipe.toml").train
    assert train.time == "8s"
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    updates = json.loads((out / "results.json").read_text())["updates"]
    assert lines[-1]["update"] == updates
    assert any("bleu" in line for line in lines)
    assert "8s: " in said.err
    assert " on validation, against " in said.err
