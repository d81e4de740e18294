"""Preparing a large corpus gives signs of life; the rest of it is tested by the journey."""

import itertools

import pytest

from transduce import prepare
from transduce.train.events import Event, Note


def test_long_work_gives_a_sign_of_life_every_ten_seconds(monkeypatch: pytest.MonkeyPatch):
    told: list[Event] = []
    clock = itertools.count(100.0, 3.0)
    monkeypatch.setattr(prepare.time, "monotonic", lambda: next(clock))

    count = prepare.now_and_then(told.append, "read")
    for pairs in range(1, 8):
        count(1000 * pairs)

    assert told == [Note(text="4,000 pairs read")]


def test_short_work_gives_none():
    told: list[Event] = []

    prepare.now_and_then(told.append, "read")(5)

    assert told == []
