"""Workers and drivers that are killed lose, double and reorder nothing."""

import json
from pathlib import Path

import pytest
import submitit
from tests.cluster.conftest import LINES, Run, attempts, kill_driver
from tests.conftest import Transduce
from tests.faults.damaging import tiny_bundle

from transduce.cluster import engines
from transduce.cluster.translate import ClusterResult
from transduce.inference.glossary import Term

EXPECTED = [line.upper() for line in LINES]
MODEL_LINES = ["" if number % 17 == 0 else f"a dog {number % 7}" for number in range(300)]
OPTIONS = ("--beam", "2", "--engine", "torch", "--as-is", "--max-length", "5")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "in.txt"


def output(tmp_path: Path) -> list[str]:
    """All lines of the output's files, in the order of their names."""
    files = sorted((tmp_path / "out").glob("*.txt"))
    return "".join(file.read_text() for file in files).split("\n")[:-1]


@pytest.mark.usefixtures("cluster")
def test_the_output_is_that_of_the_single_road(tmp_path: Path, transduce: Transduce):
    tiny_bundle().save(tmp_path / "model")
    source = tmp_path / "in.txt"
    source.write_text("".join(f"{line}\n" for line in MODEL_LINES))
    options = ("-i", source, *OPTIONS)

    single = transduce("translate", tmp_path / "model", *options)
    many = transduce(
        *("translate", tmp_path / "model", *options, "-o", tmp_path / "out"),
        *("--cluster", "local", "--shard-lines", 64),
    )

    assert (single.code, many.code, many.out) == (0, 0, "")
    assert "300 lines in 5 files" in many.err
    assert output(tmp_path) == single.out.split("\n")[:-1]


@pytest.mark.usefixtures("cluster")
def test_killed_workers_repeat_only_what_was_in_flight(tmp_path: Path, corpus: Path, run: Run):
    result = run(corpus, workers=2, die_at=(1, 31, 91))

    assert output(tmp_path) == EXPECTED
    assert attempts(tmp_path / "attempts") == sorted([*range(1, 101, 10), 1, 31, 91])
    assert (result.rows, result.translated) == (100, 100)
    metrics = json.loads((tmp_path / "out/_transduce/metrics.json").read_text())
    assert sum(worker["rows"] for worker in metrics.values()) == 100


@pytest.mark.usefixtures("cluster")
def test_a_killed_driver_is_resumed(tmp_path: Path, corpus: Path, run: Run):
    kill_driver(tmp_path / "out/_transduce/shards", tmp_path)

    result = run(corpus, workers=2)

    assert output(tmp_path) == EXPECTED
    assert 0 < result.translated <= 70
    assert len(attempts(tmp_path / "attempts")) <= 10 + 2  # two workers had a shard in flight
    assert set(attempts(tmp_path / "attempts")) == set(range(1, 101, 10))


@pytest.mark.usefixtures("cluster")
def test_a_second_call_repairs_a_missing_and_a_truncated_file(
    tmp_path: Path, corpus: Path, run: Run
):
    names = run(corpus).files
    (tmp_path / "out" / names[3]).unlink()
    (tmp_path / "out" / names[5]).write_bytes(b"")

    assert run(corpus).translated == 20
    assert output(tmp_path) == EXPECTED
    assert run(corpus).translated == 0


@pytest.mark.usefixtures("cluster")
def test_a_folder_whose_name_looks_like_a_pattern_is_resumed(corpus: Path, run: Run):
    run(corpus, output="out [1]*?")

    assert run(corpus, output="out [1]*?").translated == 0


@pytest.mark.usefixtures("cluster")
def test_a_changed_option_or_input_is_refused(tmp_path: Path, corpus: Path, run: Run):
    run(corpus, settings={"num_beams": "4"})

    with pytest.raises(ValueError, match="begun with another num_beams: repeat that command"):
        run(corpus, settings={"num_beams": "5"})
    corpus.write_text("another\n")
    with pytest.raises(ValueError, match=r"begun with another input \(in.txt differs\)"):
        run(corpus, settings={"num_beams": "4"})
    assert output(tmp_path) == EXPECTED


def test_a_folder_with_other_files_is_refused(tmp_path: Path, corpus: Path, run: Run):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine\n")

    with pytest.raises(ValueError, match="holds other files: name another folder by --output"):
        run(corpus)


@pytest.mark.usefixtures("cluster")
def test_an_error_of_a_worker_is_one_line(tmp_path: Path, transduce: Transduce):
    tiny_bundle().save(tmp_path / "model")
    (tmp_path / "in.txt").write_text("a dog\n")

    refused = transduce(
        *("translate", tmp_path / "model", "-i", tmp_path / "in.txt", "-o", tmp_path / "out"),
        *("--cluster", "local", "--compute-type", "float9"),
    )

    assert refused.code == 2
    assert refused.err.split("\n")[1].startswith("transduce: CTranslate2 is not available")


def test_a_terminology_is_read_in_the_direction_of_the_model(
    tmp_path: Path, transduce: Transduce, monkeypatch: pytest.MonkeyPatch
):
    tiny_bundle().save(tmp_path / "model")
    (tmp_path / "terms.tbx").write_text(
        '<martif><termEntry><langSet xml:lang="de"><term>Hund</term></langSet>'
        '<langSet xml:lang="en"><term>dog</term></langSet></termEntry></martif>'
    )
    options: dict[str, object] = {}

    def translate(*_: object, **given: object) -> ClusterResult:
        options.update(given)
        return ClusterResult(rows=0, files=(), translated=0, seconds=0.0)

    monkeypatch.setattr("transduce.cluster.translate.translate_corpus", translate)

    result = transduce(
        *("translate", tmp_path / "model", "-i", tmp_path, "-o", tmp_path / "out"),
        *("--cluster", "local", "--glossary", tmp_path / "terms.tbx"),
    )

    assert result.code == 0, result.err
    assert options["glossary"] == (Term("dog", "Hund"),)


def test_an_unreachable_cluster_is_an_error(corpus: Path, run: Run, monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: False)

    with pytest.raises(ValueError, match=r"ray:127\.0\.0\.1:9: no Ray cluster there"):
        run(corpus, engine="ray:127.0.0.1:9")


def test_tasks_of_slurm_that_are_killed_are_submitted_again(
    tmp_path: Path, corpus: Path, run: Run, monkeypatch: pytest.MonkeyPatch
):
    """With submitit's own processes in place of Slurm."""

    class LocalExecutor(submitit.AutoExecutor):
        def __init__(self, folder: Path, cluster: str) -> None:
            assert cluster == "slurm"
            super().__init__(folder=folder, cluster="local")

        def map_array(self, *given: object) -> list[submitit.Job[None]]:
            tasks.extend(submitted := super().map_array(*given))
            return submitted

    tasks: list[submitit.Job[None]] = []
    monkeypatch.setattr("submitit.AutoExecutor", LocalExecutor)
    monkeypatch.setattr(engines, "_is_queued", lambda name: not all(t.done() for t in tasks))
    monkeypatch.setattr(engines, "_POLL", 0.2)
    monkeypatch.setattr("shutil.which", lambda name: name)

    run(corpus, engine="slurm", workers=2, die_at=(31,))

    assert output(tmp_path) == EXPECTED
    assert attempts(tmp_path / "attempts") == sorted([*range(1, 101, 10), 31])
    for task in tasks:
        task._process.wait()
