"""`transduce prepare --cluster` gives the bytes of the single road, however often it is killed."""

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.cluster.conftest import attempts, kill_driver
from tests.cluster.stub import load_dying
from tests.conftest import CommandResult, Transduce, refuses
from tests.sentences import sentences

from transduce.cluster import resume
from transduce.cluster.engines import RECORDS, ProcessShard, ShardWorker
from transduce.data.corpus import Pair
from transduce.data.store import Store
from transduce.pipeline import prepare_cluster, run_folder, survey
from transduce.pipeline.prepare_cluster import CorpusShard

PAIRS = sentences(400)
SHARDS = [*range(9)]
FAILURE = ValueError("interrupted")
SETTINGS = ("tokenizer.vocab_size=120", "data.held_out=15", 'data.duplicates="drop"')


def dirty() -> list[Pair]:
    """Pairs of which most filters drop some, and which hold what a line may hold."""
    pairs = [*PAIRS, PAIRS[3], PAIRS[390]]
    pairs[0] = Pair("Source", "Target")
    pairs[7] = pairs[200] = Pair("", "nichts")  # the report names the first
    pairs[11] = Pair("a", "b" * 90)
    pairs[90] = Pair("cafe\u0301\u2028noir \x07", "Café\u0085noir")
    pairs[91] = Pair("long " * 40, "lang " * 40)
    return [pairs[0], *pairs[1:], Pair(PAIRS[5].source, PAIRS[6].target)]


def write_sides(folder: Path, pairs: list[Pair], *, end: bytes = b"\n") -> tuple[str, ...]:
    for side in Pair._fields:
        lines = (f"{getattr(pair, side)}".encode() for pair in pairs)
        (folder / f"train.{side}").write_bytes(b"\xef\xbb\xbf" + end.join(lines))
    return (f"data.train={[f'train.{side}' for side in Pair._fields]}".replace("'", '"'),)


def write_dirty(folder: Path) -> tuple[str, ...]:
    settings = write_sides(folder, dirty(), end=b"\r\n")
    target = folder / "train.target"
    target.write_bytes(target.read_bytes().replace(b"noir", b"n\xffir"))
    return (*settings, 'data.not_utf8="drop"', "data.max_pieces=60", "augment.title_case=0.5")


def write_sampled(folder: Path) -> tuple[str, ...]:
    return write_sides(folder, dirty())


def write_also(folder: Path) -> tuple[str, ...]:
    """A compressed TSV, and further corpora, some of whose pairs may be held out."""
    rows = [f"{pair.source}\t{pair.target}\n" for pair in PAIRS]
    (folder / "a.tsv.gz").write_bytes(gzip.compress("".join(rows[:250]).encode(), mtime=0))
    (folder / "b.tsv").write_text("".join(f"<bt> {row}" for row in rows[200:320]))
    objects = (json.dumps({"source": pair.source, "target": pair.target}) for pair in PAIRS[300:])
    (folder / "c.jsonl").write_text("\n".join(objects))
    also = '[{train=["b.tsv"], weight=0.5}, {train=["c.jsonl"], weight=2.0}]'
    return ('data.train=["a.tsv.gz"]', f"data.also={also}")


def write_directions(folder: Path) -> tuple[str, ...]:
    """Two directions with validation text, a zero-shot one, and a further corpus of the second."""
    for name, pairs in (("big", PAIRS[:300]), ("small", PAIRS[300:380]), ("held", PAIRS[380:])):
        for code, side in (("en", "source"), ("de", "target")):
            lines = (f"{getattr(pair, side)}\n" for pair in pairs)
            (folder / f"{name}.{code}").write_text("".join(lines))
    parts = [
        f'{{source="{s}", target="{t}", train=["{n}.{s}", "{n}.{t}"], validation={h}}}'
        for n, s, t, h in (
            ("big", "en", "de", '["held.en", "held.de"]'),
            ("small", "de", "en", '["held.de", "held.en"]'),
        )
    ]
    parts.append('{source="en", target="xx", test=["held.en", "held.de"]}')
    also = '[{train=["big.de", "big.en"], source="de", target="en", weight=2.0}]'
    return f"data.directions=[{', '.join(parts)}]", f"data.also={also}"


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


