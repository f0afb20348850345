// Selective scan, forward and backward, for one instruction set.
//
//   dt = clip(softplus(delta + bias), dt_min, dt_max) * dt_scale
//   h  = exp(dt A) h + dt B u,   y = C h + D u,   out = y silu(z)
//
// Lanes are channels and time is innermost, so a state never leaves the registers and first-level
// cache while a tile of time passes over it. A task walks the tiles of its channels in order; within
// a tile it takes one block of W channels after the other, so that B and C stay cached and each row
// of u, delta and out is read as a whole. A tile is done in phases: step sizes first, then the
// recurrence, then the gate. The long chains of softplus and sigmoid then overlap from step to step
// instead of holding up the recurrence, and missing steps drop out before it.
// The backward pass takes the tiles from last to first, recomputes the states of a tile from the one
// the forward pass saved before it, and then runs the adjoint recurrence down the tile:
//
//   g_t = grad_h_t + C_t grad_y_t,   grad_h_{t-1} = exp(dt_t A) g_t
#include <limits>

#include "kernels.h"
#include "parallel.h"
#include "simd.h"

namespace TSM_ISA {
namespace {

template <class T>
class Scan {
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int W = S::W;
  static constexpr T log2e = T(1.4426950408889634), ln2 = T(0.69314718055994531);

  // The share of a group's channels that one task owns, in blocks of W lanes.
  struct Part {
    int64_t batch, group, split, first, end;
    int64_t blocks() const { return (end - first + W - 1) / W; }
    int64_t channel(int64_t block) const { return first + block * W; }
    int lanes(int64_t block) const {
      int64_t left = end - channel(block);
      return left < W ? int(left) : W;
    }
  };

  // The observed steps of a tile and what the phases hand on, one vector a step.
  struct Tile {
    int64_t begin, end, live;
    bool bounded;                    // no dt A of this block falls below the range of exp2
    int64_t *t;                      // (live,): places of the observed steps
    V *u, *dt, *input, *y;           // input = dt u, y = C h
    V *grad_y, *grad_input, *grad_log2;
  };
  static constexpr int tile_vectors = 7;
  static constexpr int group = 4;  // exponentials in flight

  // One block of lanes and the constants of its channels.
  struct Block {
    int lanes;
    int64_t d;
    V d_skip, bias;
    const V *a2;  // A log2(e), (N,)
  };

  // The rows of one operand at one block. A copy of its view, so that the compiler need not read
  // it anew after every store; Full makes the number of lanes a constant.
  template <bool Full>
  struct Rows {
    T *origin;
    int64_t stride;
    int lanes;
    Rows(const tsm_view &v, const Part &p, const Block &q)
        : origin(v.data ? row(v, p.batch, 0, q.d) : nullptr), stride(v.time_stride),
          lanes(Full ? W : q.lanes) {}
    V load(int64_t t) const { return S::load(origin + t * stride, lanes); }
    void store(int64_t t, V v) const { S::store(origin + t * stride, v, lanes); }
  };

  const tsm_scan_args &k;
  const int64_t N;

  static T *row(const tsm_view &v, int64_t batch, int64_t t, int64_t inner) {
    return static_cast<T *>(v.data) + batch * v.batch_stride + t * v.time_stride + inner;
  }
  static const T *lane(const void *p, int64_t offset) { return static_cast<const T *>(p) + offset; }
  static T *lane(void *p, int64_t offset) { return static_cast<T *>(p) + offset; }

  bool skipped(const Part &p, int64_t t) const {
    return k.mask.data && !static_cast<const uint8_t *>(
               k.mask.data)[p.batch * k.mask.batch_stride + t * k.mask.time_stride];
  }

  Block block_of(const Part &p, int64_t i, const V *a2) const {
    int64_t d = p.channel(i);
    int lanes = p.lanes(i);
    return {lanes, d, k.d_skip ? S::load(lane(k.d_skip, d), lanes) : V{},
            k.delta_bias ? S::load(lane(k.delta_bias, d), lanes) : V{}, a2 + i * N};
  }

