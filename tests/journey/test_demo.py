"""`transduce demo`, with a corpus and a model small enough for a test."""

import html
from functools import partial
from pathlib import Path

import pytest
from tests.conftest import Transduce

import transduce.demo.journey as demo
from transduce.config import Recipe, load_recipe
from transduce.demo.corpus import write_corpus
from transduce.train.events import Event

SMALL = (
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.d_model=32", "model.d_ff=48"),
    *("tokenizer.vocab_size=300", "train.updates=4", "train.warmup=2", "train.validate_every=4"),
    *("search.extra=1", "search.beam=1", "batch.tokens=500", "train.intra_op_threads=1"),
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(recipe: str | Path, overrides: tuple[str, ...] | list[str] = ()) -> Recipe:
        return load_recipe(recipe, [*overrides, *(SMALL if recipe == "demo" else ())])

    monkeypatch.setattr(demo, "load_recipe", load)
    few = partial(write_corpus, pairs=300, held_out=30, cases=10)
    monkeypatch.setattr(demo, "write_corpus", few)


@pytest.mark.usefixtures("small")
def test_the_demo_replaces_an_old_one_and_shows_scores_examples_and_what_to_type_next(
    transduce: Transduce, tmp_path: Path
):
    out = tmp_path / "demo"
    out.mkdir()
    (out / "recipe.toml").write_text('name = "demo"\n')
    (out / "metrics.jsonl").write_text("{}\n")

    result = transduce("demo", "--out", out)

    assert result.code == 0, result.err
    assert "test, 40 pairs: perplexity" in result.out
    assert "right in 10 sentences" in result.out
    assert (out / "metrics.jsonl").read_text() != "{}\n"
    tests = (out / "corpus" / "test.en").read_text().splitlines()
    assert any(f'echo "{line}" | transduce translate {out}' in result.out for line in tests)
    assert result.out.count("→") == 6
    assert "transduce train --source FILE --target FILE" in result.out
    assert f"report: {out / 'report.html'}" in result.out
    page = (out / "report.html").read_text()
    assert "The animal didn't cross the street because it was too tired." in html.unescape(page)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("other_version", [False, True])
def test_an_interrupted_demo_is_resumed_by_repeating_it(
    transduce: Transduce, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, other_version: bool
):
    out = tmp_path / "demo"

    def interrupt(event: Event) -> None:
        if (out / "checkpoints").is_dir():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(out, on_event=interrupt)
    metrics = (out / "metrics.jsonl").read_text()
    if other_version:  # whose sentences differ
        fewer = partial(write_corpus, pairs=290, held_out=30, cases=10)
        monkeypatch.setattr(demo, "write_corpus", fewer)

    result = transduce("demo", "--out", out)

    assert result.code == 0, result.err
    assert ("resuming after update 4" in result.out + result.err) != other_version
    assert (out / "metrics.jsonl").read_text().startswith(metrics) != other_version
    assert "right in 10 sentences" in result.out
