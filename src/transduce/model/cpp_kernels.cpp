// Training kernels for CPUs. `cpp_library.py` compiles them where there is a C++ compiler, and
// the autograd functions of `cpp_kernels.py` call them.
//
// Each replaces a chain of memory-bound operations by one pass over memory. Inputs and outputs are
// float32 or bfloat16, sums float32. Nothing is stored for dropout: both directions compute the
// same hash of a value's index. Work is split among threads in a fixed way, so results depend on
// the number of threads only.

#include <new>
#include <vector>

#include "vectors.hpp"

namespace {

// The dropout of one call: `stream` is its number within a pass, `level` the probability in 2^-24.
struct Dropout {
    uint32_t seed, stream, level;
    float scale;

    // A bijection of 32 bits in which every bit depends on every other ("lowbias32").
    static Words mix(Words x) {
        x = (x ^ (x >> 16)) * 0x7FEB352Du;
        x = (x ^ (x >> 15)) * 0x846CA68Bu;
        return x ^ (x >> 16);
    }

    // Drop values by a hash of their index, whose first is `index`.
    Vector operator()(Vector values, int64_t index) const {
        if (!level) return values;
        Words x = mix(mix(same_bits<Words>(lanes_from(index)) ^ seed) + stream * 0x9E3779B1u) >> 8;
        return x >= level ? values * scale : Vector{};
    }
};

// Load a value into a register: the compiler would load it anew for each product.
inline Vector load_once(const float *from) {
    Vector value = load(from);
#ifdef __AVX__
    asm("" : "+x"(value));
#endif
    return value;
}

// Loops are unrolled early: otherwise the sums pass through memory.
template <int COLUMNS>
inline void multiply_block(const float *a, int64_t row, int64_t column, const float *b, float *c,
                           int64_t inner, int64_t width) {
    Vector sums[4][COLUMNS];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) sums[i][j] = Vector{};
    for (int64_t p = 0; p < inner; p++, a += column, b += width) {
        Vector factors[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) factors[j] = load_once(b + j * LANES);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
            for (int j = 0; j < COLUMNS; j++) sums[i][j] += a[i * row] * factors[j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
        for (int j = 0; j < COLUMNS; j++) store(c + i * width + j * LANES, sums[i][j]);
}

// C = A B for `rows` (a multiple of 4) times `width` (of LANES). Value (i, p) of A is
// a[i * row + p * column], so that A may be transposed; B and C are contiguous.
void multiply(const float *a, int64_t row, int64_t column, const float *b, float *c, int64_t rows,
              int64_t inner, int64_t width) {
    for (int64_t i = 0; i < rows; i += 4) {
        const float *left = a + i * row;
        int64_t j = 0;
        for (; j + 4 * LANES <= width; j += 4 * LANES)
            multiply_block<4>(left, row, column, b + j, c + i * width + j, inner, width);
        for (; j + 2 * LANES <= width; j += 2 * LANES)
            multiply_block<2>(left, row, column, b + j, c + i * width + j, inner, width);
        for (; j < width; j += LANES)
            multiply_block<1>(left, row, column, b + j, c + i * width + j, inner, width);
    }
}

// Copy rows of one head to float32, zeros after them.
template <typename T>
void load_head(const T *from, int64_t stride, int64_t rows, int64_t all, int64_t depth, float scale,
               float *to) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < depth; d += LANES)
            store(to + i * depth + d, load(from + i * stride + d) * scale);
    std::fill(to + rows * depth, to + all * depth, 0.0f);
}

template <typename T>
void store_head(const float *from, int64_t rows, int64_t depth, int64_t stride, T *to,
                float scale = 1.0f) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < depth; d += LANES)
            store(to + i * stride + d, load(from + i * depth + d) * scale);
}

