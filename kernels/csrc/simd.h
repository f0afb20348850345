// One vector register's worth of T in GCC/Clang vector extensions, and the few functions the
// kernels need of it. Compiled once per instruction set; TSM_VECTOR_BYTES is the register width.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

// The compilers' own limits stop short of the 16 states that are usual.
#define TSM_UNROLL _Pragma("GCC unroll 16")

namespace TSM_ISA {

// The upper half of a float: a type of storage, not of arithmetic.
struct Bf16 {
  uint16_t bits;
};

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(Bf16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float y;
  std::memcpy(&y, &bits, sizeof y);
  return y;
}

template <class T>
struct Simd {
  static constexpr int W = TSM_VECTOR_BYTES / sizeof(T);
  using Int = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  typedef T V __attribute__((vector_size(TSM_VECTOR_BYTES)));
  typedef Int I __attribute__((vector_size(TSM_VECTOR_BYTES)));
  typedef uint16_t Half __attribute__((vector_size(2 * W)));

  static V splat(T x) { return x - V{}; }

  // The first `n` lanes from memory, zeros beyond; n == W is one unaligned load.
  static V load(const T *p, int n = W) {
    V v{};
    if (n == W) std::memcpy(&v, p, sizeof(V));
    else std::memcpy(&v, p, n * sizeof(T));
    return v;
  }
  static void store(T *p, V v, int n = W) {
    if (n == W) std::memcpy(p, &v, sizeof(V));
    else std::memcpy(p, &v, n * sizeof(T));
  }

  static V load(const Bf16 *p, int n = W) {
    Half half{};
    if (n == W) std::memcpy(&half, p, sizeof half);
    else std::memcpy(&half, p, n * sizeof(Bf16));
    return (V)(__builtin_convertvector(half, I) << 16);
  }
  // Rounds to nearest, ties to even; a NaN stays one.
  static void store(Bf16 *p, V v, int n = W) {
    const I bits = (I)v, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const Half half = __builtin_convertvector(v == v ? rounded : 0x7fc0 - I{}, Half);
    std::memcpy(p, &half, n == W ? sizeof half : n * sizeof(Bf16));
  }

  // Where x is NaN, x is what comes out.
  static V at_least(V x, T bound) { return splat(bound) > x ? splat(bound) : x; }
  static V at_most(V x, T bound) { return splat(bound) < x ? splat(bound) : x; }

  // The functions below take Count vectors stage by stage, so that no one waits for another: a chain
  // of dependent operations is some tens of cycles long, and there is room for many side by side.

