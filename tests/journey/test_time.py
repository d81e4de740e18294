"""A run of a given duration through the command line, small in every respect."""

import json
from pathlib import Path

from tests.conftest import SMALL, Transduce, refuses, write_corpus

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

    result = transduce("train", "tiny", *files, *settings(), "--time", "8s", "--out", out)

    assert result.code == 0, result.err
    train = load_recipe(out / "recipe.toml").train
    assert train.time == "8s"
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    updates = json.loads((out / "results.json").read_text())["updates"]
    assert lines[-1]["update"] == updates
    assert any("bleu" in line for line in lines)
    assert "8s: " in result.err
    assert " on validation, against " in result.err


def test_a_run_until_a_bleu(transduce: Transduce, tmp_path: Path):
    write_corpus(tmp_path)
    files = ("--source", tmp_path / "train.src", "--target", tmp_path / "train.rev")
    out = tmp_path / "run"
    short = (*SMALL, "--set", "train.updates=900", "--set", "train.schedule=linear")
    rate = ("--set", "train.learning_rate=0.003", "--set", "train.validate_every=10")

    result = transduce("train", "tiny", *files, *short, *rate, "--until", "0.01", "--out", out)

    assert result.code == 0, result.err
    assert "BLEU 0.01 (train.until) is reached: " in result.err
    assert load_recipe(out / "recipe.toml").train.until == 0.01
    results = json.loads((out / "results.json").read_text())
    assert results["updates"] < 900
    refuses(
        transduce("train", "tiny", *files, "--until", "0"), "--until must be a BLEU score above"
    )


def test_a_bleu_that_short_validation_text_cannot_have_is_refused(
    transduce: Transduce, tmp_path: Path
):
    for name in ("a.src", "a.trg"):
        (tmp_path / name).write_text("".join(f"word{line}\n" for line in range(60)), "utf-8")
    files = ("--source", tmp_path / "a.src", "--target", tmp_path / "a.trg")

    result = transduce(
        *("train", "tiny", *files, "--set", "data.held_out=5", "--set", "tokenizer.kind=char"),
        *("--until", "20", "--out", tmp_path / "run"),
    )

    assert result.code == 2
    last = result.err.splitlines()[-1]
    assert last.startswith("transduce: train.until 20 cannot be reached: ")
    assert last.endswith("; use train.patience")
