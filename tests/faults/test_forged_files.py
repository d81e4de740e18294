"""A manifest that fits proves nothing: a bad tool, or somebody who means harm, wrote it so."""

import io
import json
import pickle
import random
import struct
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save, save_file
from tests.faults.damaging import cut, flipped, refused, tiny_bundle, vouch

from transduce.bundle.bundle import Bundle
from transduce.bundle.tensors import MAX_WEIGHT
from transduce.export.marian_files import read_weights

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.model"
ABSURD = [10**9, 10**30, -1, 0, 1.5, float("nan"), float("inf"), "7", None, [], {}, True]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forged") / "model"
    tiny_bundle().save(folder)
    return folder


@pytest.fixture(autouse=True)
def put_back(saved: Path) -> Iterator[None]:
    """Each test finds the bundle as it was saved."""
    contents = {path: path.read_bytes() for path in saved.iterdir()}
    yield
    for path, data in contents.items():
        path.write_bytes(data)


def refusal(folder: Path) -> str:
    """What refuses a forged bundle; "" if it is taken, with weights that can be computed with."""
    vouch(folder)
    started = time.monotonic()
    message = refused(lambda: sane(Bundle.load(folder)), folder)
    assert time.monotonic() - started < 20, "it took too long"
    return message


def sane(bundle: Bundle) -> bool:
    """Whether a bundle can be used: its weights are numbers and its pieces are text."""
    ids = bundle.tokenizer.encode("a dog")
    bundle.tokenizer.pieces(range(bundle.tokenizer.vocab_size))
    bundle.tokenizer.decode(ids)
    return all(weight.abs().max() <= MAX_WEIGHT for weight in bundle.model.state_dict().values())


def forge(folder: Path, data: bytes, header: object) -> str:
    """Put a safetensors file of this header and these bytes in the place of the weights."""
    header_bytes = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / WEIGHTS).write_bytes(struct.pack("<Q", len(header_bytes)) + header_bytes + data)
    return refusal(folder)


def settings() -> list[tuple[str, str]]:
    sections = {"model": ModelKeys, "search": ("beam", "alpha", "extra", "max_source", "long")}
    return [(section, key) for section, keys in sections.items() for key in keys]


ModelKeys = (
    *("vocab_size", "encoder_layers", "decoder_layers", "d_model", "d_ff", "heads", "d_k", "d_v"),
    *("dropout", "norm", "activation", "positions", "max_positions"),
)
_HARMLESS = {("search", "max_source"), ("model", "max_positions")}  # limits, and so may be large
_ZERO = {("model", "dropout"), ("search", "alpha")}


@pytest.mark.parametrize(("section", "key"), settings())
def test_an_absurd_setting_is_refused_before_anything_is_made_of_it(
    saved: Path, section: str, key: str
):
    held = json.loads((saved / CONFIG).read_text())

    for value in ABSURD:
        held[section][key] = value
        (saved / CONFIG).write_text(json.dumps(held))
        large = value in (10**9, 10**30) and value is not True
        fine = (large and (section, key) in _HARMLESS) or (
            (section, key) in _ZERO and value in (0, 1.5, *([10**9, 10**30] * (key == "alpha")))
        )
        message = refusal(saved)
        assert message or fine, value
        assert not message or CONFIG in message


@pytest.mark.parametrize("layers", [10**6, 40])
def test_layers_without_end_are_not_built(saved: Path, layers: int):
    held = json.loads((saved / CONFIG).read_text())
    held["model"].update(encoder_layers=layers)
    (saved / CONFIG).write_text(json.dumps(held))

    assert "far too few for the model there" in refusal(saved)


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "transduce bundle", "version": ' + "[" * 100_000,
        '{"format": "transduce bundle", "version": "1\\n\\n2"}',
        '{"format": "transduce bundle", "version": 1, "a\\nb": 1}',
        '{"format": "transduce bundle", "version": 1, "' + "a" * 5000 + '": 1}',
        '{"format": "transduce bundle", "version": 1, "languages": {"source": "\\ud800"}}',
        "[" * 100_000,
        "1" * 5000,
        "\x00",
        "\ufeff{}",
    ],
    ids=range(9),
)
@pytest.mark.parametrize("name", [CONFIG, "confidence.json"])
def test_json_that_is_none_is_refused(saved: Path, name: str, text: str):
    (saved / name).write_text(text)

    assert name in refusal(saved)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"config.json": {"bytes": 1e999, "sha256": "00"}}',
        '{"config.json": {"bytes": 1, "sha256": "00"}, "a\\nb": {"bytes": 1, "sha256": "00"}}',
        json.dumps({"a" * 999: {"bytes": 1, "sha256": "00"}}),
        json.dumps({"\ud800": {"bytes": 1, "sha256": "00"}}),
        json.dumps({"a\0b": {"bytes": 1, "sha256": "00"}}),
        json.dumps({"": {"bytes": 1, "sha256": "00"}}),
    ],
    ids=range(7),
)
def test_a_manifest_that_is_none_is_refused(saved: Path, text: str):
    (saved / "manifest.json").write_text(text)

    assert refused(lambda: sane(Bundle.load(saved)), saved)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e30, -7e4])
