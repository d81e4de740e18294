"""Adam as torch has it, and Muon's move worked out by singular values."""

import copy
from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import Muon, make_optimizers, orthogonalise


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def names(model: Transformer, optimizer: torch.optim.Optimizer) -> set[str]:
    mine = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return {name for name, weight in model.named_parameters() if id(weight) in mine}


def moved(start: Tensor, grads: Sequence[Tensor], *, rate: float, weight_decay: float) -> Tensor:
    weight = nn.Parameter(start.clone())
    muon = Muon([weight], rate=rate, momentum=0.9, weight_decay=weight_decay)
    for grad in grads:
        weight.grad = grad
        muon.step()
    return weight.detach()


def test_adam_holds_every_weight_once(tiny: Transformer):
    (adam,) = make_optimizers(tiny, TrainConfig())

    held = [id(p) for group in adam.param_groups for p in group["params"]]
    assert sorted(held) == sorted(id(weight) for weight in tiny.parameters())


def test_muon_takes_the_matrices_of_the_layers_and_nothing_else(tiny: Transformer):
    adam, muon = make_optimizers(tiny, TrainConfig(optimizer="muon"))

    matrices = {
        name
        for name, weight in tiny.named_parameters()
        if weight.dim() == 2 and name != "embedding.weight"
    }
    assert names(tiny, muon) == matrices
    assert names(tiny, adam) == {name for name, _ in tiny.named_parameters()} - matrices


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_weight_decay_spares_biases_and_gains(tiny: Transformer, optimizer: str):
    optimizers = make_optimizers(tiny, TrainConfig(optimizer=optimizer, weight_decay=0.1))

    spared = [
        weight.dim()
        for optimizer_instance in optimizers
        for group in optimizer_instance.param_groups
        for weight in group["params"]
        if group["weight_decay"] == 0.0
    ]
    assert set(spared) == {1}


@pytest.mark.parametrize("shape", [(13, 41), (41, 13)])
def test_orthogonalising_brings_singular_values_near_one(shape: tuple[int, int]):
    values = torch.linalg.svdvals(orthogonalise(draw(3, *shape)))

    assert values.min() > 0.65
    assert values.max() < 1.28


def test_orthogonalising_keeps_the_singular_vectors():
    matrix = draw(1, 7, 11)
    left, _, right = torch.linalg.svd(matrix[0], full_matrices=False)

    core = left.mT @ orthogonalise(matrix)[0] @ right.mT

    torch.testing.assert_close(core, core.diagonal().diag(), rtol=0, atol=1e-4)


def test_the_size_of_a_momentum_does_not_matter():
    matrix = draw(1, 7, 11)

    torch.testing.assert_close(orthogonalise(matrix), orthogonalise(1e3 * matrix))


def test_a_matrix_without_momentum_stays():
    assert (orthogonalise(torch.zeros(2, 5, 3)) == 0).all()


def test_muons_first_move_is_the_orthogonalised_gradient():
    start, grad = draw(7, 11), draw(7, 11, seed=2)

    weight = moved(start, [grad], rate=0.3, weight_decay=0.0)

    move = orthogonalise(grad[None])[0]
    torch.testing.assert_close(weight, start - 0.3 * 0.2 * 11**0.5 * move)


def test_muon_looks_ahead_along_its_momentum():
    start, first, second = draw(7, 11), draw(7, 11, seed=2), draw(7, 11, seed=3)

    weight = moved(start, [first, second], rate=0.3, weight_decay=0.0)

    momentum = 0.9 * 0.1 * first + 0.1 * second
    moves = orthogonalise(torch.stack([first, 0.1 * second + 0.9 * momentum]))
    torch.testing.assert_close(weight, start - 0.3 * 0.2 * 11**0.5 * moves.sum(0))


def test_muons_weight_decay_is_apart_from_the_gradient():
    start = draw(7, 11)

    weight = moved(start, [torch.zeros(7, 11)], rate=0.3, weight_decay=0.5)

    torch.testing.assert_close(weight, start * (1 - 0.3 * 0.5))


