"""How large a micro-batch may be is measured, told, and kept with the run."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.conftest import made

from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train import memory
from transduce.train.config import TrainConfig
from transduce.train.distributed import SINGLE_PROCESS, Process
from transduce.train.events import Event, LogMessage
from transduce.train.memory import (
    FILE,
    BatchSizeEstimate,
    MemoryCost,
    estimate_batch_size,
    free_memory,
    load_or_measure_batch_size,
    measure_cost,
)

CPU = torch.device("cpu")
PLAIN = TrainConfig(precision="float32")


def machine(root: Path, *, free: int) -> Path:
    (root / "proc/self").mkdir(parents=True)
    text = f"MemTotal:     99999 kB\nMemAvailable:   {free} kB\nBuffers:   7 kB\n"
    (root / "proc/meminfo").write_text(text)
    return root


def group(folder: Path, names: tuple[str, str], limit: str, used: int, stat: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)


NEW = ("memory.max", "memory.current")
OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def test_free_is_what_the_machine_can_still_give(tmp_path: Path):
    assert free_memory(machine(tmp_path, free=503)) == 503 * 1024


def test_where_nothing_is_said_nothing_is_known(tmp_path: Path):
    assert free_memory(tmp_path) is None


@pytest.mark.parametrize("where", ["", "a", "a/b"])
def test_every_group_above_may_leave_less(tmp_path: Path, where: str):
    root = machine(tmp_path, free=5_000)
    (root / "proc/self/cgroup").write_text("0::/a/b\n")
    for path in ("a", "a/b"):
        group(root / "sys/fs/cgroup" / path, NEW, "max", 100, "inactive_file 0\n")
    group(root / "sys/fs/cgroup" / where, NEW, "9000", 1_000, "anon 3\ninactive_file 70\n")

    assert free_memory(root) == 9_000 - 1_000 + 70


def test_groups_of_the_first_kind_are_read_too(tmp_path: Path):
    root = machine(tmp_path, free=5_000)
    (root / "proc/self/cgroup").write_text("3:cpu:/x\n2:hugetlb,memory:/away\n")
    stat = "inactive_file 1\ntotal_inactive_file 70\n"
    group(root / "sys/fs/cgroup/memory", OLD, "9000", 1_000, stat)

    assert free_memory(root) == 9_000 - 1_000 + 70


def test_a_group_that_is_full_leaves_nothing(tmp_path: Path):
    root = machine(tmp_path, free=5_000)
    (root / "proc/self/cgroup").write_text("0::/\n")
    group(root / "sys/fs/cgroup", NEW, "900", 1_000, "")

    assert free_memory(root) == 0


def test_a_device_has_what_it_has_left_and_what_torch_holds_unused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5_000, 9_999))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 300)

    assert memory._free_on_gpu(CPU) == 5_400


def room(monkeypatch: pytest.MonkeyPatch, free: int | None) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: free)


def measured_tokens(
    model: Transformer, *, training: TrainConfig = PLAIN, process: Process = SINGLE_PROCESS
) -> int:
    return estimate_batch_size(model, longest=13, training=training, process=process).micro_tokens


def test_a_cpu_with_memory_enough_takes_the_usual_number(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    room(monkeypatch, 10**12)

    assert measured_tokens(tiny) == 4096


def test_with_less_memory_four_fifths_of_what_is_free_are_filled(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    need, copies = measure_cost(tiny, longest=13, training=PLAIN), 2 * 4 * tiny.size
    room(monkeypatch, 20_000_000)

    most = measured_tokens(tiny)

    assert most % 64 == 0
    assert (
        0
        <= 16_000_000 - copies - need.fixed_bytes - most * need.bytes_per_position
        < 64 * need.bytes_per_position
    )


def test_what_else_will_be_kept_makes_it_less(tiny: Transformer, monkeypatch: pytest.MonkeyPatch):
    weights = 4 * tiny.size
    need = MemoryCost(fixed_bytes=0.0, bytes_per_position=weights / 400)
    monkeypatch.setattr(memory, "measure_cost", lambda *_, **__: need)
    room(monkeypatch, int((2 * weights + 2050 * need.bytes_per_position) / 0.8))

    full = measured_tokens(tiny)
    with_a_mean = measured_tokens(tiny, training=replace(PLAIN, ema=0.9))
    shared = measured_tokens(tiny, process=Process(world_size=2))

    assert (full, with_a_mean, shared) == (2048, 1600, 1600)


def test_processes_of_one_machine_share_its_memory(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    room(monkeypatch, 30_000_000)
    single = measured_tokens(tiny)

    room(monkeypatch, 90_000_000)

    assert measured_tokens(tiny, process=Process(local_world_size=3)) == single


def test_a_pair_alone_always_may_be_a_micro_batch(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    room(monkeypatch, 0)

    assert measured_tokens(tiny) == 13


def test_where_memory_cannot_be_known_the_usual_number_is_taken(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    room(monkeypatch, None)

    most = estimate_batch_size(tiny, longest=13, training=PLAIN, process=SINGLE_PROCESS)

    assert most == BatchSizeEstimate(4096, "how much memory is free cannot be known here")


def test_memory_that_runs_out_while_measuring_leaves_a_pair_at_a_time(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(tiny, "hidden_states", fail)

    assert measured_tokens(tiny) == 13


def test_measuring_leaves_no_trace(tiny: Transformer):
    before = torch.get_rng_state()

    measure_cost(tiny.train(), longest=13, training=PLAIN)

    assert torch.equal(torch.get_rng_state(), before)
    assert all(weight.grad is None for weight in tiny.parameters())


def test_reading_twice_needs_twice_as_much(tiny: Transformer):
    once, twice = (
        measure_cost(tiny.train(), longest=13, training=TrainConfig(r_drop=r_drop))
        for r_drop in (0.0, 1.0)
    )

    assert twice.bytes_per_position == pytest.approx(2 * once.bytes_per_position, rel=0.1)


SHAPE = ModelConfig(
    vocab_size=500,
    encoder_layers=2,
    decoder_layers=2,
    d_model=64,
    d_ff=128,
    heads=4,
    d_k=16,
    d_v=16,
)

PEAK = """
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.memory import _full_batch
from transduce.train.step import batch_loss