  static Tile tile_on(V *vectors, int64_t *places, int64_t chunk) {
    V *v[tile_vectors];
    for (int i = 0; i < tile_vectors; ++i) v[i] = vectors + i * chunk;
    return {0, 0, 0, false, places, v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  }

  // The step sizes of one block: raw = delta + bias, then softplus, then the clip, then the scale.
  template <bool Full>
  struct StepSizes {
    const Rows<Full> delta, scale;
    const V bias;
    const T low, high;
    const bool softplus, scaled, scaled_by_channel;
    StepSizes(const tsm_scan_args &k, const Part &p, const Block &q)
        : delta(k.delta, p, q), scale(k.dt_scale, p, k.dt_scale.inner_stride ? q : Block{}),
          bias(q.bias), low(T(k.dt_min)), high(T(k.dt_max)), softplus(k.softplus),
          scaled(k.dt_scale.data), scaled_by_channel(k.dt_scale.inner_stride) {}
    V raw(int64_t t) const { return delta.load(t) + bias; }
    V unclipped(V raw) const { return softplus ? S::softplus(raw) : raw; }
    V clipped(V dt) const { return S::at_most(S::at_least(dt, low), high); }
    V scaled_by(V dt, int64_t t) const {
      if (!scaled) return dt;
      return dt * (scaled_by_channel ? scale.load(t) : S::splat(scale.origin[t * scale.stride]));
    }
  };

  // First phase: fills u, dt and input.
  template <bool Full>
  void open_tile(const Part &p, const Block &q, Tile &tile) const {
    const Rows<Full> us(k.u, p, q);
    const StepSizes<Full> sizes(k, p, q);
    V longest{};
    for (int64_t i = 0; i < tile.live; ++i) {
      const int64_t t = tile.t[i];
      V dt = sizes.scaled_by(sizes.clipped(sizes.unclipped(sizes.raw(t))), t), u = us.load(t);
      tile.u[i] = u;
      tile.dt[i] = dt;
      tile.input[i] = dt * u;
      longest = dt > longest ? dt : longest;
    }
    V fastest{};
    for (int64_t n = 0; n < N; ++n) fastest = q.a2[n] < fastest ? q.a2[n] : fastest;
    tile.bounded = true;
    for (int i = 0; i < W; ++i) tile.bounded &= longest[i] * fastest[i] >= S::least_exponent;
  }

  template <bool Full>
  void store_zeros(const tsm_view &v, const Part &p, const Block &q, const Tile &tile) const {
    if (!v.data || tile.live == tile.end - tile.begin) return;
    const Rows<Full> rows(v, p, q);
    for (int64_t t = tile.begin; t < tile.end; ++t)
      if (skipped(p, t)) rows.store(t, V{});
  }

  // (N, D) rows at `src` to blocks of lanes, and back.
  void gather(const void *src, const Part &p, V *dst) const {
    for (int64_t i = 0; i < p.blocks(); ++i)
      for (int64_t n = 0; n < N; ++n)
        dst[i * N + n] =
            src ? S::load(lane(src, n * k.channels + p.channel(i)), p.lanes(i)) : V{};
  }
  void scatter(const V *src, const Part &p, void *dst) const {
    for (int64_t i = 0; i < p.blocks(); ++i)
      for (int64_t n = 0; n < N; ++n)
        S::store(lane(dst, n * k.channels + p.channel(i)), src[i * N + n], p.lanes(i));
  }
  // The batch's slice of a (B, N, D) array, or null.
  void *states_at(const void *states, int64_t index) const {
    return states ? lane(const_cast<void *>(states), index * N * k.channels) : nullptr;
  }
  int64_t chunks() const { return (k.length + k.chunk - 1) / k.chunk; }

  // ---- forward -------------------------------------------------------------------------------

  // Fixed > 0 makes the number of states a constant, so that h and the loop live in registers.
  template <int Fixed, bool Bounded>
  void recur(const Part &p, const Tile &tile, const V *a2, V *state) const {
    const int64_t states = Fixed ? Fixed : N;
    const T *b0 = row(k.b, p.batch, 0, p.group * k.b.inner_stride);
    const T *c0 = row(k.c, p.batch, 0, p.group * k.c.inner_stride);
    V fixed[Fixed ? Fixed : 1];
    V *h = Fixed ? fixed : state;
    if (Fixed)
      for (int n = 0; n < Fixed; ++n) h[n] = state[n];
    for (int64_t i = 0; i < tile.live; ++i) {
      const T *b = b0 + tile.t[i] * k.b.time_stride, *c = c0 + tile.t[i] * k.c.time_stride;
      const V dt = tile.dt[i], input = tile.input[i];
      V y{};
      const auto advance = [&](int64_t n, V decay) {
        h[n] = decay * h[n] + input * b[n];
        y += h[n] * c[n];
      };
      int64_t n = 0;
      TSM_UNROLL
      for (; n + group <= states; n += group) {
        V decay[group];
        S::template decays<Bounded, group>(dt, a2 + n, decay);
        TSM_UNROLL
        for (int j = 0; j < group; ++j) advance(n + j, decay[j]);
      }
      for (; n < states; ++n) advance(n, S::exp2(dt * a2[n]));
      tile.y[i] = y;
    }
    if (Fixed)
      for (int n = 0; n < Fixed; ++n) state[n] = h[n];
  }

  template <bool Full>
  void close_tile(const Part &p, const Block &q, const Tile &tile) const {
    const Rows<Full> out(k.out, p, q), gate(k.z, p, q);
    const bool gated = k.z.data;
    const V d_skip = q.d_skip;
    for (int64_t i = 0; i < tile.live; ++i) {
      const int64_t t = tile.t[i];
      V y = tile.y[i] + d_skip * tile.u[i];
      if (gated) {
        V z = gate.load(t);
        y *= z * S::sigmoid(z);
      }
      out.store(t, y);
    }
    store_zeros<Full>(k.out, p, q, tile);
  }

  template <bool Full>
  void forward_block(const Part &p, const Block &q, Tile &tile, V *h) const {
    open_tile<Full>(p, q, tile);
    if (N == 16)  // the usual number of states
      (this->*(tile.bounded ? &Scan::recur<16, true> : &Scan::recur<16, false>))(p, tile, q.a2, h);
    else
      (this->*(tile.bounded ? &Scan::recur<0, true> : &Scan::recur<0, false>))(p, tile, q.a2, h);
    close_tile<Full>(p, q, tile);
  }

  int32_t forward(const Part &p) const {
    const int64_t cells = p.blocks() * N;
    auto a2 = scratch<V>(cells), h = scratch<V>(cells), vectors = scratch<V>(tile_vectors * k.chunk);
    auto places = scratch<int64_t>(k.chunk);
    if (!a2 || !h || !vectors || !places) return TSM_OUT_OF_MEMORY;
    if (!load_a(p, a2.get())) return TSM_POSITIVE_A;
    gather(states_at(k.initial_state, p.batch), p, h.get());
    Tile tile = tile_on(vectors.get(), places.get(), k.chunk);
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      seat(p, tile, chunk);
      if (k.chunk_states)
        scatter(h.get(), p, states_at(k.chunk_states, p.batch * chunks() + chunk));
      for (int64_t i = 0; i < p.blocks(); ++i) {
        const Block q = block_of(p, i, a2.get());
        (this->*(q.lanes == W ? &Scan::forward_block<true> : &Scan::forward_block<false>))(
            p, q, tile, h.get() + i * N);
      }
    }
    if (k.final_state) scatter(h.get(), p, states_at(k.final_state, p.batch));
    return TSM_OK;
  }
  void seat(const Part &p, Tile &tile, int64_t chunk) const {
    tile.begin = chunk * k.chunk;
    tile.end = tile.begin + k.chunk < k.length ? tile.begin + k.chunk : k.length;
    tile.live = 0;
    for (int64_t t = tile.begin; t < tile.end; ++t)
      if (!skipped(p, t)) tile.t[tile.live++] = t;
  }

