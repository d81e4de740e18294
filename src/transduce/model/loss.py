"""Label-smoothed cross-entropy in nats, summed over target pieces (section 5.4), and R-Drop.

The smoothed target gives 1 - ε to the correct piece and spreads ε evenly over all pieces but PAD
(the correct one among them, as torch does), which a model never has to predict.
"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.model.transformer import Transformer

CHUNK = 512
"""Target pieces whose logits exist at one time: with 8,000 pieces 16 MB instead of 130 MB."""

_SMALLEST_PROB = torch.finfo(torch.float32).tiny
"""In training, a piece that has underflowed costs the 87 nats of this probability."""

_MAX_GPU_LOGITS = 1 << 26
"""Logits at one time on a GPU, where few large kernels are faster than many small ones."""


class LossSums(NamedTuple):
    """Two sums over the same target pieces; divide by their number once, at the end."""

    smoothed: Float[Tensor, ""]
    """Cross-entropy against the smoothed target: what training minimises."""
    plain: Float[Tensor, ""]
    """Negative log-likelihood, for perplexity. Carries no gradient."""
    correct: Float[Tensor, ""]
    """Pieces that have the highest probability. Carries no gradient; the chunked loss counts them
    only where it computes none, as the count takes another pass over the logits, and else is NaN.
    """


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
    # Within the function torch says that weights need gradients, even under `no_grad`.
    needs_grad = torch.is_grad_enabled() and (hidden.requires_grad or embedding.requires_grad)
    return LossSums(*_Chunked.apply(rows, embedding, targets, smoothing, needs_grad))  # type: ignore[misc]


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
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx,
        rows: Tensor,
        embedding: Tensor,
        targets: Tensor,
        smoothing: float,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        chunks = _Chunks(rows, embedding)
        share, spike = smoothing / (len(embedding) - 1), 1.0 - smoothing
        rows_grad = torch.empty_like(rows) if needs_grad else None
        pieces_grad = torch.zeros_like(embedding) if needs_grad else None
        smoothed, plain, best = (rows.new_zeros((), dtype=chunks.exact) for _ in range(3))
        for chunk in chunks.slices():
            part, correct = rows[chunk], targets[chunk, None]
            logits = chunks.product(part) if needs_grad else chunks.logits(part)
            correct_logits = logits.gather(1, correct).to(chunks.exact)
            if needs_grad:
                log_z = _softmax_in_place(logits, correct, correct_logits)
                best += math.nan
            else:  # exactly: the largest probability cannot underflow
                largest = logits.amax(-1, keepdim=True)
                best += (correct_logits >= largest).sum()
                log_z = largest - torch.softmax(logits, -1, out=logits).amax(-1, keepdim=True).log()
            negative_log_probs = log_z - correct_logits
            plain += negative_log_probs.sum()
            # The mean of -log p over all pieces is log Z - mean logit.
            smoothed += spike * negative_log_probs.sum()
            smoothed += smoothing * log_z.sum() - share * chunks.sum_of_logits(part)
            if rows_grad is not None and pieces_grad is not None:
                logits.scatter_add_(1, correct, logits.new_full(correct.shape, -spike))
                chunks.add_gradients(logits, part, rows_grad[chunk], pieces_grad)
        if rows_grad is not None and pieces_grad is not None:
            chunks.subtract_constant(share, rows, rows_grad, pieces_grad)
            ctx.save_for_backward(rows_grad, pieces_grad)
        ctx.mark_non_differentiable(plain, best)  # type: ignore[attr-defined]
        return smoothed, plain, best

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None]:
        rows_grad, pieces_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return rows_grad * grads[0], pieces_grad * grads[0], None, None, None


class _RDrop(torch.autograd.Function):
    """Forward computes the gradients too, as `_Chunked` does.

    With δ = logits of p - logits of q, which is log p - log q but for a constant a row, and E the
    mean under a distribution, KL(p ‖ q) + KL(q ‖ p) = E_p δ - E_q δ. Its gradient with respect to
    the logits of p is p (δ - E_p δ) + p - q, and for q the same with -δ.
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
        passes = [(first, torch.empty_like(first)), (second, torch.empty_like(second))]
        pieces_grad = torch.zeros_like(embedding)
        chunks, others = _Chunks(first, embedding), _Chunks(first, embedding)
        difference, product = (chunks.empty_like_logits() for _ in range(2))
        loss = first.new_zeros((), dtype=chunks.exact)
        # Of α/4 (KL(p ‖ q) + KL(q ‖ p)) + CE / 2, CE split into a spike and a constant share.
        weight, spike = alpha / 4, (1.0 - smoothing) / 2
        share = smoothing / (2 * (len(embedding) - 1))
        for chunk in chunks.slices():
            correct = targets[chunk, None]
            p, q = chunks.product(first[chunk]), others.product(second[chunk])
            delta, slope = difference[: len(p)], product[: len(p)]
            torch.sub(p, q, out=delta)
            for (rows, _), logits in zip(passes, (p, q), strict=True):
                correct_logits = logits.gather(1, correct).to(chunks.exact)
                log_z = _softmax_in_place(logits, correct, correct_logits)
                negative_log_probs = log_z - correct_logits
                loss += spike * negative_log_probs.sum() + smoothing / 2 * log_z.sum()
                loss -= share * chunks.sum_of_logits(rows[chunk])
            for (rows, rows_grad), own, other, sign in (
                (passes[0], p, q, 1.0),
                (passes[1], q, p, -1.0),
            ):
                mean = torch.mul(own, delta, out=slope).sum(-1, keepdim=True, dtype=chunks.exact)
                loss += sign * weight * mean.sum()
                # The gradient is own (1/2 + α/4 (1 + δ - E δ)) - α/4 other, with -δ in the second
                # pass. Divided by -α/4 until the end it takes two passes over the logits.
                factor = (0.5 / weight + 1.0 - sign * mean).to(own.dtype)
                torch.add(factor, delta, alpha=sign, out=slope)
                torch.addcmul(other, own, slope, value=-1.0, out=slope)
                slope.scatter_add_(1, correct, slope.new_full(correct.shape, spike / weight))
                chunks.add_gradients(slope, rows[chunk], rows_grad[chunk], pieces_grad)
        pieces_grad *= -weight
        for rows, rows_grad in passes:
            rows_grad *= -weight
            chunks.subtract_constant(share, rows, rows_grad, pieces_grad)
        ctx.save_for_backward(*(rows_grad for _, rows_grad in passes), pieces_grad)
        return loss

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        first, second, pieces = (saved * grads[0] for saved in ctx.saved_tensors)  # type: ignore[attr-defined]
        return first, second, pieces, None, None, None


