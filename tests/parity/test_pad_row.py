"""PAD's embedding, which the decoder starts from, stays zero whatever moves the weights."""

import pytest

from transduce.data.batch import collate
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.step import train_step


@pytest.mark.parametrize("weight_decay", [0.0, 0.5])
@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_updates_leave_the_row_of_pad_zero(tiny: Transformer, kind: str, weight_decay: float):
    config = TrainConfig(optimizer=kind, weight_decay=weight_decay)
    optimizers = make_optimizers(tiny.train(), config)
    batch = collate([[5, 6, 7], [8]], [[9, 4], [10, 11, 12, 13]], pad=36, eos=0)
    before = tiny.embedding.weight.detach().clone()

    for _ in range(5):
        train_step(tiny, [batch], optimizers=optimizers, rates=[0.1, 0.1])

    assert (tiny.embedding.weight[36] == 0).all()
    assert (tiny.embedding.weight[:36] != before[:36]).all()