  bool load_a(const Part &p, V *a2) const {
    gather(k.a_t, p, a2);
    bool positive = false;
    for (int64_t j = 0; j < p.blocks() * N; ++j) {
      for (int i = 0; i < W; ++i) positive |= a2[j][i] > 0;
      // To exp2 a NaN with its sign bit set is a very negative number.
      a2[j] = a2[j] == a2[j] ? a2[j] * log2e : S::splat(std::numeric_limits<T>::quiet_NaN());
    }
    return !positive;
  }

  // ---- backward ------------------------------------------------------------------------------

  // Adjoint state and sums over time of one block.
  struct Grads {
    V *h, *a;  // (N,)
    V *d_skip, *bias;
  };

  // The recurrence again, keeping states and decays: h[0] is the state before the tile.
  template <bool Bounded>
  void record(const Part &p, const Tile &tile, const V *a2, V *h, V *a) const {
    const T *b0 = row(k.b, p.batch, 0, p.group * k.b.inner_stride);
    const T *c0 = row(k.c, p.batch, 0, p.group * k.c.inner_stride);
    for (int64_t i = 0; i < tile.live; ++i, a += N, h += N) {
      const T *b = b0 + tile.t[i] * k.b.time_stride, *c = c0 + tile.t[i] * k.c.time_stride;
      const V dt = tile.dt[i], input = tile.input[i];
      V y{};
      const auto advance = [&](int64_t n) {
        h[N + n] = a[n] * h[n] + input * b[n];
        y += h[N + n] * c[n];
      };
      int64_t n = 0;
      for (; n + group <= N; n += group) {
        S::template decays<Bounded, group>(dt, a2 + n, a + n);
        TSM_UNROLL
        for (int j = 0; j < group; ++j) advance(n + j);
      }
      for (; n < N; ++n) {
        a[n] = S::exp2(dt * a2[n]);
        advance(n);
      }
      tile.y[i] = y;
    }
  }

