"""Label-smoothed cross-entropy in nats, summed over target pieces (section 5.4).

The smoothed target gives 1 - ε to the right piece and spreads ε evenly over all pieces but PAD
(the right one among them, as torch does), which a model can never have to say.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 512
"""Target pieces whose logits exist at one time: with 8,000 pieces 16 MB in place of 130 MB."""

_LOGITS = 1 << 26
"""Most logits at one time on a GPU, where few large kernels are quicker than many small ones."""


class Nats(NamedTuple):
    """Two sums over the same target pieces; divide by their number once, at the end."""

    smoothed: Float[Tensor, ""]
    """What training descends: cross-entropy against the smoothed target."""
    plain: Float[Tensor, ""]
    """-log p(right piece): what perplexity is made of. Carries no gradient."""


def nats(
    logits: Float[Tensor, "batch target vocab"],
    target_out: Int[Tensor, "batch target"],
    *,
    smoothing: float,
) -> Nats:
    """The loss written out from the logits, for eyes and tests. PAD, the last id, is left out."""
    pad = logits.size(-1) - 1
    log_probs = logits[target_out != pad][:, :pad].log_softmax(-1)
    right = log_probs.gather(1, target_out[target_out != pad][:, None]).sum()
    smoothed = (1 - smoothing) * right + smoothing * log_probs.mean(-1).sum()
    return Nats(-smoothed, -right.detach())


def nats_of_hidden(
    hidden: Float[Tensor, "batch target d_model"],
    embedding: Float[Tensor, "vocab d_model"],
    target_out: Int[Tensor, "batch target"],
    *,
    smoothing: float,
    compiled: bool = False,
) -> Nats:
    """The same loss from what precedes the logits, which are made and forgotten chunk by chunk.

    Equals `nats(hidden @ embedding.T, …)`; positions of padding cost nothing, the gradient is made
    on the way, and no more than `chunk` rows of logits ever exist. Logits have the precision of
    `hidden`; the embedding's gradient is added up in that of the embedding. Where it is compiled,
    what lies between the products is few kernels, which read the logits and leave their slopes.
    """
    real = target_out.flatten() != embedding.size(0) - 1
    rows, targets = hidden.flatten(0, 1)[real], target_out.flatten()[real]
    smoothed, plain = _Chunked.apply(rows, embedding, targets, smoothing, compiled)  # type: ignore[misc]
    return Nats(smoothed, plain)


def chunk(embedding: Tensor) -> int:
    """Target pieces whose logits exist at one time, where these are the pieces' embeddings."""
    return CHUNK if embedding.device.type == "cpu" else max(CHUNK, _LOGITS // len(embedding))


class _Chunked(torch.autograd.Function):
    """Forward makes the gradients too: with p the softmax, d loss / d logits = p - target.

    The smoothed target is a constant plus one spike a row, so only the spike touches the logits;
    the constant's share of every sum comes from one vector, the sum of all piece embeddings.
    PAD keeps its column, at -inf: without it rows would have an odd length, which slows a product.
    All chunks share one block of memory; where logits are of lower precision, a second one holds
    what is worked out in float32.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx,
        rows: Tensor,
        embedding: Tensor,
        targets: Tensor,
        smoothing: float,
        compiled: bool,
    ) -> tuple[Tensor, Tensor]:
        pieces, pad, size = embedding.to(rows.dtype), len(embedding) - 1, chunk(embedding)
        exact = torch.promote_types(rows.dtype, torch.float32)
        share, spike = smoothing / pad, 1.0 - smoothing
        total = embedding[:pad].sum(0, dtype=exact)
        learn = any(ctx.needs_input_grad[:2])  # type: ignore[attr-defined]
        rows_grad = torch.empty_like(rows) if learn else None
        pieces_grad = torch.zeros_like(embedding) if learn else None
        smoothed, plain = rows.new_zeros((), dtype=exact), rows.new_zeros((), dtype=exact)
        block = rows.new_empty(min(size, len(rows)), len(pieces))
        slopes = compiled_slopes() if compiled else _InPlace(block, exact)
        for start in range(0, len(rows), size):
            part, right = rows[start : start + size], targets[start : start + size, None]
            logits = torch.mm(part, pieces.T, out=block[: len(part)])
            slope, log_z, logits_right = slopes(logits, right, spike)
            nats_right = log_z - logits_right
            plain += nats_right.sum()
            # The mean of -log p is log Z - mean logit.
            smoothed += spike * nats_right.sum()
            smoothed += smoothing * log_z.sum() - share * (part.to(exact) @ total).sum()
            if rows_grad is not None and pieces_grad is not None:
                torch.mm(slope, pieces, out=rows_grad[start : start + size])
                add_product(pieces_grad, slope.T, part)
        if rows_grad is not None and pieces_grad is not None:
            rows_grad -= share * total
            pieces_grad[:pad] -= share * rows.sum(0, dtype=exact)
            ctx.save_for_backward(rows_grad, pieces_grad)
        ctx.mark_non_differentiable(plain)  # type: ignore[attr-defined]
        return smoothed, plain

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None]:
        rows_grad, pieces_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return rows_grad * grads[0], pieces_grad * grads[0], None, None, None


class Read(NamedTuple):
    """What a chunk's logits are read for; but for the slopes in float32 or better."""

    slope: Float[Tensor, "rows vocab"]
    """p, less the spike of the right piece, in the precision of the logits."""
    log_z: Float[Tensor, "rows 1"]
    logits_right: Float[Tensor, "rows 1"]


Slopes: TypeAlias = Callable[[Tensor, Tensor, float], Read]
"""Takes a chunk's logits, which it may write over, the right pieces (rows x 1), and the spike."""


class _InPlace:
    """Slopes over probabilities over logits, in the logits' own memory."""

    def __init__(self, block: Tensor, exact: torch.dtype) -> None:
        """Take memory for as many logits as there ever are, if they are of lower precision."""
        self._wide = None if block.dtype == exact else torch.empty_like(block, dtype=exact)

    def __call__(self, logits: Tensor, right: Tensor, spike: float) -> Read:
        wide = logits if self._wide is None else self._wide[: len(logits)].copy_(logits)
        wide[:, -1] = -math.inf  # PAD
        most, logits_right = wide.amax(-1, keepdim=True), wide.gather(1, right)
        probs = torch.softmax(wide, -1, out=wide)
        log_z = most - probs.amax(-1, keepdim=True).log()  # the largest cannot underflow
        probs.scatter_add_(1, right, probs.new_full(right.shape, -spike))
        return Read(logits if wide is logits else logits.copy_(probs), log_z, logits_right)


def written_slopes(logits: Tensor, right: Tensor, spike: float) -> Read:
    """The same as a formula, which a compiler makes few kernels of."""
    pieces = torch.arange(logits.size(1), device=logits.device)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    wide = exact.masked_fill(pieces == logits.size(1) - 1, -math.inf)
    log_z = wide.logsumexp(-1, keepdim=True)
    slope = (wide - log_z).exp() - (pieces == right).to(wide.dtype) * spike
    return Read(slope.to(logits.dtype), log_z, exact.gather(1, right))


@cache
def compiled_slopes() -> Slopes:
    """That formula, compiled when it is first worked out, once for all sizes."""
    return torch.compile(written_slopes, dynamic=True)


def add_product(into: Tensor, left: Tensor, right: Tensor) -> None:
    """Add a product to a sum, which may be kept in higher precision than its factors."""
    if into.dtype == left.dtype:
        into.addmm_(left, right)
    else:
        into += left @ right
