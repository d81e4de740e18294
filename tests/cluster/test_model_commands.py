"""`augment`, `score` and `distill` with `--cluster` write the lines of their single roads."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import datasets
import pytest
import torch
from tests.cluster.conftest import attempts
from tests.cluster.stub import load_dying
from tests.cluster.test_prepare import content
from tests.conftest import CommandResult, Transduce, refuses
from tests.faults.damaging import tiny_bundle

from transduce.bundle.bundle import Bundle
from transduce.cluster import resume, translate
from transduce.cluster.engines import ProcessShard, ShardWorker
from transduce.cluster.formats import Shard
from transduce.data.config import Languages, TokenizerConfig
from transduce.data.languages import LanguagePair
from transduce.data.tokenizer import Tokenizer
from transduce.inference.engines.interface import IdPair
from transduce.inference.engines.torch_engine import TorchEngine
from transduce.model.transformer import Transformer
from transduce.pipeline import prepare_cluster

LINES = [f"a dog {'runs ' * (number % 5)}{number % 7}" for number in range(1, 150)]
CLUSTER = ("--cluster", "local", "--workers", 2, "--shard-lines", 50)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_bundle().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process shards here, the last one first."""

    def run(worker: ShardWorker, shards: Sequence[Shard], config: object) -> list[object]:
        return [worker.run(shard) for shard in reversed(shards)]

    monkeypatch.setattr(resume, "run_shards", run)


