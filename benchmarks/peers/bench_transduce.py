"""The update of `transduce train`, in a process set up like that of `transduce train`."""

import loop
import torch
from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, Shape

from transduce.data.batch import Batch
from transduce.io.machine import keep_freed_memory
from transduce.model.config import ModelConfig
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import make_optimizers
from transduce.train.precision import choose_precision, make_replica
from transduce.train.step import LossSettings, train_step


def build_model(shape: Shape, vocabulary: int, *, dropout: float = DROPOUT) -> Transformer:
    """Build the model of a recipe with this shape."""
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


def convert_batch(batch: loop.Ready, corpus: loop.Corpus) -> Batch:
    """Convert a batch to that of transduce's loader."""
    is_token = batch.source != corpus.pad
    mask = None if bool(is_token.all()) else is_token[:, None, None, :]
    return Batch(batch.source, mask, batch.before, batch.after, corpus.tokens(batch))


def build(shape: Shape, corpus: loop.Corpus, precision: str) -> loop.Update:
    """Build an update with Adam, as in the recipes."""
    keep_freed_memory()
    model = build_model(shape, corpus.vocabulary)
    config = TrainConfig(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, precision=precision)
    optimizers, replica = make_optimizers(model, config), make_replica(model, config)
    passes = make_fused_passes(model, config, replica)
    model.train()

    def update(batch: loop.Ready) -> None:
        train_step(
            model,
            [convert_batch(batch, corpus)],
            optimizers=optimizers,
            rates=[RATE],
            loss=LossSettings(smoothing=SMOOTHING),
            replica=replica,
            passes=passes,
        )

    return update


if __name__ == "__main__":
    precision = choose_precision(TrainConfig(), torch.device("cpu")).name
    loop.run(build, package="transduce", precision=precision)
