"""Ray gets no more workers than its nodes have room for: it would wait for the others forever."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from transduce.cluster import engines
from transduce.cluster.engines import ClusterConfig, ShardWorker

TWO_CORES, WITH_GPUS = {"CPU": 2.0}, {"CPU": 3.0, "GPU": 2.0}


def started(monkeypatch: pytest.MonkeyPatch, nodes: list[dict[str, float]], **config: Any) -> int:
    """The number of workers for five shards, on a stand-in for Ray."""
    pools: list[int] = []

    class Pool:
        def __init__(self, actors: list[object]) -> None:
            pools.append(len(actors))

        def map_unordered(self, *_: object) -> tuple[()]:
            return ()

    listed = [{"Alive": True, "Resources": node} for node in nodes]
    ray = SimpleNamespace(
        is_initialized=lambda: True,
        nodes=lambda: [*listed, {"Alive": False, "Resources": {"CPU": 64.0}}],
        remote=lambda **_: lambda kind: SimpleNamespace(remote=kind),
        exceptions=SimpleNamespace(RayTaskError=KeyError, RayActorError=KeyError),
    )
    modules = {"upath": None, "ray": ray, "ray.util": SimpleNamespace(ActorPool=Pool)}
    monkeypatch.setattr(engines, "optional_module", modules.__getitem__)
    worker = ShardWorker(load=lambda: lambda shard: b"", output="out")

    shards = [SimpleNamespace(number=number, output="", rows=1) for number in range(5)]
    list(engines.run_shards(worker, shards, ClusterConfig(**config)))
    (workers,) = pools
    return workers


@pytest.mark.parametrize(
    ("nodes", "config", "workers"),
    [
        ([TWO_CORES], {}, 2),
        ([TWO_CORES], {"workers": 1}, 1),
        ([TWO_CORES], {"workers": 3}, 2),
        ([TWO_CORES] * 4, {}, 5),
        ([TWO_CORES], {"engine": "ray", "workers": 3}, 3),
        ([TWO_CORES], {"engine": "ray"}, 2),
        ([{"memory": 1.0}], {"engine": "ray"}, 1),
        ([{"CPU": 3.0}] * 2, {"threads": 2}, 2),
        ([TWO_CORES, WITH_GPUS], {"device": "cuda"}, 2),
        ([WITH_GPUS], {"device": "cuda", "threads": 2}, 1),
    ],
)
def test_workers_are_those_that_fit(
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[dict[str, float]],
    config: dict[str, Any],
    workers: int,
):
    assert started(monkeypatch, nodes, **config) == workers


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"threads": 4},
            "--cluster local: a worker needs 4 CPU, which this machine lacks: lower --threads$",
        ),
        ({"device": "cuda"}, "1 CPU and 1 GPU, which this machine lacks: leave out --device cuda$"),
    ],
)
def test_what_a_worker_lacks_is_named(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        started(monkeypatch, [TWO_CORES], **config)


def refuse(*_: object, **__: object) -> NoReturn:
    """In place of submitit and Ray, which raise errors of several lines."""
    raise RuntimeError("\nerror: invalid partition\nerror: more")


def test_a_submission_is_for_all_workers_at_once_and_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options: dict[str, object] = {}
    executor = SimpleNamespace(update_parameters=options.update, map_array=refuse)
    modules = {"upath": None, "submitit": SimpleNamespace(AutoExecutor=lambda **_: executor)}
    monkeypatch.setattr(engines, "optional_module", modules.__getitem__)
    monkeypatch.setattr(engines, "resolve", Path)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    worker = ShardWorker(load=lambda: lambda shard: b"", output=str(tmp_path))
    config = ClusterConfig(engine="slurm", workers=300)

    with pytest.raises(ValueError, match=r"refused the tasks: error: invalid partition \("):
        list(engines.run_shards(worker, [SimpleNamespace(number=0, output="", rows=1)], config))
    assert options["slurm_array_parallelism"] == 300


@pytest.mark.parametrize("program", ["sbatch", "srun", "squeue"])
def test_a_program_of_slurm_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
):
    modules = {"upath": None, "submitit": SimpleNamespace(AutoExecutor=refuse)}
    monkeypatch.setattr(engines, "optional_module", modules.__getitem__)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == program else name)
    worker = ShardWorker(load=lambda: lambda shard: b"", output=str(tmp_path))

    with pytest.raises(ValueError, match=f"slurm: this machine has no {program}; log in"):
        list(engines.run_shards(worker, [], ClusterConfig(engine="slurm", workers=2)))


def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch):
    ray = SimpleNamespace(is_initialized=lambda: False, init=refuse)
    monkeypatch.setattr(engines, "optional_module", {"upath": None, "ray": ray}.__getitem__)
    message = r"--cluster local: Ray does not start \(error: invalid partition\)$"

    with pytest.raises(ValueError, match=message), engines.connected(ClusterConfig()):
        pass
