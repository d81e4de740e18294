"""`import` refuses a damaged or forged folder by one line, whatever file of it and whoever made it.

A folder of our own has a manifest, so that every flipped bit is found. One of another program has
none: there a flipped bit may pass as a weight, but nothing ends in a traceback.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.conftest import Transduce, refuses
from tests.exports import CONFIG, bundle_of, one_vocabulary, two_vocabularies
from tests.faults.damaging import flipped, refused, same_bundle
from tests.unit.export.test_npz_files import write_npz
from torch import Tensor

from transduce.data.tokenizer import Tokenizer
from transduce.export.importer import import_marian
from transduce.export.marian import write_huggingface

WEIGHTS, PICKLE = "model.safetensors", "pytorch_model.bin"
JSON = ("config.json", "generation_config.json", "tokenizer_config.json", "vocab.json")
DEEP = "[" * 100_000
ABSURD = [10**9, 10**30, -1, 0, 1.5, 1e999, "7", "\ud800", "a\nb", None, [], {}, [[]], True]


def export(tokenizer: Tokenizer, folder: Path) -> Path:
    write_huggingface(
        bundle_of(replace(CONFIG, vocab_size=tokenizer.vocab_size), tokenizer), folder
    )
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """An export of ours, with a manifest."""
    return export(one_vocabulary(), tmp_path / "own")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """What another program writes: no manifest, a tokenizer a side."""
    folder = export(two_vocabularies(), tmp_path / "foreign")
    (folder / "manifest.json").unlink()
    return folder


@pytest.fixture
def pickled(foreign: Path) -> Path:
    """The same with weights as old models have them."""
    torch.save(load_file(foreign / WEIGHTS), foreign / PICKLE)
    (foreign / WEIGHTS).unlink()
    return foreign


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    """What Marian itself writes."""
    tokenizer = two_vocabularies()
    biases = {"activation": "silu", "attention_bias": True, "output_bias": True}
    config = replace(CONFIG, vocab_size=tokenizer.vocab_size, **biases)
    return write_npz(bundle_of(config, tokenizer), tmp_path / "npz")


def usable(folder: Path) -> bool:
    """Whether an imported model encodes and decodes what it was given."""
    bundle = import_marian(folder)
    tokenizer = bundle.tokenizer
    ids = tokenizer.encode("a small house ☃")
    tokenizer.decode(ids)
    tokenizer.sample_subwords(ids, alpha=0.1, rng=Random(1))
    tokenizer.pieces(range(tokenizer.vocab_size))
    return all(tensor.dtype == torch.float32 for tensor in bundle.model.state_dict().values())


def test_no_flipped_bit_of_our_own_export_is_imported(own: Path):
    original = import_marian(own)
    assert "manifest.json" in {path.name for path in own.iterdir()}

    for _ in flipped(own, 120, seed=7):
        refused(lambda: same_bundle(import_marian(own), original), own)


@pytest.mark.parametrize("name", [*JSON, WEIGHTS])
def test_a_manifest_without_a_file_that_is_read_is_refused(own: Path, name: str):
    facts = json.loads((own / "manifest.json").read_text())
    del facts[name]
    (own / "manifest.json").write_text(json.dumps(facts))

    assert f"has no checksum for {name}" in refused(lambda: usable(own), own)


@pytest.mark.parametrize("kind", ["foreign", "pickled", "npz"])
@pytest.mark.parametrize(
    ("count", "seed"), [(20, 1), pytest.param(1000, 2, marks=pytest.mark.slow)]
)
def test_flipped_bits_of_a_foreign_folder_never_crash(
    kind: str, count: int, seed: int, request: pytest.FixtureRequest
):
    folder: Path = request.getfixturevalue(kind)
    for _ in flipped(folder, count, seed=seed):
        refused(lambda: usable(folder), folder)


@pytest.mark.parametrize("name", JSON)
def test_forged_settings_never_crash(foreign: Path, name: str):
    file = foreign / name
    for text in (DEEP, '{"a":' + DEEP, "7" * 5000, "\ufeff{}", "{}", "[]", "null", '{"\ud800": 1}'):
        file.write_bytes(text.encode(errors="surrogatepass"))
        refused(lambda: usable(foreign), foreign)


@pytest.mark.parametrize("name", JSON)
def test_absurd_values_never_crash(foreign: Path, name: str):
    file = foreign / name
    held = json.loads(file.read_text())
    for key, value in Random(4).sample([(key, value) for key in held for value in ABSURD], 20):
        file.write_text(json.dumps(held | {key: value}))
        refused(lambda: usable(foreign), foreign)


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("config.json", "encoder_layers", -1, "encoder_layers must be at least 1"),
        ("generation_config.json", "num_beams", 10**9, "beam must be at most 10,000"),
        ("vocab.json", "\ud800", 5, "not unique"),
        ("vocab.json", "</s>", "\ud800", "the id of '</s>'"),
    ],
)
def test_an_error_of_a_setting_names_the_folder(
    foreign: Path, name: str, key: str, value: object, message: str
):
    held = json.loads((foreign / name).read_text())
    (foreign / name).write_text(json.dumps(held | {key: value}))

    assert message in refused(lambda: usable(foreign), foreign)


def test_forged_tokenizers_never_crash(foreign: Path):
    chance = Random(3)
    for name in ("source.spm", "target.spm"):
        content = (foreign / name).read_bytes()
        # 1 is `pieces`; inside: a text that is none, a score of another width, an unknown type
        text = b"\x0a\x02\xc3\xbf"
        for piece in (b"\x0a\x01\xff", text + b"\x12\x01a", text + b"\x18\xff\x7f", b"\x08\x01"):
            (foreign / name).write_bytes(content + b"\x0a" + bytes([len(piece)]) + piece)
            refused(lambda: usable(foreign), foreign)
        for data in (
            b"",
            b"PK",
            content[: len(content) // 2],
            chance.randbytes(999),
            b"\x0a" * 999,
        ):
            (foreign / name).write_bytes(data)
            refused(lambda: usable(foreign), foreign)
        (foreign / name).write_bytes(content)


@pytest.mark.parametrize("kind", ["foreign", "pickled"])
@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.to(torch.complex64),
        lambda tensor: (tensor * 20).to(torch.int8),
        lambda tensor: tensor.to(torch.int64),
        lambda tensor: tensor > 0,
        lambda tensor: tensor.to(torch.float8_e4m3fn),
    ],
    ids=["complex64", "int8", "int64", "bool", "float8_e4m3fn"],
)
def test_weights_of_another_kind_of_number_are_refused_by_name(
    kind: str, change: Callable[[Tensor], Tensor], request: pytest.FixtureRequest
):
    folder: Path = request.getfixturevalue(kind)
    rewrite(folder, lambda tensors: {name: change(tensor) for name, tensor in tensors.items()})

    message = refused(lambda: usable(folder), folder)

    assert request.node.callspec.id.split("-")[0] in message
    assert "only dense float32, float16, bfloat16 and float64" in message


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "forge",
    [
        lambda tensor: tensor.to_sparse(),
        lambda tensor: torch.quantize_per_tensor(tensor, 0.1, 0, torch.qint8),
        lambda tensor: tensor.to("meta"),
        lambda tensor: torch.nested.nested_tensor([tensor]),
    ],
    ids=["sparse", "quantized", "meta", "nested"],
)
def test_tensors_that_are_no_matrices_are_refused(pickled: Path, forge: Callable[[Tensor], Tensor]):
    tensors = torch.load(pickled / PICKLE)
    torch.save({name: forge(tensor) for name, tensor in tensors.items()}, pickled / PICKLE)

    assert PICKLE in refused(lambda: usable(pickled), pickled)


_DTYPES = ("F64", "F32", "I8", "U16", "BOOL", "C64", "F8_E8M0", "F6_E2M3", "F4", "F0", 7)


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize("shape", [[8], [0], [0, 2**63], [2**62, 0], [-1], [2**40, 2**40], "7"])
def test_forged_headers_never_crash(own: Path, dtype: object, shape: object):
    (own / "manifest.json").unlink()
    for size in (0, 4, 8, 64):
        fact = {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}
        header = json.dumps({"model.shared.weight": fact}).encode()
        (own / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
        assert WEIGHTS in refused(lambda: usable(own), own)


def test_the_command_says_it_in_one_line(own: Path, tmp_path: Path, transduce: Transduce):
    data = bytearray((own / WEIGHTS).read_bytes())
    data[-3] ^= 4
    (own / WEIGHTS).write_bytes(data)

    result = transduce("import", own, "--out", tmp_path / "out")

    refuses(result, f"{own / WEIGHTS} does not match its checksum")
    assert not (tmp_path / "out").exists()


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Change the tensors of whichever file has them."""
    if (folder / WEIGHTS).exists():
        save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)
    else:
        torch.save(change(torch.load(folder / PICKLE)), folder / PICKLE)
