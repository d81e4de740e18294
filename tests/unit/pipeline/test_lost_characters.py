"""Characters that a vocabulary has no piece for are counted."""

from pathlib import Path

from tests.sentences import write_sides

from transduce.config import load_recipe
from transduce.data.corpus import Pair
from transduce.pipeline.prepare import prepare
from transduce.train.events import Event, LogMessage


def test_characters_that_a_small_vocabulary_loses_are_counted(tmp_path: Path) -> None:
    pairs = [Pair("ab" * number + "01", "ba01" * number) for number in range(1, 31)]
    pairs += [Pair("ab€", "ba¥")] * 2  # of two with one source none is held out
    source, target = write_sides(tmp_path, "train", pairs)
    settings = [
        'tokenizer.kind="char"',
        "tokenizer.vocab_size=8",
        "data.held_out=1",
        "data.max_ratio=99",
    ]
    settings += ["tokenizer.byte_fallback=false", 'data.duplicates="keep"']
    recipe = load_recipe("tiny", [f'data.train=["{source}", "{target}"]', *settings])
    events: list[Event] = []

    prepare(recipe, tmp_path / "run", on_event=events.append)

    texts = [event.text for event in events if isinstance(event, LogMessage)]
    lost = "2 of the 6 characters are rare and have no piece"
    assert any(text.startswith(lost) for text in texts), texts
    assert any(" in 1 update an epoch" in text for text in texts)
