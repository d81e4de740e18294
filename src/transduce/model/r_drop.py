"""R-Drop (Liang et al. 2021): one batch read twice with different dropout should say the same.

With p and q the two predictions for one target piece, its loss is the paper's equation (4), halved
so that it stays on the scale of a single reading:

    (CE(p) + CE(q)) / 2 + α / 4 · (KL(p ‖ q) + KL(q ‖ p))
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from transduce.model.loss import add_product, chunk


def consistent_nats(
    first: Float[Tensor, "batch target d_model"],
    second: Float[Tensor, "batch target d_model"],
    embedding: Float[Tensor, "vocab d_model"],
    *,
    target_out: Int[Tensor, "batch target"],
    smoothing: float,
    alpha: float,
) -> Float[Tensor, ""]:
    """Sum the loss over target pieces, from what precedes the logits of the two readings.

    Logits are made and forgotten chunk by chunk, as in `nats_of_hidden`. Only the sum of this is
    to be descended; perplexity is measured without dropout.
    """
    flat = target_out.flatten()
    real = flat != embedding.size(0) - 1
    readings = [hidden.flatten(0, 1)[real] for hidden in (first, second)]
    return _Twice.apply(*readings, embedding, flat[real], smoothing, alpha)  # type: ignore[no-any-return]


class _Twice(torch.autograd.Function):
    """Forward makes the gradients too.

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
        nats = first.new_zeros((), dtype=exact)
        grads = [torch.empty_like(first), torch.empty_like(second)]
        pieces_grad = torch.zeros_like(embedding)
        size = chunk(embedding)
        for start in range(0, len(first), size):
            some, right = slice(start, start + size), targets[start : start + size, None]
            rows = [first[some], second[some]]
            log_p, log_q = ((part @ pieces.T).log_softmax(-1, dtype=exact) for part in rows)
            p, q, gap = log_p.exp(), log_q.exp(), log_p - log_q
            for row, ours, log_ours, theirs, away, grad in (
                (rows[0], p, log_p, q, gap, grads[0]),
                (rows[1], q, log_q, p, -gap, grads[1]),
            ):
                apart = (ours * away).sum(-1, keepdim=True)
                spike = 1.0 - smoothing
                cross = spike * log_ours.gather(1, right).sum()
                cross = cross + smoothing * log_ours.mean(-1).sum()
                nats += alpha / 4 * apart.sum() - cross / 2
                slope = ours / 2 + alpha / 4 * (ours * (away - apart) + ours - theirs)
                slope -= smoothing / (2 * len(pieces))
                slope.scatter_add_(1, right, slope.new_full(right.shape, -spike / 2))
                slope = slope.to(row.dtype)
                torch.mm(slope, pieces, out=grad[some])
                add_product(pieces_grad[:-1], slope.T, row)
        ctx.save_for_backward(*grads, pieces_grad)
        return nats

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: torch.autograd.function.FunctionCtx, *grads: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        first, second, pieces = (saved * grads[0] for saved in ctx.saved_tensors)  # type: ignore[attr-defined]
        return first, second, pieces, None, None, None
