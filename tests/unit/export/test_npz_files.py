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
    """A folder of the weights of `foreign`."""
    weights = foreign.weights.to_numpy().weights
    order = interleaved_to_halves(12).numpy()
    arrays: dict[str, np.ndarray] = {}
    for name, _, axis in tensor_map(foreign.weights.config):
        array = weights[name] if axis is None else weights[name].take(order, axis)
        rows = array[:-1] if name == "embedding.weight" else array.T
        arrays[_npz_name(name)] = rows if array.ndim == 2 else array[None]
    arrays["decoder_ff_logit_out_b"] = weights["output_bias"][None, :-1]
    folder = tmp_path / "npz"
    folder.mkdir()
    for name, data in foreign.tokenizer.files().items():
        (folder / name).write_bytes(data)
    names = foreign.tokenizer.pieces(range(foreign.tokenizer.pad))
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


def test_pickles_are_refused(npz: Path):
    np.savez(npz / "model.npz", Wemb=np.array([object()]))

    with pytest.raises(ValueError, match=r"model\.npz is damaged or no archive of arrays"):
        import_marian(npz)


def test_an_ensemble_is_refused(npz: Path):
    (npz / "decoder.yml").write_text("models: [a.npz, b.npz]\nvocabs: [v.yml, v.yml]\n")

    with pytest.raises(ValueError, match="only a single model"):
        import_marian(npz)
