"""The same learning at equal tokens: ours and `nn.Transformer` from the same weights.

    PYTHON learning.py transduce|torch MODEL FOLDER UPDATES DROPOUT DRAW

Same batches, rates, Adam, dropout and smoothing; DRAW seeds dropout, but the two draw differently
all the same. For this alone `nn.Transformer` is made to be the paper's model: without its biases in
attention, normalisations on top and additional dropout, and PAD is no piece that it could say.
"""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Protocol

import loop
import torch
from bench_torch import Plain
from bench_transduce import as_ours, model_of
from shapes import BETAS, EPSILON, SHAPES, SMOOTHING, Shape
from torch import Tensor, nn
from torch.nn import functional as F

from transduce.io.machine import keep_freed_memory
from transduce.model.attention import Attention
from transduce.model.layers import AddNorm, FeedForward
from transduce.model.loss import chunked_cross_entropy
from transduce.model.transformer import Transformer
from transduce.train.config import TrainConfig
from transduce.train.optimizer import learning_rates, make_optimizers
from transduce.train.precision import choose_precision, make_replica
from transduce.train.step import LossSettings, train_step

WARMUP = 400
"""Of equation (3): the rate rises to the end of a short run, which ends at half of the peak."""


class Learner(Protocol):
    """A model, how it is updated, and what a batch's target tokens cost it in nats."""

    @property
    def model(self) -> nn.Module:
        """What learns."""
        ...

    def learn(self, batch: loop.Ready, rate: float) -> None:
        """Make one update."""
        ...

    def nats(self, batch: loop.Ready) -> Tensor:
        """The sum of -log p, nothing smoothed."""
        ...


class Ours:
    """As `transduce train` learns."""

    def __init__(self, model: Transformer, corpus: loop.Corpus, config: TrainConfig) -> None:
        self.model, self.corpus = model, corpus
        self.optimizers = make_optimizers(model, config)
        self.working = make_replica(model, config)

    def learn(self, batch: loop.Ready, rate: float) -> None:
        train_step(
            self.model,
            [as_ours(batch, self.corpus)],
            optimizers=self.optimizers,
            rates=[rate],
            loss=LossSettings(smoothing=SMOOTHING),
            replica=self.working,
        )

    def nats(self, batch: loop.Ready) -> Tensor:
        ours = as_ours(batch, self.corpus)
        hidden = self.model.hidden_states(ours.source, ours.source_mask, ours.target_in)
        weight = self.model.embedding.weight
        return chunked_cross_entropy(hidden, weight, ours.target_out, smoothing=0.0).plain


class Theirs:
    """The plain loop around `nn.Transformer`."""

    def __init__(self, ours: Transformer, shape: Shape, corpus: loop.Corpus) -> None:
        plain = Plain(shape, corpus.vocabulary, dropout=ours.config.dropout)
        self.model, self.pad = as_paper(plain, ours), corpus.pad
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
        """Cross-entropy over all pieces but PAD."""
        logits = self.model(batch.source, batch.before)[..., : self.pad].flatten(0, 1)
        return F.cross_entropy(
            logits,
            batch.after.flatten(),
            ignore_index=self.pad,
            label_smoothing=smoothing,
            reduction=reduction,
        )


@torch.no_grad()
def as_paper(plain: Plain, ours: Transformer) -> Plain:
    """Take from `nn.Transformer` what the paper's model has not, and give it our weights."""
    plain.embedding.weight.copy_(ours.embedding.weight)
    stacks = plain.transformer
    stacks.encoder.norm = stacks.decoder.norm = None
    for theirs, layer in zip(stacks.encoder.layers, ours.encoder, strict=True):
        copy_attention(theirs.self_attn, layer.self_attention)
        copy_rest(theirs, layer.feed_forward, [layer.self_attention_norm, layer.feed_forward_norm])
    for theirs, layer in zip(stacks.decoder.layers, ours.decoder, strict=True):
        copy_attention(theirs.self_attn, layer.self_attention)
        copy_attention(theirs.multihead_attn, layer.cross_attention)
        copy_rest(
            theirs,
            layer.feed_forward,
            [layer.self_attention_norm, layer.cross_attention_norm, layer.feed_forward_norm],
        )
    return plain


def copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    """Copy four projections; biases stay zero and out of learning."""
    parts = [ours.query.weight, ours.key.weight, ours.value.weight]
    theirs.in_proj_weight.copy_(torch.cat(parts))
    theirs.out_proj.weight.copy_(ours.out.weight)
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        bias.zero_().requires_grad_(False)
    theirs.dropout = 0.0


def copy_rest(theirs: nn.Module, feed: FeedForward, norms: list[AddNorm]) -> None:
    """Copy the feed-forward and the normalisations of a layer."""
    theirs.linear1.load_state_dict(feed.inner.state_dict())
    theirs.linear2.load_state_dict(feed.outer.state_dict())
    theirs.dropout.p = 0.0  # the one within the feed-forward
    for number, norm in enumerate(norms, start=1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.norm.state_dict())


@torch.no_grad()
def validation(learner: Learner, corpus: loop.Corpus) -> float:
    """Nats a target token of the validation set."""
    learner.model.eval()
    nats = sum(float(learner.nats(batch)) for batch in corpus.batches)
    learner.model.train()
    return nats / sum(corpus.tokens(batch) for batch in corpus.batches)


def main(name: str, model: str, folder: Path, *, updates: int, dropout: float, draw: int) -> None:
    """Train one of the two and print its validation losses."""
    keep_freed_memory()
    shape, train, held = SHAPES[model], loop.read(folder, "train"), loop.read(folder, "validation")
    torch.manual_seed(1)
    ours = model_of(shape, train.vocabulary, dropout=dropout)
    config = TrainConfig(beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, warmup=WARMUP)
    learner = Theirs(ours, shape, train) if name == "torch" else Ours(ours, train, config)
    before, tokens = validation(learner, held), 0
    torch.manual_seed(draw)
    for number, batch in enumerate(islice(loop.endless(train), updates), start=1):
        learner.learn(batch, learning_rates(number, config=config, d_model=shape.d_model)[0])
        tokens += train.tokens(batch)
    after = validation(learner, held)
    precision = (
        choose_precision(config, torch.device("cpu")).name if name == "transduce" else "float32"
    )
    found = {"tokens": tokens, "before": before, "after": after, "precision": precision}
    print(json.dumps(found))


if __name__ == "__main__":
    main(
        sys.argv[1],
        sys.argv[2],
        Path(sys.argv[3]),
        updates=int(sys.argv[4]),
        dropout=float(sys.argv[5]),
        draw=int(sys.argv[6]),
    )
