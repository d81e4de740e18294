"""The learning experiment: the same task, parameters, draws and updates for every layer type."""

from dataclasses import replace

import pytest
import torch

from transduce.paper.table1.layers import (
    LEARNERS,
    Kind,
    Network,
    Recall,
    draw_sequences,
    equal_width,
    train_network,
)

SMALL = Recall(distances=(5,), seeds=1, layers=1, width=14, symbols=3, updates=2, batch=3, tested=7)


def test_the_symbol_to_recall_stands_first_and_nowhere_else():
    ids, loud = draw_sequences(SMALL, 5, rows=19, generator=torch.Generator().manual_seed(0))

    assert ids.shape == (19, 6)
    assert torch.equal(ids[:, 0], loud)
    assert (loud < 3).all()
    assert ((ids[:, 1:] >= 3) & (ids[:, 1:] < 6)).all()


@pytest.mark.parametrize("kind", LEARNERS)
def test_parameters_are_equal_within_five_percent(kind: Kind):
    recall = Recall()
    target = Network("self-attention", recall.width, recall).parameters_in_all

    result = Network(kind, equal_width(kind, recall), recall).parameters_in_all

    assert abs(result / target - 1) < 0.05


def test_an_lstm_starts_by_remembering():
    network = Network("LSTM", 14, SMALL)

    bias = network.layers[0].kernel.bias_ih_l0
    assert (bias[14:28] == 1).all()


def test_a_network_of_convolutions_sees_k_to_the_power_of_its_layers():
    recall = replace(SMALL, layers=2, kernel=3, distances=(12,))
    network = Network("convolution", 14, recall)
    ids = torch.randint(6, (1, 13), generator=torch.Generator().manual_seed(0))

    embedded = network.embedding.weight.detach()[ids].requires_grad_()
    x = embedded
    for mixed, norm in zip(network.layers, network.norms, strict=True):
        x = norm(x + mixed(x))
    (pull,) = torch.autograd.grad(x[:, -1, 0].sum(), embedded)

    seen = (pull != 0).any(-1)[0]
    assert seen.tolist() == [False] * 4 + [True] * 9


def test_what_is_learned_is_decided_by_the_seed():
    assert train_network("convolution", 5, 1, SMALL) == train_network("convolution", 5, 1, SMALL)


def test_self_attention_learns_what_stands_near():
    recall = replace(SMALL, updates=120, batch=32, rate=1e-2, tested=64)

    assert train_network("self-attention", 5, 0, recall).accuracy > 0.9
