"""What a folder of Marian's own form must have. Marian makes such folders in tests/interop."""

import json
from pathlib import Path

import numpy as np
import pytest

from transduce.bundle.bundle import Bundle
from transduce.export.importer import import_marian
from transduce.export.marian_files import interleaved_to_halves, tensor_map
from transduce.export.npz_files import _npz_name

pytest.importorskip("yaml", reason="pip install pyyaml")

SETTINGS = {
    "type": "transformer",
    "dim-emb": 12,
    "enc-depth": 2,
    "dec-depth": 1,
    "transformer-heads": 3,
    "transformer-dim-ffn": 17,
    "transformer-ffn-activation": "swish",
    "tied-embeddings-all": True,
}


@pytest.fixture
def npz(foreign: Bundle, tmp_path: Path) -> Path:
    return write_npz(foreign, tmp_path / "npz")


def write_npz(bundle: Bundle, folder: Path) -> Path:
    """Write a folder of the weights of a bundle with biases."""
    weights = bundle.weights.to_numpy().weights
    order = interleaved_to_halves(12).numpy()
    arrays: dict[str, np.ndarray] = {}
    for name, _, axis in tensor_map(bundle.weights.config):
        array = weights[name] if axis is None else weights[name].take(order, axis)
        rows = array[:-1] if name == "embedding.weight" else array.T
        arrays[_npz_name(name)] = rows if array.ndim == 2 else array[None]
    arrays["decoder_ff_logit_out_b"] = weights["output_bias"][None, :-1]
    folder.mkdir()
    for name, data in bundle.tokenizer.files().items():
        (folder / name).write_bytes(data)
    names = bundle.tokenizer.pieces(range(bundle.tokenizer.pad))
    lines = (f"{json.dumps(name)}: {number}\n" for number, name in enumerate(names))
    (folder / "vocab.yml").write_text("".join(lines))
    (folder / "decoder.yml").write_text(
        "models: [sub/model.npz]\nvocabs: [vocab.yml, vocab.yml]\nnormalize: 1\n"
    )
    write(folder, arrays, {**SETTINGS, "dim-vocabs": [len(names)] * 2})
    return folder


def write(folder: Path, arrays: dict[str, np.ndarray], settings: dict[str, object]) -> None:
    text = np.frombuffer(json.dumps(settings).encode() + b"\0", np.int8)
    np.savez(folder / "model.npz", **{**arrays, "special:model.yml": text})


def rewrite(folder: Path, **changes: object) -> None:
    """Change settings of the model; None deletes."""
    with np.load(folder / "model.npz") as archive:
        arrays = dict(archive)
    settings = json.loads(arrays.pop("special:model.yml").tobytes().rstrip(b"\0"))
    settings |= {key.replace("_", "-"): value for key, value in changes.items()}
    kept = {key: value for key, value in settings.items() if value is not None}
    write(folder, arrays, kept)


def test_the_weights_come_back(npz: Path, foreign: Bundle):
    back = import_marian(npz, source="en", target="de")

    expected, actual = (bundle.weights.to_numpy().weights for bundle in (foreign, back))
    assert actual.keys() - expected.keys() == {"positions.weight"}
    for name in expected.keys() - {"output_bias"}:
        np.testing.assert_array_equal(actual[name], expected[name], err_msg=name)
    np.testing.assert_array_equal(actual["output_bias"][:-1], expected["output_bias"][:-1])
    assert back.tokenizer.checksum == foreign.tokenizer.checksum


def test_positions_are_marians(npz: Path):
    table = import_marian(npz).weights.to_numpy().weights["positions.weight"]

    # The second of six frequencies is 10000^(-1/5), where the paper has 10000^(-1/6).
    assert table[3, 2] == pytest.approx(np.sin(3 * 10_000 ** (-1 / 5)), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "amun"}, "has type amun, which transduce does not support"),
        ({"transformer_preprocess": "n"}, "has transformer-preprocess n"),
        ({"tied_embeddings_all": False}, "has tied-embeddings-all False"),
        ({"transformer_tied_layers": [1, 1]}, r"has transformer-tied-layers \[1, 1\]"),
        ({"transformer_decoder_dim_ffn": 18}, "has encoder_ffn_dim 17 but decoder_ffn_dim 18"),
        ({"dim_vocabs": [5, 6]}, "vocab_size"),
        ({"dim_emb": None}, "d_model"),
        ({"enc_depth": 10**9}, r"names 1,000,000,\d+ layers, but has only \d+ tensors"),
        ({"enc_depth": 3}, r"has no tensor model\.encoder\.layers\.2"),
        ({"dim_emb": 24}, r"tensor .* is \[.*\], not \[.*\]"),
    ],
)
def test_what_is_unsupported_is_named(npz: Path, changes: dict[str, object], message: str):
    rewrite(npz, **changes)

    with pytest.raises(ValueError, match=message):
        import_marian(npz)


