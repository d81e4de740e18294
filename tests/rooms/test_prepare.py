"""Signs of life, and text too long for the model; the rest of it is tested by the journey."""

import itertools
from unittest.mock import create_autospec

import pytest

from transduce import prepare
from transduce.config import load_recipe
from transduce.data.store import Store
from transduce.text.corpus import Pair
from transduce.text.tokenizer import Tokenizer
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


def a_prepared(tokenizer: Tokenizer, *, validation: str, test: str) -> prepare.Prepared:
    """What `check_positions` reads of a prepared corpus: one pair to validate and one to test."""
    return prepare.Prepared(
        tokenizer=tokenizer,
        store=create_autospec(Store, instance=True),
        validation=(Pair("bread", validation),),
        test=(Pair(test, "Brot"),),
        data_sha256={},
    )


@pytest.mark.parametrize("name", ["validation", "test"])
def test_text_that_learned_positions_have_no_rows_for_is_refused_before_training(
    tokenizer: Tokenizer, name: str
):
    sides = {"validation": "Brot", "test": "bread"} | {name: "z" * 53}
    prepared = a_prepared(tokenizer, **sides)
    pieces = len(tokenizer.encode("z" * 53))
    enough, short = (
        load_recipe(
            "tiny",
            [
                "model.positions=learned",
                f"model.max_positions={rows}",
                f"data.max_pieces={rows - 1}",
            ],
        )
        for rows in (pieces + 1, pieces)
    )

    prepare.check_positions(enough, prepared)
    prepare.check_positions(load_recipe("tiny"), prepared)

    with pytest.raises(
        ValueError, match=rf"^pair 1 of the {name} set has {pieces} .* {pieces}: raise it to"
    ):
        prepare.check_positions(short, prepared)