def joined(folder: Path, suffix: str = ".tsv") -> str:
    """All lines of the output's files, in the order of their names."""
    return "".join(file.read_text() for file in sorted(folder.glob(f"*-of-*{suffix}")))


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make workers note the shards that they process, and die at some of them."""

    def watch(die_at: tuple[int, ...] = ()) -> None:
        def watched(load: Callable[[], ProcessShard], output: str) -> ShardWorker:
            load = partial(load_dying, load, tmp_path / "attempts", die_at)
            return ShardWorker(load=load, output=output)

        monkeypatch.setattr(translate, "ShardWorker", watched)

    return watch


@pytest.fixture
def augment(model: Path, tmp_path: Path, transduce: Transduce) -> Callable[..., CommandResult]:
    (tmp_path / "in.de").write_text("".join(f"{line}\n" for line in LINES))
    command = ("augment", model, "-i", tmp_path / "in.de", "--max-ratio", 9, "--min-score", -1.795)

    def run(out: str, *options: object) -> CommandResult:
        return transduce(*command, "-o", tmp_path / out, *options)

    return run


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    "options", [(), ("--forward", "--sample", "--top-k", 4, "--min-score", -2.0)]
)
def test_synthetic_pairs_are_those_of_the_single_road(
    tmp_path: Path, augment: Callable[..., CommandResult], options: tuple[object, ...]
):
    single = augment("o.tsv", *options)
    many, again = (augment("out", *options, *CLUSTER) for _ in range(2))

    pairs = (tmp_path / "o.tsv").read_text()
    assert (single.code, many.code, again.code) == (0, 0, 0), many.err
    assert joined(tmp_path / "out") == pairs
    count = len(pairs.splitlines())
    assert 0 < count < len(LINES)
    kept = f"out: {count} pairs of 149 lines in 3 files"
    assert f"{kept}, 149 lines translated now" in many.err
    assert f"{kept}, 0 lines translated now" in again.err


@pytest.mark.usefixtures("cluster", "by_value")
def test_a_killed_worker_repeats_its_shard(
    tmp_path: Path, augment: Callable[..., CommandResult], note: Callable[..., None]
):
    note(die_at=(1,))

    single, many = augment("o.tsv"), augment("out", *CLUSTER)

    assert (single.code, many.code) == (0, 0), many.err
    assert joined(tmp_path / "out") == (tmp_path / "o.tsv").read_text()
    assert attempts(tmp_path / "attempts") == [0, 1, 1, 2]


@pytest.fixture
def multilingual(tmp_path: Path) -> Path:
    tags = ["<2de>", "<2en>"]
    tokenizer = Tokenizer.train(
        ["a dog runs", "ein Hund"], TokenizerConfig(vocab_size=24), tags=tags
    )
    plain = tiny_bundle()
    wider = replace(plain.model.config, vocab_size=tokenizer.vocab_size, d_model=32, d_k=32, d_v=32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = Transformer(wider).eval()
    bundle = Bundle(
        model=model,
        tokenizer=tokenizer,
        languages=plain.languages,
        search=plain.search,
        provenance=plain.provenance,
        directions=(LanguagePair("en", "de"), LanguagePair("de", "en")),
    )
    bundle.save(tmp_path / "multilingual")
    return tmp_path / "multilingual"


@pytest.mark.usefixtures("in_process")
def test_the_target_language_reaches_the_workers(
    multilingual: Path, tmp_path: Path, transduce: Transduce
):
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    command = ("translate", multilingual, "-i", tmp_path / "in.txt", "--max-length", 9)

    outputs = [transduce(*command, "--to", code).out for code in ("de", "en")]
    many = transduce(*command, "--to", "en", "-o", tmp_path / "out", *CLUSTER)

    assert many.code == 0
    assert joined(tmp_path / "out", ".txt") == outputs[1] != outputs[0]


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--to", "fr"), "does not translate into 'fr', only into de, en"),
        (("--to", "de", "--from", "fr"), "does not translate from 'fr', only from de, en"),
        (("--from", "en"), "name --to too"),
    ],
)
def test_a_language_that_the_model_does_not_know_is_refused_at_once(
    options: tuple[str, ...], message: str, multilingual: Path, tmp_path: Path, transduce: Transduce
):
    (tmp_path / "in.txt").write_text("a dog\n")
    command = ("translate", multilingual, "-i", tmp_path / "in.txt", "-o", tmp_path / "out")

    refuses(transduce(*command, *options, *CLUSTER), message)

    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("in_process")
def test_a_model_of_one_direction_knows_its_target(tmp_path: Path, transduce: Transduce):
    bundle = replace(tiny_bundle(), languages=Languages(source="en", target="de"))
    bundle.save(tmp_path / "model")
    (tmp_path / "in.txt").write_text("a dog\n")
    paths = ("-i", tmp_path / "in.txt", "-o", tmp_path / "out")

    for command in (("translate", *CLUSTER), ("augment",)):
        result = transduce(command[0], tmp_path / "model", *paths, *command[1:], "--to", "fr")
        refuses(result, "does not translate into 'fr', only into de")


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("cluster", [(), CLUSTER], ids=["alone", "cluster"])
def test_text_is_not_augmented_in_a_language_that_the_model_does_not_know(
    cluster: tuple[str, ...], multilingual: Path, tmp_path: Path, transduce: Transduce
):
    (tmp_path / "in.txt").write_text("a dog\n")
    paths = ("-i", tmp_path / "in.txt", "-o", tmp_path / "out")

    result = transduce("augment", multilingual, *paths, "--to", "fr", *cluster)

    refuses(result, "does not translate into 'fr', only into de, en")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("in_process")
def test_other_options_and_texts_without_a_pair_are_refused(augment: Callable[..., CommandResult]):
    augment("out", *CLUSTER)

    refuses(augment("out", "--beam", 3, *CLUSTER), "out was begun with another beam: repeat")
    none = augment("none", "--min-score", -0.001, *CLUSTER)
    assert (none.code, none.err.split("\n")[-2][-35:]) == (2, "in.de: no pair to keep of 149 lines")


@pytest.mark.usefixtures("in_process")
def test_a_data_set_becomes_files_of_pairs(model: Path, tmp_path: Path, transduce: Transduce):
    datasets.Dataset.from_dict({"text": LINES}).save_to_disk(tmp_path / "in")

    result = transduce("augment", model, "-i", tmp_path / "in", "-o", tmp_path / "out", *CLUSTER)

    assert (result.code, joined(tmp_path / "out").count("\n")) == (0, 149)
    assert len([file for file in (tmp_path / "out").iterdir() if file.is_file()]) == 3


def test_a_relative_output_is_no_folder_of_the_workers(
    model: Path, tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    def run(worker: ShardWorker, shards: Sequence[Shard], config: object) -> list[object]:
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir(tmp_path / "elsewhere")
            return [worker.run(shard) for shard in shards]

    monkeypatch.setattr(resume, "run_shards", run)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "in.txt").write_text("a dog\n")

    result = transduce("translate", model, "-i", "in.txt", "-o", "out", *CLUSTER)

    assert result.code == 0, result.err
    assert joined(tmp_path / "out", ".txt").count("\n") == 1
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_missing_engine_is_reported_before_the_corpus_is_read(
    model: Path, tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    for name in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, name, None)

    result = transduce("translate", model, "-i", "none", "-o", tmp_path / "out", *CLUSTER)
    refuses(result, "--cluster needs ray, which is missing")
    (tmp_path / "in.tsv").write_text("a\tein\n" * 300)
    sets = ("--set", f"data.folder={str(tmp_path)!r}", "--set", 'data.train=["in.tsv"]')
    command = ("prepare", "tiny", *sets, "--source-lang", "en", "--target-lang", "de")
    result = transduce(*command, "--out", tmp_path / "out", "--cluster", "slurm", "--workers", 2)
    refuses(result, "--cluster needs submitit, which is missing")
    assert not (tmp_path / "out" / prepare_cluster.SHARDS_FOLDER).exists()


@pytest.mark.usefixtures("in_process")
def test_scores_are_those_of_the_single_road(
    model: Path, tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("transduce.inference.translator.CHUNK", 50)
    chunks, score = list[int](), TorchEngine.score

    def counted(engine: TorchEngine, pairs: Sequence[IdPair]) -> list[tuple[float, ...]]:
        chunks.append(len(pairs))
        return score(engine, pairs)

    monkeypatch.setattr(TorchEngine, "score", counted)
    pairs = [(line, LINES[-number]) for number, line in enumerate(LINES)]
    (tmp_path / "in.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in pairs))
    for name, lines in zip(("source", "target"), zip(*pairs, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(lines))

    single = transduce("score", model, "-i", tmp_path / "source", "--target", tmp_path / "target")
    command = ("score", model, "-i", tmp_path / "in.tsv", "-o", tmp_path / "out", *CLUSTER)
    many, again = transduce(*command), transduce(*command)

    assert (single.code, many.code, again.code) == (0, 0, 0), many.err
    assert joined(tmp_path / "out", ".scores") == single.out
    assert chunks == [50, 50, 49, 49, 50, 50]  # batches are the same on both roads
    assert "149 pairs in 3 files of " in many.err
    assert "out, 149 of them scored now" in many.err
    assert "out, 0 of them scored now" in again.err


@pytest.mark.usefixtures("in_process")
def test_a_line_that_is_no_pair_is_named(model: Path, tmp_path: Path, transduce: Transduce):
    (tmp_path / "in.tsv").write_text("a\tein\na dog\n")

    result = transduce("score", model, "-i", tmp_path / "in.tsv", "-o", tmp_path / "out", *CLUSTER)

    assert result.code == 2
    assert "in.tsv: line 2 has 1 columns, not source and target" in result.err


@pytest.mark.usefixtures("in_process")
def test_the_distilled_corpus_is_that_of_the_single_road(
    model: Path,
    tmp_path: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    note: Callable[..., None],
):
    for name in ("source", "target"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in LINES))
    training = Mock(side_effect=ValueError("it would train now"))
    monkeypatch.setattr("transduce.pipeline.distill.run_recipe", training)

    def distill(out: str, *options: object) -> str:
        files = ("--source", tmp_path / "source", "--target", tmp_path / "target")
        settings = ("--set", 'data.duplicates="keep"', "--set", "data.held_out=20")
        command = ("distill", model, "tiny", *files, *settings, "--out", tmp_path / out)
        result = transduce(*command, *options)
        assert result.code == 2
        return result.err

    note()
    assert "it would train now" in distill("single")
    with monkeypatch.context() as broken:
        broken.setattr("transduce.pipeline.distill.write_pairs", Mock(side_effect=ValueError("no")))
        distill("many", *CLUSTER)
    assert "was begun with another num_beams" in distill("many", *CLUSTER, "--beam", 3)
    assert "it would train now" in distill("many", *CLUSTER)
    leftover = tmp_path / "many" / ".distilled.shards"  # of one killed just before it was gone
    leftover.mkdir()
    (leftover / "in.txt").touch()
    assert "the corpus is translated already" in distill("many", *CLUSTER)

    assert attempts(tmp_path / "attempts") == [0, 1, 2]
    single, many = content(tmp_path / "single"), content(tmp_path / "many")
    assert single.keys() == many.keys()
    assert [name for name in single if single[name] != many[name]] == ["recipe.toml"]  # the folder