@pytest.mark.parametrize("name", ["model.npz", "vocab.yml", "decoder.yml"])
@pytest.mark.parametrize("data", [b"", b"\x80\x04", b"[1, 2]", b"- {"])
def test_a_damaged_file_is_named(npz: Path, name: str, data: bytes):
    (npz / name).write_bytes(data)

    with pytest.raises(ValueError, match=name):
        import_marian(npz)


@pytest.mark.parametrize("name", ["model.npz", "vocab.yml", "source.spm"])
def test_a_missing_file_is_named(npz: Path, name: str):
    (npz / name).unlink()

    with pytest.raises(ValueError, match=rf"{name} is missing"):
        import_marian(npz)


def test_pieces_that_yaml_takes_for_something_else_are_pieces(npz: Path):
    odd = ["ON", "yes", "=", "000", "<<"]
    lines = (npz / "vocab.yml").read_text().splitlines()
    lines[3:8] = (f"{piece}: {number}" for number, piece in enumerate(odd, 3))
    (npz / "vocab.yml").write_text("\n".join(lines))

    assert import_marian(npz).tokenizer.pieces(range(3, 8)) == odd


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "[1]", ""])
def test_an_id_that_is_no_number_is_named(npz: Path, number: str):
    with (npz / "vocab.yml").open("a") as file:
        file.write(f"odd: {number}\n")

    with pytest.raises(ValueError, match=r"vocab\.yml: the id of 'odd' must be a number from 0"):
        import_marian(npz)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("Wemb", np.zeros(3, np.float32)),
        ("decoder_ff_logit_out_b", np.zeros((), np.float32)),
        ("encoder_l1_self_Wq", np.zeros((2, 2, 2), np.float32)),
        ("encoder_l1_self_Wq", np.array([["a"]])),
        ("encoder_l1_self_bq", np.zeros((1, 12), np.int8)),
    ],
)
def test_an_array_that_is_no_matrix_is_named(npz: Path, name: str, array: np.ndarray):
    with np.load(npz / "model.npz") as archive:
        arrays = {**archive, name: array}
    np.savez(npz / "model.npz", **arrays)

    with pytest.raises(ValueError, match=rf"model\.npz: {name} is .*, not a matrix of float16"):
        import_marian(npz)


@pytest.mark.parametrize("damage", ["content", "encryption", "compression"])
def test_a_member_that_cannot_be_unpacked_is_named(npz: Path, damage: str):
    with np.load(npz / "model.npz") as archive:
        arrays = dict(archive)
    np.savez_compressed(npz / "model.npz", **arrays)
    data = bytearray((npz / "model.npz").read_bytes())
    content, entry = 30 + data[26] + data[28], data.index(b"PK\x01\x02")  # of the first member
    place, value = {
        "content": (content, 0xFF),
        "encryption": (entry + 8, 1),
        "compression": (entry + 10, 99),
    }[damage]
    data[place] = value
    (npz / "model.npz").write_bytes(data)

    with pytest.raises(ValueError, match=r"model\.npz is damaged or no archive of arrays"):
        import_marian(npz)


def test_a_date_among_the_settings_is_named(npz: Path):
    with np.load(npz / "model.npz") as archive:
        arrays = dict(archive)
    text = arrays["special:model.yml"].tobytes().replace(b"12", b"2012-12-12", 1)
    np.savez(npz / "model.npz", **{**arrays, "special:model.yml": np.frombuffer(text, np.int8)})

    with pytest.raises(ValueError, match="d_model: Input should be a valid integer"):
        import_marian(npz)


def test_pickles_are_refused(npz: Path):
    np.savez(npz / "model.npz", Wemb=np.array([object()]))

    with pytest.raises(ValueError, match=r"model\.npz is damaged or no archive of arrays"):
        import_marian(npz)


def nested_aliases() -> str:
    """A list of ten lists of ten lists …: a few hundred bytes, 10^30 words when written out."""
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
    return f"a0: &a0 word\n{levels}"


@pytest.mark.parametrize("name", ["model.npz", "vocab.yml", "decoder.yml"])
def test_aliases_are_refused_at_once(npz: Path, name: str):
    text = f"{nested_aliases()}type: *a29\nmodels: *a29\n"
    if name == "model.npz":
        with np.load(npz / name) as archive:
            arrays = dict(archive)
        settings = np.frombuffer(text.encode(), np.int8)
        np.savez(npz / name, **{**arrays, "special:model.yml": settings})
    else:
        (npz / name).write_text(text)

    with pytest.raises(ValueError, match=rf"{name} is no YAML file of settings without aliases"):
        import_marian(npz)


def test_an_ensemble_is_refused(npz: Path):
    (npz / "decoder.yml").write_text("models: [a.npz, b.npz]\nvocabs: [v.yml, v.yml]\n")

    with pytest.raises(ValueError, match="only a single model"):
        import_marian(npz)
