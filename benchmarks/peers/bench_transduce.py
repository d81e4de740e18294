"""Ours: the update that `transduce train` makes, in a process arranged as it arranges its own."""

import loop
import torch
from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, Shape

from transduce.data.batch import Batch
from transduce.io.machine import keep_freed_memory
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import choose_precision, make_replica
from transduce.train.step import LossSettings, train_step


def model_of(shape: Shape, vocabulary: int, *, dropout: float = DROPOUT) -> Transformer:
    """The model that a recipe with such a shape has."""
    width = shape.d_model // shape.heads
    return Transformer(
        ModelConfig(
            vocab_size=vocabulary,
            encoder_layers=shape.layers,
            decoder_layers=shape.layers,
            d_model=shape.d_model,
            d_ff=shape.d_ff,
            heads=shape.heads,
            d_k=width,
            d_v=width,
            dropout=dropout,
        )
    )


def as_ours(batch: loop.Ready, corpus: loop.Corpus) -> Batch:
    """What our loader would make of the same pairs."""
    real = batch.source != corpus.pad
    mask = None if bool(real.all()) else real[:, None, None, :]
    return Batch(batch.source, mask, batch.before, batch.after, corpus.tokens(batch))


def build(shape: Shape, corpus: loop.Corpus, precision: str) -> loop.Update:
    """Adam as our recipes have it."""
    keep_freed_memory()
    model = model_of(shape, corpus.vocabulary)
    config = TrainConfig(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, precision=precision)
    optimizers, working = make_optimizers(model, config), make_replica(model, config)
    model.train()

    def update(batch: loop.Ready) -> None:
        train_step(
            model,
            [as_ours(batch, corpus)],
            optimizers=optimizers,
            rates=[RATE],
            loss=LossSettings(smoothing=SMOOTHING),
            replica=working,
        )

    return update


if __name__ == "__main__":
    chosen = choose_precision(TrainConfig(), torch.device("cpu")).name
    loop.run(build, package="transduce", precision=chosen)