// Exchange two quarters of a square of vectors, then of each quarter, and so on.
template <int32_t HALF>
inline void transpose_square(Vector *square) {
    Integers lanes = lanes_from(0), is_upper = lanes & HALF;
    Integers upper = is_upper ? lanes + (int32_t(LANES) - HALF) : lanes;
    Integers lower = is_upper ? lanes + int32_t(LANES) : lanes + HALF;
#pragma GCC unroll 16
    for (int64_t k = 0; k < LANES; k++) {
        if (k & HALF) continue;
        Vector x = square[k], y = square[k + HALF];
        square[k] = __builtin_shuffle(x, y, upper);
        square[k + HALF] = __builtin_shuffle(x, y, lower);
    }
    if constexpr (HALF > 1) transpose_square<HALF / 2>(square);
}

// Both sizes are multiples of LANES.
void transpose(const float *from, int64_t rows, int64_t columns, float *to) {
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < columns; j += LANES) {
            Vector square[LANES];
#pragma GCC unroll 16
            for (int64_t k = 0; k < LANES; k++) square[k] = load(from + (i + k) * columns + j);
            transpose_square<LANES / 2>(square);
#pragma GCC unroll 16
            for (int64_t k = 0; k < LANES; k++) store(to + (j + k) * rows + i, square[k]);
        }
}

struct Attention {
    const int32_t *query_starts, *key_starts;
    int64_t sentences, heads, depth, q_stride, kv_stride;
    float scale;
    bool causal;

    int64_t width() const { return heads * depth; }
};

// One head of one sentence.
struct Head {
    int64_t first_query, queries, first_key, keys;
    int64_t all_queries, all_keys;         // rounded up
    int64_t q_start, kv_start, out_start;  // of its first value in each matrix
    int64_t softmax_start;                 // of its first query in `largest` and `shares`

    Head(const Attention &a, int64_t number) {
        int64_t sentence = number / a.heads, head = number % a.heads;
        first_query = a.query_starts[sentence];
        queries = a.query_starts[sentence + 1] - first_query;
        first_key = a.key_starts[sentence];
        keys = a.key_starts[sentence + 1] - first_key;
        all_queries = padded(queries, LANES);
        all_keys = padded(keys, 4);
        q_start = first_query * a.q_stride + head * a.depth;
        kv_start = first_key * a.kv_stride + head * a.depth;
        out_start = first_query * a.width() + head * a.depth;
        softmax_start = head * a.query_starts[a.sentences] + first_query;
    }

    // Number of keys, from the first, that some of a vector of queries see.
    int64_t seen(int64_t query, bool causal) const {
        return causal ? std::min(query + LANES, keys) : keys;
    }
};

// Memory of a thread, which is reused.
struct Memory {
    std::vector<float> floats;
    size_t used = 0;

    // Return whether there is so much: an exception must not leave a parallel block.
    bool reserve(size_t count) {
        used = 0;
        try {
            if (floats.size() < count) floats.resize(count);
        } catch (const std::bad_alloc &) {
            return false;
        }
        return true;
    }

    float *take(size_t count) {
        used += count;
        return floats.data() + used - count;
    }
};

