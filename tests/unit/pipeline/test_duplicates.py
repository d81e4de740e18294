"""Equal pairs of the training files: one of them is trained on, and the rest is counted."""

from pathlib import Path

import pytest
from tests.sentences import sentences

from transduce.config import load_recipe
from transduce.data.corpus import Pair
from transduce.pipeline.prepare import prepare
from transduce.pipeline.prepared import Prepared
from transduce.train.events import Event, LogMessage

PAIRS = sentences(300)


def write(folder: Path, pairs: list[Pair]) -> list[str]:
    for side in Pair._fields:
        lines = [getattr(pair, side) for pair in pairs]
        (folder / f"train.{side}").write_text("\n".join(lines) + "\n")
    names = [f"train.{side}" for side in Pair._fields]
    return [f"data.folder={str(folder)!r}", f"data.train={names}", "tokenizer.vocab_size=120"]


def prepared(folder: Path, pairs: list[Pair], *settings: str) -> tuple[Prepared, str]:
    events: list[Event] = []
    recipe = load_recipe("tiny", [*write(folder, pairs), *settings])
    result = prepare(recipe, folder / "run", on_event=events.append)
    texts = [event.text for event in events if isinstance(event, LogMessage)]
    return result, "\n".join(texts)


def training(result: Prepared) -> list[Pair]:
    return [result.store.pair(row) for row in range(len(result.store))]


def test_the_first_of_equal_pairs_is_trained_on(tmp_path: Path):
    pairs = [*PAIRS[:3], PAIRS[0], *PAIRS[3:], PAIRS[5], PAIRS[0]]

    result, text = prepared(tmp_path, pairs)

    assert "dropped 3 (duplicate: 3, such as line 4)" in text
    assert sorted(training(result) + list(result.validation)) == sorted(PAIRS)
    (tmp_path / "other").mkdir()
    distinct, _ = prepared(tmp_path / "other", PAIRS)
    assert set(distinct.validation).isdisjoint(training(distinct))


def test_another_target_of_a_source_is_no_duplicate(tmp_path: Path):
    other = Pair(PAIRS[7].source, PAIRS[8].target)

    result, text = prepared(tmp_path, [*PAIRS, other])

    assert "duplicate" not in text.partition("\n")[0]
    assert other in [*training(result), *result.validation]


def test_duplicates_can_be_kept(tmp_path: Path):
    result, text = prepared(tmp_path, [*PAIRS, PAIRS[0]], 'data.duplicates="keep"')

    assert "duplicate:" not in text
    assert [*training(result), *result.validation].count(PAIRS[0]) == 2


@pytest.mark.parametrize("name", ["tiny", "base", "big", "finetune"])
def test_recipes_for_ones_own_corpus_drop_duplicates(name: str):
    assert load_recipe(name).data.duplicates == "drop"


@pytest.mark.parametrize(
    "name", ["wmt14-base-de", "wmt14-base-fr", "wmt14-big-de", "table4-wsj", "multi30k", "demo"]
)
def test_recipes_of_published_results_keep_them(name: str):
    assert load_recipe(name).data.duplicates == "keep"
