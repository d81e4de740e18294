"""OUT/report.html: what a finished run shows, and what the page of a run in training does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import Run

from transduce.bundle.bundle import Bundle
from transduce.cli import progress
from transduce.config import load_recipe
from transduce.evaluation.scoring import RunResult
from transduce.pipeline.prepared import open_prepared
from transduce.pipeline.run_page import RunPage, curves, read_metrics
from transduce.train.events import Event, LogMessage, Progress, Validated


@pytest.fixture
def page(run: Run, tmp_path: Path) -> RunPage:
    """The page of the small run, in another folder."""
    (tmp_path / "metrics.jsonl").write_text((run.folder / "metrics.jsonl").read_text())
    return RunPage(
        out=tmp_path,
        recipe=load_recipe(run.folder / "recipe.toml"),
        prepared=open_prepared(run.folder),
        parameters=1234,
        device="cpu",
    )


def test_a_finished_run_has_a_page_with_everything(run: Run, page: RunPage):
    html = (run.folder / "report.html").read_text()
    result = RunResult.read(run.folder / "results.json")

    assert 'http-equiv="refresh"' not in html
    assert html.count("</section>") == 5
    assert result.test is not None
    for score in result.test.scores:
        assert f"<td>{score.name}</td>" in html
        assert f"{score.value:.2f}" in html
    for title in ("Loss", "BLEU of greedy search", "Token accuracy", "Learning rate", "Speed"):
        assert f"<figcaption>{title}</figcaption>" in html
    assert f"{result.parameters:,}" in html
    assert page.render(result).partition("<h2")[2] != ""
    shown = [page.prepared.validation[index].source for index in page.shown_pairs]
    assert len(shown) == 5
    assert all(f'<h3 dir="auto">{source}</h3>' in html for source in shown)
    assert "<figcaption>update 30</figcaption>" in html, "the first validation's attention"
    assert "<figcaption>update 90</figcaption>" in html


def test_the_page_reloads_itself_in_training_and_grows(page: RunPage, run: Run):
    lines = (run.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    events: list[Event] = []
    (page.out / "metrics.jsonl").unlink()
    page.write()
    begun = (page.out / "report.html").read_text()
    assert 'http-equiv="refresh" content="10"' in begun
    assert "No values yet." in begun

    first = next(number for number, line in enumerate(lines, start=1) if '"bleu"' in line)
    (page.out / "metrics.jsonl").write_text("".join(lines[:first]))
    on_event = page.handler(events.append)
    on_event(LogMessage("no reason to write"))
    assert (page.out / "report.html").read_text() == begun
    validated = Validated(update=1, loss=1.0, perplexity=2.0, bleu=3.0, signature="s", best=True)
    on_event(validated)

    grown = (page.out / "report.html").read_text()
    assert events == [LogMessage("no reason to write"), validated]
    assert "<figcaption>Loss</figcaption>" in grown
    assert "update 90" not in grown
    assert 'http-equiv="refresh"' in grown


def test_text_of_the_corpus_and_the_model_is_escaped(page: RunPage):
    file = page.out / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["translations"] = ["<script>alert(1)</script>"] * 5
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    html = page.render(None)

    assert "<script>alert" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 5, "once where nothing changed"


def test_the_attention_is_of_the_same_pair_each_time(page: RunPage, run: Run):
    traced = page.trace(Bundle.load(run.folder / "model").model)
    maps = [
        line["attention"] for line in read_metrics(page.out / "metrics.jsonl") if "bleu" in line
    ]

    assert (
        len({(len(weights), len(weights[0])) for weights in maps} | {(len(traced), len(traced[0]))})
        == 1
    )
    assert all(sum(row) == pytest.approx(1.0, abs=0.02) for row in traced)


def test_damaged_lines_are_left_out(page: RunPage):
    file = page.out / "metrics.jsonl"
    before = curves(read_metrics(file))
    file.write_text(file.read_text() + '{"update": 1')

    assert curves(read_metrics(file)) == before
    assert "<td>Updates</td>" in replace(page, out=file.parent / "none").render(None)


def test_watching_opens_the_page_once_training_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened, events = list[str](), list[Event]()
    monkeypatch.setattr(progress.webbrowser, "open", opened.append)  # returns None: no browser
    on_event = progress.open_page(tmp_path / "report.html", events.append)
    step = Progress(
        update=1,
        updates=2,
        epoch=1,
        loss=1.0,
        tokens_per_second=1.0,
        learning_rate=0.1,
        grad_norm=1.0,
        seconds_left=1.0,
    )

    on_event(LogMessage("preparing"))
    assert not opened
    on_event(step)
    on_event(step)

    uri = (tmp_path / "report.html").as_uri()
    assert opened == [uri]
    assert events[1:] == [LogMessage(f"no browser was found: open {uri}"), step, step]