// Scores of a query are a column: its softmax needs no sum across the lanes of a vector. For the
// backward pass `largest` gets the largest score of each query, and `shares` the inverse of the sum
// of exponentials.
template <typename T>
void attention_forward(const Attention &a, const T *q, const T *k, const T *v, T *out,
                       float *largest, float *shares, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        Memory memory;
#pragma omp for schedule(dynamic, 8)
        for (int64_t number = 0; number < a.sentences * a.heads; number++) {
            Head h(a, number);
            int64_t n = h.all_queries, m = h.all_keys, depth = a.depth, width = a.width();
            if (failed |= !memory.reserve(3 * n * depth + 2 * m * depth + n * m)) continue;
            float *queries = memory.take(n * depth), *queries_t = memory.take(n * depth);
            float *heads = memory.take(n * depth), *keys = memory.take(m * depth);
            float *values = memory.take(m * depth), *weights = memory.take(n * m);
            load_head(q + h.q_start, a.q_stride, h.queries, n, depth, a.scale, queries);
            load_head(k + h.kv_start, a.kv_stride, h.keys, m, depth, 1.0f, keys);
            load_head(v + h.kv_start, a.kv_stride, h.keys, m, depth, 1.0f, values);
            transpose(queries, n, depth, queries_t);
            multiply(keys, depth, 1, queries_t, weights, m, depth, n);
            for (int64_t i = 0; i < h.queries; i += LANES) {
                float *column = weights + i;
                int64_t seen = h.seen(i, a.causal);
                Integers lanes = lanes_from(i);
                Vector maxima = all(-1e30f), sums{};  // finite: without any key, or where masked
                for (int64_t j = 0; j < seen; j++) {
                    Vector scores = load(column + j * n);
                    if (a.causal) scores = lanes >= int32_t(j) ? scores : all(-1e30f);
                    store(column + j * n, scores);
                    maxima = larger(scores, maxima);
                }
                for (int64_t j = 0; j < seen; j++) {
                    Vector weight = exponential(load(column + j * n) - maxima);
                    store(column + j * n, weight);
                    sums += weight;
                }
                Vector share = 1.0f / larger(sums, all(1e-30f));
                for (int64_t j = 0; j < seen; j++)
                    store(column + j * n, load(column + j * n) * share);
                for (int64_t j = seen; j < h.keys; j++) store(column + j * n, Vector{});
                int64_t count = std::min(LANES, h.queries - i);  // others belong to other threads
                store_part(largest + h.softmax_start + i, maxima, count);
                store_part(shares + h.softmax_start + i, share, count);
            }
            multiply(weights, 1, n, values, heads, padded(h.queries, 4), h.keys, depth);
            store_head(heads, h.queries, depth, width, out + h.out_start);
        }
    }
    if (failed) throw std::bad_alloc();
}

template <typename T>
void attention_backward(const Attention &a, const T *q, const T *k, const T *v, const T *grad_out,
                        const float *largest, const float *shares, T *grad_q, T *grad_k, T *grad_v,
                        int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        Memory memory;
#pragma omp for schedule(dynamic, 8)
        for (int64_t number = 0; number < a.sentences * a.heads; number++) {
            Head h(a, number);
            int64_t n = h.all_queries, m = h.all_keys, depth = a.depth, width = a.width();
            if (failed |= !memory.reserve(5 * n * depth + 4 * m * depth + 2 * n * m)) continue;
            float *queries = memory.take(n * depth), *queries_t = memory.take(n * depth);
            float *grads = memory.take(n * depth), *grads_t = memory.take(n * depth);
            float *queries_grad = memory.take(n * depth);
            float *keys = memory.take(m * depth), *values = memory.take(m * depth);
            float *keys_grad = memory.take(m * depth), *values_grad = memory.take(m * depth);
            float *weights = memory.take(n * m), *slopes = memory.take(n * m);
            load_head(q + h.q_start, a.q_stride, h.queries, n, depth, a.scale, queries);
            load_head(grad_out + h.out_start, width, h.queries, n, depth, 1.0f, grads);
            load_head(k + h.kv_start, a.kv_stride, h.keys, m, depth, 1.0f, keys);
            load_head(v + h.kv_start, a.kv_stride, h.keys, m, depth, 1.0f, values);
            transpose(queries, n, depth, queries_t);
            transpose(grads, n, depth, grads_t);
            multiply(keys, depth, 1, queries_t, weights, m, depth, n);
            multiply(values, depth, 1, grads_t, slopes, m, depth, n);
            for (int64_t i = 0; i < h.queries; i += LANES) {
                float *weight = weights + i, *slope = slopes + i;
                int64_t seen = h.seen(i, a.causal), count = std::min(LANES, h.queries - i);
                Integers lanes = lanes_from(i);
                Vector maxima = load_part(largest + h.softmax_start + i, count, 0.0f);
                Vector share = load_part(shares + h.softmax_start + i, count, 0.0f), products{};
                for (int64_t j = 0; j < seen; j++) {
                    Vector own = exponential(load(weight + j * n) - maxima) * share;
                    if (a.causal) own = lanes >= int32_t(j) ? own : Vector{};
                    store(weight + j * n, own);
                    products += own * load(slope + j * n);
                }
                // Of these weights, not of their rounded products with the values: the slopes of
                // a query must sum to zero.
                for (int64_t j = 0; j < seen; j++)
                    store(slope + j * n, load(weight + j * n) * (load(slope + j * n) - products));
                for (int64_t j = seen; j < h.keys; j++) {
                    store(weight + j * n, Vector{});
                    store(slope + j * n, Vector{});
                }
            }
            multiply(slopes, 1, n, keys, queries_grad, padded(h.queries, 4), h.keys, depth);
            multiply(slopes, n, 1, queries, keys_grad, m, h.queries, depth);  // scaled already
            multiply(weights, n, 1, grads, values_grad, m, h.queries, depth);
            store_head(queries_grad, h.queries, depth, a.q_stride, grad_q + h.q_start, a.scale);
            store_head(keys_grad, h.keys, depth, a.kv_stride, grad_k + h.kv_start);
            store_head(values_grad, h.keys, depth, a.kv_stride, grad_v + h.kv_start);
        }
    }
    if (failed) throw std::bad_alloc();
}