def said(name):
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))

model = Transformer({shape!r}).train()
batch_loss(model, _full_batch(2, 65)).backward()
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
before = said("VmRSS")
batch_loss(model, _full_batch(64, 65)).backward()
print(said("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux tells the peak")
def test_what_is_counted_is_near_what_a_process_takes():
    need = measure_cost(made(SHAPE).train(), longest=65, training=PLAIN)

    done = subprocess.run(
        [sys.executable, "-c", PEAK.format(shape=SHAPE)], capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()
    taken = int(done.stdout)
    assert taken / 1.5 < need.fixed_bytes + need.bytes_per_position * 64 * 65 < 1.5 * taken


def kept(folder: Path, count: int, events: list[Event]) -> int:
    return load_or_measure_batch_size(
        folder, CPU, measure=lambda: BatchSizeEstimate(count, "so it is"), on_event=events.append
    )


def test_what_was_found_is_told_and_taken_again(tmp_path: Path):
    events: list[Event] = []

    assert kept(tmp_path, 1_984, events) == 1_984
    assert kept(tmp_path, 64, events) == 1_984

    assert events == [
        LogMessage(text="micro-batches of 1,984 tokens: so it is"),
        LogMessage(text="micro-batches of 1,984 tokens, as before"),
    ]


@pytest.mark.parametrize(
    "forged",
    [
        '{"micro_tokens": 99, "device": "Another GPU"}',
        '{"micro_tokens": 0, "device": "cpu"}',
        '{"micro_tokens": "99", "device": "cpu"}',
        '{"micro_tokens": 99}',
        "[" * 100_000,
        "",
    ],
    ids=range(6),
)
def test_what_is_of_another_device_or_damaged_is_measured_anew(tmp_path: Path, forged: str):
    (tmp_path / FILE).write_text(forged)

    assert kept(tmp_path, 64, []) == 64
    assert json.loads((tmp_path / FILE).read_text()) == {"micro_tokens": 64, "device": "cpu"}
