// Vectors of numbers, for the kernels of training and the native engine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

// Numbers in a vector, as many as a register has: the compiler is slow with longer ones. All widths
// but the vocabulary's are multiples of 16.
#ifdef __AVX512F__
constexpr int64_t LANES = 16;
#elif defined(__AVX2__)
constexpr int64_t LANES = 8;
#else
constexpr int64_t LANES = 4;  // of SSE, or another architecture
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t Words __attribute__((vector_size(4 * LANES)));
typedef uint16_t Halves __attribute__((vector_size(2 * LANES)));

struct BFloat16 {
    uint16_t bits;
};

template <typename To, typename From>
inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// With AVX-512 by one instruction each; the compiler's own conversion takes up to five.
inline Words widen(Halves halves) {
#ifdef __AVX512F__
    return same_bits<Words>(_mm512_cvtepu16_epi32(same_bits<__m256i>(halves)));
#else
    return __builtin_convertvector(halves, Words);
#endif
}

inline Halves narrow(Words words) {
#ifdef __AVX512F__
    return same_bits<Halves>(_mm512_cvtepi32_epi16(same_bits<__m512i>(words)));
#else
    return __builtin_convertvector(words, Halves);
#endif
}

inline Vector load(const float *from) {
    Vector result;
    std::memcpy(&result, from, sizeof result);
    return result;
}

inline Vector load(const BFloat16 *from) {
    Halves halves;
    std::memcpy(&halves, from, sizeof halves);
    return same_bits<Vector>(widen(halves) << 16);
}

inline void store(float *to, Vector values) { std::memcpy(to, &values, sizeof values); }

inline void store(BFloat16 *to, Vector values) {  // to the nearest, ties to even
#ifdef __AVX512BF16__
    auto halves = _mm512_cvtneps_pbh(same_bits<__m512>(values));
#else
    Words bits = same_bits<Words>(values);
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    Halves halves = narrow(bits);
#endif
    std::memcpy(to, &halves, sizeof halves);
}

inline void add(float *to, Vector values) { store(to, load(to) + values); }

// The first `count` values; `rest` in the other lanes.
template <typename T>
inline Vector load_part(const T *from, int64_t count, float rest) {
    T values[LANES] = {};
    std::memcpy(values, from, count * sizeof(T));
    Vector result = load(values);
    for (int64_t lane = count; lane < LANES; lane++) result[lane] = rest;
    return result;
}

template <typename T>
inline float load_one(const T *from) { return load_part(from, 1, 0.0f)[0]; }

template <typename T>
inline void store_part(T *to, Vector values, int64_t count) {
    T stored[LANES];
    store(stored, values);
    std::memcpy(to, stored, count * sizeof(T));
}

// Combine the lanes by halves.
template <typename Combine>
inline float reduce(Vector x, Combine combine) {
    typedef float Four __attribute__((vector_size(16)));
    Four parts[LANES / 4];
    std::memcpy(parts, &x, sizeof x);
    for (int64_t half = LANES / 8; half; half /= 2)
        for (int64_t i = 0; i < half; i++) parts[i] = combine(parts[i], parts[i + half]);
    Four four = parts[0];
    return combine(combine(four[0], four[1]), combine(four[2], four[3]));
}

inline float sum(Vector x) {
    return reduce(x, [](auto left, auto right) { return left + right; });
}

// NaN is never the larger; the sum of exponentials shows it.
template <typename V>
inline V larger(V x, V y) { return x > y ? x : y; }

inline float largest_of(Vector x) {
    return reduce(x, [](auto left, auto right) { return larger(left, right); });
}

// The compiler drops this subtraction; it would keep an addition, for -0.
inline Vector all(float value) { return value - Vector{}; }

// x * y + z with one rounding, where the processor has it. The compiler, left to itself, takes two
// instructions in some loops of a function and one in others, so that results differ.
inline Vector fused(Vector x, Vector y, Vector z) {
#ifdef __AVX512F__
    return same_bits<Vector>(
        _mm512_fmadd_ps(same_bits<__m512>(x), same_bits<__m512>(y), same_bits<__m512>(z)));
#elif defined(__AVX2__) && defined(__FMA__)
    return same_bits<Vector>(
        _mm256_fmadd_ps(same_bits<__m256>(x), same_bits<__m256>(y), same_bits<__m256>(z)));
#else
    return x * y + z;
#endif
}

// Return exp(x) with a relative error below 1e-7 for -87 <= x <= 88, and NaN for NaN.
inline Vector exponential(Vector x) {
    x = x < -87.0f ? all(-87.0f) : x;
    x = x > 88.0f ? all(88.0f) : x;
    // x = n ln 2 + r: adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    Vector shifted = x * 1.44269504f + 12582912.0f;
    Vector n = shifted - 12582912.0f;
    Vector r = (x - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
    // (exp(r) - 1 - r) / r^2, interpolated at Chebyshev's nodes of |r| <= ln 2 / 2.
    Vector y = all(1.3926250830e-3f);
    y = y * r + 8.3632328837e-3f;
    y = y * r + 4.1666554213e-2f;
    y = y * r + 1.6666576666e-1f;
    y = y * r + 0.5f;
    y = y * r * r + r + 1.0f;
    return same_bits<Vector>(same_bits<Words>(y) + (same_bits<Words>(shifted) << 23));  // times 2^n
}

inline Integers lanes_from(int64_t first) {
    Integers lanes = {};
    for (int32_t lane = 0; lane < LANES; lane++) lanes[lane] = lane;
    return lanes + int32_t(first);
}

inline int64_t padded(int64_t size, int64_t multiple) {
    return (size + multiple - 1) / multiple * multiple;
}

}  // namespace