Prepare = Callable[..., CommandResult]


def words(out: Path, settings: tuple[str, ...], *options: object) -> tuple[object, ...]:
    """The command for a corpus in the run's parent folder."""
    sets = (f"data.folder={str(out.parent)!r}", *SETTINGS, *settings)
    options = (*(word for item in sets for word in ("--set", item)), *options)
    return ("prepare", "tiny", "--source-lang", "en", "--target-lang", "de", *options, "--out", out)


@pytest.fixture
def prepare(tmp_path: Path, transduce: Transduce) -> Prepare:
    """Run the command for a corpus in the test's folder."""
    return lambda out, *options: transduce(*words(tmp_path / out, *options))


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make workers note the shards that they clean and encode, and die at some of them."""

    def watch(die_at: tuple[int, ...] = ()) -> None:
        def watched(load: Callable[[], ProcessShard], output: str) -> ShardWorker:
            notes = tmp_path / Path(output).name
            return ShardWorker(load=partial(load_dying, load, notes, die_at), output=output)

        monkeypatch.setattr(prepare_cluster, "ShardWorker", watched)

    return watch


CLUSTER = ("--cluster", "local", "--workers", 2, "--shard-lines", 50)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process shards here, the last one first."""

    def run(worker: ShardWorker, shards: Sequence[CorpusShard], config: object) -> list[object]:
        return [worker.run(shard) for shard in reversed(shards)]

    monkeypatch.setattr(resume, "run_shards", run)
    monkeypatch.setattr(run_folder, "connected", lambda config: nullcontext())


def refuses_at_the_end(result: CommandResult, message: str) -> None:
    assert result.code == 2
    assert message in result.err.split("\n")[-2]


def cleaned(tmp_path: Path) -> list[int]:
    return attempts(tmp_path / "cleaned")


def encoded(tmp_path: Path) -> list[int]:
    return attempts(tmp_path / "encoded")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("write", [write_dirty, write_sampled, write_also, write_directions])
def test_the_bytes_and_the_report_are_those_of_the_single_road(
    tmp_path: Path,
    prepare: Prepare,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], tuple[str, ...]],
):
    if write is write_sampled:
        monkeypatch.setattr(survey, "_SAMPLE_PAIRS", 120)
    settings = write(tmp_path)

    single, many = prepare("single", settings), prepare("many", settings, *CLUSTER)

    assert (single.code, many.code, many.out) == (0, 0, "")
    assert content(tmp_path / "many") == content(tmp_path / "single")
    lines = iter(many.err.split("\n"))
    assert all(line in lines for line in single.err.split("\n"))  # in this order
    assert "cleaning by workers, --cluster local" in many.err


@pytest.mark.usefixtures("cluster", "by_value")
def test_killed_workers_repeat_only_what_was_in_flight(
    tmp_path: Path, prepare: Prepare, workers: Callable[..., None]
):
    settings = write_dirty(tmp_path)
    single = prepare("single", settings)
    workers(die_at=(0, 5, 8))

    many = prepare("many", settings, *CLUSTER)

    assert (single.code, many.code) == (0, 0)
    assert content(tmp_path / "many") == content(tmp_path / "single")
    assert cleaned(tmp_path) == encoded(tmp_path) == sorted([*SHARDS, 0, 5, 8])


