"""What a person or a log gets to see."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from transduce.cli.progress import describe, event_printer
from transduce.train.events import LogMessage, Progress, Validated

PROGRESS = Progress(
    update=20,
    updates=1000,
    epoch=2,
    loss=3.14159,
    tokens_per_second=5321.7,
    learning_rate=0.00123,
    grad_norm=1.5,
    seconds_left=754.0,
)
VALIDATED = Validated(
    update=20, loss=1.5, perplexity=4.48, bleu=31.27, signature="nrefs:1", best=True
)


def test_a_validation_shows_chrf_where_it_was_measured():
    assert "BLEU 31.27 (greedy, repetition not retried; nrefs:1)" in describe(VALIDATED)
    assert "BLEU 31.27, chrF2 52.10 (greedy" in describe(replace(VALIDATED, chrf=52.1))


def test_a_validation_without_translations_shows_no_bleu():
    line = describe(replace(VALIDATED, bleu=math.nan))

    assert line == "validation at update 20: loss 1.5000, perplexity 4.48, best so far"


def test_progress_is_one_line_with_what_one_wants_to_know():
    result = (
        "update 20 of 1,000, loss 3.142, 5,322 tokens/s, learning rate 1.23e-03, 12 min 34 s left"
    )

    assert describe(PROGRESS) == result


def test_of_several_processes_the_speed_of_each_is_said_too():
    several = replace(PROGRESS, processes=4, compute_share=0.913)

    assert " 5,322 tokens/s (4 processes, 1,330 each, 91% busy), learning rate " in describe(
        several
    )


def test_a_validation_gives_bleu_with_its_signature():
    assert "BLEU 31.27 (greedy, repetition not retried; nrefs:1), best so far" in describe(
        VALIDATED
    )


def test_a_log_gets_few_progress_lines_and_all_else(tmp_path: Path):
    with (tmp_path / "log").open("w") as log, event_printer(log) as on_event:
        for event in (LogMessage(text="one"), PROGRESS, PROGRESS, PROGRESS, VALIDATED):
            on_event(event)

    text = (tmp_path / "log").read_text()
    assert text.count("update 20 of") == 1
    assert text.count("\n") == 3


def test_a_terminal_gets_one_line_that_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with (tmp_path / "screen").open("w") as screen:
        monkeypatch.setattr(screen, "isatty", lambda: True)
        with event_printer(screen) as on_event:
            on_event(PROGRESS)
            on_event(VALIDATED)

    text = (tmp_path / "screen").read_text()
    assert "\x1b" in text
    assert "validation at update 20" in text
