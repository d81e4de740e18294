"""Training kernels for CPUs, compiled from `cpp_kernels.cpp`; `fused_layers` uses them.

Each is an autograd function of the same interface as its twin in `triton_kernels`, for packed
sentences in float32 or bfloat16. tests/parity holds each to its readable twin;
benchmarks/kernels.py measures what they gain.
"""

from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from transduce.io.machine import processor_vendor
from transduce.model.cpp_library import load_kernels
from transduce.model.fused_layers import DROPOUT_LEVELS, split_projections


class CompiledAddNorm(torch.autograd.Function):
    """The sum x + dropout(y + bias), and its normalisation twice.

    A post-norm model uses the latter twice; the kernel adds both gradients.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        x: Float[Tensor, "rows width"],
        y: Float[Tensor, "rows width"],
        bias: Float[Tensor, " width"] | None,
        gain: Float[Tensor, " width"],
        offset: Float[Tensor, " width"],
        epsilon: float,
        dropout: float,
        seed: Int[Tensor, " 1"],
        stream: int,
    ) -> tuple[Float[Tensor, "rows width"], ...]:
        total, out = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = torch.empty(2, len(x), dtype=torch.float32)
        random = _random(dropout, seed, stream)
        inputs, outputs = (x, y, bias, gain, offset), (total, out, mean, rstd)
        _call("add_norm_forward", x, *inputs, *outputs, *x.shape, epsilon, *random)
        ctx.save_for_backward(total, gain, mean, rstd)
        ctx.random = random  # type: ignore[attr-defined]
        ctx.bias_dtype = None if bias is None else bias.dtype  # type: ignore[attr-defined]
        ctx.set_materialize_grads(False)
        return total, out, out.detach()

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: FunctionCtx,
        grad_total: Tensor | None,
        grad_out: Tensor | None,
        grad_copy: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        total, gain, mean, rstd = ctx.saved_tensors  # type: ignore[attr-defined]
        if grad_out is None:
            grad_out, grad_copy = grad_copy, None
        assert grad_out is not None, "the normalised sum has a reader"
        grads = [None if x is None else x.contiguous() for x in (grad_out, grad_copy, grad_total)]
        grad_x, grad_y = torch.empty_like(total), torch.empty_like(total)
        sums = torch.empty(torch.get_num_threads(), 3, total.size(1))
        tensors = (*grads, total, gain, mean, rstd, grad_x, grad_y, sums)
        _call("add_norm_backward", total, *tensors, *total.shape, *ctx.random)  # type: ignore[attr-defined]
        grad_gain, grad_offset, grad_bias = sums.sum(0)
        dtype = ctx.bias_dtype  # type: ignore[attr-defined]
        bias_grad = None if dtype is None else grad_bias.to(dtype)
        return (grad_x, grad_y, bias_grad, grad_gain, grad_offset, *[None] * 4)


class CompiledAttention(torch.autograd.Function):
    """Equation (1) on sentences that lie one after the other, without padding.

    Projections lie side by side, as one product writes them, and so does their gradient.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        packed: Float[Tensor, "queries _"],
        memory: Float[Tensor, "keys _"] | None,
        query_starts: Int[Tensor, " starts"],
        key_starts: Int[Tensor, " starts"],
        longest: tuple[int, int],
        heads: int,
        causal: bool,
    ) -> Float[Tensor, "queries _"]:
        """Attend to `memory` (keys, values), or in self-attention to `packed` itself."""
        q, k, v = split_projections(packed, memory)
        out, depth = q.new_empty(q.shape), q.size(1) // heads
        largest, shares = torch.empty(2, heads, len(q))
        sizes = len(query_starts) - 1, heads, depth, q.stride(0), k.stride(0)
        numbers = (*sizes, depth**-0.5, causal)
        starts, softmaxes = (query_starts, key_starts), (largest, shares)
        _call("attention_forward", q, q, k, v, out, *softmaxes, *starts, *numbers)
        saved = packed, memory, *starts, *softmaxes
        ctx.save_for_backward(*saved)  # pyright: ignore[reportArgumentType]
        ctx.numbers = numbers  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        packed, memory, query_starts, key_starts, *softmaxes = ctx.saved_tensors  # type: ignore[attr-defined]
        grad_packed = torch.empty_like(packed)
        grad_memory = None if memory is None else torch.empty_like(memory)
        inputs = (*split_projections(packed, memory), grad_out.contiguous(), *softmaxes)
        grads, starts = split_projections(grad_packed, grad_memory), (query_starts, key_starts)
        _call("attention_backward", packed, *inputs, *grads, *starts, *ctx.numbers)  # type: ignore[attr-defined]
        return grad_packed, grad_memory, *[None] * 5


