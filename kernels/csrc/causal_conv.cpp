// Depthwise causal convolution with optional bias and SiLU, for one instruction set.
//
//   pre_t = bias + sum_j w_j x_{t - (W-1) + j},   out = silu(pre)
//
// Lanes are channels. A task is a tile of time of one batch row, over all channels; what lies before
// the first step comes from the initial state or is zero.
#include "kernels.h"
#include "parallel.h"
#include "simd.h"

namespace TSM_ISA {
namespace {

template <class T>
class Conv {
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int W = S::W;

  const tsm_conv_args &k;
  const int64_t reach, tiles;  // steps that the filter looks back, and tasks of a batch row

  static T *row(const tsm_view &v, int64_t batch, int64_t t, int64_t d) {
    return static_cast<T *>(v.data) + batch * v.batch_stride + t * v.time_stride + d;
  }
  static const T *lane(const void *p, int64_t offset) { return static_cast<const T *>(p) + offset; }
  static T *lane(void *p, int64_t offset) { return static_cast<T *>(p) + offset; }

  bool skipped(int64_t batch, int64_t t) const {
    return k.mask.data && !static_cast<const uint8_t *>(
               k.mask.data)[batch * k.mask.batch_stride + t * k.mask.time_stride];
  }
  int64_t state_row(int64_t batch, int64_t t) const {
    return (batch * reach + t + reach) * k.channels;
  }
  V input(int64_t batch, int64_t t, int64_t d, int lanes) const {
    if (t < 0)
      return k.initial_state ? S::load(lane(k.initial_state, state_row(batch, t) + d), lanes) : V{};
    return skipped(batch, t) ? V{} : S::load(row(k.x, batch, t, d), lanes);
  }
  int lanes_at(int64_t d) const { return k.channels - d < W ? int(k.channels - d) : W; }

  // The filter of one block of lanes and the inputs it rests on. Fixed > 0 makes the width a
  // constant, so that both live in registers.
  template <int Fixed>
  struct Filter {
    const int64_t width;
    std::unique_ptr<V[], AlignedDelete> spill;
    V fixed[2 * (Fixed ? Fixed : 1)];
    V *const w, *const x;  // weights, and inputs from oldest to newest
    V bias;

    explicit Filter(int64_t width_)
        : width(Fixed ? Fixed : width_), spill(Fixed ? nullptr : scratch<V>(2 * width_)),
          w(Fixed ? fixed : spill.get()), x(w + width), bias{} {}

    V next(V newest) {
      V sum = bias;
      TSM_UNROLL
      for (int64_t j = 0; j < width - 1; ++j) {
        x[j] = x[j + 1];
        sum += w[j] * x[j];
      }
      x[width - 1] = newest;
      return sum + w[width - 1] * newest;
    }
  };

  // Points a filter at the step `begin` of a block of lanes.
  template <int Fixed>
  void seat(Filter<Fixed> &f, int64_t batch, int64_t d, int lanes, int64_t begin) const {
    f.bias = k.bias ? S::load(lane(k.bias, d), lanes) : V{};
    for (int64_t j = 0; j < f.width; ++j)
      f.w[j] = S::load(lane(k.weight_t, j * k.channels + d), lanes);
    for (int64_t j = 1; j < f.width; ++j)
      f.x[j] = input(batch, begin - f.width + j, d, lanes);
  }

  template <int Fixed>
  int32_t forward(int64_t batch, int64_t, int64_t begin, int64_t end) const {
    Filter<Fixed> f(k.width);
    if (!f.w) return TSM_OUT_OF_MEMORY;
    for (int64_t d = 0; d < k.channels; d += W) {
      const int lanes = lanes_at(d);
      seat(f, batch, d, lanes, begin);
      for (int64_t t = begin; t < end; ++t) {
        V y = f.next(input(batch, t, d, lanes));
        if (k.silu) y *= S::sigmoid(y);
        S::store(row(k.out, batch, t, d), skipped(batch, t) ? V{} : y, lanes);
      }
    }
    return TSM_OK;
  }

