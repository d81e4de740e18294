"""Learning from equal tokens: transduce and `nn.Transformer`, from the same weights.

    PYTHON learning.py transduce|torch MODEL FOLDER UPDATES DROPOUT DRAW

Same batches, learning rates, Adam, dropout and smoothing; DRAW seeds dropout, but the two systems
still drop different units. Only here `nn.Transformer` is reduced to the paper's model: without
biases in attention, final normalizations and additional dropout, and without PAD in the output.
"""

import json
import sys
from itertools import cycle, islice
from pathlib import Path
from typing import Protocol

import loop
import torch
from bench_torch import Plain
from bench_transduce import build_model, convert_batch
from shapes import BETAS, EPSILON, SHAPES, SMOOTHING, Shape
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.io.machine import keep_freed_memory
from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward
from transduce.model.loss import chunked_cross_entropy
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.fused_passes import make_fused_passes
from transduce.train.optimizer import learning_rates, make_optimizers
from transduce.train.precision import choose_precision, make_replica
from transduce.train.step import LossSettings, train_step

WARMUP = 400
"""Of equation (3): the rate rises until the end of a short run, at half of the peak."""


class Learner(Protocol):
    """A model with its update and its loss in nats."""

    @property
    def model(self) -> nn.Module:
        """The model to train."""
        ...

    def learn(self, batch: loop.Ready, rate: float) -> None:
        """Make one update."""
        ...

    def nats(self, batch: loop.Ready) -> Tensor:
        """Sum -log p of the target tokens, without smoothing."""
        ...


class TransduceLearner:
    """The update of `transduce train`."""

    def __init__(self, model: Transformer, corpus: loop.Corpus, config: TrainConfig) -> None:
        self.model, self.corpus = model, corpus
        self.optimizers = make_optimizers(model, config)
        self.replica = make_replica(model, config)
        self.passes = make_fused_passes(model, config, self.replica)

    def learn(self, batch: loop.Ready, rate: float) -> None:
        train_step(
            self.model,
            [convert_batch(batch, self.corpus)],
            optimizers=self.optimizers,
            rates=[rate],
            loss=LossSettings(smoothing=SMOOTHING),
            replica=self.replica,
            passes=self.passes,
        )

    def nats(self, batch: loop.Ready) -> Tensor:
        converted = convert_batch(batch, self.corpus)
        hidden = self.model.hidden_states(
            converted.source, converted.source_mask, converted.target_in
        )
        weight = self.model.embedding.weight
        return chunked_cross_entropy(hidden, weight, converted.target_out, smoothing=0.0).plain


class TorchLearner:
    """A plain loop around `nn.Transformer`."""

    def __init__(self, reference: Transformer, shape: Shape, corpus: loop.Corpus) -> None:
        plain = Plain(shape, corpus.vocabulary, dropout=reference.config.dropout)
        self.model, self.pad = match_paper(plain, reference), corpus.pad
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        self.adam = torch.optim.Adam(weights, betas=BETAS, eps=EPSILON)

    def learn(self, batch: loop.Ready, rate: float) -> None:
        self.adam.zero_grad()
        self.loss(batch, smoothing=SMOOTHING, reduction="mean").backward()
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()

    def nats(self, batch: loop.Ready) -> Tensor:
        return self.loss(batch, smoothing=0.0, reduction="sum")

    def loss(self, batch: loop.Ready, *, smoothing: float, reduction: str) -> Tensor:
        """Compute the cross-entropy over all tokens except PAD."""
        logits = self.model(batch.source, batch.before)[..., : self.pad].flatten(0, 1)
        return F.cross_entropy(
            logits,
            batch.after.flatten(),
            ignore_index=self.pad,
            label_smoothing=smoothing,
            reduction=reduction,
        )


@torch.no_grad()
def match_paper(plain: Plain, reference: Transformer) -> Plain:
    """Reduce `nn.Transformer` to the paper's model and copy the reference's weights."""
    plain.embedding.weight.copy_(reference.embedding.weight)
    stacks = plain.transformer
    stacks.encoder.norm = stacks.decoder.norm = None
    for target_layer, layer in zip(stacks.encoder.layers, reference.encoder, strict=True):
        copy_attention(target_layer.self_attn, layer.self_attention)
        copy_sublayers(
            target_layer, layer.feed_forward, [layer.self_attention_norm, layer.feed_forward_norm]
        )
    for target_layer, layer in zip(stacks.decoder.layers, reference.decoder, strict=True):
        copy_attention(target_layer.self_attn, layer.self_attention)
        copy_attention(target_layer.multihead_attn, layer.cross_attention)
        copy_sublayers(
            target_layer,
            layer.feed_forward,
            [layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm],
        )
    return plain


def copy_attention(target: nn.MultiheadAttention, source: Attention) -> None:
    """Copy four projections; biases are zero and not trained."""
    parts = [source.query.weight, source.key.weight, source.value.weight]
    target.in_proj_weight.copy_(torch.cat(parts))
    target.out_proj.weight.copy_(source.out.weight)
    for bias in (target.in_proj_bias, target.out_proj.bias):
        bias.zero_().requires_grad_(False)
    target.dropout = 0.0


def copy_sublayers(target: nn.Module, feed_forward: FeedForward, norms: list[AddNorm]) -> None:
    """Copy the feed-forward network and the normalizations of a layer."""
    target.linear1.load_state_dict(feed_forward.inner.state_dict())
    target.linear2.load_state_dict(feed_forward.outer.state_dict())
    target.dropout.p = 0.0  # within the feed-forward network
    for number, norm in enumerate(norms, start=1):
        getattr(target, f"norm{number}").load_state_dict(norm.norm.state_dict())


@torch.no_grad()
def validation_loss(learner: Learner, corpus: loop.Corpus) -> float:
    """Compute the nats per target token of the validation set."""
    learner.model.eval()
    nats = sum(float(learner.nats(batch)) for batch in corpus.batches)
    learner.model.train()
    return nats / sum(corpus.tokens(batch) for batch in corpus.batches)


def main(name: str, model: str, folder: Path, *, updates: int, dropout: float, draw: int) -> None:
    """Train one of the systems and print its validation losses."""
    keep_freed_memory()
    shape, train, validation_set = (
        SHAPES[model],
        loop.read(folder, "train"),
        loop.read(folder, "validation"),
    )
    torch.manual_seed(1)
    own_model = build_model(shape, train.vocabulary, dropout=dropout)
    config = TrainConfig(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, warmup=WARMUP)
    learner = (
        TorchLearner(own_model, shape, train)
        if name == "torch"
        else TransduceLearner(own_model, train, config)
    )
    before, tokens = validation_loss(learner, validation_set), 0
    torch.manual_seed(draw)
    for number, batch in enumerate(islice(cycle(train.batches), updates), start=1):
        learner.learn(batch, learning_rates(number, config=config, d_model=shape.d_model)[0])
        tokens += train.tokens(batch)
    after = validation_loss(learner, validation_set)
    precision = (
        choose_precision(config, torch.device("cpu")).name if name == "transduce" else "float32"
    )
    result = {"tokens": tokens, "before": before, "after": after, "precision": precision}
    print(json.dumps(result))


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        Path(sys.argv[3]),
        updates=int(sys.argv[4]),
        dropout=float(sys.argv[5]),
        draw=int(sys.argv[6]),
    )