@pytest.mark.parametrize("shape", [(13, 41), (41, 13)])
def test_muons_move_has_about_the_size_of_adams(shape: tuple[int, int]):
    weight = moved(torch.zeros(shape), [draw(*shape)], rate=1.0, weight_decay=0.0)

    # Adam's root mean square is about 0.2 in training, says the source of the factor.
    assert weight.square().mean().sqrt().item() == pytest.approx(0.2, rel=0.25)


@pytest.mark.parametrize("shape", [(3, 41, 29), (2, 64, 128), (2, 256, 128)])
def test_in_bfloat16_the_iteration_moves_all_directions_alike_as_well(shape: tuple[int, int, int]):
    momenta = draw(*shape)
    exact = orthogonalise(momenta)

    short = orthogonalise(momenta.bfloat16())

    assert short.dtype == torch.bfloat16
    assert (short.float() - exact).norm() < 0.04 * exact.norm()
    values = torch.linalg.svdvals(short.float())
    assert 0.7 < values.min() < values.max() < 1.5


@pytest.mark.parametrize("shape", [(34, 33), (39, 34), (128, 128)])
@pytest.mark.parametrize("fall", [0.01, 0.05, 0.1, 0.2])
def test_in_bfloat16_one_large_singular_value_stays_near_one_as_well(
    shape: tuple[int, int], fall: float
):
    left, _, right = torch.linalg.svd(draw(20, *shape), full_matrices=False)
    momenta = left * fall ** torch.arange(min(shape)) @ right

    values = torch.linalg.svdvals(orthogonalise(momenta.bfloat16()).float())

    assert values.max() < 1.5


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
def test_muon_iterates_in_the_precision_of_the_run_and_remembers_in_float32(
    tiny: Transformer, precision: Literal["bfloat16", "float32"]
):
    _, muon = make_optimizers(tiny, TrainConfig(optimizer="muon", precision=precision))
    matrix = tiny.get_parameter("encoder.0.feed_forward.inner.weight")
    before, grad = matrix.detach().clone(), draw(*matrix.shape)
    matrix.grad = grad

    muon.param_groups[0]["lr"] = 1.0
    muon.step()

    assert muon.state[matrix]["momentum"].dtype == torch.float32
    look = grad.lerp(0.05 * grad, 0.95)[None]
    short = look.bfloat16() if precision == "bfloat16" else look
    reach = 0.2 * max(matrix.shape) ** 0.5
    torch.testing.assert_close(before - matrix, reach * orthogonalise(short)[0].float())


@pytest.mark.parametrize("without", [1, 2])
def test_muon_keeps_the_momentum_of_a_matrix_without_a_gradient(without: int):
    starts = [draw(8, 6, seed=seed) for seed in range(3)]
    grads = [[draw(8, 6, seed=10 * step + number) for number in range(3)] for step in range(4)]
    weights = [nn.Parameter(start.clone()) for start in starts]
    muon = Muon(weights, rate=0.1, momentum=0.9, weight_decay=0.1)

    for number, step in enumerate(grads):
        for weight, grad in zip(weights, step, strict=True):
            weight.grad = grad
        if number == 2:
            weights[without].grad = None
        muon.step()

    for number, (weight, start) in enumerate(zip(weights, starts, strict=True)):
        steps = grads[:2] + grads[3:] if number == without else grads
        own = [step[number] for step in steps]
        assert torch.equal(weight, moved(start, own, rate=0.1, weight_decay=0.1))


def test_muon_goes_on_from_momenta_that_were_loaded():
    weights = [nn.Parameter(draw(8, 6, seed=seed)) for seed in range(2)]
    muon = Muon(weights, rate=0.1, momentum=0.9, weight_decay=0.0)

    def step(seed: int) -> list[Tensor]:
        for number, weight in enumerate(weights):
            weight.grad = draw(8, 6, seed=seed + number)
        muon.step()
        return [weight.detach().clone() for weight in weights]

    before = step(10)
    state = copy.deepcopy(muon.state_dict())
    first = step(20)
    muon.load_state_dict(state)
    for weight, value in zip(weights, before, strict=True):
        weight.data.copy_(value)

    assert all(map(torch.equal, step(20), first))
