"""Perplexity of a model in torch, on its device, while it is trained."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from transduce.data.batch import Batch, collate
from transduce.data.config import BatchConfig
from transduce.data.corpus import Pair
from transduce.data.sampler import Sampler, SamplerState
from transduce.data.tokenizer import Tokenizer
from transduce.evaluation.metrics import Perplexity
from transduce.evaluation.scoring import encode_pairs
from transduce.model.loss import chunked_cross_entropy, output_projection_inputs
from transduce.model.transformer import Transformer


def evaluate_perplexity(
    model: Transformer, tokenizer: Tokenizer, *, pairs: Sequence[Pair], micro_tokens: int = 4096
) -> Perplexity:
    """Compute the perplexity of a model on the targets of all `pairs`.

    Args:
        model: the model, on any device.
        tokenizer: its tokenizer.
        pairs: sentence pairs.
        micro_tokens: maximum tokens per batch, padding included.
    """
    return perplexity(model, _batches(pairs, tokenizer, micro_tokens=micro_tokens))


@torch.inference_mode()
def perplexity(model: Transformer, batches: Iterable[Batch]) -> Perplexity:
    """Compute the perplexity of `model` on `batches`; its train/eval mode is restored.

    Raises:
        ValueError: if `batches` has no target piece.
    """
    device = model.embedding.weight.device
    sums: list[Tensor] = []  # of each batch: Apple's GPUs have no float64 for their total
    tokens = 0
    training = model.training
    model.eval()
    try:
        for batch in batches:
            inputs = batch.to(device)
            hidden = model.hidden_states(inputs.source, inputs.source_mask, inputs.target_in)
            factors = output_projection_inputs(model, hidden)
            loss = chunked_cross_entropy(*factors, inputs.target_out, smoothing=0.0)
            sums.append(torch.stack([loss.plain, loss.correct]))
            tokens += batch.target_tokens
    finally:
        model.train(training)
    if not tokens:
        raise ValueError("perplexity needs at least one sentence pair")
    loss_sum, correct = map(math.fsum, torch.stack(sums).T.tolist())
    return Perplexity(loss_sum=loss_sum, tokens=tokens, correct=int(correct))


def _batches(pairs: Sequence[Pair], tokenizer: Tokenizer, *, micro_tokens: int) -> Iterator[Batch]:
    """Normalise and encode pairs as for training, batched by length."""
    encoded = encode_pairs(pairs, tokenizer)
    lengths = np.array([[len(side) for side in pair] for pair in encoded], dtype=np.int64)
    # A single update that holds every pair: the sampler only sorts it into micro-batches.
    one_update = BatchConfig(tokens=int(lengths.sum()) + len(pairs), micro_tokens=micro_tokens)
    sampler = Sampler(lengths.reshape(-1, 2), config=one_update, seed=0)
    for numbers in next(sampler.updates(SamplerState())).micro_batches:
        sources, targets = zip(*(encoded[number] for number in numbers.tolist()), strict=True)
        yield collate(sources, targets, pad=tokenizer.pad, eos=tokenizer.EOS)
