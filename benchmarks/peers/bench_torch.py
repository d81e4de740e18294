"""`torch.nn.Transformer` in a plain loop, with the parts it leaves to users: see `Plain`."""

import math

import loop
import torch
from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, Shape
from torch import Tensor, nn


class Plain(nn.Module):
    """Embedding, sinusoids and output matrix around `nn.Transformer`; both matrices are shared.

    In addition to the paper, it has biases in attention, a final normalization of both stacks, and
    dropout on attention weights and within the feed-forward network.
    """

    table: Tensor

    def __init__(self, shape: Shape, vocabulary: int, *, dropout: float = DROPOUT) -> None:
        super().__init__()
        self.pad = vocabulary - 1
        self.embedding = nn.Embedding(vocabulary, shape.d_model, padding_idx=self.pad)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            d_model=shape.d_model,
            nhead=shape.heads,
            num_encoder_layers=shape.layers,
            num_decoder_layers=shape.layers,
            dim_feedforward=shape.d_ff,
            dropout=dropout,
            batch_first=True,
        )
        self.output = nn.Linear(shape.d_model, vocabulary, bias=False)
        self.output.weight = self.embedding.weight
        positions = torch.arange(512.0)[:, None]
        rates = torch.exp(torch.arange(0, shape.d_model, 2) * (-math.log(10_000) / shape.d_model))
        sinusoids = torch.stack([(positions * rates).sin(), (positions * rates).cos()], -1).flatten(
            1
        )
        self.register_buffer("table", sinusoids, persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        """Embed ids as in sections 3.4 and 3.5 of the paper."""
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.table[: ids.size(1)])

    def forward(self, source: Tensor, before: Tensor) -> Tensor:
        """Compute the logits of the next tokens."""
        padding_mask = source == self.pad
        causal_mask = nn.Transformer.generate_square_subsequent_mask(
            before.size(1), dtype=torch.bool
        )
        hidden = self.transformer(
            self.embed(source),
            self.embed(before),
            tgt_mask=causal_mask,
            src_key_padding_mask=padding_mask,
            memory_key_padding_mask=padding_mask,
            tgt_is_causal=True,
        )
        return self.output(hidden)


def build(shape: Shape, corpus: loop.Corpus, precision: str) -> loop.Update:
    """Build an update like that of its tutorial."""
    model = Plain(shape, corpus.vocabulary)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON)
    criterion = nn.CrossEntropyLoss(ignore_index=corpus.pad, label_smoothing=SMOOTHING)
    model.train()

    def update(batch: loop.Ready) -> None:
        with loop.autocast(precision):
            logits = model(batch.source, batch.before)
            loss = criterion(logits.flatten(0, 1), batch.after.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()

    return update


if __name__ == "__main__":
    loop.run(build, package="torch")