class CompiledFeedForward(torch.autograd.Function):
    """max(0, x W1 + b1) W2, without the second bias, which `CompiledAddNorm` adds."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        x: Float[Tensor, "rows width"],
        inner: Float[Tensor, "inner width"],
        bias: Float[Tensor, " inner"],
        outer: Float[Tensor, "width inner"],
    ) -> Float[Tensor, "rows width"]:
        hidden = _product(x, inner, bias).relu_()
        ctx.save_for_backward(x, inner, outer, hidden)
        return _product(hidden, outer)

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: FunctionCtx, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, inner, outer, hidden = ctx.saved_tensors  # type: ignore[attr-defined]
        grad_hidden = _product(grad, outer.T)
        sums = torch.empty(torch.get_num_threads(), hidden.size(1))
        _call("relu_backward", hidden, hidden, grad_hidden, sums, *hidden.shape)
        grad_bias = sums.sum(0).to(hidden.dtype)
        return _product(grad_hidden, inner.T), grad_hidden.T @ x, grad_bias, grad.T @ hidden


class OneDnnLinear(torch.autograd.Function):
    """x Wᵀ + b by oneDNN; the gradient of W is a product that MKL is better at."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        x: Float[Tensor, "rows inner"],
        weight: Float[Tensor, "outer inner"],
        bias: Float[Tensor, " outer"] | None,
    ) -> Float[Tensor, "rows outer"]:
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors  # type: ignore[attr-defined]
        bias_grad = grad.sum(0) if ctx.needs_input_grad[2] else None  # type: ignore[attr-defined]
        return _product(grad, weight.T), grad.T @ x, bias_grad


def linear(
    x: Float[Tensor, "rows inner"],
    weight: Float[Tensor, "outer inner"],
    bias: Float[Tensor, " outer"] | None = None,
) -> Float[Tensor, "rows outer"]:
    """Return x Wᵀ + b."""
    return (OneDnnLinear.apply if _takes_onednn(x) else F.linear)(x, weight, bias)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x Wᵀ + b, without a gradient."""
    if _takes_onednn(x):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def _takes_onednn(x: Tensor) -> bool:
    """Return whether a product is oneDNN's. In bfloat16 torch takes it by itself."""
    return x.dtype == torch.float32 and _onednn_is_faster()


@cache
def _onednn_is_faster() -> bool:
    """Return whether oneDNN multiplies in float32 faster than MKL, torch's choice: on AMD's."""
    has_onednn = torch.backends.mkldnn.is_available() and hasattr(
        torch.ops.mkldnn, "_linear_pointwise"
    )
    return has_onednn and processor_vendor() == "AuthenticAMD"


class CompiledCrossEntropy(torch.autograd.Function):
    """`loss.chunked_cross_entropy`, PAD among its rows; the gradient is computed going forward."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        rows: Float[Tensor, "rows d_model"],
        embedding: Float[Tensor, "vocab d_model"],
        targets: Int[Tensor, " rows"],
        smoothing: float,
        chunk: int,
    ) -> Float[Tensor, ""]:
        """Return the loss with smoothing, summed over the rows whose target is not PAD."""
        output = _OutputProjection(embedding, rows, share=smoothing / (len(embedding) - 1))
        spike, grad, sums = 1.0 - smoothing, torch.empty_like(rows), torch.empty(len(rows), 2)
        block = output.allocate(min(chunk, len(rows)))
        for start in range(0, len(rows), chunk):
            part = slice(start, start + chunk)
            logits = output.product(rows[part], block)
            numbers = spike, len(logits), output.pad
            _call("logit_gradients", logits, logits, targets[part], sums[part], *numbers)
            output.add_gradients(logits, rows[part], grad[part])
        constant = output.subtract_constant(rows, grad, (targets != output.pad)[:, None])
        ctx.save_for_backward(grad, output.grad)
        negative_log_probs, log_z = sums.sum(0)
        return spike * negative_log_probs + smoothing * log_z - constant

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        rows_grad, matrix_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return rows_grad * grad.to(rows_grad.dtype), matrix_grad * grad, None, None, None


class CompiledRDrop(torch.autograd.Function):
    """`loss.r_drop_loss` without PAD among its rows; the gradient is computed going forward."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        first: Float[Tensor, "rows d_model"],
        second: Float[Tensor, "rows d_model"],
        embedding: Float[Tensor, "vocab d_model"],
        targets: Int[Tensor, " rows"],
        smoothing: float,
        alpha: float,
        chunk: int,
    ) -> Float[Tensor, ""]:
        """Return the loss with smoothing, summed over the rows."""
        output = _OutputProjection(embedding, first, share=smoothing / 2 / (len(embedding) - 1))
        spike, weight, sums = (1.0 - smoothing) / 2, alpha / 4, torch.empty(len(first), 4)
        grads = torch.empty_like(first), torch.empty_like(second)
        blocks = [output.allocate(min(chunk, len(first))) for _ in grads]
        for start in range(0, len(first), chunk):
            part = slice(start, start + chunk)
            p, q = output.product(first[part], blocks[0]), output.product(second[part], blocks[1])
            numbers = spike, weight, len(p), output.pad
            _call("r_drop_gradients", p, p, q, targets[part], sums[part], *numbers)
            output.add_gradients(p, first[part], grads[0][part])
            output.add_gradients(q, second[part], grads[1][part])
        constant = sum(
            output.subtract_constant(rows, grad)
            for rows, grad in zip((first, second), grads, strict=True)
        )
        ctx.save_for_backward(*grads, output.grad)
        p_loss, q_loss, log_z, divergence = sums.sum(0)
        return spike * (p_loss + q_loss) + smoothing / 2 * log_z + weight * divergence - constant

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        *rows_grads, matrix_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        first, second = (rows_grad * grad.to(rows_grad.dtype) for rows_grad in rows_grads)
        return first, second, matrix_grad * grad, *[None] * 4


