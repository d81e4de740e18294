"""Which precision is taken, and what of a model is copied for it."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import nn

from transduce.data.batch import Batch, collate
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train import memory
from transduce.train.config import TrainConfig
from transduce.train.distributed import SINGLE_PROCESS
from transduce.train.memory import MemoryCost, estimate_batch_size, measure_cost
from transduce.train.precision import Bf16Replica, bfloat16_units, choose_precision, make_replica

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """A CPU that has what is given, and else only what all have."""
    has = {"avx2": True} | dict.fromkeys(request.param, True)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)


@pytest.fixture(params=[True, False], ids=["bf16", "no bf16"])
def gpu(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> bool:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: request.param)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A device")
    return bool(request.param)


@pytest.mark.parametrize(
    ("processor", "units"),
    [
        ((), ""),
        (("avx512_f",), ""),
        (("avx512_f", "avx512_bf16"), "AVX-512 BF16"),
        (("avx512_bf16", "amx_bf16"), "AMX"),
    ],
    indirect=["processor"],
)
@pytest.mark.usefixtures("processor")
def test_auto_is_bfloat16_where_a_cpu_has_units_for_it(units: str):
    chosen = choose_precision(TrainConfig(), CPU)

    assert chosen.name == ("bfloat16" if units else "float32")
    assert (units or "no units") in chosen.reason


def test_auto_is_bfloat16_where_a_gpu_has_units_for_it(gpu: bool):
    chosen = choose_precision(TrainConfig(), CUDA)

    assert chosen.name == ("bfloat16" if gpu else "float32")
    assert ("A device" if gpu else "this GPU has no units") in chosen.reason


def test_before_torch_2_13_a_cpu_counts_as_having_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)

    assert bfloat16_units(CPU) == ""
    assert choose_precision(TrainConfig(), CPU).name == "float32"


def test_of_other_devices_nothing_is_known():
    assert bfloat16_units(torch.device("mps")) == ""


@pytest.mark.parametrize("processor", [("amx_bf16",)], indirect=True)
@pytest.mark.usefixtures("processor")
def test_weights_that_are_shared_out_are_computed_with_as_they_are():
    chosen = choose_precision(TrainConfig(fsdp=True), CPU)

    assert (chosen.name, "train.fsdp" in chosen.reason) == ("float32", True)


@pytest.mark.parametrize("processor", [(), ("amx_bf16",)], indirect=True)
@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_what_a_recipe_says_is_taken(precision: Literal["float32", "bfloat16"]):
    assert choose_precision(TrainConfig(precision=precision), CPU).name == precision


@pytest.mark.parametrize(
    ("processor", "why"),
    [((), "this CPU has no units for it: slow"), (("amx_bf16",), "")],
    indirect=["processor"],
)
@pytest.mark.usefixtures("processor")
def test_who_asks_for_what_is_slow_is_told(why: str):
    assert choose_precision(TrainConfig(precision="bfloat16"), CPU).reason == why


@pytest.mark.parametrize("processor", [(), ("amx_bf16",)], indirect=True)
@pytest.mark.usefixtures("processor")
def test_in_float32_nothing_is_copied(tiny: Transformer):
    assert make_replica(tiny, TrainConfig(precision="float32")) is None


@pytest.mark.parametrize("processor", [("amx_bf16",)], indirect=True)
@pytest.mark.usefixtures("processor")
def test_a_model_in_double_precision_stays_so(tiny: Transformer):
    assert make_replica(tiny, TrainConfig()) is not None
    assert make_replica(tiny.double(), TrainConfig()) is None


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_linear_maps_alone_are_copied(config: ModelConfig, norm: str):
    model = Transformer(replace(config, norm=norm, output_bias=True, positions="learned"))
    linear = {
        f"{name}.{which}"
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        for which, _ in module.named_parameters()
    }

    working = dict(Bf16Replica(model).model.named_parameters())

    for name, master in model.named_parameters():
        assert master.dtype == torch.float32
        assert (working[name] is master) == (name not in linear), name
        assert working[name].dtype == (torch.bfloat16 if name in linear else torch.float32)


def weights(module: Transformer) -> list[nn.Parameter]:
    return [weight for part in module.modules() if isinstance(part, nn.Linear)
            for weight in part.parameters()]  # fmt: skip


def test_copies_follow_the_masters(tiny: Transformer):
    working = Bf16Replica(tiny)
    with torch.no_grad():
        for weight in tiny.parameters():
            weight.add_(0.3)

    working.sync_from_master()

    for weight, master in zip(weights(working.model), weights(tiny), strict=True):
        assert torch.equal(weight, master.bfloat16())


def test_gradients_of_many_micro_batches_are_added_up_in_float32(tiny: Transformer):
    working = Bf16Replica(tiny)
    for _ in range(300):  # in bfloat16 256 + 1 is 256
        for weight in weights(working.model):
            weight.grad = torch.ones_like(weight)
        working.accumulate_grads_to_master()

    assert all(weight.grad is None for weight in weights(working.model))
    for master in weights(tiny):
        assert master.grad is not None
        assert torch.equal(master.grad, torch.full_like(master, 300.0))


def test_a_copy_without_a_gradient_hands_over_none(tiny: Transformer):
    Bf16Replica(tiny).accumulate_grads_to_master()

    assert all(weight.grad is None for weight in tiny.parameters())


def a_batch(rows: int, width: int) -> Batch:
    return collate([[5] * (width - 1)] * rows, [[6] * (width - 2)] * rows, pad=36, eos=0)


def test_small_batches_are_passed_in_few_shapes(config: ModelConfig):
    working = Bf16Replica(Transformer(replace(config, d_model=64)))

    shaped = working.pad_to_bucket(a_batch(17, 7))

    assert shaped.source.shape == shaped.target_in.shape == (24, 8)


@pytest.mark.parametrize(
    ("rows", "width", "why"),
    [(15, 7, "few rows"), (17, 23, "no position behind"), (8195, 4, "large")],
)
def test_other_batches_are_passed_as_they_are(config: ModelConfig, rows: int, width: int, why: str):
    working = Bf16Replica(Transformer(replace(config, d_model=64, max_positions=23)))
    batch = a_batch(rows, width)

    assert working.pad_to_bucket(batch) is batch, why


def test_the_copies_take_six_bytes_a_weight_beside_the_model(tiny: Transformer):
    assert Bf16Replica(tiny).extra_bytes == 6 * sum(weight.numel() for weight in weights(tiny))


def test_a_micro_batch_leaves_room_for_the_copies(
    tiny: Transformer, monkeypatch: pytest.MonkeyPatch
):
    def need(model: Transformer, *, longest: int, training: TrainConfig) -> MemoryCost:
        assert weights(model)[0].dtype == torch.bfloat16
        return MemoryCost(fixed_bytes=0.0, bytes_per_position=1000.0)

    monkeypatch.setattr(memory, "free_memory", lambda: 4 * 10**6)
    monkeypatch.setattr(memory, "measure_cost", need)
    sizes: list[int] = []

    for extra_bytes in (0, 640_000):
        monkeypatch.setattr(Bf16Replica, "extra_bytes", extra_bytes)
        training = TrainConfig(precision="bfloat16")
        sizes.append(
            estimate_batch_size(
                tiny, longest=13, training=training, process=SINGLE_PROCESS
            ).micro_tokens
        )

    assert sizes[0] - sizes[1] == 640


def test_what_a_micro_batch_takes_is_measured_in_the_precision_of_training(tiny: Transformer):
    short, exact = (
        measure_cost(model.train(), longest=40, training=TrainConfig())
        for model in (Bf16Replica(tiny).model, tiny)
    )

    assert short.bytes_per_position < 0.8 * exact.bytes_per_position
