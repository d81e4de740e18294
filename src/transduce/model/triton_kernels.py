"""Training kernels for GPUs, in Triton, which comes with torch for CUDA; `fused_layers` uses them.

Each is an autograd function that replaces a chain of memory-bound operations by one kernel a
direction. tests/gpu holds each to its readable twin; benchmarks/gpu.py measures what they gain.
Inputs and outputs are bfloat16, sums float32. Nothing is stored for dropout: both directions
compute the same hash of a value's index.
"""

# Triton's kernels have no types, and Triton is not installed where types are checked.
# pyright: reportMissingImports=false, reportMissingParameterType=false, reportIndexIssue=false
# pyright: reportUntypedFunctionDecorator=false, reportPrivateImportUsage=false
# pyright: reportUnknownParameterType=false, reportPrivateUsage=false, reportArgumentType=false

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from transduce.model.fused_layers import DROPOUT_LEVELS, MAX_LENGTH, split_projections
from transduce.model.loss import add_product

_MAX_PROGRAMS = 2112
"""Programs of a kernel that sums over rows: 16 for each multiprocessor of a large GPU. Each sums
its own rows; `sum_rows` adds up the sums."""

_LOGIT_ROWS, _LOGIT_COLUMNS = 4, 2048
"""Logits that a program reads at a time, four times eight of each of 256 threads."""


