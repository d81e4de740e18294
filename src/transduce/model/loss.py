"""Label-smoothed cross-entropy in nats, summed over target pieces (section 5.4), and R-Drop.

The smoothed target gives 1 - ε to the correct piece and spreads ε evenly over all pieces but PAD
(the correct one among them, as torch does), which a model never has to predict.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.model.transformer import Transformer

CHUNK = 512
"""Target pieces whose logits exist at one time: with 8,000 pieces 16 MB instead of 130 MB."""

_MAX_GPU_LOGITS = 1 << 26
"""Logits at one time on a GPU, where few large kernels are faster than many small ones."""


class LossSums(NamedTuple):
    """Two sums over the same target pieces; divide by their number once, at the end."""

    smoothed: Float[Tensor, ""]
    """Cross-entropy against the smoothed target: what training minimises."""
    plain: Float[Tensor, ""]
    """Negative log-likelihood, for perplexity. Carries no gradient."""
    correct: Float[Tensor, ""]
    """Pieces that have the highest probability. Carries no gradient."""


def cross_entropy(
    logits: Float[Tensor, "batch target vocab"],
    target_out: Int[Tensor, "batch target"],
    *,
    smoothing: float,
) -> LossSums:
    """The loss written out from the logits, for reading and tests. PAD, the last id, is ignored.

    Args:
        logits: of every target position.
        target_out: the correct ids, PAD where there is none.
        smoothing: ε.
    """
    pad = logits.size(-1) - 1
    log_probs = logits[target_out != pad][:, :pad].log_softmax(-1)
    correct = log_probs.gather(1, target_out[target_out != pad][:, None]).sum()
    # Smoothing spreads ε evenly, so its part is a mean over the pieces.
    smoothed = (1 - smoothing) * correct + smoothing * log_probs.mean(-1).sum()
    best = (log_probs.argmax(-1) == target_out[target_out != pad]).sum()
    return LossSums(-smoothed, -correct.detach(), best.to(log_probs.dtype))


class OutputProjectionInputs(NamedTuple):
    """Two tensors whose product is the logits."""

    hidden: Float[Tensor, "*batch width"]
    matrix: Float[Tensor, "vocab width"]


def output_projection_inputs(
    model: Transformer, hidden: Float[Tensor, "*batch d_model"]
) -> OutputProjectionInputs:
    """Return the factors of the logits, for a loss that multiplies them chunk by chunk.

    An output bias becomes one more column of the matrix, and `hidden` gets a 1 to multiply it.
    """
    matrix, hidden = model.output_matrix, model.scale_hidden(hidden)
    if model.output_bias is None:
        return OutputProjectionInputs(hidden, matrix)
    ones = hidden.new_ones(*hidden.shape[:-1], 1)
    return OutputProjectionInputs(
        torch.cat([hidden, ones], -1), torch.cat([matrix, model.output_bias[:, None]], -1)
    )


def chunked_cross_entropy(
    hidden: Float[Tensor, "batch target d_model"],
    embedding: Float[Tensor, "vocab d_model"],
    target_out: Int[Tensor, "batch target"],
    *,
    smoothing: float,
) -> LossSums:
    """`cross_entropy(hidden @ embedding.T, …)` in less memory: logits exist one chunk at a time.

    Padded positions cost nothing, and the gradient is computed in the forward pass. Logits have the
    precision of `hidden`; the embedding's gradient is accumulated in that of the embedding.

    Args:
        hidden: the decoder's output.
        embedding: the output matrix.
        target_out: the correct ids, PAD where there is none.
        smoothing: ε.
    """
    real = target_out.flatten() != embedding.size(0) - 1
    rows, targets = hidden.flatten(0, 1)[real], target_out.flatten()[real]
    return LossSums(*_Chunked.apply(rows, embedding, targets, smoothing))  # type: ignore[misc]


def r_drop_loss(
    first: Float[Tensor, "batch target d_model"],
    second: Float[Tensor, "batch target d_model"],
    embedding: Float[Tensor, "vocab d_model"],
    *,
    target_out: Int[Tensor, "batch target"],
    smoothing: float,
    alpha: float,
) -> Float[Tensor, ""]:
    """R-Drop: make two passes with different dropout agree. Summed over target pieces.

    With p and q the two predictions for one piece, the loss is Liang's equation (4), halved so that
    it stays on the scale of a single pass, and computed chunk by chunk:

        (CE(p) + CE(q)) / 2 + α / 4 · (KL(p ‖ q) + KL(q ‖ p))

    Args:
        first: the decoder's output.
        second: the same from a second pass.
        embedding: the output matrix.
        target_out: the correct ids, PAD where there is none.
        smoothing: ε.
        alpha: weight of the divergence.

    Source:
        Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks.
    """
    targets = target_out.flatten()
    real = targets != embedding.size(0) - 1
    passes = [hidden.flatten(0, 1)[real] for hidden in (first, second)]
    return _RDrop.apply(*passes, embedding, targets[real], smoothing, alpha)  # type: ignore[no-any-return]


def chunk_size(embedding: Tensor) -> int:
    """Return how many target pieces' logits exist at one time with this output matrix."""
    return (
        CHUNK if embedding.device.type == "cpu" else max(CHUNK, _MAX_GPU_LOGITS // len(embedding))
    )


class _Chunked(torch.autograd.Function):
    """Forward computes the gradients too: with p the softmax, d loss / d logits = p - target.

    The smoothed target is a constant plus one spike a row, so only the spike touches the logits;
    the constant's share of every sum comes from one vector, the sum of all piece embeddings.
    PAD keeps its column, at -inf: without it rows would have an odd length, which slows a product.
    All chunks share one block of memory; where logits are of lower precision, a second one holds
    their float32 intermediates.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx,
        rows: Tensor,
        embedding: Tensor,
        targets: Tensor,
        smoothing: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        pieces, pad, size = embedding.to(rows.dtype), len(embedding) - 1, chunk_size(embedding)
        exact = torch.promote_types(rows.dtype, torch.float32)
        share, spike = smoothing / pad, 1.0 - smoothing
        total = embedding[:pad].sum(0, dtype=exact)
        # Validation needs no gradients and does not pay for them.
        needs_grad = any(ctx.needs_input_grad[:2])  # type: ignore[attr-defined]
        rows_grad = torch.empty_like(rows) if needs_grad else None
        pieces_grad = torch.zeros_like(embedding) if needs_grad else None
        smoothed, plain, best = (rows.new_zeros((), dtype=exact) for _ in range(3))
        # All chunks share this memory.
        block = rows.new_empty(min(size, len(rows)), len(pieces))
        differentiate = _InPlace(block, exact)
        for start in range(0, len(rows), size):
            part, correct = rows[start : start + size], targets[start : start + size, None]
            logits = torch.mm(part, pieces.T, out=block[: len(part)])
            slope, log_z, correct_logits, largest = differentiate(logits, correct, spike)
            best += (correct_logits >= largest).sum()
            negative_log_probs = log_z - correct_logits
            plain += negative_log_probs.sum()
            # The mean of -log p over all pieces is log Z - mean logit.
            smoothed += spike * negative_log_probs.sum()
            smoothed += smoothing * log_z.sum() - share * (part.to(exact) @ total).sum()
            if rows_grad is not None and pieces_grad is not None:
                torch.mm(slope, pieces, out=rows_grad[start : start + size])
                add_product(pieces_grad, slope.T, part)
        if rows_grad is not None and pieces_grad is not None:
            # The constant part of the target, which `slope` leaves out.
            rows_grad -= share * total
            pieces_grad[:pad] -= share * rows.sum(0, dtype=exact)
            ctx.save_for_backward(rows_grad, pieces_grad)
        ctx.mark_non_differentiable(plain, best)  # type: ignore[attr-defined]
        return smoothed, plain, best

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        rows_grad, pieces_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return rows_grad * grads[0], pieces_grad * grads[0], None, None


class ChunkGradients(NamedTuple):
    """What the loss needs of a chunk's logits; all but the slope in float32 or better."""

    slope: Float[Tensor, "rows vocab"]
    """p, less the spike of the correct piece, in the precision of the logits."""
    log_z: Float[Tensor, "rows 1"]
    correct_logits: Float[Tensor, "rows 1"]
    largest: Float[Tensor, "rows 1"]
    """The largest logit."""


LogitGradients: TypeAlias = Callable[[Tensor, Tensor, float], ChunkGradients]
"""Takes a chunk's logits, which it may overwrite, the correct ids (rows x 1), and the spike."""


class _InPlace:
    """Slopes overwrite probabilities, which overwrite logits."""

    def __init__(self, block: Tensor, exact: torch.dtype) -> None:
        """Allocate float32 memory for a chunk if its logits are of lower precision."""
        self._wide = None if block.dtype == exact else torch.empty_like(block, dtype=exact)

    def __call__(self, logits: Tensor, correct: Tensor, spike: float) -> ChunkGradients:
        wide = logits if self._wide is None else self._wide[: len(logits)].copy_(logits)
        wide[:, -1] = -math.inf  # PAD
        largest, correct_logits = wide.amax(-1, keepdim=True), wide.gather(1, correct)
        probs = torch.softmax(wide, -1, out=wide)
        log_z = largest - probs.amax(-1, keepdim=True).log()  # the largest cannot underflow
        probs.scatter_add_(1, correct, probs.new_full(correct.shape, -spike))
        slope = logits if wide is logits else logits.copy_(probs)
        return ChunkGradients(slope, log_z, correct_logits, largest)


class _RDrop(torch.autograd.Function):
    """Forward computes the gradients too.

    d KL(p ‖ q) / d logits of p = p (log p - log q - KL(p ‖ q)), and d KL(q ‖ p) = p - q.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx,
        first: Tensor,
        second: Tensor,
        embedding: Tensor,
        targets: Tensor,
        smoothing: float,
        alpha: float,
    ) -> Tensor:
        pieces = embedding[:-1].to(first.dtype)  # all but PAD
        exact = torch.promote_types(first.dtype, torch.float32)
        loss = first.new_zeros((), dtype=exact)
        grads = [torch.empty_like(first), torch.empty_like(second)]
        pieces_grad = torch.zeros_like(embedding)
        size = chunk_size(embedding)
        for start in range(0, len(first), size):
            part, correct = slice(start, start + size), targets[start : start + size, None]
            rows = [first[part], second[part]]
            log_p, log_q = ((row @ pieces.T).log_softmax(-1, dtype=exact) for row in rows)
            p, q, log_ratio = log_p.exp(), log_q.exp(), log_p - log_q
            # Symmetric in p and q: one side after the other, each with its own gradient.
            for row, own, own_log, other, own_log_ratio, grad in (
                (rows[0], p, log_p, q, log_ratio, grads[0]),
                (rows[1], q, log_q, p, -log_ratio, grads[1]),
            ):
                divergence = (own * own_log_ratio).sum(-1, keepdim=True)
                spike = 1.0 - smoothing
                cross = spike * own_log.gather(1, correct).sum()
                cross = cross + smoothing * own_log.mean(-1).sum()
                loss += alpha / 4 * divergence.sum() - cross / 2
                slope = own / 2 + alpha / 4 * (own * (own_log_ratio - divergence) + own - other)
                slope -= smoothing / (2 * len(pieces))  # the smoothed target's constant part
                slope.scatter_add_(1, correct, slope.new_full(correct.shape, -spike / 2))
                slope = slope.to(row.dtype)
                torch.mm(slope, pieces, out=grad[part])
                add_product(pieces_grad[:-1], slope.T, row)
        ctx.save_for_backward(*grads, pieces_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        first, second, pieces = (saved * grads[0] for saved in ctx.saved_tensors)  # type: ignore[attr-defined]
        return first, second, pieces, None, None, None


def add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a product to a sum, which may be of higher precision than the factors."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    elif into.is_cuda:  # there the product itself adds to float32
        torch.addmm(into, left, right, out_dtype=into.dtype, out=into)
    else:
        into += left @ right
