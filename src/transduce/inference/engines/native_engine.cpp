// Translation on CPUs: a Transformer's encoder and decoder, and beam search, in float32 or int8.
// `native_library.py` describes the arrays that cross the border, and calls the functions below.
//
// Sentences are packed without padding, and a row is computed in the same order whatever else is in
// its batch, so a translation does not depend on the batch. In int8 each row of a matrix and each
// row of activations is scaled such that its largest number is 127 (of weights, with AVX2, the
// largest pair); sums are exact in 32 bits. Only products with weights are in int8. A shortlist
// restricts each sentence to its own pieces.

#include <atomic>
#include <limits>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "vectors.hpp"

#if defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#define HAS_TILES
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// Vectors of outputs and rows that are computed together: the sums have to fit the registers.
#ifdef __AVX512F__
constexpr int64_t BLOCK = 4;
constexpr int ROWS = 6;
#else
constexpr int64_t BLOCK = 2;
constexpr int ROWS = 5;
#endif
constexpr int64_t TILE = 16;  // rows of a tile of AMX
constexpr int64_t LEAST_SHARED = 1 << 17;  // multiplications of a product that two threads share
// Bytes that a step reads, from which two threads compute a sentence. The search of fewer is over
// before the second thread has started on another core.
constexpr int64_t LEAST_READ = 16 << 20;
constexpr float EPSILON = 1e-5f;  // of the layer normalisation
constexpr float INFINITE = std::numeric_limits<float>::infinity();

template <typename T>
struct Aligned {  // to a cache line; numbers are not set when a buffer grows
    using value_type = T;
    Aligned() = default;
    template <typename U>
    Aligned(const Aligned<U> &) {}
    T *allocate(size_t count) {
        return static_cast<T *>(::operator new(count * sizeof(T), std::align_val_t(64)));
    }
    void deallocate(T *from, size_t) { ::operator delete(from, std::align_val_t(64)); }
    template <typename U>
    void construct(U *at) { ::new (static_cast<void *>(at)) U; }
    template <typename U, typename... Arguments>
    void construct(U *at, Arguments &&...arguments) {
        ::new (static_cast<void *>(at)) U(std::forward<Arguments>(arguments)...);
    }
    bool operator==(const Aligned &) const { return true; }
    bool operator!=(const Aligned &) const { return false; }
};

template <typename T>
using Buffer = std::vector<T, Aligned<T>>;

template <typename T>
T *at_least(Buffer<T> &buffer, int64_t size) {
    if (int64_t(buffer.size()) < size) buffer.resize(size);
    return buffer.data();
}

enum Activation : int64_t { RELU, GELU, SILU, NONE };

inline Vector activated(Vector x, Activation activation) {
    if (activation == NONE) return x;
    if (activation == RELU) return x > 0 ? x : Vector{};
    if (activation == SILU) return x / (1.0f + exponential(-x));
    // x Phi(x), with Phi to 1e-7: Abramowitz and Stegun 1964, equation 7.1.26.
    Vector z = (x > 0 ? x : -x) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    Vector polynomial = all(1.061405429f);
    polynomial = polynomial * t - 1.453152027f;
    polynomial = polynomial * t + 1.421413741f;
    polynomial = polynomial * t - 0.284496736f;
    polynomial = polynomial * t + 0.254829592f;
    Vector rest = 0.5f * polynomial * t * exponential(-z * z);  // Phi(-|x|)
    return x * (x > 0 ? 1.0f - rest : rest);
}

inline Integers load_integers(const void *from) {
    Integers result;
    std::memcpy(&result, from, sizeof result);
    return result;
}

inline Vector parts_below(Vector x, int64_t count, float rest) {
    return lanes_from(0) < int32_t(count) ? x : all(rest);
}

// Which lanes are above a bound, as bits.
inline uint32_t lanes_above(Vector x, float bound) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask(same_bits<__m512>(x), _mm512_set1_ps(bound), _CMP_GT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps(
        _mm256_cmp_ps(same_bits<__m256>(x), _mm256_set1_ps(bound), _CMP_GT_OQ));
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= uint32_t(x[lane] > bound) << lane;
    return bits;
#endif
}

// Add the products of four bytes to each sum, exactly: unsigned ones of activations, in which 128
// stands for 0, and signed ones of weights.
#if defined(__AVX512VNNI__) || (defined(__AVXVNNI__) && !defined(__AVX512F__))
#define INT8 "VNNI"
constexpr bool ADDS_PAIRS = false;

// The compiler's own function copies and spills sums.
inline Integers add_products(Integers sum, Integers bytes, Integers weights) {
#ifdef __AVX512VNNI__
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(bytes), "v"(weights));
#else
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(bytes), "x"(weights));
#endif
    return sum;
}
#elif defined(__AVX2__) && !defined(__AVX512F__)
#define INT8 "AVX2"
// Two products are added in 16 bits. They fit if weights of one sign add up to 128 at most.
constexpr bool ADDS_PAIRS = true;

