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

template <class T>
struct Simd {
  static constexpr int W = TSM_VECTOR_BYTES / sizeof(T);
  using Int = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  typedef T V __attribute__((vector_size(TSM_VECTOR_BYTES)));
  typedef Int I __attribute__((vector_size(TSM_VECTOR_BYTES)));

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

  // Where x is NaN, x is what comes out.
  static V at_least(V x, T bound) { return splat(bound) > x ? splat(bound) : x; }
  static V at_most(V x, T bound) { return splat(bound) < x ? splat(bound) : x; }

  // 2^x for x <= 0 (and up to 2^127): the magic constant rounds x to an integer k, which lands in the
  // low bits of the sum; a polynomial gives 2^(x-k) and an integer add puts k in the exponent.
  static V exp2(V x) {
    V shifted = clamped(x) + magic, f = clamped(x) - (shifted - magic);
    raise<1>(&f, &shifted);
    return f;
  }

  // 2^(dt rate_j) for j < Count, stage by stage so that no exponential waits for another. Where the
  // caller knows that no product lies below `least_exponent`, Bounded saves the clamp and an add.
  template <bool Bounded, int Count>
  static void decays(V dt, const V *rate, V *out) {
    V shifted[Count];
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) {
      if constexpr (Bounded) {  // two fused multiply-adds
        shifted[j] = dt * rate[j] + magic;
        out[j] = dt * rate[j] - (shifted[j] - magic);
      } else {
        V x = clamped(dt * rate[j]);
        shifted[j] = x + magic;
        out[j] = x - (shifted[j] - magic);
      }
    }
    raise<Count>(out, shifted);
  }
  static constexpr T least_exponent = sizeof(T) == 4 ? T(-126) : T(-1022);

  static V exp(V x) { return exp2(x * T(1.4426950408889634)); }

  static V sigmoid(V x) {
    V e = exp_neg_abs(x);
    return (x < 0 ? e : splat(1)) / (e + T(1));
  }
  static V softplus(V x) { return at_least(x, 0) + log1p(exp_neg_abs(x)); }

  // log(1 + y) for y in [0, 1], by 2 atanh(y / (2 + y)): keeps its relative accuracy at small y.
  static V log1p(V y) {
    constexpr int terms = sizeof(T) == 4 ? 5 : 17;
    V s = y / (y + T(2)), s2 = s * s, p = splat(atanh_term(terms - 1));
    TSM_UNROLL
    for (int k = terms - 2; k >= 0; --k) p = p * s2 + atanh_term(k);
    return T(2) * s * p;
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

  // 2^f times 2^k, with k in the low bits of `shifted`. The constant term of the polynomial is exactly
  // 1, so that a step of no time leaves a state as it is.
  template <int Count>
  static void raise(V *f, const V *shifted) {
    constexpr int degree = sizeof(T) == 4 ? 5 : 13, mantissa_bits = sizeof(T) == 4 ? 23 : 52;
    V p[Count];
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) p[j] = splat(exp2_term(degree));
    TSM_UNROLL
    for (int k = degree - 1; k >= 0; --k) {
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) p[j] = p[j] * f[j] + exp2_term(k);
    }
    TSM_UNROLL
    for (int j = 0; j < Count; ++j) f[j] = (V)((I)p[j] + ((I)shifted[j] << mantissa_bits));
  }

  // exp(-|x|), in (0, 1]: what sigmoid and softplus can take without overflow at either end.
  static V exp_neg_abs(V x) { return exp((V)((I)x | (I)splat(T(-0.0)))); }

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