  V grad_pre(int64_t batch, int64_t t, int64_t d, int lanes, V pre) const {
    if (skipped(batch, t)) return V{};
    V grad = S::load(row(k.grad_out, batch, t, d), lanes);
    if (!k.silu) return grad;
    V sig = S::sigmoid(pre);
    return grad * sig * (pre * (T(1) - sig) + T(1));
  }

  // grad_x_t needs grad_pre at t .. t + reach, so a tile also computes the first steps of its
  // successor; the first tile reaches back over the initial state.
  template <int Fixed>
  int32_t backward(int64_t batch, int64_t tile, int64_t begin, int64_t end) const {
    const int64_t last = end + reach < k.length ? end + reach : k.length;
    const int64_t span = end - begin + 2 * reach;
    auto padded = scratch<V>(span);  // grad_pre from begin - reach to end + reach, zero outside
    Filter<Fixed> f(k.width), grad_f(k.width);
    if (!padded || !f.w || !grad_f.w) return TSM_OUT_OF_MEMORY;
    const auto grad_at = [&](int64_t t) -> V & { return padded[t - begin + reach]; };
    for (int64_t d = 0; d < k.channels; d += W) {
      const int lanes = lanes_at(d);
      seat(f, batch, d, lanes, begin);
      grad_f.bias = V{};
      for (int64_t j = 0; j < f.width; ++j) grad_f.w[j] = V{};
      for (int64_t i = 0; i < span; ++i) padded[i] = V{};
      for (int64_t t = begin; t < last; ++t) {
        V pre = f.next(input(batch, t, d, lanes));
        const V grad = grad_at(t) = grad_pre(batch, t, d, lanes, pre);
        if (t >= end) continue;
        grad_f.bias += grad;
        TSM_UNROLL
        for (int64_t j = 0; j < f.width; ++j) grad_f.w[j] += grad * f.x[j];
      }
      for (int64_t t = tile == 0 && k.grad_initial_state ? -reach : begin; t < end; ++t) {
        V grad_x{};
        TSM_UNROLL
        for (int64_t j = 0; j < f.width; ++j) grad_x += f.w[j] * grad_at(t + reach - j);
        if (t < 0) S::store(lane(k.grad_initial_state, state_row(batch, t) + d), grad_x, lanes);
        else S::store(row(k.grad_x, batch, t, d), skipped(batch, t) ? V{} : grad_x, lanes);
      }
      const int64_t part = batch * tiles + tile;
      for (int64_t j = 0; j < f.width; ++j)
        S::store(lane(k.grad_weight_t, (part * f.width + j) * k.channels + d), grad_f.w[j], lanes);
      if (k.grad_bias) S::store(lane(k.grad_bias, part * k.channels + d), grad_f.bias, lanes);
    }
    return TSM_OK;
  }

  int32_t run(int32_t (Conv::*pass)(int64_t, int64_t, int64_t, int64_t) const) const {
    return parallel_for(k.batch * tiles, k.threads, [&](int64_t i) {
      const int64_t begin = i % tiles * k.tile, end = begin + k.tile;
      return (this->*pass)(i / tiles, i % tiles, begin, end < k.length ? end : k.length);
    });
  }

 public:
  explicit Conv(const tsm_conv_args &args)
      : k(args), reach(args.width - 1), tiles((args.length + args.tile - 1) / args.tile) {}
  int32_t run_forward() const {
    return run(k.width == 4 ? &Conv::forward<4> : &Conv::forward<0>);
  }
  int32_t run_backward() const {
    return run(k.width == 4 ? &Conv::backward<4> : &Conv::backward<0>);
  }
};

}  // namespace

int32_t conv_fwd_f32(const tsm_conv_args *args) { return Conv<float>(*args).run_forward(); }
int32_t conv_fwd_f64(const tsm_conv_args *args) { return Conv<double>(*args).run_forward(); }
int32_t conv_bwd_f32(const tsm_conv_args *args) { return Conv<float>(*args).run_backward(); }
int32_t conv_bwd_f64(const tsm_conv_args *args) { return Conv<double>(*args).run_backward(); }

}  // namespace TSM_ISA