inline Integers add_products(Integers sum, Integers bytes, Integers weights) {
    __m256i pairs = _mm256_maddubs_epi16(same_bits<__m256i>(bytes), same_bits<__m256i>(weights));
    return sum + same_bits<Integers>(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#else
constexpr bool ADDS_PAIRS = false;
#endif

// What 127 stands for in a row of weights. Rounding may add a half to each of a pair.
inline float range(const float *weights, int64_t count) {
    float largest = 0.0f;
    for (int64_t k = 0; k < count; k += 2) {
        float x = weights[k], y = weights[k + 1];
        bool added = ADDS_PAIRS && (x > 0.0f) == (y > 0.0f);
        float larger = std::max(std::fabs(x), std::fabs(y));
        largest = std::max(largest, added ? std::fabs(x + y) : larger);
    }
    return largest;
}

// Activations in int8: bytes from 1 to 255, of which 128 stands for 0, and what 1 stands for.
struct Bytes {
    Buffer<uint8_t> values;
    Buffer<float> scales;
};

void quantize(const float *from, int64_t rows, int64_t width, Bytes &to) {
    uint8_t *bytes = at_least(to.values, padded(rows, TILE) * width);
    float *scales = at_least(to.scales, rows);
    for (int64_t row = 0; row < rows; row++, from += width, bytes += width) {
        Vector most = {};
        for (int64_t i = 0; i < width; i += LANES) {
            Vector x = load(from + i);
            most = larger(most, x > 0 ? x : -x);
        }
        float largest = largest_of(most);
        float factor = largest > 1e-20f ? 127.0f / largest : 0.0f;
        scales[row] = largest / 127.0f;
        for (int64_t i = 0; i < width; i += LANES) {
            // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
            Words rounded = same_bits<Words>(load(from + i) * factor + (12582912.0f + 128.0f));
#ifdef __AVX512F__
            __m128i stored = _mm512_cvtepi32_epi8(same_bits<__m512i>(rounded));
            std::memcpy(bytes + i, &stored, sizeof stored);
#else
            typedef uint8_t Stored __attribute__((vector_size(LANES)));
            Stored stored = __builtin_convertvector(rounded, Stored);
            std::memcpy(bytes + i, &stored, sizeof stored);
#endif
        }
    }
}

// A linear map. Weights are stored by blocks of outputs, in the order in which they are read: for
// each input (int8: four inputs) the weights of all outputs of the block.
struct Matrix {
    int64_t inputs = 0, outputs = 0, padded_outputs = 0;
    Buffer<float> weights;
    Buffer<int8_t> bytes;
    Buffer<float> scales;
    Buffer<int32_t> corrections;  // minus 128 times the sum of the bytes of an output
    Buffer<float> bias;

    int64_t size() const { return int64_t(bytes.size() + weights.size() * sizeof(float)); }

    int64_t width(int64_t block) const { return std::min(BLOCK * LANES, padded_outputs - block); }

    int64_t position(int64_t output, int64_t input) const {
        int64_t block = output / (BLOCK * LANES) * (BLOCK * LANES), column = output - block;
        if (bytes.empty()) return block * inputs + input * width(block) + column;
        return block * inputs + input / 4 * width(block) * 4 + column * 4 + input % 4;
    }

    void allocate(int64_t all_inputs, int64_t all_outputs, bool int8) {
        inputs = all_inputs, outputs = all_outputs, padded_outputs = padded(outputs, LANES);
        if (int8) bytes.assign(inputs * padded_outputs, int8_t(0));
        else weights.assign(inputs * padded_outputs, 0.0f);
        scales.assign(padded_outputs, 0.0f);
        corrections.assign(padded_outputs, int32_t(0));
        bias.assign(padded_outputs, 0.0f);
    }

    // Take rows of weights, one an output; there may be no biases.
    Matrix(const float *from, const float *biases, int64_t all_inputs, int64_t all_outputs,
           bool int8) {
        allocate(all_inputs, all_outputs, int8);
        if (biases) std::copy(biases, biases + outputs, bias.begin());
        for (int64_t n = 0; n < outputs; n++) {
            const float *row = from + n * inputs;
            float largest = range(row, inputs);
            scales[n] = largest / 127.0f;
            float factor = largest > 1e-20f ? 127.0f / largest : 0.0f;
            for (int64_t k = 0; k < inputs; k++) {
                if (!int8) {
                    weights[position(n, k)] = row[k];
                    continue;
                }
                int8_t byte = int8_t(std::lrint(row[k] * factor));
                bytes[position(n, k)] = byte;
                corrections[n] -= 128 * byte;
            }
        }
    }

    // Take some outputs of another.
    Matrix(const Matrix &from, const std::vector<int32_t> &ids) {
        bool int8 = !from.bytes.empty();
        allocate(from.inputs, int64_t(ids.size()), int8);
        for (int64_t n = 0; n < outputs; n++) {
            int32_t id = ids[n];
            scales[n] = from.scales[id];
            corrections[n] = from.corrections[id];
            bias[n] = from.bias[id];
            // Four inputs of int8 stand together, as one number.
            int64_t groups = inputs / (int8 ? 4 : 1), size = int8 ? 4 : 1;
            int64_t to = position(n, 0), other = from.position(id, 0);
            int64_t step = width(n / (BLOCK * LANES) * (BLOCK * LANES)) * size;
            int64_t other_step = from.width(id / (BLOCK * LANES) * (BLOCK * LANES)) * size;
            for (int64_t k = 0; k < groups; k++, to += step, other += other_step) {
                if (int8) std::memcpy(&bytes[to], &from.bytes[other], 4);
                else weights[to] = from.weights[other];
            }
        }
    }
};

struct Destination {
    float *to;
    int64_t stride;
    Activation activation;
    bool add;
};

inline void finish(Vector x, const Destination &out, int64_t row, int64_t column) {
    float *to = out.to + row * out.stride + column;
    x = activated(x, out.activation);
    store(to, out.add ? load(to) + x : x);
}

template <int M, int N>
inline void multiply_floats(const Matrix &m, const float *x, int64_t row, int64_t block,
                            const Destination &out) {
    Vector sums[M][N] = {};
    const float *weights = m.weights.data() + block * m.inputs;
    x += row * m.inputs;
    for (int64_t k = 0; k < m.inputs; k++, weights += N * LANES)
        for (int j = 0; j < N; j++) {
            Vector factor = load(weights + j * LANES);
            for (int i = 0; i < M; i++)
                sums[i][j] = fused(all(x[i * m.inputs + k]), factor, sums[i][j]);
        }
    for (int j = 0; j < N; j++) {
        Vector bias = load(m.bias.data() + block + j * LANES);
        for (int i = 0; i < M; i++) finish(sums[i][j] + bias, out, row + i, block + j * LANES);
    }
}

template <int M, int N>
inline void multiply_bytes(const Matrix &m, const Bytes &x, int64_t row, int64_t block,
                           const Destination &out) {
#ifdef INT8
    Integers sums[M][N];
    for (int j = 0; j < N; j++) {
        Integers correction = load_integers(m.corrections.data() + block + j * LANES);
        for (int i = 0; i < M; i++) sums[i][j] = correction;
    }
    const int8_t *weights = m.bytes.data() + block * m.inputs;
    const uint8_t *bytes = x.values.data() + row * m.inputs;
    for (int64_t k = 0; k < m.inputs; k += 4, weights += N * 4 * LANES) {
        Integers factors[N];
        for (int j = 0; j < N; j++) factors[j] = load_integers(weights + j * 4 * LANES);
        for (int i = 0; i < M; i++) {
            int32_t four;
            std::memcpy(&four, bytes + i * m.inputs + k, 4);
            Integers same = Integers{} + four;
            for (int j = 0; j < N; j++) sums[i][j] = add_products(sums[i][j], same, factors[j]);
        }
    }
    for (int j = 0; j < N; j++) {
        Vector bias = load(m.bias.data() + block + j * LANES);
        Vector scale = load(m.scales.data() + block + j * LANES);
        for (int i = 0; i < M; i++) {
            Vector sum = __builtin_convertvector(sums[i][j], Vector);
            finish(sum * (scale * x.scales[row + i]) + bias, out, row + i, block + j * LANES);
        }
    }
#endif
}

// The tile registers of AMX, for as long as this object exists. Linux has to grant a process their
// use; a process without them multiplies as a processor without them does, to the same sums.
class Tiles {
public:
#ifdef HAS_TILES
    static bool granted() {
        constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;  // asm/prctl.h
        static const bool result = !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
        return result;
    }

    Tiles() {
        if (granted()) _tile_loadconfig(&SIZES);
    }

    ~Tiles() {
        if (granted()) _tile_release();
    }

private:
    // All eight have 16 rows of 64 bytes.
    struct Sizes {
        uint8_t palette, first_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    };
    static constexpr Sizes SIZES{
        1, 0, {}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
#endif
};

// How many rows, from the first on, are multiplied by tiles: a few that are left over are not.
inline int64_t tiled_rows(const Matrix &m, int64_t rows) {
#ifdef HAS_TILES
    constexpr int64_t LEAST = 4;
    if (m.bytes.empty() || m.inputs % 64 || !Tiles::granted()) return 0;
    return rows % TILE < LEAST ? rows / TILE * TILE : rows;
#else
    return 0;
#endif
}

#ifdef HAS_TILES
// One or two tiles of rows, and as many of outputs: `count` rows are stored.
template <bool TWO_ROWS, bool TWO_OUTPUTS>
inline void multiply_tile(const Matrix &m, const Bytes &x, int64_t row, int64_t count,
                          int64_t block, int64_t vector, const Destination &out) {
    const uint8_t *bytes = x.values.data() + row * m.inputs;
    int64_t stride = m.width(block) * 4;  // of four inputs
    const int8_t *weights = m.bytes.data() + block * m.inputs + vector * 64;
    alignas(64) int32_t sums[2 * TILE][2 * TILE];
    asm volatile("" ::: "memory");  // loading a tile does not tell the compiler what it reads
    _tile_zero(0);
    if (TWO_OUTPUTS) _tile_zero(1);
    if (TWO_ROWS) _tile_zero(2);
    if (TWO_ROWS && TWO_OUTPUTS) _tile_zero(3);
    for (int64_t k = 0; k < m.inputs; k += 64, weights += 16 * stride) {
        for (int64_t i = 0; i < 16; i++) {  // weights that follow, as from memory they come late
            const int8_t *next = weights + (16 + i) * stride;
            _mm_prefetch(next, _MM_HINT_T0);
            if (TWO_OUTPUTS) _mm_prefetch(next + 64, _MM_HINT_T0);
        }
        _tile_loadd(4, bytes + k, m.inputs);
        _tile_loadd(6, weights, stride);
        _tile_dpbusd(0, 4, 6);
        if (TWO_OUTPUTS) {
            _tile_loadd(7, weights + 64, stride);
            _tile_dpbusd(1, 4, 7);
        }
        if (TWO_ROWS) {
            _tile_loadd(5, bytes + TILE * m.inputs + k, m.inputs);
            _tile_dpbusd(2, 5, 6);
            if (TWO_OUTPUTS) _tile_dpbusd(3, 5, 7);
        }
    }
    _tile_stored(0, sums[0], sizeof sums[0]);
    if (TWO_OUTPUTS) _tile_stored(1, sums[0] + TILE, sizeof sums[0]);
    if (TWO_ROWS) _tile_stored(2, sums[TILE], sizeof sums[0]);
    if (TWO_ROWS && TWO_OUTPUTS) _tile_stored(3, sums[TILE] + TILE, sizeof sums[0]);
    for (int64_t j = 0; j < (TWO_OUTPUTS ? 2 : 1); j++) {
        int64_t column = block + (vector + j) * LANES;
        __m512i correction = _mm512_load_si512(m.corrections.data() + column);
        Vector bias = load(m.bias.data() + column), scale = load(m.scales.data() + column);
        for (int64_t i = 0; i < count; i++) {
            __m512i exact = _mm512_load_si512(sums[i] + j * TILE);
            exact = _mm512_add_epi32(exact, correction);
            Vector sum = same_bits<Vector>(_mm512_cvtepi32_ps(exact));
            finish(sum * (scale * x.scales[row + i]) + bias, out, row + i, column);
        }
    }
}
#endif

// The first `rows` rows of a block of outputs.
inline void multiply_tiles(const Matrix &m, const Bytes &x, int64_t rows, int64_t block,
                           const Destination &out) {
#ifdef HAS_TILES
    int64_t vectors = m.width(block) / LANES;
    for (int64_t row = 0; row < rows; row += 2 * TILE) {
        int64_t count = std::min(rows - row, 2 * TILE);
        for (int64_t j = 0; j < vectors; j += 2) {
            bool two = j + 1 < vectors;
            if (count > TILE && two) multiply_tile<true, true>(m, x, row, count, block, j, out);
            else if (count > TILE) multiply_tile<true, false>(m, x, row, count, block, j, out);
            else if (two) multiply_tile<false, true>(m, x, row, count, block, j, out);
            else multiply_tile<false, false>(m, x, row, count, block, j, out);
        }
    }
#endif
}

template <int M, int N>
inline void multiply_rows(const Matrix &m, const float *x, const Bytes &bytes, int64_t row,
                          int64_t rows, int64_t block, const Destination &out) {
    for (; row + M <= rows; row += M) {
        if (m.bytes.empty()) multiply_floats<M, N>(m, x, row, block, out);
        else multiply_bytes<M, N>(m, bytes, row, block, out);
    }
    if constexpr (M > 1) multiply_rows<M - 1, N>(m, x, bytes, row, rows, block, out);
}

// y = activation(x W' + b), or added to y. Rows of x are contiguous; rows of y have room for the
// padded outputs.
struct Product {
    const Matrix &matrix;
    const float *x;
    const Bytes &bytes;  // of x, for a matrix in int8
    int64_t rows;
    Destination out;

    static constexpr int64_t WIDTH = BLOCK * LANES;

    int64_t blocks() const { return (matrix.padded_outputs + WIDTH - 1) / WIDTH; }

    // Compute the blocks of outputs from `first` up to `last`.
    void compute(int64_t first, int64_t last) const {
        const Matrix &m = matrix;
        int64_t tiled = tiled_rows(m, rows);
        for (int64_t number = first; number < last; number++) {
            int64_t block = number * WIDTH, vectors = m.width(block) / LANES;
            multiply_tiles(m, bytes, tiled, block, out);
            if (vectors == 4) multiply_rows<ROWS, 4>(m, x, bytes, tiled, rows, block, out);
            else if (vectors == 3) multiply_rows<ROWS, 3>(m, x, bytes, tiled, rows, block, out);
            else if (vectors == 2) multiply_rows<ROWS, 2>(m, x, bytes, tiled, rows, block, out);
            else multiply_rows<ROWS, 1>(m, x, bytes, tiled, rows, block, out);
        }
    }
};

// A second thread for the large products of a group that is alone. Both threads take parts of a
// product until none is left, the caller from the first on and the helper from the last, so that
// each has the weights of its parts in its own caches at the next step.
class Helper {
public:
    Helper() : thread([this] { help(); }) {}

    ~Helper() {
        state = STOPPED;
        thread.join();
    }

    void compute(const Product &given) {
        product = &given;
        finished = 0;
        int64_t parts = parts_of(given), own = 0;
        uint64_t round = (state | PARTS_MASK) + 1;
        state = round + uint64_t(parts);
        for (; take(round); own++) compute_part(own);
        for (int spins = 0; finished < parts - own;) wait(spins);
    }

private:
    // The number of the product in the high bits, and how many parts are left in the low ones.
    static constexpr uint64_t PARTS_MASK = 15, STOPPED = ~uint64_t(0);
    static constexpr int64_t MAX_PARTS = 8;
    std::atomic<uint64_t> state{0};
    std::atomic<int64_t> finished{0};  // parts, by the helper
    const Product *product = nullptr;  // only read by a thread that has taken a part
    std::thread thread;                // last, as it uses the others

    static int64_t parts_of(const Product &product) {
        return std::min(MAX_PARTS, product.blocks());
    }

    void compute_part(int64_t part) const {
        int64_t blocks = product->blocks(), parts = parts_of(*product);
        product->compute(blocks * part / parts, blocks * (part + 1) / parts);
    }

    // Take a part of the round's product; false if none is left, or the round is over.
    bool take(uint64_t round) {
        uint64_t seen = state;
        while (seen > round && seen <= round + MAX_PARTS)
            if (state.compare_exchange_weak(seen, seen - 1)) return true;
        return false;
    }

    void help() {
        Tiles tiles;
        uint64_t round = 0;
        for (int spins = 0;;) {
            uint64_t seen = state;
            if (seen == STOPPED) return;
            if ((seen & ~PARTS_MASK) == round) {
                wait(spins);
                continue;
            }
            round = seen & ~PARTS_MASK, spins = 0;
            for (int64_t own = 0; take(round); own++) {
                compute_part(parts_of(*product) - 1 - own);
                finished++;
            }
        }
    }

    // Wait for the other thread: busily for some microseconds, then letting other threads run.
    static void wait(int &spins) {
        if (spins == 100) return std::this_thread::yield();
        spins++;
#ifdef __AVX2__
        _mm_pause();
#endif
    }
};

struct Norm {
    Buffer<float> gain, offset;

    void operator()(const float *from, float *to, int64_t rows, int64_t width) const {
        for (int64_t row = 0; row < rows; row++, from += width, to += width) {
            Vector total = {}, squares = {};
            for (int64_t i = 0; i < width; i += LANES) total += load(from + i);
            float mean = sum(total) / float(width);
            for (int64_t i = 0; i < width; i += LANES) {
                Vector centred = load(from + i) - mean;
                squares += centred * centred;
            }
            float factor = 1.0f / std::sqrt(sum(squares) / float(width) + EPSILON);
            for (int64_t i = 0; i < width; i += LANES)
                store(to + i, (load(from + i) - mean) * factor * load(gain.data() + i) +
                                  load(offset.data() + i));
        }
    }
};

struct Layer {
    std::vector<Matrix> maps;  // in the order of `Map`
    std::vector<Norm> norms;
};

// A decoder's layer has all maps; an encoder's has those below QUERY.
enum Map { SELF, SELF_OUT, INNER, OUTER, QUERY, MEMORY, MEMORY_OUT };

struct Shape {
    int64_t int8, d_model, d_ff, heads, d_k, d_v, encoder_layers, decoder_layers, vocab, pre_norm,
        activation;

    int64_t keys() const { return heads * d_k; }
    int64_t values() const { return heads * d_v; }
};

struct Model {
    Shape shape;
    const float *source_embedding, *target_embedding;
    std::vector<Layer> encoder, decoder;
    std::vector<Norm> last;  // of encoder and decoder, for pre-norm
    std::vector<Matrix> output;

    Model(const Shape &given, const float *const *next) : shape(given) {
        source_embedding = *next++;
        target_embedding = *next++;
        auto matrix = [&](int64_t inputs, int64_t outputs) {
            const float *weights = *next++, *biases = *next++;
            return Matrix(weights, biases, inputs, outputs, shape.int8);
        };
        auto norm = [&] {
            const float *gain = *next++, *offset = *next++;
            int64_t size = shape.d_model;
            return Norm{Buffer<float>(gain, gain + size), Buffer<float>(offset, offset + size)};
        };
        int64_t width = shape.d_model, keys = shape.keys(), values = shape.values();
        output.push_back(matrix(width, shape.vocab));
        for (int64_t number = 0; number < shape.encoder_layers + shape.decoder_layers; number++) {
            bool decodes = number >= shape.encoder_layers;
            Layer layer;
            layer.maps.push_back(matrix(width, 2 * keys + values));
            layer.maps.push_back(matrix(values, width));
            layer.maps.push_back(matrix(width, shape.d_ff));
            layer.maps.push_back(matrix(shape.d_ff, width));
            if (decodes) {
                layer.maps.push_back(matrix(width, keys));
                layer.maps.push_back(matrix(width, keys + values));
                layer.maps.push_back(matrix(values, width));
            }
            for (int count = 0; count < (decodes ? 3 : 2); count++) layer.norms.push_back(norm());
            (decodes ? decoder : encoder).push_back(std::move(layer));
        }
        if (shape.pre_norm) last = {norm(), norm()};
    }

    // Bytes of weights that a step of the decoder reads.
    int64_t step_size() const {
        int64_t size = output[0].size();
        for (const Layer &layer : decoder)
            for (const Matrix &map : layer.maps) size += map.size();
        return size;
    }
};

// Replace scores by weights that are proportional to their exponentials; return the factor that
// makes their sum 1. There is room for whole vectors.
float exponentiate(float *scores, int64_t count) {
    Vector most = all(-INFINITE), totals = {};
    for (int64_t j = 0; j < count; j += LANES)
        most = larger(most, parts_below(load(scores + j), count - j, -INFINITE));
    float largest = largest_of(most);
    for (int64_t j = 0; j < count; j += LANES) {
        Vector weights = exponential(load(scores + j) - largest);
        weights = parts_below(weights, count - j, 0.0f);
        store(scores + j, weights);
        totals += weights;
    }
    return 1.0f / sum(totals);
}

// Attention of one query of one head to `count` positions. Keys are transposed: a row of `stride`
// numbers for each dimension.
void attend(const float *query, const float *keys, int64_t stride, const float *values,
            int64_t value_stride, int64_t count, int64_t d_k, int64_t d_v, float scale,
            float *scores, float *out) {
    for (int64_t j = 0; j < count; j += LANES) {
        Vector sums[4] = {};  // four chains of sums, or each would wait for the one before
        for (int64_t d = 0; d < d_k; d += 4)
            for (int i = 0; i < 4; i++) sums[i] += query[d + i] * load(keys + (d + i) * stride + j);
        store(scores + j, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale);
    }
    float factor = exponentiate(scores, count);
    for (int64_t d = 0; d < d_v; d += LANES) {
        Vector sums[2] = {};
        int64_t j = 0;
        for (; j + 2 <= count; j += 2)
            for (int i = 0; i < 2; i++)
                sums[i] += scores[j + i] * load(values + (j + i) * value_stride + d);
        if (j < count) sums[0] += scores[j] * load(values + j * value_stride + d);
        store(out + d, (sums[0] + sums[1]) * factor);
    }
}

// Keys of a sentence, by head and dimension: rows of `stride` positions.
void transpose_keys(const float *from, int64_t row, int64_t count, int64_t width, int64_t stride,
                    float *to) {
    for (int64_t d = 0; d < width; d++) {
        for (int64_t j = 0; j < count; j++) to[d * stride + j] = from[j * row + d];
        for (int64_t j = count; j < stride; j++) to[d * stride + j] = 0.0f;
    }
}

struct Call {
    const Model *model;
    const int64_t *groups, *source_starts, *prefix_starts;
    const int32_t *sources, *limits, *prefixes;
    // A shortlist: the pieces that a piece of the source allows, those of no piece last. Or null.
    const int64_t *shortlist_starts;
    const int32_t *shortlist;
    const float *positions;
    int64_t beam, min_length, no_repeat, eos, pad, capacity;
    int32_t *ids, *lengths;
    float *log_probs;
};

struct Candidate {
    float total, log_prob;
    int64_t row;
    int32_t id;
};

struct Node {  // a piece of a partial translation
    int32_t before, id;
    float log_prob;
};

struct Beam {
    int64_t sentence;  // within the group
    int32_t node;
    float total;
};

// Memory of one sentence: keys and values of every layer of the decoder.
struct Memory {
    int64_t length, stride, first;
};

// Translates one group of sentences at a time.
class Worker {
public:
    Worker(const Call &call, Helper *helper)
        : call(call), model(*call.model), shape(model.shape), helper(helper) {}

    void run(int64_t group) {
        start = call.groups[group], sentences = call.groups[group + 1] - start;
        Tiles tiles;
        encode();
        search();
    }

private:
    const Call &call;
    const Model &model;
    const Shape &shape;
    Helper *const helper;  // or null
    const float scale = 1.0f / std::sqrt(float(shape.d_k));  // of attention's scores
    int64_t start = 0, sentences = 0, slots_used = 0;
    Bytes bytes;
    Buffer<float> x, normed, projected, context, hidden, logits, scores, scratch;
    std::vector<Buffer<float>> memory_keys, memory_values, keys, values;
    std::vector<Memory> memories;
    std::vector<Node> nodes;
    std::vector<Beam> beams, next_beams;
    std::vector<int32_t> slots, next_slots;
    // Of a shortlist: the pieces that each sentence allows, and their columns in the matrix of all.
    std::vector<int32_t> allowed_ids, allowed_columns;
    std::vector<int64_t> allowed_starts;
    std::vector<int32_t> lasts, history;
    std::vector<int64_t> finished;

    void embed(const float *table, int32_t id, int64_t position, float *to) const {
        int64_t width = shape.d_model;
        const float *from = table + id * width, *added = call.positions + position * width;
        float scale = std::sqrt(float(width));
        for (int64_t i = 0; i < width; i += LANES)
            store(to + i, load(from + i) * scale + load(added + i));
    }

    // The input of a sub-layer, and the normalisation after it.
    const float *before(const Norm &norm, int64_t rows) {
        if (!shape.pre_norm) return x.data();
        norm(x.data(), at_least(normed, rows * shape.d_model), rows, shape.d_model);
        return normed.data();
    }

    void after(const Norm &norm, int64_t rows) {
        if (!shape.pre_norm) norm(x.data(), x.data(), rows, shape.d_model);
    }

    void multiply(const Matrix &map, const float *from, int64_t rows, float *to, int64_t stride,
                  Activation activation = NONE, bool add = false) {
        if (!map.bytes.empty()) quantize(from, rows, map.inputs, bytes);
        Product product{map, from, bytes, rows, {to, stride, activation, add}};
        if (helper && rows * map.inputs * map.outputs >= LEAST_SHARED) helper->compute(product);
        else product.compute(0, product.blocks());
    }

    void add(const Matrix &map, const float *from, int64_t rows) {
        multiply(map, from, rows, x.data(), shape.d_model, NONE, true);
    }

    void feed_forward(const Layer &layer, const Norm &norm, int64_t rows) {
        float *inner = at_least(hidden, rows * shape.d_ff);
        multiply(layer.maps[INNER], before(norm, rows), rows, inner, shape.d_ff,
                 Activation(shape.activation));
        add(layer.maps[OUTER], inner, rows);
        after(norm, rows);
    }

    void encode() {
        const int64_t *starts = call.source_starts + start;
        int64_t width = shape.d_model, rows = starts[sentences] - starts[0];
        int64_t keys_width = shape.keys(), all_width = 2 * keys_width + shape.values();
        at_least(x, rows * width);
        int64_t most = 0, memory_size = 0;
        memories.clear();
        for (int64_t s = 0; s < sentences; s++) {
            int64_t first = starts[s] - starts[0], length = starts[s + 1] - starts[s];
            for (int64_t j = 0; j < length; j++)
                embed(model.source_embedding, call.sources[starts[s] + j], j,
                      x.data() + (first + j) * width);
            most = std::max(most, padded(length, LANES));
            memories.push_back({length, padded(length, LANES), memory_size});
            memory_size += padded(length, LANES);
        }
        at_least(scores, std::max(most, padded(call.capacity, LANES) * shape.heads));
        for (const Layer &layer : model.encoder) {
            float *all = at_least(projected, rows * all_width);
            multiply(layer.maps[SELF], before(layer.norms[0], rows), rows, all, all_width);
            float *out = at_least(context, rows * shape.values());
            float *transposed = at_least(scratch, most * keys_width);
            for (int64_t s = 0; s < sentences; s++) {
                int64_t first = starts[s] - starts[0], length = memories[s].length;
                const float *sentence = all + first * all_width;
                int64_t stride = memories[s].stride;
                transpose_keys(sentence + keys_width, all_width, length, keys_width, stride,
                               transposed);
                for (int64_t h = 0; h < shape.heads; h++)
                    for (int64_t i = 0; i < length; i++)
                        attend(sentence + i * all_width + h * shape.d_k,
                               transposed + h * shape.d_k * stride, stride,
                               sentence + 2 * keys_width + h * shape.d_v, all_width, length,
                               shape.d_k, shape.d_v, scale, scores.data(),
                               out + (first + i) * shape.values() + h * shape.d_v);
            }
            add(layer.maps[SELF_OUT], out, rows);
            after(layer.norms[0], rows);
            feed_forward(layer, layer.norms[1], rows);
        }
        if (shape.pre_norm) model.last[0](x.data(), x.data(), rows, width);
        memory_keys.resize(model.decoder.size()), memory_values.resize(model.decoder.size());
        for (size_t number = 0; number < model.decoder.size(); number++) {
            int64_t both = keys_width + shape.values();
            float *all = at_least(projected, rows * both);
            multiply(model.decoder[number].maps[MEMORY], x.data(), rows, all, both);
            float *to_keys = at_least(memory_keys[number], memory_size * keys_width);
            float *to_values = at_least(memory_values[number], memory_size * shape.values());
            for (int64_t s = 0; s < sentences; s++) {
                const Memory &memory = memories[s];
                const float *from = all + (starts[s] - starts[0]) * both;
                transpose_keys(from, both, memory.length, keys_width, memory.stride,
                               to_keys + memory.first * keys_width);
                for (int64_t j = 0; j < memory.length; j++)
                    std::copy_n(from + j * both + keys_width, shape.values(),
                                to_values + (memory.first + j) * shape.values());
            }
        }
    }

    // Self-attention of all rows at a step: each has the slots of its earlier positions.
    void self_attention(int64_t layer, int64_t rows, int64_t step) {
        int64_t keys_width = shape.keys(), values_width = shape.values();
        int64_t all_width = 2 * keys_width + values_width, count = step + 1;
        int64_t stride = padded(count, LANES), capacity = call.capacity;
        const float *key = keys[layer].data(), *value = values[layer].data();
        for (int64_t row = 0; row < rows; row++) {
            const float *query = projected.data() + row * all_width;
            const int32_t *slot = slots.data() + row * capacity;
            for (int64_t j = 0; j < count; j++) {
                const float *from = key + slot[j] * keys_width;
                for (int64_t h = 0; h < shape.heads; h++) {
                    Vector product = {};
                    for (int64_t d = h * shape.d_k; d < (h + 1) * shape.d_k; d += LANES)
                        product += load(query + d) * load(from + d);
                    scores[h * stride + j] = sum(product) * scale;
                }
            }
            for (int64_t h = 0; h < shape.heads; h++) {
                float *weights = scores.data() + h * stride;
                float factor = exponentiate(weights, count);
                float *out = context.data() + row * values_width + h * shape.d_v;
                for (int64_t d = 0; d < shape.d_v; d += LANES) {
                    Vector sums = {};
                    const float *from = value + h * shape.d_v + d;
                    for (int64_t j = 0; j < count; j++)
                        sums += weights[j] * load(from + slot[j] * values_width);
                    store(out + d, sums * factor);
                }
            }
        }
    }

    // Copy rows of `width` numbers to the slots from `first_slot` on.
    void append(Buffer<float> &cache, const float *from, int64_t stride, int64_t width,
                int64_t first_slot) const {
        int64_t size = int64_t(cache.size());
        if (size < slots_used * width) cache.resize(std::max(slots_used * width, 2 * size));
        for (int64_t slot = first_slot; slot < slots_used; slot++, from += stride)
            std::copy_n(from, width, cache.data() + slot * width);
    }

    // Decode one position of every beam; the logits of the next are left in `logits`.
    void decode(const Matrix &output, int64_t step) {
        int64_t rows = int64_t(beams.size()), width = shape.d_model;
        int64_t keys_width = shape.keys(), values_width = shape.values();
        int64_t all_width = 2 * keys_width + values_width, capacity = call.capacity;
        int64_t first_slot = slots_used;
        slots_used += rows;
        at_least(x, rows * width);
        at_least(context, rows * values_width);
        for (int64_t row = 0; row < rows; row++) {
            embed(model.target_embedding, lasts[row], step, x.data() + row * width);
            slots[row * capacity + step] = int32_t(first_slot + row);
        }
        for (size_t number = 0; number < model.decoder.size(); number++) {
            const Layer &layer = model.decoder[number];
            float *all = at_least(projected, rows * all_width);
            multiply(layer.maps[SELF], before(layer.norms[0], rows), rows, all, all_width);
            append(keys[number], all + keys_width, all_width, keys_width, first_slot);
            append(values[number], all + 2 * keys_width, all_width, values_width, first_slot);
            self_attention(int64_t(number), rows, step);
            add(layer.maps[SELF_OUT], context.data(), rows);
            after(layer.norms[0], rows);

            float *queries = at_least(projected, rows * keys_width);
            multiply(layer.maps[QUERY], before(layer.norms[1], rows), rows, queries, keys_width);
            for (int64_t row = 0; row < rows; row++) {
                const Memory &memory = memories[beams[row].sentence];
                const float *key = memory_keys[number].data() + memory.first * keys_width;
                const float *value = memory_values[number].data() + memory.first * values_width;
                for (int64_t h = 0; h < shape.heads; h++)
                    attend(queries + row * keys_width + h * shape.d_k,
                           key + h * shape.d_k * memory.stride, memory.stride,
                           value + h * shape.d_v, values_width, memory.length, shape.d_k, shape.d_v,
                           scale, scores.data(),
                           context.data() + row * values_width + h * shape.d_v);
            }
            add(layer.maps[MEMORY_OUT], context.data(), rows);
            after(layer.norms[1], rows);
            feed_forward(layer, layer.norms[2], rows);
        }
        if (shape.pre_norm) model.last[1](x.data(), x.data(), rows, width);
        multiply(output, x.data(), rows, at_least(logits, rows * output.padded_outputs),
                 output.padded_outputs);
    }

    // Mark the pieces that a sentence may use.
    void mark_allowed(int64_t sentence, std::vector<uint8_t> &marks) const {
        auto mark = [&](int64_t piece) {
            const int64_t *starts = call.shortlist_starts + piece;
            for (int64_t i = starts[0]; i < starts[1]; i++) marks[call.shortlist[i]] = 1;
        };
        mark(shape.vocab);  // pieces that are always allowed
        const int64_t *source = call.source_starts + sentence;
        const int64_t *prefix = call.prefix_starts + sentence;
        for (int64_t i = source[0]; i < source[1]; i++) mark(call.sources[i]);
        for (int64_t i = prefix[0]; i < prefix[1]; i++) marks[call.prefixes[i]] = 1;
        marks[call.pad] = 0;
    }

    // The part of the output matrix that the group's sentences need; null without a shortlist.
    std::unique_ptr<Matrix> restrict_output() {
        allowed_starts.assign(1, 0), allowed_ids.clear();
        if (!call.shortlist_starts) return nullptr;
        std::vector<uint8_t> marks, all_marks(shape.vocab, 0);
        for (int64_t s = 0; s < sentences; s++) {
            marks.assign(shape.vocab, 0);
            mark_allowed(start + s, marks);
            for (int32_t id = 0; id < int32_t(shape.vocab); id++)
                if (marks[id]) allowed_ids.push_back(id), all_marks[id] = 1;
            allowed_starts.push_back(int64_t(allowed_ids.size()));
        }
        std::vector<int32_t> ids, column_of(shape.vocab, 0);
        for (int32_t id = 0; id < int32_t(shape.vocab); id++)
            if (all_marks[id]) column_of[id] = int32_t(ids.size()), ids.push_back(id);
        allowed_columns.clear();
        for (int32_t id : allowed_ids) allowed_columns.push_back(column_of[id]);
        return std::make_unique<Matrix>(model.output[0], ids);
    }

    // Ids of a partial translation, in order.
    void read_history(int32_t node) {
        history.clear();
        for (; node >= 0; node = nodes[node].before) history.push_back(nodes[node].id);
        std::reverse(history.begin(), history.end());
    }

    // Set the logits of pieces that a constraint forbids to minus infinity; `column` finds them.
    template <typename Column>
    void forbid(const Beam &beam, int64_t step, float *row, Column column) {
        auto drop = [&](int32_t id) {
            int64_t at = column(id);
            if (at >= 0) row[at] = -INFINITE;
        };
        if (step < call.min_length) drop(int32_t(call.eos));
        int64_t size = call.no_repeat;
        if (!size || step < size) return;
        read_history(beam.node);
        for (int64_t end = size - 1; end < step; end++)
            if (std::equal(history.end() - (size - 1), history.end(),
                           history.begin() + end - (size - 1)))
                drop(history[end]);
    }

    // Merge a beam's continuations into the best of its sentence; equals stay in order.
    void collect(int64_t row, int64_t step, int64_t padded_width, std::vector<Candidate> &best) {
        const Beam &beam = beams[row];
        int64_t most = 2 * call.beam, sentence = start + beam.sentence;
        float *from = logits.data() + row * padded_width;
        int64_t width = shape.vocab;
        const int32_t *allowed = nullptr;
        if (call.shortlist_starts) {
            int64_t first = allowed_starts[beam.sentence];
            width = allowed_starts[beam.sentence + 1] - first;
            allowed = allowed_ids.data() + first;
            float *compact = at_least(scratch, padded(width, LANES));
            for (int64_t i = 0; i < width; i++) compact[i] = from[allowed_columns[first + i]];
            from = compact;
        } else {
            from[call.pad] = -INFINITE;
        }
        for (int64_t i = width; i < padded(width, LANES); i++) from[i] = -INFINITE;
        Vector highest = all(-INFINITE), totals = {};
        for (int64_t i = 0; i < width; i += LANES) highest = larger(highest, load(from + i));
        float largest = largest_of(highest);
        for (int64_t i = 0; i < width; i += LANES) {
            Vector x = load(from + i) - largest;
            totals += x > -87.0f ? exponential(x) : Vector{};
        }
        float log_sum = largest + std::log(sum(totals));
        auto insert = [&](float logit, int32_t id) {
            float log_prob = logit - log_sum, total = beam.total + log_prob;
            if (!(total > -INFINITE)) return;
            if (int64_t(best.size()) == most) {
                if (!(total > best.back().total)) return;
                best.pop_back();
            }
            size_t place = best.size();
            while (place && total > best[place - 1].total) place--;
            best.insert(best.begin() + int64_t(place), Candidate{total, log_prob, row, id});
        };
        auto column = [&](int32_t id) -> int64_t {
            if (!allowed) return id;
            const int32_t *found = std::lower_bound(allowed, allowed + width, id);
            return found != allowed + width && *found == id ? found - allowed : -1;
        };
        int64_t prefix = call.prefix_starts[sentence];
        if (step < call.prefix_starts[sentence + 1] - prefix) {  // the next piece is given
            int32_t id = call.prefixes[prefix + step];
            int64_t at = column(id);
            insert(at < 0 ? -INFINITE : from[at], id);
            return;
        }
        if (call.min_length || call.no_repeat) forbid(beam, step, from, column);
        for (int64_t i = 0; i < width; i += LANES) {
            bool full = int64_t(best.size()) == most;
            float bound = full ? best.back().total : -INFINITE;
            Vector sums = (load(from + i) - log_sum) + beam.total;
            for (uint32_t bits = lanes_above(sums, bound); bits; bits &= bits - 1) {
                int64_t at = i + __builtin_ctz(bits);
                insert(from[at], allowed ? allowed[at] : int32_t(at));
            }
        }
    }

    void store_hypothesis(int64_t sentence, const Candidate &last, int64_t length) {
        int64_t number = (start + sentence) * 2 * call.beam + finished[sentence]++;
        call.lengths[number] = int32_t(length);
        int32_t *ids = call.ids + number * call.capacity;
        float *log_probs = call.log_probs + number * call.capacity;
        ids[length - 1] = last.id, log_probs[length - 1] = last.log_prob;
        int32_t node = beams[last.row].node;
        for (int64_t at = length - 2; at >= 0; at--, node = nodes[node].before)
            ids[at] = nodes[node].id, log_probs[at] = nodes[node].log_prob;
    }

    void search() {
        std::unique_ptr<Matrix> restricted = restrict_output();
        const Matrix &output = restricted ? *restricted : model.output[0];
        keys.resize(model.decoder.size()), values.resize(model.decoder.size());
        slots_used = 0;
        int64_t capacity = call.capacity;
        nodes.clear(), beams.clear(), lasts.clear();
        finished.assign(sentences, 0);
        for (int64_t s = 0; s < sentences; s++) {
            beams.push_back({s, -1, 0.0f});
            lasts.push_back(int32_t(call.pad));
        }
        slots.resize(sentences * call.beam * capacity);
        std::vector<Candidate> best;
        for (int64_t step = 0; !beams.empty(); step++) {
            decode(output, step);
            next_beams.clear(), lasts.clear();
            next_slots.resize(sentences * call.beam * capacity);
            for (size_t row = 0; row < beams.size();) {
                int64_t sentence = beams[row].sentence;
                best.clear();
                for (; row < beams.size() && beams[row].sentence == sentence; row++)
                    collect(int64_t(row), step, output.padded_outputs, best);
                bool cut = step + 1 == call.limits[start + sentence];
                for (int64_t i = 0; i < int64_t(best.size()) && i < call.beam; i++)
                    if (cut || best[i].id == call.eos)
                        store_hypothesis(sentence, best[i], step + 1);
                if (cut || finished[sentence] >= call.beam) continue;
                int64_t kept = 0;
                for (const Candidate &candidate : best) {
                    if (candidate.id == call.eos) continue;
                    if (kept++ == call.beam) break;
                    const int32_t *from = slots.data() + candidate.row * capacity;
                    std::copy_n(from, step + 1,
                                next_slots.data() + int64_t(next_beams.size()) * capacity);
                    nodes.push_back({beams[candidate.row].node, candidate.id, candidate.log_prob});
                    next_beams.push_back({sentence, int32_t(nodes.size()) - 1, candidate.total});
                    lasts.push_back(candidate.id);
                }
            }
            std::swap(beams, next_beams), std::swap(slots, next_slots);
        }
    }
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The instructions that compute int8, here and now; empty if there are none.
EXPORTED const char *int8_instructions() {
#ifdef HAS_TILES
    if (Tiles::granted()) return "AMX";
#endif
#ifdef INT8
    return INT8;
#else
    return "";
#endif
}

// Return a model that reads the embeddings, the first two tensors, where they are; null if there is
// no memory.
EXPORTED void *create_model(const int64_t *shape, const float *const *tensors) {
    try {
        Shape given;
        std::memcpy(&given, shape, sizeof given);
        return new Model(given, tensors);
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

EXPORTED void free_model(void *model) { delete static_cast<Model *>(model); }

// Return 0, or 1 if there is no memory.
EXPORTED int search(const void *model, int64_t threads, int64_t groups, const int64_t *group_starts,
                    const int32_t *sources, const int64_t *source_starts, const int32_t *limits,
                    const int32_t *prefixes, const int64_t *prefix_starts,
                    const int32_t *shortlist, const int64_t *shortlist_starts,
                    const float *positions, int64_t beam,
                    int64_t min_length, int64_t no_repeat, int64_t eos, int64_t pad,
                    int64_t capacity, int32_t *ids, int32_t *lengths, float *log_probs) {
    Call call{static_cast<const Model *>(model), group_starts, source_starts, prefix_starts,
              sources, limits, prefixes, shortlist_starts, shortlist, positions, beam, min_length,
              no_repeat, eos, pad, capacity, ids, lengths, log_probs};
    std::atomic<int64_t> next{0};
    std::atomic<int> failed{0};
    auto work = [&](Helper *helper) {
        try {
            Worker worker(call, helper);
            for (int64_t group; (group = next++) < groups && !failed;) worker.run(group);
        } catch (const std::exception &) {
            failed = 1;
        }
    };
    std::vector<std::thread> others;
    std::unique_ptr<Helper> helper;
    try {
        if (groups == 1 && threads > 1 && call.model->step_size() >= LEAST_READ)
            helper = std::make_unique<Helper>();
        for (int64_t i = 1; i < std::min(threads, groups); i++) others.emplace_back(work, nullptr);
    } catch (const std::exception &) {  // fewer threads, then
    }
    work(helper.get());
    for (std::thread &thread : others) thread.join();
    return failed;
}
