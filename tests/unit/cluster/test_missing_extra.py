"""What `--cluster` refuses before it needs its extra, and without it."""

import sys
from pathlib import Path

import pytest
from tests.conftest import Transduce, refuses
from tests.faults.damaging import tiny_bundle

from transduce.cluster.engines import ClusterConfig


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_bundle().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("translate", ("-i", "x", "-o", "y")),
        ("augment", ("-i", "x", "-o", "y")),
        ("score", ("--source", "x.tsv", "-o", "y")),
        ("distill", ("--source", "x", "--target", "y")),
    ],
)
def test_without_the_extra_a_line_says_what_to_install(
    model: Path,
    transduce: Transduce,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    options: tuple[str, ...],
):
    monkeypatch.setitem(sys.modules, "upath", None)
    for name in "xy":
        (model.parent / name).write_text("a dog\n" * 300)
    monkeypatch.chdir(model.parent)

    refuses(
        transduce(command, model, *options, "--cluster", "local"),
        "--cluster needs upath, which is missing: pip install 'transduce[cluster]'",
    )
    assert sorted(file.name for file in model.parent.iterdir()) == ["model", "x", "y"]


def test_without_the_extra_tables_of_a_corpus_say_what_to_install(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    (tmp_path / "x.parquet").touch()
    options = ("--source-lang", "en", "--target-lang", "de", "--licence", "MIT")

    refuses(
        transduce("corpus", "build", tmp_path / "x.parquet", *options, "--out", tmp_path / "out"),
        "x.parquet needs pyarrow",
        "which is missing: pip install 'transduce[cluster]'",
    )


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_without_the_extra_prepare_says_what_to_install(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch, engine: str
):
    monkeypatch.setitem(sys.modules, "upath", None)
    (tmp_path / "a.tsv").write_text("a\tb\n")
    settings = (f"data.folder={str(tmp_path)!r}", 'data.train=["a.tsv"]')

    refuses(
        transduce(
            *("prepare", "tiny", *(word for setting in settings for word in ("--set", setting))),
            *("--source-lang", "en", "--target-lang", "de"),
            *("--cluster", engine, "--workers", 2, "--out", tmp_path / "out"),
        ),
        "--cluster needs upath, which is missing: pip install 'transduce[cluster]'",
    )
    assert not any((tmp_path / "out").glob("*prepared*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "local", "-i", "x"), "--cluster needs --input, a folder or a pattern, and"),
        (("--cluster", "local", "--json"), "one translation per line: leave out --json"),
        (("--cluster", "spark", "-i", "x", "-o", "y"), "must be local, ray[:ADDRESS] or slurm"),
        (("--cluster", "slurm:x", "-i", "x", "-o", "y"), "must be local, ray[:ADDRESS] or slurm"),
        (("--cluster", "local:2", "-i", "x", "-o", "y"), "or slurm, not local:2"),
        (("--cluster", "slurm", "-i", "x", "-o", "y"), "--cluster slurm needs --workers"),
        (
            ("--cluster", "ray", "-i", "x", "-o", "y", "--device", "auto"),
            "--cluster needs --device cpu or cuda, not auto",
        ),
        (
            ("--cluster", "ray", "-i", "x", "-o", "y", "--shard-lines", 0),
            "shard_rows must be at least 1, not 0",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(
    model: Path, transduce: Transduce, options: tuple[object, ...], message: str
):
    refuses(transduce("translate", model, *options), message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cluster", "local", "-o", "y", "--target", "x"), "leave out --target and --json"),
        (("--cluster", "local"), "writes to a folder, --output"),
        (("--target", "x", "-o", "y"), "--output for --cluster alone"),
        ((), "--target is required"),
    ],
)
def test_scores_have_one_form_of_pairs(
    model: Path, transduce: Transduce, options: tuple[object, ...], message: str
):
    refuses(transduce("score", model, "--source", "x", *options), message)


@pytest.mark.parametrize(
    "words",
    [
        ("translate", "model", "a dog", "--field", "x"),
        ("translate", "model", "a dog", "--shard-lines", 9),
        ("score", "model", "--source", "x", "--target", "x", "--workers", 2),
        ("augment", "model", "-i", "x", "-o", "y", "--shard-lines", 9),
        ("distill", "model", "--workers", 2),
        ("prepare", "--workers", 2),
        ("prepare", "--shard-lines", 8192),
    ],
)
def test_options_of_workers_are_refused_without_them(
    transduce: Transduce, words: tuple[object, ...]
):
    refuses(transduce(*words), "are for --cluster: add it, or leave them out")


def test_a_long_translation_names_the_way_to_several_machines(
    model: Path, tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "in.txt").write_text("a dog\n" * 3)
    command = ("translate", model, "-i", tmp_path / "in.txt", "--engine", "torch")
    short = transduce(*command)
    monkeypatch.setattr("transduce.cli.translate._LONG", 0.0)

    assert "--cluster" not in short.err
    assert "at this rate: --cluster uses more machines" in transduce(*command).err


def test_the_default_is_this_machine():
    assert ClusterConfig().engine == "local"
