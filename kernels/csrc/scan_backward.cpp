// Selective scan, backward pass, for one instruction set; scan_tile.h tells how the work is cut.
//
// Tiles are taken from last to first. From the state that the forward pass saved before a tile, the
// states within are recomputed; then the adjoint recurrence runs down the tile:
//
//   g_t = grad_h_t + C_t grad_y_t,   grad_h_{t-1} = exp(dt_t A) g_t
#include "scan_tile.h"

namespace TSM_ISA {
namespace {

template <class T, class E>
class ScanBackward : ScanTask<T, E> {
  using Base = ScanTask<T, E>;
  using typename Base::Block, typename Base::Part, typename Base::Place, typename Base::Steps;
  using typename Base::S, typename Base::Tile, typename Base::V;
  using Base::k, Base::N, Base::K, Base::unrolled, Base::W, Base::ln2;

  // The states of a group over a tile, and the gradients of B and C of the tile: for each group and
  // step one vector, K lanes of B and K of C.
  struct Record {
    std::unique_ptr<V[], AlignedDelete> h, maps;
    Record(int64_t chunk, int64_t slots)
        : h(scratch<V>((chunk + 1) * K)), maps(scratch<V>(chunk * slots)) {}
    bool allocated() const { return h && maps; }
  };
  int64_t slots() const { return N / K + N % K; }
  int64_t slot(int64_t n) const { return n < N / K * K ? n / K : n - N / K * K + N / K; }

  // Adjoint state and sums over time, for each block.
  struct Grads {
    V *h, *a;  // (blocks, N)
    V *d_skip, *bias;
  };

  // Through the gate: grad_y takes the place of grad_out, and slope is filled.
  void open_backward(const Steps &s) const {
    const bool gated = k.z.data;
    for (int64_t i = 0; i < s.live; i += unrolled) {
      for (int j = 0; j < unrolled; ++j) s.grad_input[i + j] = s.grad_log2[i + j] = V{};
      if (!gated) continue;
      V gate[unrolled];
      for (int j = 0; j < unrolled; ++j) gate[j] = s.z[i + j];
      S::template sigmoid<unrolled>(gate);
      for (int j = 0; j < unrolled; ++j) {
        const V z = s.z[i + j], grad = s.grad_out[i + j];
        s.slope[i + j] = grad * gate[j] * (z * (T(1) - gate[j]) + T(1));
        s.grad_out[i + j] = grad * z * gate[j];
      }
    }
  }

  // The recurrence of Count states again, keeping them.
  template <int Count>
  void record(const Steps &s, const V *a2, const V *before, int64_t n, V *kept, Ahead &ahead) const {
    const int64_t states = N, live = s.live, span = s.span;
    const T *b = s.b + n, *c = s.c + n;
    const V *const input = s.input, *const decay = s.decay;
    V *const sum = s.y, h[Count];
    for (int j = 0; j < Count; ++j) {
      Base::decays(s, a2[j], s.decay + j * span);
      ahead.fetch();
      kept[j] = h[j] = before[j];
    }
    for (int64_t i = 0; i < live; ++i, b += states, c += states) {
      V y = sum[i];
      kept += Count;
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) {
        kept[j] = h[j] = decay[j * span + i] * h[j] + input[i] * b[j];
        y += h[j] * c[j];
      }
      sum[i] = y;
    }
  }

  // The adjoint recurrence of Count states: adds to grad_input, to grad_log2, which is the gradient
  // of dt by way of the decays in units of log2(e), and to the gradients of B and C.
  template <int Count>
  void adjoint(const Steps &s, const V *a2, int64_t n, const V *kept, V *grad_maps, V *state_grad,
               V *a_grad) const {
    const int64_t states = N, span = s.span;
    const V *const decay = s.decay;
    V grad_h[Count], grad_a[Count];
    for (int j = 0; j < Count; ++j) grad_h[j] = state_grad[j], grad_a[j] = a_grad[j];
    for (int64_t i = s.live - 1; i >= 0; --i) {
      const T *b = s.b + i * states + n, *c = s.c + i * states + n;
      const V grad_y = s.grad_out[i], dt = s.dt[i], input = s.input[i];
      const V *before = kept + i * Count, *after = before + Count;
      V grad_input = s.grad_input[i], grad_log2 = s.grad_log2[i], sums[W];
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) {
        const V grad = grad_h[j] + grad_y * c[j];
        sums[j] = grad * input;
        sums[K + j] = grad_y * after[j];
        grad_input += grad * b[j];
        grad_h[j] = grad * decay[j * span + i];
        const V grad_exponent = grad_h[j] * before[j];
        grad_log2 += grad_exponent * a2[j];
        grad_a[j] += grad_exponent * dt;
      }
      TSM_UNROLL
      for (int j = Count; j < K; ++j) sums[j] = sums[K + j] = V{};
      grad_maps[i] += S::transpose_sum(sums);
      s.grad_input[i] = grad_input;
      s.grad_log2[i] = grad_log2;
    }
    for (int j = 0; j < Count; ++j) state_grad[j] = grad_h[j], a_grad[j] = grad_a[j];
  }