@pytest.mark.usefixtures("cluster", "by_value")
@pytest.mark.parametrize("stage", ["cleaned", "encoded"])
def test_a_killed_driver_is_resumed(
    tmp_path: Path, prepare: Prepare, workers: Callable[..., None], stage: str
):
    settings = write_dirty(tmp_path)
    shards = tmp_path / "many" / prepare_cluster.SHARDS_FOLDER
    kill_driver(shards / stage / RECORDS, tmp_path, *words(tmp_path / "many", settings, *CLUSTER))
    before = attempts(tmp_path / stage)
    workers()

    single, many = prepare("single", settings), prepare("many", settings, *CLUSTER)

    assert 3 <= len(before) < len(SHARDS)
    assert (single.code, many.code) == (0, 0)
    assert content(tmp_path / "many") == content(tmp_path / "single")
    for made in (cleaned(tmp_path), encoded(tmp_path)):
        assert set(made) == set(SHARDS)
        assert len(made) <= len(SHARDS) + 2  # two workers had a shard in flight


@pytest.mark.usefixtures("in_process")
def test_a_second_call_does_only_what_is_missing(
    tmp_path: Path, prepare: Prepare, workers: Callable[..., None], monkeypatch: pytest.MonkeyPatch
):
    settings = (*write_dirty(tmp_path), "tokenizer.character_coverage=0.98")
    single = prepare("single", settings)
    workers()
    shards = tmp_path / "many" / prepare_cluster.SHARDS_FOLDER
    with monkeypatch.context() as broken:
        broken.setattr(Store, "write_encoded", Mock(side_effect=FAILURE))
        refuses_at_the_end(prepare("many", settings, *CLUSTER), "interrupted")
    (shards / "cleaned" / "00000003.npz").unlink()
    (shards / "encoded" / "00000004.npz").write_bytes(b"PK")
    monkeypatch.setattr("transduce.data.tokenizer.Tokenizer.train", Mock(side_effect=FAILURE))

    resumed = prepare("many", settings, *CLUSTER)
    again = prepare("many", settings, *CLUSTER)

    assert (resumed.code, again.code) == (0, 0)
    assert content(tmp_path / "many") == content(tmp_path / "single")  # and nothing else is left
    assert cleaned(tmp_path) == sorted([*SHARDS, 3])
    assert encoded(tmp_path) == sorted([*SHARDS, 4])
    assert "403 lines in 9 shards; 353 lines are done already" in resumed.err
    assert "characters are rare and have no piece" in single.err
    assert set(single.err.split("\n")) <= set(resumed.err.split("\n"))
    assert "the corpus is prepared already" in again.err


@pytest.mark.usefixtures("in_process")
def test_other_settings_are_refused_while_shards_are_left(
    tmp_path: Path, prepare: Prepare, monkeypatch: pytest.MonkeyPatch
):
    settings = write_sides(tmp_path, PAIRS)
    with monkeypatch.context() as broken:
        broken.setattr(Store, "write_encoded", Mock(side_effect=FAILURE))
        refuses_at_the_end(prepare("many", settings, *CLUSTER), "interrupted")

    other = prepare("many", (*settings, "data.max_ratio=2.0"), *CLUSTER)
    refuses(other, "many was begun with another data.max_ratio: repeat that command, or name")
    (tmp_path / "train.target").write_text("ein Satz\n" * len(PAIRS))
    refuses(prepare("many", settings, *CLUSTER), "was begun with another train.target")
    assert prepare("many", settings).code == 0  # the single road begins anew
    assert not (tmp_path / "many" / prepare_cluster.SHARDS_FOLDER).exists()


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace(b"noir", b"n\xffir"), "train.target, line 91: not UTF-8"),
        (lambda text: text.rpartition(b"\n")[0], "has 403 lines but"),
        (lambda text: b"\n" * 403, "cleaning left no pair: kept 0 pairs; dropped 403 (empty"),
    ],
)
def test_a_faulty_corpus_is_one_line(
    tmp_path: Path, prepare: Prepare, spoil: Callable[[bytes], bytes], message: str
):
    settings = write_sides(tmp_path, dirty())
    target = tmp_path / "train.target"
    target.write_bytes(spoil(target.read_bytes()))

    many = prepare("many", settings, *CLUSTER)

    refuses_at_the_end(many, message)