def test_a_weight_that_no_training_leaves_is_refused(saved: Path, value: float):
    weights = {name: tensor.clone() for name, tensor in load_file(saved / WEIGHTS).items()}
    weights["embedding.weight"][2, 1] = value
    save_file(weights, saved / WEIGHTS)

    assert "embedding.weight" in refusal(saved)


def test_large_weights_of_a_real_model_are_taken(saved: Path):
    weights = {name: tensor.clone() for name, tensor in load_file(saved / WEIGHTS).items()}
    weights["embedding.weight"][2, 1] = 1e4
    save_file(weights, saved / WEIGHTS)

    assert refusal(saved) == ""


_ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ({"a": _ONE | {"dtype": "F64"}}, 4),
        ({"a": _ONE | {"dtype": "F4", "shape": [8]}}, 4),
        ({"a": _ONE | {"dtype": "F8_E8M0", "shape": [4]}}, 4),
        ({"a": _ONE | {"dtype": "X"}}, 4),
        ({"a": _ONE | {"shape": [2**40, 2**40]}}, 4),
        ({"a": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}}, 0),
        ({"a": {"dtype": "F32", "shape": [2**62, 0], "data_offsets": [0, 0]}}, 0),
        ({"a": _ONE | {"shape": [-1]}}, 4),
        ({"a": _ONE, "b": _ONE}, 4),
        ({"a": _ONE, "b": _ONE | {"data_offsets": [2, 6]}}, 6),
        ({"a": _ONE, "b": _ONE | {"data_offsets": [8, 12]}}, 12),
        ({"a": _ONE | {"data_offsets": [0, 2**63]}}, 4),
        ({"a\nb": _ONE}, 4),
        ({"embedding.weight": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}, 0),
        ({"__metadata__": {"format": "pt"}}, 0),
        (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":' + b"[" * 10_000, 4),
        (b"[" * 100_000, 0),
        (b"", 0),
    ],
    ids=range(18),
)
def test_a_header_that_lies_is_refused(saved: Path, header: object, size: int):
    assert WEIGHTS in forge(saved, bytes(size), header)


@pytest.mark.parametrize("length", [2**63, 2**40, 99_000_000])
def test_a_header_without_end_is_refused(saved: Path, length: int):
    (saved / WEIGHTS).write_bytes(struct.pack("<Q", length) + b"{}")

    assert WEIGHTS in refusal(saved)


class Evil:
    """What a pickle can do to whoever loads it."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.marker,))


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, TOKENIZER, "confidence.json", "manifest.json"])
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_by_any_name_is_refused_and_not_run(
    saved: Path, tmp_path: Path, name: str, kind: str
):
    if kind == "torch":
        torch.save({"embedding.weight": Evil(tmp_path / "ran")}, saved / name)
    else:
        (saved / name).write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    if name != "manifest.json":
        vouch(saved)

    assert name in refused(lambda: sane(Bundle.load(saved)), saved)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("size", [1, 7, 1009])
def test_a_tokenizer_of_random_bytes_is_refused(saved: Path, size: int):
    chance = random.Random(size)
    for start in (b"", b"PK", b"\x0a"):
        (saved / TOKENIZER).write_bytes(start + chance.randbytes(size))
        assert TOKENIZER in refusal(saved)


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(saved: Path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("source.spm", "target.spm", "vocab.json"):
            archive.writestr(name, bytes(1 << 22))
    (saved / TOKENIZER).write_bytes(packed.getvalue())

    assert "is damaged" in refusal(saved)


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, TOKENIZER, "confidence.json"])
def test_what_was_cut_before_it_was_vouched_for_is_refused(saved: Path, name: str):
    file = saved / name
    chance = random.Random(3)
    sizes = sorted(chance.sample(range(file.stat().st_size - 2), k=29), reverse=True)

    for _ in cut(file, iter(sizes)):
        assert name in refusal(saved)


@pytest.mark.parametrize(
    ("count", "seed"), [(100, 1), pytest.param(1000, 2, marks=pytest.mark.slow)]
)
def test_bits_that_flipped_before_they_were_vouched_for_never_crash(
    saved: Path, count: int, seed: int
):
    for file in flipped(saved, count, seed=seed):
        if file.name != "manifest.json":
            refusal(saved)
    vouch(saved)


@pytest.mark.parametrize("protocol", ["zip", "pickle"])
def test_a_damaged_pickle_of_foreign_weights_is_refused(tmp_path: Path, protocol: str):
    file = tmp_path / "pytorch_model.bin"
    tensors = {"a": torch.arange(7.0), "b": torch.ones(2, 3)}
    torch.save(tensors, file, _use_new_zipfile_serialization=protocol == "zip")

    def read() -> bool:
        return read_weights(tmp_path)[1].keys() is not None

    for size in cut(file, range(file.stat().st_size - 1, 0, -37)):
        assert refused(read, tmp_path) or size > 300
    for _ in flipped(tmp_path, 97, seed=4):
        refused(read, tmp_path)


def test_foreign_weights_that_lie_are_refused(tmp_path: Path):
    header = json.dumps({"a": {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}})
    (tmp_path / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header.encode())

    assert WEIGHTS in refused(lambda: bool(read_weights(tmp_path)), tmp_path)


def test_the_library_still_writes_what_is_read_here(saved: Path):
    (saved / WEIGHTS).write_bytes(save(load_file(saved / WEIGHTS)))

    assert refusal(saved) == ""