template <typename T>
void add_norm_forward(const T *x, const T *y, const T *bias, const float *gain, const float *offset,
                      T *total, T *out, float *means, float *rstds, int64_t rows, int64_t width,
                      float epsilon, Dropout dropout, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        int64_t start = i * width;
        Vector sums{}, squares{};
        for (int64_t j = 0; j < width; j += LANES) {
            Vector added = load(y + start + j);
            if (bias) added += load(bias + j);
            store(total + start + j, load(x + start + j) + dropout(added, start + j));
            sums += load(total + start + j);  // as stored: the backward pass normalises that
        }
        float mean = sum(sums) / float(width);
        for (int64_t j = 0; j < width; j += LANES) {
            Vector centred = load(total + start + j) - mean;
            squares += centred * centred;
        }
        float rstd = 1.0f / std::sqrt(sum(squares) / float(width) + epsilon);
        for (int64_t j = 0; j < width; j += LANES) {
            Vector normal = (load(total + start + j) - mean) * rstd;
            store(out + start + j, normal * load(gain + j) + load(offset + j));
        }
        means[i] = mean;
        rstds[i] = rstd;
    }
}

// `sums` gets the gradients of gain, offset and bias from each thread's rows.
template <typename T>
void add_norm_backward(const T *grad_out, const T *grad_copy, const T *grad_total, const T *total,
                       const float *gain, const float *means, const float *rstds, T *grad_x,
                       T *grad_y, float *sums, int64_t rows, int64_t width, Dropout dropout,
                       int threads) {
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(| : failed)
    for (int64_t part = 0; part < threads; part++) {
        Memory memory;
        if (failed |= !memory.reserve(3 * width)) continue;
        float *gain_sum = memory.take(width), *offset_sum = memory.take(width);
        float *bias_sum = memory.take(width);
        for (int64_t i = rows * part / threads; i < rows * (part + 1) / threads; i++) {
            int64_t start = i * width;
            Vector along{}, level{};
            auto out_grad = [&](int64_t j) {
                Vector grad = load(grad_out + start + j);
                return grad_copy ? grad + load(grad_copy + start + j) : grad;
            };
            auto normal = [&](int64_t j) {
                return (load(total + start + j) - means[i]) * rstds[i];
            };
            for (int64_t j = 0; j < width; j += LANES) {
                Vector grad = out_grad(j), product = grad * normal(j);
                add(gain_sum + j, product);
                add(offset_sum + j, grad);
                along += product * load(gain + j);
                level += grad * load(gain + j);
            }
            float mean_along = sum(along) / float(width), mean_level = sum(level) / float(width);
            for (int64_t j = 0; j < width; j += LANES) {
                Vector slope = out_grad(j) * load(gain + j);
                Vector grad = (slope - mean_level - normal(j) * mean_along) * rstds[i];
                if (grad_total) grad += load(grad_total + start + j);
                store(grad_x + start + j, grad);
                grad = dropout(grad, start + j);
                store(grad_y + start + j, grad);
                add(bias_sum + j, grad);
            }
        }
        std::copy_n(gain_sum, 3 * width, sums + part * 3 * width);
    }
    if (failed) throw std::bad_alloc();
}