  // 2^(x_j rate) for products <= 0. The magic constant rounds a product to an integer k, which lands in
  // the low bits of the sum; a polynomial gives 2^(x rate - k) and an integer add puts k in the
  // exponent. Where the caller knows that no product lies below `least_exponent`, Bounded saves the
  // clamp and an add.
  template <bool Bounded, int Count>
  static void exp2(const V *x, V rate, V *out) {
    V f[Count], p[Count], shifted[Count];
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) {
      if constexpr (Bounded) {  // two fused multiply-adds
        shifted[j] = x[j] * rate + magic;
        f[j] = x[j] * rate - (shifted[j] - magic);
      } else {
        const V product = clamped(x[j] * rate);
        shifted[j] = product + magic;
        f[j] = product - (shifted[j] - magic);
      }
    }
    // The constant term is exactly 1, so that a step of no time leaves a state as it is.
    constexpr int degree = sizeof(T) == 4 ? 5 : 13, mantissa_bits = sizeof(T) == 4 ? 23 : 52;
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) p[j] = splat(exp2_term(degree));
    TSM_UNROLL
    for (int k = degree - 1; k >= 0; --k) {
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) p[j] = p[j] * f[j] + exp2_term(k);
    }
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) out[j] = (V)((I)p[j] + ((I)shifted[j] << mantissa_bits));
  }
  static constexpr T least_exponent = sizeof(T) == 4 ? T(-126) : T(-1022);

  template <int Count>
  static void sigmoid(V *x) {
    V e[Count];
    exp_neg_abs<Count>(x, e);
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) x[j] = (x[j] < 0 ? e[j] : splat(1)) / (e[j] + T(1));
  }
  static V sigmoid(V x) {
    sigmoid<1>(&x);
    return x;
  }

  // log(1 + exp(x)) = max(x, 0) + log(1 + y) with y in [0, 1], the latter by 2 atanh(y / (2 + y)), which
  // keeps its relative accuracy at small y.
  template <int Count>
  static void softplus(V *x) {
    constexpr int terms = sizeof(T) == 4 ? 5 : 17;
    V s[Count], p[Count];
    exp_neg_abs<Count>(x, s);
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) {
      s[j] = s[j] / (s[j] + T(2));
      p[j] = splat(atanh_term(terms - 1));
    }
    TSM_UNROLL
    for (int k = terms - 2; k >= 0; --k) {
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) p[j] = p[j] * (s[j] * s[j]) + atanh_term(k);
    }
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) x[j] = at_least(x[j], 0) + T(2) * s[j] * p[j];
  }

  // Lane j of the result is the sum of all lanes of v[j]: W vectors in, one out.
  static V transpose_sum(V *v) {
    reduce<W / 2>(v);
    return v[0];
  }

 private:
  static constexpr T magic = sizeof(T) == 4 ? T(12582912.0) : T(6755399441055744.0);

  // x >= least_exponent by its bits: as unsigned numbers they grow with the distance below zero, and
  // an integer minimum is one instruction where the compilers make two of a float maximum.
  static V clamped(V x) {
    const I lowest = (I)splat(least_exponent);
    return (V)((I)x < lowest ? (I)x : lowest);
  }

  // exp(-|x|), in (0, 1]: what sigmoid and softplus can take without overflow at either end.
  template <int Count>
  static void exp_neg_abs(const V *x, V *out) {
    constexpr T log2e = T(1.4426950408889634);
    V negated[Count];
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) negated[j] = (V)((I)x[j] | (I)splat(T(-0.0)));
    exp2<false, Count>(negated, splat(log2e), out);
  }

  // Coefficients of 2^f on [-1/2, 1/2]: minimax with the constant fixed (relative error 9.1e-8), or
  // Taylor (the next term is below 5e-18).
  static constexpr T exp2_term(int k) {
    if constexpr (sizeof(T) == 4) {
      constexpr float c[] = {1.0f, 6.93147004e-1f, 2.40222424e-1f, 5.55073358e-2f, 9.67151299e-3f,
                             1.32647273e-3f};
      return c[k];
    } else {
      constexpr double c[] = {1.0, 0.69314718055994530942, 0.24022650695910071233,
                              0.055504108664821579953, 0.0096181291076284771619,
                              0.0013333558146428443423, 1.540353039338160995e-4,
                              1.5252733804059840280e-5, 1.3215486790144309488e-6,
                              1.0178086009239699728e-7, 7.0549116208011233299e-9,
                              4.4455382718708114976e-10, 2.5678435993488205142e-11,
                              1.3691488853904128881e-12};
      return c[k];
    }
  }

  // Coefficients of atanh(s) / s in s^2 on [0, 1/9]: minimax with the constant fixed (relative error
  // 4.5e-09), or Taylor.
  static constexpr T atanh_term(int k) {
    if constexpr (sizeof(T) == 4) {
      constexpr float c[] = {1.0f, 0.333332092f, 0.200107634f, 0.140009031f, 0.140059933f};
      return c[k];
    } else {
      return T(1) / (2 * k + 1);
    }
  }

#if defined(__clang__)
  template <int S, int Half, int... K>
  static V interleave(V a, V b, std::integer_sequence<int, K...>) {
    return __builtin_shufflevector(a, b, pick<S, Half>(K)...);
  }
#else
  template <int S, int Half, int... K>
  static V interleave(V a, V b, std::integer_sequence<int, K...>) {
    return __builtin_shuffle(a, b, I{pick<S, Half>(K)...});
  }
#endif
  // In groups of 2S lanes: the low (Half = 0) or high S lanes of a's group, then those of b's.
  template <int S, int Half>
  static constexpr int pick(int lane) {
    int group = lane / (2 * S) * (2 * S), offset = lane % (2 * S);
    return group + Half * S + (offset < S ? offset : W + offset - S);
  }
  template <int S>
  static void reduce(V *v) {
    using Lanes = std::make_integer_sequence<int, W>;
    for (int j = 0; j < S; ++j)
      v[j] = interleave<S, 0>(v[j], v[j + S], Lanes{}) + interleave<S, 1>(v[j], v[j + S], Lanes{});
    if constexpr (S > 1) reduce<S / 2>(v);
  }
};

}  // namespace TSM_ISA