  // Last phase: through the skip connection and through dt, its scale, the clip and softplus. Each
  // gradient takes the place of its operand.
  void close_backward(const Block &q, const Steps &s, V *sum_d_skip, V *sum_bias) const {
    const T low = T(k.dt_min), high = T(k.dt_max);
    const bool gated = k.z.data, scaled = k.grad_dt_scale.data, softplus = k.softplus;
    V d_skip = *sum_d_skip, bias = *sum_bias;
    for (int64_t i = 0; i < s.live; i += unrolled) {
      V slope[unrolled];
      for (int j = 0; j < unrolled; ++j) slope[j] = s.delta[i + j] + q.bias;
      if (softplus) S::template sigmoid<unrolled>(slope);
      for (int64_t t = i; t < i + unrolled && t < s.live; ++t) {
        const V u = s.u[t], grad_y = s.grad_out[t], grad_input = s.grad_input[t], size = s.size[t];
        s.u[t] = grad_y * q.d_skip + grad_input * s.dt[t];
        if (gated) s.z[t] = s.slope[t] * (s.y[t] + q.d_skip * u);
        d_skip += grad_y * u;
        const V grad_scaled = grad_input * u + s.grad_log2[t] * ln2;
        V grad = Base::scaled(s, t, grad_scaled);
        grad = size < low || size > high ? V{} : grad;
        s.delta[t] = softplus ? grad * slope[t - i] : grad;
        bias += s.delta[t];
        if (scaled) s.scale[t] = grad_scaled * Base::clipped(size);
      }
    }
    *sum_d_skip = d_skip;
    *sum_bias = bias;
  }

  void run_block(const Part &p, int64_t block, const V *a2, Steps s, const void *saved,
                 const Record &kept, const Grads &g, Ahead ahead) const {
    const Block q = Base::block_of(p, block, a2);
    Base::open(q, s);
    open_backward(s);
    ahead.share(N);
    Base::each_group([&](auto count, int64_t n) {
      constexpr int states = decltype(count)::value;
      V before[states];
      for (int j = 0; j < states; ++j)
        before[j] = S::load(Base::lane(saved, (n + j) * k.channels + p.channel(block)),
                            p.lanes(block));
      record<states>(s, q.a2 + n, before, n, kept.h.get(), ahead);
      const int64_t cell = block * N + n;
      adjoint<states>(s, q.a2 + n, n, kept.h.get(), &kept.maps[slot(n) * k.chunk], g.h + cell,
                      g.a + cell);
    });
    close_backward(q, s, g.d_skip + block, g.bias + block);
  }

  void run_strip(const Part &p, const Tile &tile, Place here, int64_t end, const V *a2,
                 const void *saved, const Record &kept, const Grads &g) const {
    const int64_t first = here.first;
    const Place next = end < p.blocks() ? Place{here.chunk, end} : Place{here.chunk - 1, 0};
    Base::stage_inputs(p, tile, first, end);
    Base::template stage<E>(k.grad_out, p, tile, first, end, Base::at_grad_out);
    for (int64_t block = first; block < end; ++block) {
      Ahead ahead = Base::inputs_ahead(p, next, block - first);
      if (next.chunk >= 0) Base::template want_block<E>(ahead, k.grad_out, p, next, block - first);
      for (const tsm_view &v : {k.grad_u, k.grad_delta, k.grad_z})
        Base::template want_block<E>(ahead, v, p, here, block - first, true);
      run_block(p, block, a2, tile.steps(block - first, N), saved, kept, g, ahead);
    }
    Base::template unstage<E>(k.grad_u, p, tile, first, end, Base::at_u);
    Base::template unstage<E>(k.grad_delta, p, tile, first, end, Base::at_delta);
    Base::template unstage<E>(k.grad_z, p, tile, first, end, Base::at_z);
    Base::template unstage<T>(k.grad_dt_scale, p, tile, first, end, Base::at_scale);
  }

  // What the blocks of a tile added up for B and C, to memory.
  void store_maps(const Part &p, const Tile &tile, const V *maps) const {
    int64_t i = 0;
    for (int64_t t = tile.begin; t < tile.end; ++t) {
      T *grad_b = row<T>(k.grad_b, p.series, t, p.split * k.grad_b.inner_stride + p.group * N);
      T *grad_c = row<T>(k.grad_c, p.series, t, p.split * k.grad_c.inner_stride + p.group * N);
      const bool live = i < tile.live && tile.t[i] == t;
      for (int64_t n = 0; n < N; ++n) {
        const V &sums = maps[slot(n) * k.chunk + i];
        const int j = n < N / K * K ? int(n % K) : 0;
        grad_b[n] = live ? sums[j] : T(0);
        grad_c[n] = live ? sums[K + j] : T(0);
      }
      i += live;
    }
  }