template <typename T>
void embed_forward(const int32_t *ids, const int32_t *positions, const float *matrix,
                   const float *table, T *out, int64_t rows, int64_t width, float factor,
                   Dropout dropout, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++) {
        const float *piece = matrix + ids[i] * width, *position = table + positions[i] * width;
        for (int64_t j = 0; j < width; j += LANES) {
            Vector values = load(piece + j) * factor + load(position + j);
            store(out + i * width + j, dropout(values, i * width + j));
        }
    }
}

template <typename T>
void embed_backward(const int32_t *ids, const T *grad_out, float *grad, int64_t rows, int64_t width,
                    int32_t pad, float factor, Dropout dropout, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int64_t part = 0; part < threads; part++)
        for (int64_t i = 0; i < rows; i++) {
            if (ids[i] == pad || ids[i] % threads != part) continue;  // a piece has one thread
            for (int64_t j = 0; j < width; j += LANES) {
                int64_t index = i * width + j;
                add(grad + ids[i] * width + j, dropout(load(grad_out + index), index) * factor);
            }
        }
}

// Set the gradient to zero where `hidden` is; `sums` gets the sum of each thread's rows.
template <typename T>
void relu_backward(const T *hidden, T *grad, float *sums, int64_t rows, int64_t width,
                   int threads) {
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(| : failed)
    for (int64_t part = 0; part < threads; part++) {
        Memory memory;
        if (failed |= !memory.reserve(width)) continue;
        float *total = memory.take(width);
        for (int64_t i = rows * part / threads; i < rows * (part + 1) / threads; i++)
            for (int64_t j = 0; j < width; j += LANES) {
                int64_t index = i * width + j;
                Vector values = load(hidden + index) > 0.0f ? load(grad + index) : Vector{};
                store(grad + index, values);
                add(total + j, values);
            }
        std::copy_n(total, width, sums + part * width);
    }
    if (failed) throw std::bad_alloc();
}

// The softmax of a row of logits before it is divided by its sum, z; PAD, after `pieces`, has zero.
struct Softmax {
    Memory memory;
    float *weights = nullptr;  // remains so if there is no memory
    int64_t pieces, full;
    float z, log_z;

    explicit Softmax(int64_t pieces) : pieces(pieces), full(pieces / LANES * LANES) {
        size_t count = padded(pieces + 1, LANES);
        if (memory.reserve(count)) weights = memory.take(count);
    }

    int64_t rest() const { return pieces - full; }

    // The logits from j on, -1e30 from PAD on.
    template <typename T>
    Vector logits(const T *row, int64_t j) const {
        return j < full ? load(row + j) : load_part(row + j, rest(), -1e30f);
    }

    template <typename T>
    void compute(const T *row) {
        Vector maxima = logits(row, full), total{};
        for (int64_t j = 0; j < full; j += LANES) maxima = larger(load(row + j), maxima);
        float largest = largest_of(maxima);
        for (int64_t j = 0; j < full; j += LANES) {
            Vector weight = exponential(load(row + j) - largest);
            store(weights + j, weight);
            total += weight;
        }
        Vector last = exponential(logits(row, full) - largest);
        last = lanes_from(0) < int32_t(rest()) ? last : Vector{};
        store(weights + full, last);
        z = sum(total + last);
        log_z = largest + std::log(z);
    }
};

// Overwrite logits by their gradients, without the constant share of the smoothed target.
// `sums` gets -log p of the correct piece and log Z, or zeros where that is PAD, the last id.
template <typename T>
void logit_gradients(T *logits, const int32_t *correct, float *sums, float spike, int64_t rows,
                     int64_t pieces, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        Softmax p(pieces);
        failed |= !p.weights;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++) {
            if (failed) continue;
            T *row = logits + i * (pieces + 1);
            if (correct[i] >= pieces) {
                std::memset(row, 0, (pieces + 1) * sizeof(T));
                sums[2 * i] = sums[2 * i + 1] = 0.0f;
                continue;
            }
            p.compute(row);
            sums[2 * i] = p.log_z - load_one(row + correct[i]);
            sums[2 * i + 1] = p.log_z;
            p.weights[correct[i]] -= spike * p.z;
            float scale = 1.0f / p.z;
            for (int64_t j = 0; j < p.full; j += LANES) store(row + j, load(p.weights + j) * scale);
            store_part(row + p.full, load(p.weights + p.full) * scale, p.rest() + 1);
        }
    }
    if (failed) throw std::bad_alloc();
}

