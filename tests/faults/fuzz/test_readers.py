"""Whatever a reader is given, it reads it or says in one line why not."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.faults.damaging import tiny_bundle, vouch

from transduce.bundle.bundle import Bundle
from transduce.bundle.calibration import Confidence
from transduce.bundle.torch_tensors import read_tensors
from transduce.config import load_recipe
from transduce.data import corpus
from transduce.data.corpus import CleaningCounts, clean, read_pairs
from transduce.data.pair_tokenizer import read_tokenizer
from transduce.data.sentencepiece_model import read_model_type, read_pieces
from transduce.data.store import Store
from transduce.inference.glossary import read_glossary
from transduce.io.atomic_folder import check_folder
from transduce.io.records import read_record
from transduce.serve.settings import read_keys

quick = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

LINES = st.lists(
    st.sampled_from([b"a", b"b c", b"\t", b"\n", b"\r", b"\0", b"\xff", b"\xc2\x85", b"#", b"-1"])
    | st.binary(max_size=5),
    max_size=30,
).map(b"".join)
"""Bytes that are nearly text."""

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**30, -1, "bpe", "post", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


def tame(read: Callable[[], object]) -> None:
    """Read; a refusal is one line, and an OSError one that names the file."""
    try:
        read()
    except (ValueError, OSError) as error:
        result = str(error)
        assert result
        assert "\n" not in result, result
        assert len(result) < 2000, result


@quick
@given(LINES, LINES, st.booleans())
@example(b"a\rb\nc\n", b"x\r\n\ny\n", True)
@example(b"\xef\xbb\xbf\n", b"\0\n", False)
def test_pairs(tmp_path_factory: pytest.TempPathFactory, source: bytes, target: bytes, drop: bool):
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "a").write_bytes(source)
    (folder / "b").write_bytes(target)

    for files in ([folder / "a", folder / "b"], [folder / "a"]):
        kept = read_pairs(files, not_utf8="drop" if drop else "refuse")
        tame(lambda kept=kept: list(clean(kept, max_ratio=4.0, counts=CleaningCounts())))


@quick
@given(LINES, st.integers(0, 200), st.integers(0, 200), st.integers(0, 255))
def test_damaged_gzip(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, offset: int, end: int, byte: int
):
    packed = bytearray(gzip.compress(text * 9, mtime=0))
    packed[offset % len(packed)] = byte
    file = tmp_path_factory.mktemp("gzip") / "a.gz"
    file.write_bytes(packed[: max(1, len(packed) - end // 4)])

    tame(lambda: list(read_pairs([file, file], not_utf8="drop")))


def test_a_line_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "_LONGEST", 97)
    (tmp_path / "a").write_bytes(b"short\n" + b"x" * 98)

    with pytest.raises(ValueError, match=r"a, line 2: more than 97 bytes"):
        list(read_pairs([tmp_path / "a", tmp_path / "a"]))


TOML = st.lists(
    st.sampled_from(["[", "]", "model", "train", ".", "=", '"', "1", "-", "\n", "name", "extends"])
    | st.text(max_size=4),
    max_size=20,
).map("".join)


@quick
@given(TOML)
@example("a=" + "[" * 5000)
@example("name=" + "1" * 5000)
@example('[train]\n"a\\nb"=1')
@example('extends = "."')
@example('extends = "\\u0000"')
@example("[model]\nd_model = 0x" + "f" * 6000)
@example("[train]\nseed = 1979-05-27")
def test_recipes(tmp_path_factory: pytest.TempPathFactory, text: str):
    file = tmp_path_factory.mktemp("recipe") / "a.toml"
    file.write_bytes(text.encode(errors="surrogatepass"))

    tame(lambda: load_recipe(file))


KEYS = st.sampled_from(
    (
        *("name", "name.a", "model.d_model", "model.norm", "train.seed", "data.train", "model", ""),
        *(
            "x.y",
            "search.alpha",
            "tokenizer.kind",
            "model.preset",
            "train.learning_rate",
            "data.max_ratio",
        ),
    )
)


@quick
@given(st.lists(st.tuples(KEYS, st.text(max_size=6) | VALUES.map(repr)), max_size=3))
@example([("name", "a"), ("name.a", "1")])
@example([("train.seed", "[" * 5000)])
@example([("train.seed", "9" * 5000)])
@example([("search.alpha", "nan"), ("model.d_model", "{a.b.c.d=1}")])
def test_overrides(overrides: list[tuple[str, str]]):
    tame(lambda: load_recipe("tiny", [f"{key}={value}" for key, value in overrides]))


@quick
@given(LINES)
@example(b"a\tb\na\tc\n")
@example(b"key " + b"9" * 5000)
@example("key ²".encode())
def test_glossaries_and_keys(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    file = tmp_path_factory.mktemp("lines") / "a"
    file.write_bytes(data)

    tame(lambda: read_glossary(file))
    tame(lambda: read_keys(file))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzzed") / "model"
    tiny_bundle().save(folder)
    return folder


SECTIONS = st.sampled_from(["model", "search", "languages", "cleaning", "provenance", "version"])


@quick
@given(SECTIONS, st.text(max_size=4) | st.sampled_from(["d_model", "beam", "scores"]), VALUES)
@example("provenance", "a\nb", 1)
@example("model", "d_model", 10**400)
def test_a_config(saved: Path, section: str, key: str, value: object):
    file = saved / "config.json"
    content = file.read_text()
    held = json.loads(content)
    if isinstance(held[section], dict):
        held[section][key] = value
    else:
        held[section] = value
    file.write_text(json.dumps(held))
    vouch(saved)

    tame(lambda: Bundle.load(saved))
    file.write_text(content)


@quick
@given(VALUES)
def test_a_manifest_and_a_calibration(saved: Path, value: object):
    text = json.dumps({"config.json": value} if isinstance(value, list) else value)
    for name in ("manifest.json", "confidence.json"):
        (saved / name).write_text(text)

    tame(lambda: check_folder(saved, expected="a box"))
    tame(lambda: read_record(saved / "confidence.json", Confidence))


@quick
@given(st.binary(max_size=60) | st.tuples(st.binary(max_size=9), st.integers(0, 40)).map(
    lambda parts: b"\x0a" + bytes([parts[1]]) + parts[0]
))  # fmt: skip
def test_a_tokenizer(data: bytes):
    for read in (read_tokenizer, read_pieces, read_model_type):
        tame(lambda read=read: read(data))


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 2**31, 2**62, 2**63]), max_size=3)
TENSORS = st.dictionaries(
    st.text(max_size=3),
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "F64", "BF16", "I8", "BOOL", "F4", "U64", "C64", "?"]),
            "shape": SHAPES,
            "data_offsets": st.lists(st.integers(0, 64), min_size=2, max_size=2),
        }
    ),
    max_size=3,
)


@quick
@given(TENSORS, st.integers(0, 64))
def test_tensors(tmp_path_factory: pytest.TempPathFactory, header: object, size: int):
    file = tmp_path_factory.mktemp("tensors") / "a.safetensors"
    result = json.dumps(header).encode()
    file.write_bytes(struct.pack("<Q", len(result)) + result + bytes(size))

    tame(lambda: read_tensors(file))


COLUMNS = st.lists(st.sampled_from([0, 1, 2, 5, -1, 2**62, 2**63 - 1, -(2**63)]), max_size=5)


@quick
@given(COLUMNS, st.integers(-1, 3), st.sampled_from(["<u2", "<i4", "<f8"]), LINES)
@example([0, 2**63 - 1, -(2**63), 2], 3, "<u2", b"")
def test_a_store(
    tmp_path_factory: pytest.TempPathFactory, starts: list[int], pairs: int, dtype: str, ids: bytes
):
    folder = tmp_path_factory.mktemp("store")
    for side in ("source", "target"):
        for kind in ("ids", "text"):
            (folder / f"{side}.{kind}").write_bytes(ids)
            packed = struct.pack(f"<{len(starts)}q", *starts)
            (folder / f"{side}.{kind}.starts").write_bytes(packed)
    (folder / "lines").write_bytes(bytes(8 * max(0, pairs)))
    facts = {"tokenizer": "0", "dtype": dtype, "pairs": pairs, "max_pieces": 9}
    (folder / "store.json").write_text(json.dumps(facts | {"over_long": 0, "over_long_line": 0}))
    vouch(folder)

    def read() -> object:
        store = Store.open(folder)
        return [(store.pair(row), store.source(row).sum()) for row in range(len(store))]

    tame(read)
