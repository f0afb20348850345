// Depthwise causal convolution with optional bias and SiLU, for one instruction set.
//
//   pre_t = bias + sum_j w_j x_{t - (W-1) + j},   out = silu(pre)
//
// Lanes are channels. A task is a tile of time of one series, over all channels; what lies before the
// first step comes from the initial state or is zero.
#include <algorithm>

#include "kernels.h"
#include "parallel.h"
#include "series.h"
#include "simd.h"

namespace TSM_ISA {
namespace {

// T is the type of the arithmetic, E that of the rows of x and out.
template <class T, class E>
class Conv {
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int W = S::W;

  const tsm_conv_args &k;
  const int64_t reach;  // steps that the filter looks back

  // One tile of one series.
  struct Task {
    tsm_series series;
    int64_t index, tile, begin, end;
  };

  static const T *lane(const void *p, int64_t offset) { return static_cast<const T *>(p) + offset; }
  static T *lane(void *p, int64_t offset) { return static_cast<T *>(p) + offset; }

  int64_t state_row(const Task &task, int64_t t) const {
    return (task.index * reach + t + reach) * k.channels;
  }
  V input(const Task &task, int64_t t, int64_t d, int lanes) const {
    if (t < 0)
      return k.initial_state ? S::load(lane(k.initial_state, state_row(task, t) + d), lanes) : V{};
    return missing(k.mask, task.series, t) ? V{} : S::load(row<E>(k.x, task.series, t, d), lanes);
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

  // Points a filter at the first step of a task and a block of lanes.
  template <int Fixed>
  void seat(Filter<Fixed> &f, const Task &task, int64_t d, int lanes) const {
    f.bias = k.bias ? S::load(lane(k.bias, d), lanes) : V{};
    for (int64_t j = 0; j < f.width; ++j)
      f.w[j] = S::load(lane(k.weight_t, j * k.channels + d), lanes);
    for (int64_t j = 1; j < f.width; ++j)
      f.x[j] = input(task, task.begin - f.width + j, d, lanes);
  }

  template <int Fixed>
  int32_t forward(const Task &task) const {
    Filter<Fixed> f(k.width);
    if (!f.w) return TSM_OUT_OF_MEMORY;
    for (int64_t d = 0; d < k.channels; d += W) {
      const int lanes = lanes_at(d);
      seat(f, task, d, lanes);
      for (int64_t t = task.begin; t < task.end; ++t) {
        V y = f.next(input(task, t, d, lanes));
        if (k.silu) y *= S::sigmoid(y);
        S::store(row<E>(k.out, task.series, t, d), missing(k.mask, task.series, t) ? V{} : y, lanes);
      }
    }
    return TSM_OK;
  }

  V grad_pre(const Task &task, int64_t t, int64_t d, int lanes, V pre) const {
    if (missing(k.mask, task.series, t)) return V{};
    V grad = S::load(row<E>(k.grad_out, task.series, t, d), lanes);
    if (!k.silu) return grad;
    V sig = S::sigmoid(pre);
    return grad * sig * (pre * (T(1) - sig) + T(1));
  }

  // grad_x_t needs grad_pre at t .. t + reach, so a tile also computes the first steps of its
  // successor; the first tile reaches back over the initial state.
  template <int Fixed>
  int32_t backward(const Task &task) const {
    const int64_t begin = task.begin, end = task.end;
    const int64_t last = std::min(end + reach, task.series.length);
    const int64_t span = end - begin + 2 * reach;
    auto padded = scratch<V>(span);  // grad_pre from begin - reach to end + reach, zero outside
    Filter<Fixed> f(k.width), grad_f(k.width);
    if (!padded || !f.w || !grad_f.w) return TSM_OUT_OF_MEMORY;
    const auto grad_at = [&](int64_t t) -> V & { return padded[t - begin + reach]; };
    for (int64_t d = 0; d < k.channels; d += W) {
      const int lanes = lanes_at(d);
      seat(f, task, d, lanes);
      grad_f.bias = V{};
      for (int64_t j = 0; j < f.width; ++j) grad_f.w[j] = V{};
      for (int64_t i = 0; i < span; ++i) padded[i] = V{};
      for (int64_t t = begin; t < last; ++t) {
        V pre = f.next(input(task, t, d, lanes));
        const V grad = grad_at(t) = grad_pre(task, t, d, lanes, pre);
        if (t >= end) continue;
        grad_f.bias += grad;
        TSM_UNROLL
        for (int64_t j = 0; j < f.width; ++j) grad_f.w[j] += grad * f.x[j];
      }
      for (int64_t t = begin == 0 && k.grad_initial_state ? -reach : begin; t < end; ++t) {
        V grad_x{};
        TSM_UNROLL
        for (int64_t j = 0; j < f.width; ++j) grad_x += f.w[j] * grad_at(t + reach - j);
        if (t < 0) {
          S::store(lane(k.grad_initial_state, state_row(task, t) + d), grad_x, lanes);
          continue;
        }
        if (missing(k.mask, task.series, t)) grad_x = V{};
        S::store(row<E>(k.grad_x, task.series, t, d), grad_x, lanes);
      }
      for (int64_t j = 0; j < f.width; ++j)
        S::store(lane(k.grad_weight_t, (task.tile * f.width + j) * k.channels + d), grad_f.w[j], lanes);
      if (k.grad_bias) S::store(lane(k.grad_bias, task.tile * k.channels + d), grad_f.bias, lanes);
    }
    return TSM_OK;
  }

  // The series that a tile belongs to: the last one that has no more tiles before it.
  int64_t series_of(int64_t tile) const {
    if (!k.series) return tile / ((k.length + k.tile - 1) / k.tile);
    const auto before = [](int64_t tile, const tsm_series &s) { return tile < s.piece; };
    return std::upper_bound(k.series, k.series + k.batch, tile, before) - k.series - 1;
  }

  int32_t run(int32_t (Conv::*pass)(const Task &) const) const {
    return parallel_for(k.tiles, k.threads, [&](int64_t i) {
      const int64_t index = series_of(i);
      const tsm_series series = series_at(k.series, index, k.length, k.tile);
      const int64_t begin = (i - series.piece) * k.tile;
      return (this->*pass)({series, index, i, begin, std::min(begin + k.tile, series.length)});
    });
  }

 public:
  explicit Conv(const tsm_conv_args &args) : k(args), reach(args.width - 1) {}
  int32_t run_forward() const {
    return run(k.width == 4 ? &Conv::forward<4> : &Conv::forward<0>);
  }
  int32_t run_backward() const {
    return run(k.width == 4 ? &Conv::backward<4> : &Conv::backward<0>);
  }
};

}  // namespace

int32_t conv_fwd_f32(const tsm_conv_args *args) { return Conv<float, float>(*args).run_forward(); }
int32_t conv_fwd_f64(const tsm_conv_args *args) { return Conv<double, double>(*args).run_forward(); }
int32_t conv_fwd_bf16(const tsm_conv_args *args) { return Conv<float, Bf16>(*args).run_forward(); }
int32_t conv_bwd_f32(const tsm_conv_args *args) { return Conv<float, float>(*args).run_backward(); }
int32_t conv_bwd_f64(const tsm_conv_args *args) { return Conv<double, double>(*args).run_backward(); }
int32_t conv_bwd_bf16(const tsm_conv_args *args) { return Conv<float, Bf16>(*args).run_backward(); }

}  // namespace TSM_ISA