@triton.jit
def _mix(x):
    """A bijection of 32 bits in which every bit depends on every other ("lowbias32")."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _dropped(values, index, seed, stream, LEVEL: tl.constexpr, SCALE: tl.constexpr):
    """Drop values by a hash of their index, the seed and the number of the call (`stream`)."""
    x = _mix(index.to(tl.uint32) ^ seed.to(tl.uint32))
    x = _mix(x + stream.to(tl.uint32) * 0x9E3779B1)
    return tl.where((x >> 8).to(tl.int32) >= LEVEL, values * SCALE, 0.0)


@triton.jit(do_not_specialize=["rows"])
def _sum_rows(
    parts_ptr,
    sums_ptr,
    rows,
    WIDTH: tl.constexpr,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
        index = row[:, None] * STRIDE + column[None, :]
        total += tl.load(parts_ptr + index, mask=inside, other=0.0)
    tl.store(sums_ptr + column, tl.sum(total, 0), mask=column < WIDTH)


def sum_rows(parts: Float[Tensor, "rows *width"]) -> Float[Tensor, "*width"]:
    """Sum over rows that programs wrote, in less time than torch takes for few columns."""
    sums = parts.new_empty(parts.shape[1:])
    shared = {"WIDTH": sums.numel(), "STRIDE": parts.stride(0), "ROWS": 512, "COLUMNS": 16}
    programs = triton.cdiv(sums.numel(), shared["COLUMNS"])
    _sum_rows[(programs,)](parts, sums, len(parts), **shared, num_warps=8)
    return sums


@triton.jit(do_not_specialize=["rows", "stream"])
def _add_norm_forward(
    x_ptr,
    y_ptr,
    bias_ptr,
    gain_ptr,
    offset_ptr,
    total_ptr,
    out_ptr,
    mean_ptr,
    rstd_ptr,
    rows,
    seed_ptr,
    stream,
    epsilon,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LEVEL: tl.constexpr,
    SCALE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    index = row[:, None] * WIDTH + column[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    y = tl.load(y_ptr + index, mask=inside, other=0.0).to(tl.float32)
    if HAS_BIAS:
        y += tl.load(bias_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)[None, :]
    if LEVEL:
        y = _dropped(y, index, tl.load(seed_ptr), stream, LEVEL, SCALE)
    total = tl.load(x_ptr + index, mask=inside, other=0.0).to(tl.float32) + y
    # Rounded first: the backward pass normalises what is stored.
    total = total.to(total_ptr.dtype.element_ty)
    tl.store(total_ptr + index, total, mask=inside)
    total = tl.where(inside, total.to(tl.float32), 0.0)
    mean = tl.sum(total, 1) / WIDTH
    centred = tl.where(inside, total - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)
    gain = tl.load(gain_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    offset = tl.load(offset_ptr + column, mask=column < WIDTH, other=0.0).to(tl.float32)
    out = centred * rstd[:, None] * gain[None, :] + offset[None, :]
    tl.store(out_ptr + index, out.to(out_ptr.dtype.element_ty), mask=inside)
    tl.store(mean_ptr + row, mean, mask=row < rows)
    tl.store(rstd_ptr + row, rstd, mask=row < rows)


@triton.jit(do_not_specialize=["rows", "stream"])
def _add_norm_backward(
    grad_out_ptr,
    grad_copy_ptr,
    grad_total_ptr,
    total_ptr,
    gain_ptr,
    mean_ptr,
    rstd_ptr,
    grad_x_ptr,
    grad_y_ptr,
    sums_ptr,
    rows,
    seed_ptr,
    stream,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LEVEL: tl.constexpr,
    SCALE: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_COPY: tl.constexpr,
    HAS_TOTAL: tl.constexpr,
):
    column = tl.arange(0, BLOCK)
    in_row = column < WIDTH
    gain = tl.load(gain_ptr + column, mask=in_row, other=0.0).to(tl.float32)
    # Summed over a program's rows only once, at the end: a sum over rows waits for all threads.
    grad_gain = tl.zeros([ROWS, BLOCK], tl.float32)
    grad_offset = tl.zeros([ROWS, BLOCK], tl.float32)
    grad_bias = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        index = row[:, None] * WIDTH + column[None, :]
        inside = (row[:, None] < rows) & in_row[None, :]
        grad_out = tl.load(grad_out_ptr + index, mask=inside, other=0.0).to(tl.float32)
        if HAS_COPY:
            grad_out += tl.load(grad_copy_ptr + index, mask=inside, other=0.0).to(tl.float32)
        total = tl.load(total_ptr + index, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < rows, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < rows, other=0.0)
        normal = tl.where(inside, (total - mean[:, None]) * rstd[:, None], 0.0)
        grad_gain += grad_out * normal
        grad_offset += grad_out
        slope = grad_out * gain[None, :]
        along = tl.sum(slope * normal, 1) / WIDTH
        level = tl.sum(slope, 1) / WIDTH
        grad = (slope - level[:, None] - normal * along[:, None]) * rstd[:, None]
        if HAS_TOTAL:
            grad += tl.load(grad_total_ptr + index, mask=inside, other=0.0).to(tl.float32)
        tl.store(grad_x_ptr + index, grad.to(grad_x_ptr.dtype.element_ty), mask=inside)
        if LEVEL:
            grad = _dropped(grad, index, tl.load(seed_ptr), stream, LEVEL, SCALE)
            tl.store(grad_y_ptr + index, grad.to(grad_y_ptr.dtype.element_ty), mask=inside)
        if HAS_BIAS:
            grad_bias += tl.where(inside, grad, 0.0)
    sums = sums_ptr + tl.program_id(0) * 3 * WIDTH + column
    tl.store(sums, tl.sum(grad_gain, 0), mask=in_row)
    tl.store(sums + WIDTH, tl.sum(grad_offset, 0), mask=in_row)
    if HAS_BIAS:
        tl.store(sums + 2 * WIDTH, tl.sum(grad_bias, 0), mask=in_row)


class FusedAddNorm(torch.autograd.Function):
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
        seed: Int[Tensor, ""],
        stream: int,
    ) -> tuple[Float[Tensor, "rows width"], ...]:
        rows, width = x.shape
        total, out = torch.empty_like(x), torch.empty_like(x)
        mean, rstd = torch.empty(2, rows, dtype=torch.float32, device=x.device)
        shared = {**_row_settings(width, dropout), "HAS_BIAS": bias is not None}
        grid = (triton.cdiv(rows, shared["ROWS"]),)
        _add_norm_forward[grid](
            x, y, bias, gain, offset, total, out, mean, rstd, rows, seed, stream, epsilon, **shared
        )
        ctx.save_for_backward(total, gain, mean, rstd, seed)
        ctx.shared, ctx.stream = shared, stream  # type: ignore[attr-defined]
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
        total, gain, mean, rstd, seed = ctx.saved_tensors  # type: ignore[attr-defined]
        if grad_out is None:
            grad_out, grad_copy = grad_copy, None
        assert grad_out is not None
        (rows, width), shared = total.shape, dict(ctx.shared)  # type: ignore[attr-defined]
        block = shared["BLOCK"]
        shared |= {"ROWS": max(1, 512 // block), "num_warps": max(1, block // 512)}
        grad_x = torch.empty_like(total)
        grad_y = torch.empty_like(total) if shared["LEVEL"] else grad_x
        programs = min(_MAX_PROGRAMS, triton.cdiv(rows, shared["ROWS"]))
        sums = torch.empty(programs, 3, width, dtype=torch.float32, device=total.device)
        _add_norm_backward[(programs,)](
            grad_out.contiguous(),
            None if grad_copy is None else grad_copy.contiguous(),
            None if grad_total is None else grad_total.contiguous(),
            total,
            gain,
            mean,
            rstd,
            grad_x,
            grad_y,
            sums,
            rows,
            seed,
            ctx.stream,  # type: ignore[attr-defined]
            **shared,
            HAS_COPY=grad_copy is not None,
            HAS_TOTAL=grad_total is not None,
        )
        parts = sum_rows(sums[:, : 3 if shared["HAS_BIAS"] else 2])
        dtype = ctx.bias_dtype  # type: ignore[attr-defined]
        grad_bias = None if dtype is None else parts[2].to(dtype)
        return (grad_x, grad_y, grad_bias, parts[0], parts[1], *[None] * 4)


@triton.jit
def _attention_tile(pointer, row, row_stride, limit, DEPTH: tl.constexpr):
    """Load some rows of one head, zero from `limit` on."""
    column = tl.arange(0, DEPTH)
    index = row[:, None] * row_stride + column[None, :]
    return tl.load(pointer + index, mask=row[:, None] < limit, other=0.0)


@triton.jit
def _attention_scores(q, k, query, key, keys, scale, CAUSAL: tl.constexpr):
    scores = tl.dot(q, tl.trans(k)) * scale
    allowed = key[None, :] < keys
    if CAUSAL:
        allowed = allowed & (key[None, :] <= query[:, None])
    return tl.where(allowed, scores, float("-inf"))


@triton.jit
def _attention_forward(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    log_z_ptr,
    query_starts_ptr,
    key_starts_ptr,
    q_stride,
    kv_stride,
    scale,
    HEADS: tl.constexpr,
    DEPTH: tl.constexpr,
    QUERY_BLOCK: tl.constexpr,
    KEY_BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    sentence, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    first_query = tl.load(query_starts_ptr + sentence).to(tl.int64)
    first_key = tl.load(key_starts_ptr + sentence).to(tl.int64)
    queries = (tl.load(query_starts_ptr + sentence + 1) - first_query).to(tl.int32)
    keys = (tl.load(key_starts_ptr + sentence + 1) - first_key).to(tl.int32)
    query = tl.program_id(1) * QUERY_BLOCK + tl.arange(0, QUERY_BLOCK)
    if tl.program_id(1) * QUERY_BLOCK < queries:
        key = tl.arange(0, KEY_BLOCK)
        kv_start = first_key * kv_stride + head * DEPTH
        q_start = first_query * q_stride + head * DEPTH
        q = _attention_tile(q_ptr + q_start, query, q_stride, queries, DEPTH)
        k = _attention_tile(k_ptr + kv_start, key, kv_stride, keys, DEPTH)
        v = _attention_tile(v_ptr + kv_start, key, kv_stride, keys, DEPTH)
        scores = _attention_scores(q, k, query, key, keys, scale, CAUSAL)
        largest = tl.maximum(tl.max(scores, 1), -1e30)  # finite without any key
        weights = tl.exp(scores - largest[:, None])
        total = tl.maximum(tl.sum(weights, 1), 1e-30)
        out = tl.dot(weights.to(v.dtype), v) / total[:, None]
        width: tl.constexpr = HEADS * DEPTH
        index = (first_query + query[:, None]) * width + head * DEPTH
        index += tl.arange(0, DEPTH)[None, :]
        tl.store(out_ptr + index, out.to(out_ptr.dtype.element_ty), mask=query[:, None] < queries)
        log_z = (first_query + query) * HEADS + head
        tl.store(log_z_ptr + log_z, largest + tl.log(total), mask=query < queries)


@triton.jit
def _attention_backward(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    grad_out_ptr,
    log_z_ptr,
    query_starts_ptr,
    key_starts_ptr,
    grad_q_ptr,
    grad_k_ptr,
    grad_v_ptr,
    q_stride,
    kv_stride,
    scale,
    HEADS: tl.constexpr,
    DEPTH: tl.constexpr,
    QUERY_BLOCK: tl.constexpr,
    KEY_BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    sentence, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    first_query = tl.load(query_starts_ptr + sentence).to(tl.int64)
    first_key = tl.load(key_starts_ptr + sentence).to(tl.int64)
    queries = (tl.load(query_starts_ptr + sentence + 1) - first_query).to(tl.int32)
    keys = (tl.load(key_starts_ptr + sentence + 1) - first_key).to(tl.int32)
    key, column = tl.arange(0, KEY_BLOCK), tl.arange(0, DEPTH)
    width: tl.constexpr = HEADS * DEPTH
    q_start = first_query * q_stride + head * DEPTH
    kv_start = first_key * kv_stride + head * DEPTH
    out_start = first_query * width + head * DEPTH
    k = _attention_tile(k_ptr + kv_start, key, kv_stride, keys, DEPTH)
    v = _attention_tile(v_ptr + kv_start, key, kv_stride, keys, DEPTH)
    grad_k = tl.zeros([KEY_BLOCK, DEPTH], tl.float32)
    grad_v = tl.zeros([KEY_BLOCK, DEPTH], tl.float32)
    for first in range(0, queries, QUERY_BLOCK):
        query = first + tl.arange(0, QUERY_BLOCK)
        real = query < queries
        q = _attention_tile(q_ptr + q_start, query, q_stride, queries, DEPTH)
        out = _attention_tile(out_ptr + out_start, query, width, queries, DEPTH)
        grad_out = _attention_tile(grad_out_ptr + out_start, query, width, queries, DEPTH)
        log_z = tl.load(log_z_ptr + (first_query + query) * HEADS + head, mask=real, other=0.0)
        scores = _attention_scores(q, k, query, key, keys, scale, CAUSAL)
        weights = tl.exp(scores - log_z[:, None])
        grad_v += tl.dot(tl.trans(weights.to(v.dtype)), grad_out)
        inner = tl.sum(out.to(tl.float32) * grad_out.to(tl.float32), 1)
        grad_scores = weights * (tl.dot(grad_out, tl.trans(v)) - inner[:, None]) * scale
        grad_scores = grad_scores.to(k.dtype)
        grad_q = tl.dot(grad_scores, k)
        grad_k += tl.dot(tl.trans(grad_scores), q)
        index = q_start + query[:, None] * q_stride + column[None, :]
        tl.store(grad_q_ptr + index, grad_q.to(grad_q_ptr.dtype.element_ty), mask=real[:, None])
    index = kv_start + key[:, None] * kv_stride + column[None, :]
    inside = key[:, None] < keys
    tl.store(grad_k_ptr + index, grad_k.to(grad_k_ptr.dtype.element_ty), mask=inside)
    tl.store(grad_v_ptr + index, grad_v.to(grad_v_ptr.dtype.element_ty), mask=inside)


class PackedAttention(torch.autograd.Function):
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
        shared = _attention_settings(q, longest=longest, heads=heads, causal=causal)
        backward = _attention_settings(
            q, longest=longest, heads=heads, causal=causal, backward=True
        )
        out = q.new_empty(q.shape)
        log_z = q.new_empty(len(q), heads, dtype=torch.float32)
        programs = (len(query_starts) - 1) * heads
        grid = (programs, triton.cdiv(longest[0], shared["QUERY_BLOCK"]))
        numbers = q.stride(0), k.stride(0), (q.size(1) // heads) ** -0.5
        _attention_forward[grid](q, k, v, out, log_z, query_starts, key_starts, *numbers, **shared)
        ctx.save_for_backward(packed, memory, query_starts, key_starts, out, log_z)
        ctx.programs, ctx.numbers, ctx.shared = programs, numbers, backward  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        packed, memory, query_starts, key_starts, out, log_z = ctx.saved_tensors  # type: ignore[attr-defined]
        grad_packed = torch.empty_like(packed)
        grad_memory = None if memory is None else torch.empty_like(memory)
        _attention_backward[(ctx.programs,)](  # type: ignore[attr-defined]
            *split_projections(packed, memory),
            out,
            grad_out.contiguous(),
            log_z,
            query_starts,
            key_starts,
            *split_projections(grad_packed, grad_memory),
            *ctx.numbers,  # type: ignore[attr-defined]
            **ctx.shared,  # type: ignore[attr-defined]
        )
        return grad_packed, grad_memory, *[None] * 5


def _attention_settings(
    q: Tensor, *, longest: tuple[int, int], heads: int, causal: bool, backward: bool = False
) -> dict[str, int]:
    queries, keys = (max(16, triton.next_power_of_2(length)) for length in longest)
    assert keys <= MAX_LENGTH, "a program holds all keys of a sentence"
    # What fits into the registers; the fastest on an H200 with 8 heads of 64.
    queries = min(queries, 32 if keys > 128 else 16 if backward else 64)
    warps = max(1, min(queries * keys // 512, 4)) if keys <= 32 else 4 if keys <= 128 else 8
    return {
        "HEADS": heads,
        "DEPTH": q.size(1) // heads,
        "QUERY_BLOCK": queries,
        "KEY_BLOCK": keys,
        "CAUSAL": causal,
        "num_warps": warps,
        # Reading ahead gains only where a program makes many turns.
        "num_stages": 3 if keys > 64 else 1,
    }


@triton.jit(do_not_specialize=["rows"])
def _relu_backward(
    hidden_ptr,
    grad_ptr,
    sums_ptr,
    rows,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)
        index = row[:, None].to(tl.int64) * WIDTH + column[None, :]
        inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
        hidden = tl.load(hidden_ptr + index, mask=inside, other=0.0)
        grad = tl.load(grad_ptr + index, mask=inside, other=0.0)
        grad = tl.where(hidden > 0.0, grad, 0.0)
        tl.store(grad_ptr + index, grad, mask=inside)
        total += tl.sum(grad.to(tl.float32), 0)
    tl.store(sums_ptr + tl.program_id(0) * WIDTH + column, total, mask=column < WIDTH)


class FusedFeedForward(torch.autograd.Function):
    """max(0, x W1 + b1) W2, without the second bias, which `FusedAddNorm` adds."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: FunctionCtx,
        x: Float[Tensor, "rows width"],
        inner: Float[Tensor, "inner width"],
        bias: Float[Tensor, " inner"],
        outer: Float[Tensor, "width inner"],
    ) -> Float[Tensor, "rows width"]:
        # The library's product applies the activation before it writes.
        hidden = torch._addmm_activation(bias, x, inner.T)
        ctx.save_for_backward(x, inner, outer, hidden)
        return hidden @ outer.T

    @staticmethod
    @once_differentiable
    def backward(  # type: ignore[override]
        ctx: FunctionCtx, grad: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, inner, outer, hidden = ctx.saved_tensors  # type: ignore[attr-defined]
        grad_hidden = grad @ outer
        width, rows = hidden.size(1), 4
        block = min(1024, triton.next_power_of_2(width))
        programs = min(264, triton.cdiv(len(x), rows))
        sums = torch.empty(programs, width, dtype=torch.float32, device=x.device)
        _relu_backward[(programs, triton.cdiv(width, block))](
            hidden, grad_hidden, sums, len(x), WIDTH=width, ROWS=rows, COLUMNS=block, num_warps=4
        )
        return (
            grad_hidden @ inner,
            grad_hidden.T @ x,
            sum_rows(sums).to(hidden.dtype),
            grad.T @ hidden,
        )


@triton.jit
def _logit_tile(
    logits,
    first,
    PIECES: tl.constexpr,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Load a tile of a row, -inf from PAD on; returns the ids too.

    The mask is by STRIDE, a multiple of 16, so that a thread loads eight logits at a time.
    """
    piece = first + tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    x = tl.load(logits + piece, mask=piece < STRIDE, other=0.0).to(tl.float32)
    return piece, tl.where(piece < PIECES, x, float("-inf"))


@triton.jit
def _logit_gradients(
    logits_ptr,
    correct_ptr,
    sums_ptr,
    spike,
    PIECES: tl.constexpr,
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    logits = logits_ptr + row * STRIDE
    correct = tl.load(correct_ptr + row)
    real = correct < PIECES  # PAD, the last id, is nothing to learn
    # A maximum and a sum a column: only at the end does a thread wait for the others.
    largest = tl.full([COLUMNS], -1e30, tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    block: tl.constexpr = ROWS * COLUMNS
    for first in range(0, PIECES, block):
        _, x = _logit_tile(logits, first, PIECES, STRIDE, ROWS, COLUMNS)
        before = largest
        largest = tl.maximum(before, tl.max(x, 0))
        total = total * tl.exp(before - largest) + tl.sum(tl.exp(x - largest[None, :]), 0)
    maximum = tl.max(largest, 0)
    log_z = maximum + tl.log(tl.sum(total * tl.exp(largest - maximum), 0))
    correct_logit = tl.load(logits + correct).to(tl.float32)
    tl.store(sums_ptr + 2 * row, tl.where(real, log_z - correct_logit, 0.0))
    tl.store(sums_ptr + 2 * row + 1, tl.where(real, log_z, 0.0))
    tl.debug_barrier()  # the correct logit is read before it is overwritten
    for first in range(0, STRIDE, block):
        piece, x = _logit_tile(logits, first, PIECES, STRIDE, ROWS, COLUMNS)
        slope = tl.exp(x - log_z) - tl.where(piece == correct, spike, 0.0)
        slope = tl.where(real, slope, 0.0).to(logits_ptr.dtype.element_ty)
        tl.store(logits + piece, slope, mask=piece < STRIDE)


class CrossEntropy(torch.autograd.Function):
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
        matrix, pad = embedding.to(rows.dtype), len(embedding) - 1
        share, spike = smoothing / pad, 1.0 - smoothing
        total = embedding[:pad].sum(0)
        real = targets != pad
        rows_grad, grad = torch.empty_like(rows), torch.zeros_like(embedding)
        sums = torch.empty(len(rows), 2, dtype=torch.float32, device=rows.device)
        # Rows begin at multiples of 32 bytes, so that a thread loads several logits at a time.
        stride = -(-len(matrix) // 16) * 16
        block = rows.new_empty(min(chunk, len(rows)), stride)[:, : len(matrix)]
        for start in range(0, len(rows), chunk):
            part = slice(start, min(start + chunk, len(rows)))
            logits = torch.mm(rows[part], matrix.T, out=block[: part.stop - start])
            _logit_gradients[(len(logits),)](
                logits,
                targets[part],
                sums[part],
                spike,
                PIECES=pad,
                STRIDE=stride,
                ROWS=_LOGIT_ROWS,
                COLUMNS=_LOGIT_COLUMNS,
                num_warps=8,
                num_stages=1,  # prefetching through shared memory costs more than it gains here
            )
            torch.mm(logits, matrix, out=rows_grad[part])
            add_product(grad, logits.T, rows[part])
        # What the constant part of the smoothed target adds, which the slopes leave out.
        rows_sum = torch.where(real[:, None], rows, 0.0).sum(0, dtype=torch.float32)
        rows_grad.addr_(real.to(rows.dtype), (share * total).to(rows.dtype), alpha=-1)
        grad[:pad] -= share * rows_sum
        ctx.save_for_backward(rows_grad, grad)
        negative_log_probs, log_z = sums.sum(0)
        constant = smoothing * log_z - share * (rows_sum @ total)
        return spike * negative_log_probs + constant

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        rows_grad, matrix_grad = ctx.saved_tensors  # type: ignore[attr-defined]
        return rows_grad * grad.to(rows_grad.dtype), matrix_grad * grad, None, None, None


@triton.jit(do_not_specialize=["rows", "stream"])
def _embed_forward(
    ids_ptr,
    positions_ptr,
    matrix_ptr,
    table_ptr,
    out_ptr,
    rows,
    seed_ptr,
    stream,
    factor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LEVEL: tl.constexpr,
    SCALE: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row[:, None] < rows) & (column[None, :] < WIDTH)
    ids = tl.load(ids_ptr + row, mask=row < rows, other=0).to(tl.int64)
    position = tl.load(positions_ptr + row, mask=row < rows, other=0)
    x = tl.load(matrix_ptr + ids[:, None] * WIDTH + column[None, :], mask=inside, other=0.0)
    position = position[:, None] * WIDTH + column[None, :]
    x = x * factor + tl.load(table_ptr + position, mask=inside, other=0.0)
    index = row[:, None] * WIDTH + column[None, :]
    if LEVEL:
        x = _dropped(x, index, tl.load(seed_ptr), stream, LEVEL, SCALE)
    tl.store(out_ptr + index, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "pad", "stream"])
def _embed_backward(
    ids_ptr,
    grad_out_ptr,
    grad_ptr,
    rows,
    pad,
    seed_ptr,
    stream,
    factor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    LEVEL: tl.constexpr,
    SCALE: tl.constexpr,
):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + row, mask=row < rows, other=0).to(tl.int64)
    learns = (row < rows) & (ids != pad)
    inside = learns[:, None] & (column[None, :] < WIDTH)
    index = row[:, None] * WIDTH + column[None, :]
    grad = tl.load(grad_out_ptr + index, mask=inside, other=0.0).to(tl.float32)
    if LEVEL:
        grad = _dropped(grad, index, tl.load(seed_ptr), stream, LEVEL, SCALE)
    # Float32, in any order: frequent pieces have many addends.
    target = grad_ptr + ids[:, None] * WIDTH + column[None, :]
    tl.atomic_add(target, grad * factor, mask=inside, sem="relaxed")


class Embed(torch.autograd.Function):
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
        seed: Int[Tensor, ""],
        stream: int,
    ) -> Float[Tensor, "tokens width"]:
        width = matrix.size(1)
        out = torch.empty(len(ids), width, dtype=dtype, device=ids.device)
        shared = _row_settings(width, dropout)
        grid = (triton.cdiv(len(ids), shared["ROWS"]),)
        _embed_forward[grid](
            ids, positions, matrix, table, out, len(ids), seed, stream, factor, **shared
        )
        ctx.save_for_backward(ids, seed)
        ctx.like = matrix.shape, matrix.dtype  # type: ignore[attr-defined]
        ctx.settings = grid, stream, factor, shared  # type: ignore[attr-defined]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad_out: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        ids, seed = ctx.saved_tensors  # type: ignore[attr-defined]
        shape, dtype = ctx.like  # type: ignore[attr-defined]
        grad = torch.zeros(shape, dtype=dtype, device=ids.device)
        grid, stream, factor, shared = ctx.settings  # type: ignore[attr-defined]
        pad, rows = len(grad) - 1, len(ids)
        _embed_backward[grid](
            ids, grad_out.contiguous(), grad, rows, pad, seed, stream, factor, **shared
        )
        return None, None, grad, *[None] * 6


def _row_settings(width: int, dropout: float) -> dict[str, int | float]:
    """Settings of kernels whose programs take whole rows."""
    block = triton.next_power_of_2(width)
    return {
        "WIDTH": width,
        "BLOCK": block,
        "ROWS": max(1, 2048 // block),
        "LEVEL": round(dropout * DROPOUT_LEVELS),
        "SCALE": 1.0 / (1.0 - dropout),
        "num_warps": 4,
    }


# The interface that `cpp_kernels` has, too.
add_norm = FusedAddNorm.apply
attention = PackedAttention.apply
feed_forward = FusedFeedForward.apply
cross_entropy = CrossEntropy.apply
embed = Embed.apply
linear = F.linear