// The same for the logits of R-Drop's two passes. With p and q the softmax of each and d the
// difference of the logits, half the cross-entropy of each and `weight` times their divergence,
// E_p d - E_q d, are minimised: see `loss._RDrop`. `sums` gets -log p and -log q of the correct
// piece, the sum of both log Z, and the divergence.
template <typename T>
void r_drop_gradients(T *first, T *second, const int32_t *correct, float *sums, float spike,
                      float weight, int64_t rows, int64_t pieces, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        Softmax p(pieces), q(pieces);
        failed |= !p.weights || !q.weights;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < rows; i++) {
            if (failed) continue;
            T *p_row = first + i * (pieces + 1), *q_row = second + i * (pieces + 1);
            p.compute(p_row);
            q.compute(q_row);
            Vector p_sums{}, q_sums{};
            auto difference = [&](int64_t j) { return p.logits(p_row, j) - q.logits(q_row, j); };
            for (int64_t j = 0; j <= p.full; j += LANES) {
                Vector d = difference(j);
                p_sums += load(p.weights + j) * d;
                q_sums += load(q.weights + j) * d;
            }
            float p_scale = 1.0f / p.z, q_scale = 1.0f / q.z;
            float p_mean = sum(p_sums) * p_scale, q_mean = sum(q_sums) * q_scale;
            sums[4 * i] = p.log_z - load_one(p_row + correct[i]);
            sums[4 * i + 1] = q.log_z - load_one(q_row + correct[i]);
            sums[4 * i + 2] = p.log_z + q.log_z;
            sums[4 * i + 3] = p_mean - q_mean;
            for (int64_t j = 0; j <= p.full; j += LANES) {
                Vector d = difference(j), own = load(p.weights + j) * p_scale;
                Vector other = load(q.weights + j) * q_scale;
                Vector p_grad = own * (0.5f + weight * (1.0f + d - p_mean)) - weight * other;
                Vector q_grad = other * (0.5f + weight * (1.0f - d + q_mean)) - weight * own;
                int32_t lane = int32_t(correct[i] - j);
                Vector spikes = lanes_from(0) == lane ? all(spike) : Vector{};
                if (j < p.full) {
                    store(p_row + j, p_grad - spikes);
                    store(q_row + j, q_grad - spikes);
                } else {
                    store_part(p_row + j, p_grad - spikes, p.rest() + 1);
                    store_part(q_row + j, q_grad - spikes, q.rest() + 1);
                }
            }
        }
    }
    if (failed) throw std::bad_alloc();
}

// Add rounded values to a sum.
void add_rounded(float *to, const BFloat16 *from, int64_t count, int threads) {
    int64_t full = count / LANES * LANES;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t j = 0; j < full; j += LANES) add(to + j, load(from + j));
    for (int64_t j = full; j < count; j++) to[j] += load_one(from + j);
}

}  // namespace

// A kernel returns 0, or 1 if there is no memory.
#define KERNEL extern "C" __attribute__((visibility("default"))) int
#define CALL(name, ...) \
    try { \
        if (bfloat16) { using T = BFloat16; name(__VA_ARGS__); } \
        else { using T = float; name(__VA_ARGS__); } \
        return 0; \
    } catch (const std::bad_alloc &) { return 1; }
#define IN(pointer) static_cast<const T *>(pointer)
#define OUT(pointer) static_cast<T *>(pointer)

typedef const void *In;
typedef void *Out;
typedef const float *Floats;
typedef const int32_t *Ints;

