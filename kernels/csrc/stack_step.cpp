// One time step through every layer of a causal stack, for one instruction set.
//
//   x <- x + out_proj(scan_step(silu(conv(in_proj(norm(x))))))   for each layer, then norm_f
//
// A task takes some streams through all layers. What makes a step cheap is to leave out all that is
// not arithmetic: weights are laid out once, so that every product reads them in order, and a row of
// activations never leaves first-level cache.
#include <algorithm>
#include <cmath>

#include "kernels.h"
#include "parallel.h"
#include "simd.h"

namespace TSM_ISA {
namespace {

class StackStep {
  using S = Simd<float>;
  using V = S::V;
  static constexpr int W = S::W;
  static constexpr int vectors = TSM_PANEL / W;                       // of a row of a panel
  static constexpr int rows = 12 / vectors > 1 ? 12 / vectors : 1;    // streams that share a load
  static constexpr int partials = 8 / vectors > 1 ? 8 / vectors : 1;  // sums of a single stream
  static constexpr int64_t most_streams = 24;                         // of one task
  static constexpr int unrolled = 4;

  const tsm_stack_args &k;
  const int64_t M, E, N, gains, selected;  // padded sizes; N is as it is
  const int64_t rows_of_state;

  static int64_t padded(int64_t n) { return (n + TSM_PANEL - 1) / TSM_PANEL * TSM_PANEL; }

  // The activations of a task: rows of streams.
  struct Rows {
    int64_t streams;
    std::unique_ptr<float[], AlignedDelete> memory;
    float *x, *normed, *inner, *gate, *selection, *gain, *dt;
  };

  Rows allocate(int64_t streams) const {
    const int64_t widths[] = {M, M, E, E, selected, gains, E};
    int64_t total = 0;
    for (int64_t w : widths) total += w * streams;
    Rows r{streams, scratch<float>(total), {}, {}, {}, {}, {}, {}, {}};
    float *next = r.memory.get(), **field = &r.x;
    for (int64_t w : widths) {
      *field++ = next;
      next += w * streams;
    }
    return r;
  }

  // R rows times one panel, added to `out`. A single row has several sums, or it would wait for
  // each multiply-add to finish before the next.
  template <int R>
  static void multiply(const float *in, int64_t in_stride, int64_t n, const float *panel, float *out,
                       int64_t out_stride) {
    constexpr int P = R == 1 ? partials : 1;
    V sum[P][R][vectors] = {};
    int64_t i = 0;
    for (; i + P <= n; i += P)
      TSM_UNROLL
      for (int p = 0; p < P; ++p) {
        TSM_UNROLL
        for (int c = 0; c < vectors; ++c) {
          const V weight = S::load(panel + (i + p) * TSM_PANEL + c * W);
          TSM_UNROLL
          for (int r = 0; r < R; ++r) sum[p][r][c] += weight * in[r * in_stride + i + p];
        }
      }
    for (; i < n; ++i)
      for (int c = 0; c < vectors; ++c)
        for (int r = 0; r < R; ++r)
          sum[0][r][c] += S::load(panel + i * TSM_PANEL + c * W) * in[r * in_stride + i];
    for (int r = 0; r < R; ++r)
      for (int c = 0; c < vectors; ++c) {
        float *to = out + r * out_stride + c * W;
        V total = S::load(to);
        for (int p = 0; p < P; ++p) total += sum[p][r][c];
        S::store(to, total);
      }
  }

  // out (streams, m) += in (streams, n) times a matrix in panels.
  static void product(int64_t streams, const float *in, int64_t in_stride, int64_t n,
                      const float *weight, float *out, int64_t m) {
    for (int64_t column = 0; column < m; column += TSM_PANEL, weight += n * TSM_PANEL) {
      int64_t r = 0;
      for (; r + rows <= streams; r += rows)
        multiply<rows>(in + r * in_stride, in_stride, n, weight, out + r * m + column, m);
      for (; r < streams; ++r)
        multiply<1>(in + r * in_stride, in_stride, n, weight, out + r * m + column, m);
    }
  }
  // Rows that start at a bias, or at zero.
  static void fill(int64_t streams, const float *bias, float *out, int64_t m) {
    for (int64_t r = 0; r < streams; ++r)
      if (bias) std::copy_n(bias, m, out + r * m);
      else std::fill_n(out + r * m, m, 0.0f);
  }

