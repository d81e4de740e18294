"""Hugging Face's MarianMTModel in a plain loop."""

import loop
import torch
from shapes import BETAS, DROPOUT, EPSILON, RATE, SMOOTHING, Shape
from torch import nn
from transformers import MarianConfig, MarianMTModel


def build_marian(shape: Shape, vocabulary: int) -> MarianMTModel:
    """Build the closest model to the paper's: Marian adds biases, also in attention."""
    config = MarianConfig(
        vocab_size=vocabulary,
        d_model=shape.d_model,
        encoder_layers=shape.layers,
        decoder_layers=shape.layers,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=vocabulary - 1,
        eos_token_id=0,
        decoder_start_token_id=vocabulary - 1,
        forced_eos_token_id=None,
        use_cache=False,
    )
    return MarianMTModel(config)


def build(shape: Shape, corpus: loop.Corpus, precision: str) -> loop.Update:
    """Build an update like that of `bench_torch`."""
    model = build_marian(shape, corpus.vocabulary)
    adam = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON)
    criterion = nn.CrossEntropyLoss(ignore_index=corpus.pad, label_smoothing=SMOOTHING)
    model.train()

    def update(batch: loop.Ready) -> None:
        with loop.autocast(precision):
            output = model(
                input_ids=batch.source,
                attention_mask=(batch.source != corpus.pad).long(),
                decoder_input_ids=batch.before,
            )
            loss = criterion(output.logits.flatten(0, 1), batch.after.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()

    return update


if __name__ == "__main__":
    loop.run(build, package="transformers")