class _OutputProjection:
    """Products with the output matrix, and its gradient."""

    def __init__(self, embedding: Tensor, like: Tensor, *, share: float) -> None:
        """Start with a gradient of zero.

        Args:
            embedding: the output matrix.
            like: the precision of the products.
            share: what a smoothed target gives to every piece.
        """
        self.pad, self.grad = len(embedding) - 1, torch.zeros_like(embedding)
        self._matrix, self._share = embedding.to(like.dtype), share
        self._total = embedding[: self.pad].sum(0)

    def allocate(self, rows: int) -> Tensor:
        """Return memory for logits."""
        return self._matrix.new_empty(rows, len(self._matrix))

    def product(self, rows: Tensor, block: Tensor) -> Tensor:
        """Return logits, in the memory of `block` where the library can write there."""
        if _takes_onednn(rows):
            return _product(rows, self._matrix)
        return torch.mm(rows, self._matrix.T, out=block[: len(rows)])

    def add_gradients(self, slopes: Tensor, rows: Tensor, grad: Tensor) -> None:
        """Write the gradient of some rows and add that of the matrix, given that of the logits."""
        grad.copy_(_product(slopes, self._matrix.T))
        add_to(self.grad, slopes.T @ rows)

    def subtract_constant(
        self, rows: Tensor, grad: Tensor, real: Tensor | None = None
    ) -> Float[Tensor, ""]:
        """Return `share` times the sum of all logits, and subtract it from the gradients.

        Args:
            rows: what the matrix multiplies.
            grad: their gradient.
            real: True for rows that count; None for all.
        """
        constant = (self._share * self._total).to(grad.dtype)
        if real is None:
            grad -= constant
        else:
            grad -= real * constant
            rows = torch.where(real, rows, 0.0)
        rows_sum = self._share * rows.sum(0, dtype=torch.float32)
        self.grad[: self.pad] -= rows_sum
        return rows_sum @ self._total


class CompiledEmbedding(torch.autograd.Function):
    """dropout(matrix[ids] · factor + table[positions])."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        ids: Int[Tensor, " tokens"],
        positions: Int[Tensor, " tokens"],
        matrix: Float[Tensor, "vocab width"],
        table: Float[Tensor, "length width"],
        factor: float,
        dtype: torch.dtype,
        dropout: float,
        seed: Int[Tensor, " 1"],
        stream: int,
    ) -> Float[Tensor, "tokens width"]:
        out = torch.empty(len(ids), matrix.size(1), dtype=dtype)
        random = _random(dropout, seed, stream)
        _call("embed_forward", out, ids, positions, matrix, table, out, *out.shape, factor, *random)
        ctx.save_for_backward(ids)
        ctx.settings = len(matrix), factor, random  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        (ids,) = ctx.saved_tensors  # type: ignore[attr-defined]
        pieces, factor, random = ctx.settings  # type: ignore[attr-defined]
        grad_out = grad_out.contiguous()
        grad = torch.zeros(pieces, grad_out.size(1))
        numbers = (*grad_out.shape, pieces - 1, factor)
        _call("embed_backward", grad_out, ids, grad_out, grad, *numbers, *random)
        return None, None, grad, *[None] * 6


def add_to(total: Float[Tensor, "*shape"], values: Float[Tensor, "*shape"]) -> None:
    """Add values in either precision to a sum in float32; torch would copy them first."""
    if values.dtype == torch.bfloat16 and total.is_contiguous():
        _call("add_rounded", values, total, values.contiguous(), values.numel())
    else:
        total += values


def _call(kernel: str, like: Tensor, *arguments: Tensor | float | int | None) -> None:
    """Run a kernel in the precision of a tensor."""
    load_kernels().call(kernel, like.dtype == torch.bfloat16, *arguments)


def _random(dropout: float, seed: Tensor, stream: int) -> tuple[int, int, int, float]:
    """The parameters of the dropout of one call."""
    return int(seed), stream, round(dropout * DROPOUT_LEVELS), 1.0 / (1.0 - dropout)


# The interface that `triton_kernels` has, too.
add_norm = CompiledAddNorm.apply
attention = CompiledAttention.apply
feed_forward = CompiledFeedForward.apply
cross_entropy = CompiledCrossEntropy.apply
r_drop = CompiledRDrop.apply
embed = CompiledEmbedding.apply
