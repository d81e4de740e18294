"""Whatever is cut short, and whatever bit flips, is refused by one line or makes no difference.

`make test` tries every truncation of a bundle, of the rest some, and a hundred flips a folder; the
tests marked slow try a thousand.
"""

import copy
import hashlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tests.conftest import made
from tests.faults.damaging import (
    SHAPE,
    cut,
    flipped,
    refused,
    same_bundle,
    same_tensors,
    tiny_bundle,
)

from transduce.bundle.bundle import Bundle
from transduce.config import load_recipe
from transduce.model.config import ModelConfig
from transduce.pipeline.prepare import is_up_to_date, prepare
from transduce.pipeline.prepared import Prepared, open_prepared
from transduce.train.checkpoint import TrainState, load_state, save_state
from transduce.train.optimizer import WeightEMA

QUICK, MANY = 100, 1000


class Kept(NamedTuple):
    """A folder, and how to read it: True if all in it is as it was written."""

    folder: Path
    read: Callable[[], bool]


@pytest.fixture
def bundle(tmp_path: Path) -> Kept:
    original, folder = tiny_bundle(), tmp_path / "model"
    original.save(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1 << 16
    return Kept(folder, lambda: same_bundle(Bundle.load(folder), original))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Kept:
    model = made(ModelConfig(vocab_size=7, **SHAPE))
    adam = torch.optim.Adam(model.parameters())
    model(torch.tensor([[1, 2, 0]]), None, torch.tensor([[6, 3]])).sum().backward()
    adam.step()
    mean = WeightEMA(model, decay=0.9)
    state = TrainState(update=3, tokens=11, seconds=0.5, best_loss=2.5)
    folder = save_state(tmp_path, state, model=model, optimizers=[adam], ema=mean)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    moments = copy.deepcopy(adam.state_dict()["state"])

    def read() -> bool:
        loaded = load_state(folder, model=model, optimizers=[adam], ema=mean)
        now = adam.state_dict()["state"]
        return (
            loaded == state
            and same_tensors(model.state_dict(), weights)
            and now.keys() == moments.keys()
            and all(same_tensors(now[number], moments[number]) for number in now)
        )

    return Kept(folder, read)


@pytest.fixture
def prepared(tmp_path: Path) -> Kept:
    chance = random.Random(2)
    for name in ("a", "b"):
        lines = (" ".join(chance.choices("123", k=4)) for _ in range(60))
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = f'data.train=["{tmp_path / "a"}", "{tmp_path / "b"}"]'
    recipe = load_recipe("tiny", [files, "data.held_out=3", "tokenizer.vocab_size=8"])
    written = held(prepare(recipe, tmp_path, on_event=lambda _: None))
    return Kept(tmp_path / "prepared", lambda: held(open_prepared(tmp_path)) == written)


def held(prepared: Prepared) -> tuple[object, ...]:
    """All that a prepared corpus holds."""
    store = prepared.store
    rows = [
        (store.line(row), store.pair(row), store.source(row).tolist(), store.target(row).tolist())
        for row in range(len(store))
    ]
    rest = (prepared.validation, prepared.test, dict(prepared.data_sha256))
    return (rows, prepared.tokenizer.to_bytes(), *rest)


def forge(file: Path, text: str) -> None:
    """Write what a file should not say, and let the manifest vouch for it."""
    file.write_text(text)
    manifest = file.parent / "manifest.json"
    facts = json.loads(manifest.read_text())
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    facts[file.name] = {"bytes": len(text.encode()), "sha256": sha256}
    manifest.write_text(json.dumps(facts))


def sections(file: Path) -> Iterator[int]:
    """Where a part of a file ends, and one byte beside it, and some places of no meaning."""
    data = file.read_bytes()
    ends = {0, 1, len(data) // 2, len(data) - 1}
    if file.suffix == ".safetensors":
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        starts = (fact["data_offsets"][0] for name, fact in header.items() if name[0] != "_")
        ends |= {
            position for start in starts for position in range(7 + size + start, 10 + size + start)
        }
        ends |= {7, 8, 9}
    ends |= set(random.Random(5).choices(range(len(data)), k=41))
    yield from sorted((end for end in ends if end < len(data)), reverse=True)


def test_what_is_whole_is_read(bundle: Kept, checkpoint: Kept, prepared: Kept):
    assert [refused(*reversed(kept)) for kept in (bundle, checkpoint, prepared)] == [""] * 3


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.model", "confidence.json"]
)
def test_a_bundle_cut_at_any_byte_is_refused_and_the_file_named(bundle: Kept, name: str):
    file = bundle.folder / name

    for size in cut(file, range(file.stat().st_size - 1, -1, -1)):
        assert str(file) in refused(bundle.read, bundle.folder), size


def test_a_manifest_cut_at_any_byte_is_refused_and_named(bundle: Kept):
    file = bundle.folder / "manifest.json"

    for size in cut(file, range(file.stat().st_size - 2, -1, -1)):
        assert str(file) in refused(bundle.read, bundle.folder), size


def test_a_cut_card_is_no_damage(bundle: Kept):
    for _ in cut(bundle.folder / "README.md", range(30, -1, -10)):
        assert refused(bundle.read, bundle.folder) == ""


@pytest.mark.parametrize("which", ["checkpoint", "prepared"])
def test_any_other_folder_cut_anywhere_is_refused_and_the_file_named(
    which: str, request: pytest.FixtureRequest
):
    kept: Kept = request.getfixturevalue(which)
    files = [path for path in kept.folder.rglob("*") if path.is_file() and path.stat().st_size]

    for file in files:
        for size in cut(file, sections(file)):
            message = refused(kept.read, kept.folder)
            assert str(file) in message or (not message and file.name == "manifest.json"), (
                file,
                size,
            )


@pytest.mark.parametrize(
    ("count", "seed"), [(QUICK, 1), pytest.param(MANY, 2, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("which", ["bundle", "checkpoint", "prepared"])
def test_a_flipped_bit_is_found_or_makes_no_difference(
    which: str, count: int, seed: int, request: pytest.FixtureRequest
):
    kept: Kept = request.getfixturevalue(which)

    for file in flipped(kept.folder, count, seed=seed):
        message = refused(kept.read, kept.folder)
        assert message or file.name in ("README.md", "manifest.json"), file


@pytest.mark.slow
def test_a_checkpoint_cut_at_a_thousand_places_is_refused(checkpoint: Kept):
    chance = random.Random(7)
    for file in sorted(checkpoint.folder.iterdir()):
        size = file.stat().st_size - 1
        for _ in cut(file, iter(sorted(chance.choices(range(size), k=MANY // 5), reverse=True))):
            assert str(file) in refused(checkpoint.read, checkpoint.folder)


NO_COUNT = ["7", -1, 1.5, True, None, [], {}, math.nan, math.inf, "a\nb"]


@pytest.mark.parametrize(
    "field",
    [
        *("update", "epoch", "epoch_update", "tokens", "best_update", "validations_since_best"),
        *("skipped", "skipped_in_a_row", "micro_tokens", "planned_micro_tokens"),
    ],
)
def test_a_forged_state_is_refused_and_the_field_named(checkpoint: Kept, field: str):
    file = checkpoint.folder / "state.json"
    held = json.loads(file.read_text())

    for value in NO_COUNT:
        forge(file, json.dumps(held | {field: value}))
        message = refused(checkpoint.read, checkpoint.folder)
        assert f"state.json is damaged ({field}: " in message, value


@pytest.mark.parametrize("field", ["seconds", "best_loss"])
def test_a_time_or_a_loss_that_is_none_is_refused(checkpoint: Kept, field: str):
    file = checkpoint.folder / "state.json"
    held = json.loads(file.read_text())

    for value in ("7", None, [], True, math.nan, -math.inf):
        forge(file, json.dumps(held | {field: value}))
        message = refused(checkpoint.read, checkpoint.folder)
        assert f"state.json is damaged ({field}: " in message, value


def test_time_does_not_run_backwards_and_has_an_end(checkpoint: Kept):
    file = checkpoint.folder / "state.json"
    held = json.loads(file.read_text())

    for value in (-1.0, math.inf):
        forge(file, json.dumps(held | {"seconds": value}))
        assert "seconds" in refused(checkpoint.read, checkpoint.folder)


NO_OBJECT = ["", "[]", "null", "7", '"a"', "[" * 100_000, "{", '{"a\\nb": 1}', '{"later": 1}']


@pytest.mark.parametrize("text", NO_OBJECT, ids=range(len(NO_OBJECT)))
def test_numbers_that_are_none_are_refused(checkpoint: Kept, text: str):
    forge(checkpoint.folder / "state.json", text)

    assert "state.json is damaged" in refused(checkpoint.read, checkpoint.folder)


def test_a_state_of_an_earlier_version_is_taken(checkpoint: Kept):
    file = checkpoint.folder / "state.json"
    held = json.loads(file.read_text())
    del held["micro_tokens"], held["planned_micro_tokens"]

    forge(file, json.dumps(held))

    assert refused(checkpoint.read, checkpoint.folder) == ""


@pytest.mark.parametrize(
    "field", ["read", "training_pairs", "target_tokens", "updates_per_epoch", "vocab_size"]
)
def test_forged_facts_of_a_corpus_are_refused_and_named(prepared: Kept, field: str):
    file = prepared.folder / "prepared.json"
    held = json.loads(file.read_text())

    for value in NO_COUNT:
        forge(file, json.dumps(held | {field: value}))
        assert f"{file} is damaged ({field}: " in refused(prepared.read, prepared.folder), value


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("files", ["a"]),
        ("files", {"a": 7}),
        ("dropped", {"empty": -1}),
        ("mended", 7),
        ("padding_share", math.nan),
        ("padding_share", 1.5),
        ("padding_share", "0.1"),
        ("started_from", {"a": None}),
        ("later", 1),
    ],
)
def test_other_forged_facts_of_a_corpus_are_refused_too(prepared: Kept, field: str, value: object):
    file = prepared.folder / "prepared.json"
    held = json.loads(file.read_text())

    forge(file, json.dumps(held | {field: value}))

    assert f"{file} is damaged ({field}" in refused(prepared.read, prepared.folder)


@pytest.mark.parametrize("text", NO_OBJECT, ids=range(len(NO_OBJECT)))
def test_facts_that_are_none_are_refused_and_the_corpus_is_not_taken_for_ours(
    prepared: Kept, text: str
):
    out = prepared.folder.parent
    recipe = load_recipe("tiny", [f'data.train=["{out / "a"}", "{out / "b"}"]'])
    assert is_up_to_date(recipe, out)

    forge(prepared.folder / "prepared.json", text)

    assert "prepared.json is damaged" in refused(prepared.read, prepared.folder)
    assert not is_up_to_date(recipe, out)