class _Chunks:
    """Products with the output matrix for a chunk of rows; all chunks share the memory.

    PAD keeps its column, as the lowest number: without it rows would have an odd length, which
    slows a product.
    """

    def __init__(self, rows: Tensor, embedding: Tensor) -> None:
        """Allocate the logits of one chunk."""
        self.exact = torch.promote_types(rows.dtype, torch.float32)
        """The precision of logits and sums."""
        self._pieces, self._pad = embedding.to(rows.dtype), len(embedding) - 1
        self._total = embedding[: self._pad].sum(0, dtype=self.exact)
        self._rows, self._size = len(rows), chunk_size(embedding)
        self._block = rows.new_empty(min(self._size, len(rows)), len(embedding))

    def slices(self) -> Iterator[slice]:
        """Yield the rows of each chunk."""
        for start in range(0, self._rows, self._size):
            yield slice(start, start + self._size)

    def empty_like_logits(self) -> Tensor:
        """Allocate more memory of the logits' size and precision."""
        return torch.empty_like(self._block)

    @cached_property
    def _wide(self) -> Tensor:
        """Memory for the exact logits of one chunk."""
        return torch.empty_like(self._block, dtype=self.exact)

    def product(self, part: Tensor) -> Tensor:
        """Multiply some rows by the output matrix: logits in the rows' precision."""
        logits = torch.mm(part, self._pieces.T, out=self._block[: len(part)])
        logits[:, -1] = torch.finfo(logits.dtype).min  # not -inf: R-Drop subtracts logits
        return logits

    def logits(self, part: Tensor) -> Tensor:
        """Return exact logits: those of `product`, copied where rows are of lower precision."""
        logits = self.product(part)
        return logits if logits.dtype == self.exact else self._wide[: len(part)].copy_(logits)

    def sum_of_logits(self, part: Tensor) -> Tensor:
        """Sum the logits of some rows over all rows and pieces, without PAD."""
        return (part.to(self.exact) @ self._total).sum()

    def add_gradients(
        self, slope: Tensor, part: Tensor, part_grad: Tensor, pieces_grad: Tensor
    ) -> None:
        """Write the gradient of some rows, and add that of the output matrix, given the logits'."""
        torch.mm(slope, self._pieces, out=part_grad)
        add_product(pieces_grad, slope.T, part)

    def subtract_constant(
        self, share: float, rows: Tensor, rows_grad: Tensor, pieces_grad: Tensor
    ) -> None:
        """Subtract the gradient of `share` times the sum of all logits."""
        rows_grad -= share * self._total
        pieces_grad[: self._pad] -= share * rows.sum(0, dtype=self.exact)


def _softmax_in_place(logits: Tensor, correct: Tensor, correct_logits: Tensor) -> Tensor:
    """Overwrite logits by their probabilities; return log Z of each row, in float32 or better.

    Logit and probability of one piece give log Z. To look for the largest piece would take two more
    passes over the logits; the correct one may underflow, and then has `_SMALLEST_PROB`.

    Args:
        logits: of a chunk of rows.
        correct: a piece of each row, in one column.
        correct_logits: the exact logits of these pieces.
    """
    probs = torch.softmax(logits, -1, out=logits)
    known_probs = probs.gather(1, correct).to(correct_logits.dtype).clamp_min(_SMALLEST_PROB)
    return correct_logits - known_probs.log()


def add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a product to a sum, which may be of higher precision than the factors."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    elif into.is_cuda:  # there the product itself adds to float32
        torch.addmm(into, left, right, out_dtype=into.dtype, out=into)
    else:
        into += left @ right