  void norm(const Rows &r, const float *weight, float *out) const {
    for (int64_t s = 0; s < r.streams; ++s) {
      const float *x = r.x + s * M;
      V squares{};
      for (int64_t d = 0; d < M; d += W) squares += S::load(x + d) * S::load(x + d);
      float sum = 0;
      for (int i = 0; i < W; ++i) sum += squares[i];
      const float scale = 1 / std::sqrt(sum / float(k.model) + k.eps);
      for (int64_t d = 0; d < M; d += W)
        S::store(out + s * M + d, S::load(x + d) * scale * S::load(weight + d));
    }
  }

  float *state(int64_t stream, int64_t layer) const {
    const int64_t slot = k.slot ? k.slot[stream] : stream;
    return k.state + (slot * k.layers + layer) * rows_of_state * E;
  }
  // The rows of one block of lanes in the state of a layer, TSM_LINE numbers apart.
  float *block(float *state, int64_t d) const {
    return state + d / TSM_LINE * rows_of_state * TSM_LINE + d % TSM_LINE;
  }

  // Asks for the state of a stream, so that it arrives while the products are computed.
  void fetch(const float *state) const {
    for (int64_t i = 0; i < rows_of_state * E; i += TSM_LINE) __builtin_prefetch(state + i, 1, 2);
  }

  // x <- f(x), a row of a panel at a time: one vector alone would wait for each of its operations.
  template <class F>
  static void each_panel(float *x, int64_t size, const F &f) {
    for (int64_t i = 0; i < size; i += TSM_PANEL) {
      V v[vectors];
      for (int j = 0; j < vectors; ++j) v[j] = S::load(x + i + j * W);
      f(v);
      for (int j = 0; j < vectors; ++j) S::store(x + i + j * W, v[j]);
    }
  }
  static void silu(V *x) {
    V sigmoid[vectors];
    for (int j = 0; j < vectors; ++j) sigmoid[j] = x[j];
    S::sigmoid<vectors>(sigmoid);
    for (int j = 0; j < vectors; ++j) x[j] *= sigmoid[j];
  }

  // Filters `inner` in place and moves the window on by one step.
  void convolve(const tsm_layer &l, float *inner, float *state) const {
    const int64_t last = k.width - 1;
    for (int64_t d = 0; d < E; d += W) {
      float *const window = block(state, d);
      const V newest = S::load(inner + d);
      V sum = l.conv_bias ? S::load(l.conv_bias + d) : V{};
      for (int64_t j = 0; j < last; ++j) {
        const V x = S::load(window + j * TSM_LINE);
        sum += x * S::load(l.conv_t + j * E + d);
        if (j) S::store(window + (j - 1) * TSM_LINE, x);
      }
      if (last) S::store(window + (last - 1) * TSM_LINE, newest);
      sum += newest * S::load(l.conv_t + last * E + d);
      S::store(inner + d, sum);
    }
    each_panel(inner, E, silu);
  }

  // B and C of one stream times the sigmoids of their logits.
  void scale_selection(float *selection, float *logits) const {
    each_panel(logits, gains, [this](V *x) {
      for (int j = 0; j < vectors; ++j)
        x[j] = S::at_most(S::at_least(x[j], -k.gain_limit), k.gain_limit);
      S::sigmoid<vectors>(x);
    });
    for (int64_t n = 0; n < 2 * N; ++n) selection[k.rank + n] *= logits[n];
  }

  // Turns `inner` into the gated output of the scan. `gate` and `dt` come as the products left them.
  void scan(const tsm_layer &l, float *inner, float *gate, const float *selection, float *dts,
            float dt_scale, float *state) const {
    each_panel(gate, E, silu);
    each_panel(dts, E, S::softplus<vectors>);
    const float *b = selection + k.rank, *c = b + N;
    for (int64_t d = 0; d < E; d += W) {
      float *const h = block(state, d) + (k.width - 1) * TSM_LINE;
      const V dt = S::load(dts + d) * dt_scale, u = S::load(inner + d), input = dt * u;
      V y = u * S::load(l.d_skip + d), first{}, power = S::splat(1);
      if (k.tied) {
        const V rate = S::load(l.a_t + d);
        S::exp2<false, 1>(&rate, dt, &first);
      }
      const auto advance = [&](int64_t n, V decay) {
        const V next = decay * S::load(h + n * TSM_LINE) + input * b[n];
        S::store(h + n * TSM_LINE, next);
        y += next * c[n];
      };
      int64_t n = 0;
      for (; n + unrolled <= N; n += unrolled) {
        V decay[unrolled];
        if (k.tied) {
          for (int j = 0; j < unrolled; ++j) decay[j] = power *= first;
        } else {
          V rate[unrolled];
          for (int j = 0; j < unrolled; ++j) rate[j] = S::load(l.a_t + (n + j) * E + d);
          S::exp2<false, unrolled>(rate, dt, decay);
        }
        for (int j = 0; j < unrolled; ++j) advance(n + j, decay[j]);
      }
      for (; n < N; ++n) {
        V decay = power *= first;
        if (!k.tied) {
          const V rate = S::load(l.a_t + n * E + d);
          S::exp2<false, 1>(&rate, dt, &decay);
        }
        advance(n, decay);
      }
      S::store(inner + d, y * S::load(gate + d));
    }
  }