  // Through the gate: fills grad_y and stores grad_z.
  template <bool Full>
  void gate_backward(const Part &p, const Block &q, const Tile &tile) const {
    const Rows<Full> grad_out(k.grad_out, p, q), gate(k.z, p, q), grad_z(k.grad_z, p, q);
    const bool gated = k.z.data;
    const V d_skip = q.d_skip;
    for (int64_t i = 0; i < tile.live; ++i) {
      const int64_t t = tile.t[i];
      V grad = grad_out.load(t);
      if (gated) {
        V y = tile.y[i] + d_skip * tile.u[i], z = gate.load(t), sig = S::sigmoid(z);
        grad_z.store(t, grad * y * sig * (z * (T(1) - sig) + T(1)));
        grad *= z * sig;
      }
      tile.grad_y[i] = grad;
    }
    store_zeros<Full>(k.grad_z, p, q, tile);
  }

  // The adjoint recurrence: fills grad_input and grad_log2, the gradient of dt by way of the decay
  // in units of log2(e), and adds to grad_b and grad_c.
  void recur_backward(const Part &p, const Tile &tile, const V *a2, const V *h, const V *a,
                      const Grads &g) const {
    const T *b0 = row(k.b, p.batch, 0, p.group * k.b.inner_stride);
    const T *c0 = row(k.c, p.batch, 0, p.group * k.c.inner_stride);
    for (int64_t i = tile.live - 1; i >= 0; --i) {
      const int64_t t = tile.t[i];
      const T *b = b0 + t * k.b.time_stride, *c = c0 + t * k.c.time_stride;
      T *grad_b = row(k.grad_b, p.batch, t, p.split * k.grad_b.inner_stride + p.group * N);
      T *grad_c = row(k.grad_c, p.batch, t, p.split * k.grad_c.inner_stride + p.group * N);
      const V grad_y = tile.grad_y[i], dt = tile.dt[i], input = tile.input[i];
      const V *before = h + i * N, *after = before + N, *decay = a + i * N;
      V grad_input{}, grad_log2{};
      for (int64_t n0 = 0; n0 < N; n0 += W) {
        const int count = N - n0 < W ? int(N - n0) : W;
        V to_b[W], to_c[W];
        TSM_UNROLL
        for (int j = 0; j < count; ++j) {
          const int64_t n = n0 + j;
          V grad_h = g.h[n] + grad_y * c[n];
          to_c[j] = grad_y * after[n];
          to_b[j] = grad_h * input;
          grad_input += grad_h * b[n];
          grad_h *= decay[n];
          g.h[n] = grad_h;
          V grad_exponent = grad_h * before[n];
          grad_log2 += grad_exponent * a2[n];
          g.a[n] += grad_exponent * dt;
        }
        for (int j = count; j < W; ++j) to_b[j] = to_c[j] = V{};
        S::store(grad_b + n0, S::load(grad_b + n0, count) + S::transpose_sum(to_b), count);
        S::store(grad_c + n0, S::load(grad_c + n0, count) + S::transpose_sum(to_c), count);
      }
      tile.grad_input[i] = grad_input;
      tile.grad_log2[i] = grad_log2;
    }
  }