KERNEL add_norm_forward(int threads, int bfloat16, In x, In y, In bias, Floats gain, Floats offset,
                        Out total, Out out, float *mean, float *rstd, int64_t rows, int64_t width,
                        float epsilon, uint32_t seed, uint32_t stream, uint32_t level,
                        float scale) {
    Dropout dropout{seed, stream, level, scale};
    CALL(add_norm_forward, IN(x), IN(y), IN(bias), gain, offset, OUT(total), OUT(out), mean, rstd,
         rows, width, epsilon, dropout, threads)
}

KERNEL add_norm_backward(int threads, int bfloat16, In grad_out, In grad_copy, In grad_total,
                         In total, Floats gain, Floats mean, Floats rstd, Out grad_x, Out grad_y,
                         float *sums, int64_t rows, int64_t width, uint32_t seed, uint32_t stream,
                         uint32_t level, float scale) {
    Dropout dropout{seed, stream, level, scale};
    CALL(add_norm_backward, IN(grad_out), IN(grad_copy), IN(grad_total), IN(total), gain, mean,
         rstd, OUT(grad_x), OUT(grad_y), sums, rows, width, dropout, threads)
}

KERNEL attention_forward(int threads, int bfloat16, In q, In k, In v, Out out, float *largest,
                         float *shares, Ints query_starts, Ints key_starts, int64_t sentences,
                         int64_t heads, int64_t depth, int64_t q_stride, int64_t kv_stride,
                         float scale, int causal) {
    Attention a{query_starts, key_starts, sentences, heads, depth, q_stride,
                kv_stride,    scale,      causal != 0};
    CALL(attention_forward, a, IN(q), IN(k), IN(v), OUT(out), largest, shares, threads)
}

KERNEL attention_backward(int threads, int bfloat16, In q, In k, In v, In grad_out,
                          Floats largest, Floats shares, Out grad_q, Out grad_k, Out grad_v,
                          Ints query_starts, Ints key_starts, int64_t sentences, int64_t heads,
                          int64_t depth, int64_t q_stride, int64_t kv_stride, float scale,
                          int causal) {
    Attention a{query_starts, key_starts, sentences, heads, depth, q_stride,
                kv_stride,    scale,      causal != 0};
    CALL(attention_backward, a, IN(q), IN(k), IN(v), IN(grad_out), largest, shares, OUT(grad_q),
         OUT(grad_k), OUT(grad_v), threads)
}

KERNEL embed_forward(int threads, int bfloat16, Ints ids, Ints positions, Floats matrix,
                     Floats table, Out out, int64_t rows, int64_t width, float factor,
                     uint32_t seed, uint32_t stream, uint32_t level, float scale) {
    Dropout dropout{seed, stream, level, scale};
    CALL(embed_forward, ids, positions, matrix, table, OUT(out), rows, width, factor, dropout,
         threads)
}

KERNEL embed_backward(int threads, int bfloat16, Ints ids, In grad_out, float *grad, int64_t rows,
                      int64_t width, int pad, float factor, uint32_t seed, uint32_t stream,
                      uint32_t level, float scale) {
    Dropout dropout{seed, stream, level, scale};
    CALL(embed_backward, ids, IN(grad_out), grad, rows, width, pad, factor, dropout, threads)
}

KERNEL relu_backward(int threads, int bfloat16, In hidden, Out grad, float *sums, int64_t rows,
                     int64_t width) {
    CALL(relu_backward, IN(hidden), OUT(grad), sums, rows, width, threads)
}

KERNEL logit_gradients(int threads, int bfloat16, Out logits, Ints correct, float *sums,
                       float spike, int64_t rows, int64_t pieces) {
    CALL(logit_gradients, OUT(logits), correct, sums, spike, rows, pieces, threads)
}

KERNEL r_drop_gradients(int threads, int bfloat16, Out first, Out second, Ints correct, float *sums,
                        float spike, float weight, int64_t rows, int64_t pieces) {
    CALL(r_drop_gradients, OUT(first), OUT(second), correct, sums, spike, weight, rows, pieces,
         threads)
}

KERNEL add_rounded(int threads, int, float *to, In from, int64_t count) {
    add_rounded(to, static_cast<const BFloat16 *>(from), count, threads);
    return 0;
}