  int32_t run_part(const Part &p) const {
    const int64_t blocks = p.blocks(), cells = blocks * N;
    auto a2 = scratch<V>(cells), grad_h = scratch<V>(cells), grad_a = scratch<V>(cells);
    auto grad_d = scratch<V>(blocks), grad_bias = scratch<V>(blocks);
    Tile tile(k.chunk, N);
    Record kept(k.chunk, slots());
    if (!a2 || !grad_h || !grad_a || !grad_d || !grad_bias || !tile.allocated() ||
        !kept.allocated())
      return TSM_OUT_OF_MEMORY;
    if (!Base::load_a(p, a2.get())) return TSM_POSITIVE_A;
    Base::gather(Base::states_at(k.grad_final_state, p.index), p, grad_h.get());
    for (int64_t j = 0; j < cells; ++j) grad_a[j] = V{};
    for (int64_t j = 0; j < blocks; ++j) grad_d[j] = grad_bias[j] = V{};
    const Grads grads{grad_h.get(), grad_a.get(), grad_d.get(), grad_bias.get()};
    for (int64_t chunk = Base::chunks(p) - 1; chunk >= 0; --chunk) {
      Base::seat(p, tile, chunk);
      const void *saved = Base::states_at(k.chunk_states, p.series.piece + chunk);
      for (int64_t j = 0; j < k.chunk * slots(); ++j) kept.maps[j] = V{};
      Base::each_strip(p, [&](int64_t first, int64_t end) {
        run_strip(p, tile, {chunk, first}, end, a2.get(), saved, kept, grads);
      });
      store_maps(p, tile, kept.maps.get());
    }
    Base::scatter(grad_a.get(), p, Base::states_at(k.grad_a_t, p.index));
    if (k.grad_initial_state)
      Base::scatter(grad_h.get(), p, Base::states_at(k.grad_initial_state, p.index));
    if (k.grad_d_skip)
      Base::scatter_channels(grad_d.get(), p, Base::channels_at(k.grad_d_skip, p.index));
    if (k.grad_delta_bias)
      Base::scatter_channels(grad_bias.get(), p, Base::channels_at(k.grad_delta_bias, p.index));
    return TSM_OK;
  }

  // ---- the adjoint state alone: from zero, the gradient of the state before a series -------------

  // One state.
  void carry(const Steps &s, V a2, const T *c, V *grad_h) const {
    V grad = *grad_h;
    Base::decays(s, a2, s.decay);
    for (int64_t i = s.live - 1; i >= 0; --i)
      grad = (grad + s.grad_out[i] * c[i * N]) * s.decay[i];
    *grad_h = grad;
  }

  void carry_strip(const Part &p, const Tile &tile, int64_t first, int64_t end, const V *a2,
                   V *grad_h, V *total_dt) const {
    Base::stage_inputs(p, tile, first, end);
    Base::template stage<E>(k.grad_out, p, tile, first, end, Base::at_grad_out);
    for (int64_t block = first; block < end; ++block) {
      const Block q = Base::block_of(p, block, a2);
      Steps s = tile.steps(block - first, N);
      Base::open(q, s);
      open_backward(s);
      Base::add_dt(s, total_dt + block);
      for (int64_t n = 0; n < N; ++n) carry(s, q.a2[n], s.c + n, grad_h + block * N + n);
    }
  }

  int32_t carry_part(const Part &p) const {
    const int64_t blocks = p.blocks();
    auto a2 = scratch<V>(blocks * N), grad_h = scratch<V>(blocks * N), total = scratch<V>(blocks);
    Tile tile(k.chunk, N);
    if (!a2 || !grad_h || !total || !tile.allocated()) return TSM_OUT_OF_MEMORY;
    if (!Base::load_a(p, a2.get())) return TSM_POSITIVE_A;
    for (int64_t j = 0; j < blocks * N; ++j) grad_h[j] = V{};
    for (int64_t j = 0; j < blocks; ++j) total[j] = V{};
    for (int64_t chunk = Base::chunks(p) - 1; chunk >= 0; --chunk) {
      Base::seat(p, tile, chunk);
      Base::each_strip(p, [&](int64_t first, int64_t end) {
        carry_strip(p, tile, first, end, a2.get(), grad_h.get(), total.get());
      });
    }
    Base::scatter(grad_h.get(), p, Base::states_at(k.grad_initial_state, p.index));
    Base::scatter_channels(total.get(), p, Base::channels_at(k.total_dt, p.index));
    return TSM_OK;
  }

 public:
  explicit ScanBackward(const tsm_scan_args &args) : Base(args) {}
  int32_t run() const {
    const bool carried = k.total_dt;
    return Base::each_part([&](const Part &p) { return carried ? carry_part(p) : run_part(p); });
  }
};

}  // namespace

int32_t scan_bwd_f32(const tsm_scan_args *args) { return ScanBackward<float, float>(*args).run(); }
int32_t scan_bwd_f64(const tsm_scan_args *args) { return ScanBackward<double, double>(*args).run(); }
int32_t scan_bwd_bf16(const tsm_scan_args *args) { return ScanBackward<float, Bf16>(*args).run(); }

}  // namespace TSM_ISA