  // Through dt: its scale, the clip and softplus.
  template <bool Full>
  void step_backward(const Part &p, const Block &q, const Tile &tile, const Grads &g) const {
    const Rows<Full> grad_u(k.grad_u, p, q), grad_delta(k.grad_delta, p, q);
    const Rows<Full> grad_scale(k.grad_dt_scale, p, q);
    const StepSizes<Full> sizes(k, p, q);
    const bool scale_wanted = k.grad_dt_scale.data;
    const V d_skip = q.d_skip;
    V sum_d_skip = *g.d_skip, sum_bias = *g.bias;
    for (int64_t i = 0; i < tile.live; ++i) {
      const int64_t t = tile.t[i];
      const V u = tile.u[i], grad_y = tile.grad_y[i], grad_input = tile.grad_input[i];
      grad_u.store(t, grad_y * d_skip + grad_input * tile.dt[i]);
      sum_d_skip += grad_y * u;
      V grad_dt = grad_input * u + tile.grad_log2[i] * ln2;
      V raw = sizes.raw(t), unclipped = sizes.unclipped(raw);
      if (scale_wanted) grad_scale.store(t, grad_dt * sizes.clipped(unclipped));
      grad_dt = sizes.scaled_by(grad_dt, t);
      grad_dt = unclipped < sizes.low || unclipped > sizes.high ? V{} : grad_dt;
      if (sizes.softplus) grad_dt *= S::sigmoid(raw);
      grad_delta.store(t, grad_dt);
      sum_bias += grad_dt;
    }
    *g.d_skip = sum_d_skip;
    *g.bias = sum_bias;
    for (const tsm_view *v : {&k.grad_u, &k.grad_delta, &k.grad_dt_scale})
      store_zeros<Full>(*v, p, q, tile);
  }

  template <bool Full>
  void backward_block(const Part &p, const Block &q, Tile &tile, const Grads &g, V *h,
                      V *a) const {
    open_tile<Full>(p, q, tile);
    (this->*(tile.bounded ? &Scan::record<true> : &Scan::record<false>))(p, tile, q.a2, h, a);
    gate_backward<Full>(p, q, tile);
    recur_backward(p, tile, q.a2, h, a, g);
    step_backward<Full>(p, q, tile, g);
  }