  void run_layer(const tsm_layer &l, int64_t layer, int64_t first, const Rows &r) const {
    for (int64_t s = 0; s < r.streams; ++s) fetch(state(first + s, layer));
    norm(r, l.norm, r.normed);
    fill(r.streams, l.in_bias, r.inner, E);
    fill(r.streams, l.in_bias ? l.in_bias + E : nullptr, r.gate, E);
    product(r.streams, r.normed, M, k.model, l.in_proj, r.inner, E);
    product(r.streams, r.normed, M, k.model, l.in_proj + E * k.model, r.gate, E);
    for (int64_t s = 0; s < r.streams; ++s)
      convolve(l, r.inner + s * E, state(first + s, layer));
    fill(r.streams, nullptr, r.selection, selected);
    product(r.streams, r.inner, E, k.inner, l.x_proj, r.selection, selected);
    if (l.gain_proj) {
      fill(r.streams, l.gain_bias, r.gain, gains);
      product(r.streams, r.inner, E, k.inner, l.gain_proj, r.gain, gains);
      for (int64_t s = 0; s < r.streams; ++s)
        scale_selection(r.selection + s * selected, r.gain + s * gains);
    }
    fill(r.streams, l.dt_bias, r.dt, E);
    product(r.streams, r.selection, selected, k.rank, l.dt_proj, r.dt, E);
    for (int64_t s = 0; s < r.streams; ++s)
      scan(l, r.inner + s * E, r.gate + s * E, r.selection + s * selected, r.dt + s * E,
           k.dt_scale ? k.dt_scale[first + s] : 1.0f, state(first + s, layer));
    if (l.out_bias)
      for (int64_t s = 0; s < r.streams; ++s)
        for (int64_t d = 0; d < M; ++d) r.x[s * M + d] += l.out_bias[d];
    product(r.streams, r.inner, E, k.inner, l.out_proj, r.x, M);
  }

  int32_t run_streams(int64_t first, int64_t end) const {
    const Rows r = allocate(end - first);
    if (!r.memory) return TSM_OUT_OF_MEMORY;
    fill(r.streams, nullptr, r.x, M);
    for (int64_t s = 0; s < r.streams; ++s)
      std::copy_n(k.x + (first + s) * k.model, k.model, r.x + s * M);
    for (int64_t i = 0; i < k.layers; ++i) run_layer(k.layer[i], i, first, r);
    norm(r, k.norm_f, r.normed);
    for (int64_t s = 0; s < r.streams; ++s)
      std::copy_n(r.normed + s * M, k.model, k.out + (first + s) * k.model);
    return TSM_OK;
  }

 public:
  explicit StackStep(const tsm_stack_args &args)
      : k(args), M(padded(args.model)), E(padded(args.inner)), N(args.states),
        gains(padded(2 * args.states)), selected(padded(args.rank + 2 * args.states)),
        rows_of_state(args.width - 1 + args.states) {}

  int32_t run() const {
    const int64_t share = (k.streams + k.threads - 1) / k.threads;
    const int64_t size = std::clamp<int64_t>(share, 1, most_streams);
    return parallel_for((k.streams + size - 1) / size, k.threads, [&](int64_t i) {
      return run_streams(i * size, std::min((i + 1) * size, k.streams));
    });
  }
};

}  // namespace

int32_t stack_step_f32(const tsm_stack_args *args) { return StackStep(*args).run(); }

}  // namespace TSM_ISA
