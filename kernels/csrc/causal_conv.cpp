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
  const int64_t tiles;

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
    return (batch * (k.width - 1) + t + k.width - 1) * k.channels;
  }
  V input(int64_t batch, int64_t t, int64_t d, int lanes) const {
    if (t < 0)
      return k.initial_state ? S::load(lane(k.initial_state, state_row(batch, t) + d), lanes) : V{};
    return skipped(batch, t) ? V{} : S::load(row(k.x, batch, t, d), lanes);
  }
  V pre(int64_t batch, int64_t t, int64_t d, int lanes) const {
    V sum = k.bias ? S::load(lane(k.bias, d), lanes) : V{};
    for (int64_t j = 0; j < k.width; ++j)
      sum += S::load(lane(k.weight_t, j * k.channels + d), lanes) *
             input(batch, t - (k.width - 1) + j, d, lanes);
    return sum;
  }
  int lanes_at(int64_t d) const { return k.channels - d < W ? int(k.channels - d) : W; }

  int32_t forward(int64_t batch, int64_t, int64_t begin, int64_t end) const {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t d = 0; d < k.channels; d += W) {
        const int lanes = lanes_at(d);
        V y{};
        if (!skipped(batch, t)) {
          y = pre(batch, t, d, lanes);
          if (k.silu) y *= S::sigmoid(y);
        }
        S::store(row(k.out, batch, t, d), y, lanes);
      }
    return TSM_OK;
  }

  V grad_pre(int64_t batch, int64_t t, int64_t d, int lanes) const {
    if (skipped(batch, t)) return V{};
    V grad = S::load(row(k.grad_out, batch, t, d), lanes);
    if (!k.silu) return grad;
    V y = pre(batch, t, d, lanes), sig = S::sigmoid(y);
    return grad * sig * (y * (T(1) - sig) + T(1));
  }

  // grad_x_t needs grad_pre at t .. t + W - 1, so a tile also computes W - 1 steps of its successor;
  // the first tile reaches back over the initial state.
  int32_t backward(int64_t batch, int64_t tile, int64_t begin, int64_t end) const {
    const int64_t reach = k.width - 1;
    const int64_t last = end + reach < k.length ? end + reach : k.length;
    auto grads = scratch<V>(last - begin + 1), weights = scratch<V>(2 * k.width);
    if (!grads || !weights) return TSM_OUT_OF_MEMORY;
    for (int64_t d = 0; d < k.channels; d += W) {
      const int lanes = lanes_at(d);
      for (int64_t t = begin; t < last; ++t) grads[t - begin] = grad_pre(batch, t, d, lanes);
      V *w = weights.get(), *grad_w = w + k.width, grad_bias{};
      for (int64_t j = 0; j < k.width; ++j) {
        w[j] = S::load(lane(k.weight_t, j * k.channels + d), lanes);
        grad_w[j] = V{};
      }
      for (int64_t t = begin; t < end; ++t) {
        grad_bias += grads[t - begin];
        for (int64_t j = 0; j < k.width; ++j)
          grad_w[j] += grads[t - begin] * input(batch, t - reach + j, d, lanes);
      }
      for (int64_t t = tile == 0 && k.grad_initial_state ? -reach : begin; t < end; ++t) {
        V grad_x{};
        for (int64_t j = 0; j < k.width; ++j) {
          const int64_t at = t + reach - j;
          if (at >= begin && at < last) grad_x += w[j] * grads[at - begin];
        }
        if (t < 0) S::store(lane(k.grad_initial_state, state_row(batch, t) + d), grad_x, lanes);
        else S::store(row(k.grad_x, batch, t, d), skipped(batch, t) ? V{} : grad_x, lanes);
      }
      const int64_t part = batch * tiles + tile;
      for (int64_t j = 0; j < k.width; ++j)
        S::store(lane(k.grad_weight_t, (part * k.width + j) * k.channels + d), grad_w[j], lanes);
      if (k.grad_bias) S::store(lane(k.grad_bias, part * k.channels + d), grad_bias, lanes);
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
      : k(args), tiles((args.length + args.tile - 1) / args.tile) {}
  int32_t run_forward() const { return run(&Conv::forward); }
  int32_t run_backward() const { return run(&Conv::backward); }
};

}  // namespace

int32_t conv_fwd_f32(const tsm_conv_args *args) { return Conv<float>(*args).run_forward(); }
int32_t conv_fwd_f64(const tsm_conv_args *args) { return Conv<double>(*args).run_forward(); }
int32_t conv_bwd_f32(const tsm_conv_args *args) { return Conv<float>(*args).run_backward(); }
int32_t conv_bwd_f64(const tsm_conv_args *args) { return Conv<double>(*args).run_backward(); }

}  // namespace TSM_ISA