  int32_t backward(const Part &p) const {
    const int64_t blocks = p.blocks(), cells = blocks * N;
    auto a2 = scratch<V>(cells), grad_h = scratch<V>(cells), grad_a = scratch<V>(cells);
    auto sums = scratch<V>(2 * blocks), vectors = scratch<V>(tile_vectors * k.chunk);
    auto h = scratch<V>((k.chunk + 1) * N), a = scratch<V>(k.chunk * N);
    auto places = scratch<int64_t>(k.chunk);
    if (!a2 || !grad_h || !grad_a || !sums || !vectors || !h || !a || !places)
      return TSM_OUT_OF_MEMORY;
    if (!load_a(p, a2.get())) return TSM_POSITIVE_A;
    gather(states_at(k.grad_final_state, p.batch), p, grad_h.get());
    for (int64_t j = 0; j < cells; ++j) grad_a[j] = V{};
    for (int64_t j = 0; j < 2 * blocks; ++j) sums[j] = V{};
    Tile tile = tile_on(vectors.get(), places.get(), k.chunk);
    for (int64_t chunk = chunks() - 1; chunk >= 0; --chunk) {
      seat(p, tile, chunk);
      const void *saved = states_at(k.chunk_states, p.batch * chunks() + chunk);
      for (int64_t i = 0; i < blocks; ++i) {
        const Block q = block_of(p, i, a2.get());
        const Grads g{&grad_h[i * N], &grad_a[i * N], &sums[2 * i], &sums[2 * i + 1]};
        for (int64_t n = 0; n < N; ++n) h[n] = S::load(lane(saved, n * k.channels + q.d), q.lanes);
        (this->*(q.lanes == W ? &Scan::backward_block<true> : &Scan::backward_block<false>))(
            p, q, tile, g, h.get(), a.get());
      }
    }
    scatter(grad_a.get(), p, states_at(k.grad_a_t, p.batch));
    if (k.grad_initial_state) scatter(grad_h.get(), p, states_at(k.grad_initial_state, p.batch));
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t offset = p.batch * k.channels + p.channel(i);
      if (k.grad_d_skip) S::store(lane(k.grad_d_skip, offset), sums[2 * i], p.lanes(i));
      if (k.grad_delta_bias) S::store(lane(k.grad_delta_bias, offset), sums[2 * i + 1], p.lanes(i));
    }
    return TSM_OK;
  }

 public:
  explicit Scan(const tsm_scan_args &args)
      : k(args), N(args.states) {}

  int32_t run(int32_t (Scan::*pass)(const Part &) const) const {
    const int64_t tasks = k.batch * k.groups * k.splits, per_group = k.channels / k.groups;
    const int64_t blocks = (per_group + W - 1) / W;
    return parallel_for(tasks, k.threads, [&](int64_t i) {
      const int64_t split = i % k.splits, group = i / k.splits % k.groups;
      const int64_t origin = group * per_group, last = origin + per_group;
      const int64_t end = origin + blocks * (split + 1) / k.splits * W;
      const Part p{i / k.splits / k.groups, group, split, origin + blocks * split / k.splits * W,
                   end < last ? end : last};
      return (this->*pass)(p);
    });
  }
  int32_t run_forward() const { return run(&Scan::forward); }
  int32_t run_backward() const { return run(&Scan::backward); }
};

}  // namespace

int32_t scan_fwd_f32(const tsm_scan_args *args) { return Scan<float>(*args).run_forward(); }
int32_t scan_fwd_f64(const tsm_scan_args *args) { return Scan<double>(*args).run_forward(); }
int32_t scan_bwd_f32(const tsm_scan_args *args) { return Scan<float>(*args).run_backward(); }
int32_t scan_bwd_f64(const tsm_scan_args *args) { return Scan<double>(*args).run_backward(); }

}  // namespace TSM_ISA
