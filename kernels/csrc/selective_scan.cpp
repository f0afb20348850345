// Selective scan, forward and backward, for one instruction set.
//
//   dt = clip(softplus(delta + bias), dt_min, dt_max) * dt_scale
//   h  = exp(dt A) h + dt B u,   y = C h + D u,   out = y silu(z)
//
// Lanes are channels and time is innermost, so a state never leaves the registers and first-level
// cache while a tile of time passes over it. A task walks the tiles of its channels in order; within
// a tile it takes one block of W channels after the other, so that B and C stay cached and each row
// of u, delta and out is read as a whole.
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

  // What one block of channels needs of time step t, in registers.
  struct Step {
    V u, dt, raw, scale;  // raw = delta + bias before softplus
    const T *b, *c;
  };

  // One block of lanes: pointers to its rows and the constants of its channels.
  struct Block {
    int lanes;
    int64_t d;
    V d_skip, bias;
    const V *a2;  // A log2(e), (N,)
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

  Step step_of(const Part &p, const Block &q, int64_t t) const {
    Step s;
    s.u = S::load(row(k.u, p.batch, t, q.d), q.lanes);
    s.raw = S::load(row(k.delta, p.batch, t, q.d), q.lanes) + q.bias;
    s.dt = k.softplus ? S::softplus(s.raw) : s.raw;
    s.dt = S::at_most(S::at_least(s.dt, T(k.dt_min)), T(k.dt_max));
    if (k.dt_scale.data) {
      const T *scale = row(k.dt_scale, p.batch, t, 0);
      s.scale = k.dt_scale.inner_stride ? S::load(scale + q.d, q.lanes) : S::splat(*scale);
      s.dt *= s.scale;
    }
    s.b = row(k.b, p.batch, t, p.group * k.b.inner_stride);
    s.c = row(k.c, p.batch, t, p.group * k.c.inner_stride);
    return s;
  }

  // (N, D) rows at `src` to blocks of lanes, and back.
  void gather(const void *src, const Part &p, V *dst) const {
    for (int64_t i = 0; i < p.blocks(); ++i)
      for (int64_t n = 0; n < N; ++n)
        dst[i * N + n] =
            src ? S::load(lane(src, n * k.channels + p.channel(i)), p.lanes(i)) : V{};
  }
  void scatter(const V *src, const Part &p, void *dst) const {
    for (int64_t i = 0; i < p.blocks(); ++i) scatter_block(src + i * N, p, i, dst);
  }
  void scatter_block(const V *src, const Part &p, int64_t i, void *dst) const {
    for (int64_t n = 0; n < N; ++n)
      S::store(lane(dst, n * k.channels + p.channel(i)), src[n], p.lanes(i));
  }
  // The batch's slice of a (B, N, D) array, or null.
  void *states_at(const void *states, int64_t index) const {
    return states ? lane(const_cast<void *>(states), index * N * k.channels) : nullptr;
  }
  int64_t chunks() const { return (k.length + k.chunk - 1) / k.chunk; }

  // ---- forward -------------------------------------------------------------------------------

  // Fixed > 0 makes the number of states a constant, so that h and the loop live in registers.
  template <int Fixed>
  void forward_tile(const Part &p, const Block &q, V *state, int64_t begin, int64_t end) const {
    const int64_t states = Fixed ? Fixed : N;
    V fixed[Fixed ? Fixed : 1];
    V *h = Fixed ? fixed : state;
    if (Fixed)
      for (int n = 0; n < Fixed; ++n) h[n] = state[n];
    for (int64_t t = begin; t < end; ++t) {
      T *out = row(k.out, p.batch, t, q.d);
      if (skipped(p, t)) {
        S::store(out, V{}, q.lanes);
        continue;
      }
      Step s = step_of(p, q, t);
      V input = s.dt * s.u, y = q.d_skip * s.u;
      TSM_UNROLL
      for (int64_t n = 0; n < states; ++n) {
        h[n] = S::exp2(s.dt * q.a2[n]) * h[n] + input * s.b[n];
        y += h[n] * s.c[n];
      }
      if (k.z.data) {
        V z = S::load(row(k.z, p.batch, t, q.d), q.lanes);
        y *= z * S::sigmoid(z);
      }
      S::store(out, y, q.lanes);
    }
    if (Fixed)
      for (int n = 0; n < Fixed; ++n) state[n] = h[n];
  }

  int32_t forward(const Part &p) const {
    const int64_t cells = p.blocks() * N;
    auto a2 = scratch<V>(cells), h = scratch<V>(cells);
    if (!a2 || !h) return TSM_OUT_OF_MEMORY;
    if (!load_a(p, a2.get())) return TSM_POSITIVE_A;
    gather(states_at(k.initial_state, p.batch), p, h.get());
    for (int64_t chunk = 0; chunk < chunks(); ++chunk) {
      const int64_t begin = chunk * k.chunk, end = begin + k.chunk;
      if (k.chunk_states)
        scatter(h.get(), p, states_at(k.chunk_states, p.batch * chunks() + chunk));
      for (int64_t i = 0; i < p.blocks(); ++i)
        (this->*forward_tile_)(p, block_of(p, i, a2.get()), h.get() + i * N, begin,
                               end < k.length ? end : k.length);
    }
    if (k.final_state) scatter(h.get(), p, states_at(k.final_state, p.batch));
    return TSM_OK;
  }
  void (Scan::*forward_tile_)(const Part &, const Block &, V *, int64_t, int64_t) const;

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

  // States and decays of one tile, recomputed: h[0] is the state before it.
  struct Tape {
    V *h, *a;  // (chunk + 1, N), (chunk, N)
    V *y;      // (chunk,): C h + D u, before the gate
    Step *step;
  };

  void record_tile(const Part &p, const Block &q, const Tape &tape, int64_t begin,
                   int64_t end) const {
    for (int64_t t = begin; t < end; ++t) {
      const V *before = tape.h + (t - begin) * N;
      V *h = tape.h + (t - begin + 1) * N, *a = tape.a + (t - begin) * N;
      if (skipped(p, t)) {
        for (int64_t n = 0; n < N; ++n) h[n] = before[n];
        continue;
      }
      Step s = step_of(p, q, t);
      V input = s.dt * s.u, y = q.d_skip * s.u;
      TSM_UNROLL
      for (int64_t n = 0; n < N; ++n) {
        a[n] = S::exp2(s.dt * q.a2[n]);
        h[n] = a[n] * before[n] + input * s.b[n];
        y += h[n] * s.c[n];
      }
      tape.y[t - begin] = y;
      tape.step[t - begin] = s;
    }
  }

  void skip_backward(const Part &p, const Block &q, int64_t t) const {
    S::store(row(k.grad_u, p.batch, t, q.d), V{}, q.lanes);
    S::store(row(k.grad_delta, p.batch, t, q.d), V{}, q.lanes);
    if (k.grad_z.data) S::store(row(k.grad_z, p.batch, t, q.d), V{}, q.lanes);
    if (k.grad_dt_scale.data) S::store(row(k.grad_dt_scale, p.batch, t, q.d), V{}, q.lanes);
  }

  // Through the gate, where there is one: returns grad_y and stores grad_z.
  V gate_backward(const Part &p, const Block &q, int64_t t, V y) const {
    V grad = S::load(row(k.grad_out, p.batch, t, q.d), q.lanes);
    if (!k.z.data) return grad;
    V z = S::load(row(k.z, p.batch, t, q.d), q.lanes), sig = S::sigmoid(z);
    S::store(row(k.grad_z, p.batch, t, q.d), grad * y * sig * (z * (T(1) - sig) + T(1)), q.lanes);
    return grad * z * sig;
  }

  // Through dt_scale, the clip and softplus: stores grad_delta and returns it.
  V step_size_backward(const Part &p, const Block &q, int64_t t, const Step &s, V grad_dt) const {
    V unclipped = k.softplus ? S::softplus(s.raw) : s.raw;
    if (k.grad_dt_scale.data) {
      V dt = S::at_most(S::at_least(unclipped, T(k.dt_min)), T(k.dt_max));
      S::store(row(k.grad_dt_scale, p.batch, t, q.d), grad_dt * dt, q.lanes);
    }
    if (k.dt_scale.data) grad_dt *= s.scale;
    grad_dt = unclipped < T(k.dt_min) || unclipped > T(k.dt_max) ? V{} : grad_dt;
    if (k.softplus) grad_dt *= S::sigmoid(s.raw);
    S::store(row(k.grad_delta, p.batch, t, q.d), grad_dt, q.lanes);
    return grad_dt;
  }

  void backward_tile(const Part &p, const Block &q, const Tape &tape, const Grads &g,
                     int64_t begin, int64_t end) const {
    for (int64_t t = end - 1; t >= begin; --t) {
      if (skipped(p, t)) {
        skip_backward(p, q, t);
        continue;
      }
      const Step &s = tape.step[t - begin];
      const V *before = tape.h + (t - begin) * N, *h = before + N, *a = tape.a + (t - begin) * N;
      V grad_y = gate_backward(p, q, t, tape.y[t - begin]);
      V input = s.dt * s.u, grad_input{}, grad_log2{};
      T *grad_b = row(k.grad_b, p.batch, t, p.split * k.grad_b.inner_stride + p.group * N);
      T *grad_c = row(k.grad_c, p.batch, t, p.split * k.grad_c.inner_stride + p.group * N);
      for (int64_t n0 = 0; n0 < N; n0 += W) {
        const int count = N - n0 < W ? int(N - n0) : W;
        V to_b[W], to_c[W];
        TSM_UNROLL
        for (int j = 0; j < count; ++j) {
          const int64_t n = n0 + j;
          V grad_h = g.h[n] + grad_y * s.c[n];
          to_c[j] = grad_y * h[n];
          to_b[j] = grad_h * input;
          grad_input += grad_h * s.b[n];
          grad_h *= a[n];
          g.h[n] = grad_h;
          V grad_exponent = grad_h * before[n];
          grad_log2 += grad_exponent * q.a2[n];
          g.a[n] += grad_exponent * s.dt;
        }
        for (int j = count; j < W; ++j) to_b[j] = to_c[j] = V{};
        S::store(grad_b + n0, S::load(grad_b + n0, count) + S::transpose_sum(to_b), count);
        S::store(grad_c + n0, S::load(grad_c + n0, count) + S::transpose_sum(to_c), count);
      }
      S::store(row(k.grad_u, p.batch, t, q.d), grad_y * q.d_skip + grad_input * s.dt, q.lanes);
      *g.d_skip += grad_y * s.u;
      *g.bias += step_size_backward(p, q, t, s, grad_input * s.u + grad_log2 * ln2);
    }
  }

  int32_t backward(const Part &p) const {
    const int64_t blocks = p.blocks(), cells = blocks * N;
    auto a2 = scratch<V>(cells), grad_h = scratch<V>(cells), grad_a = scratch<V>(cells);
    auto sums = scratch<V>(2 * blocks), y = scratch<V>(k.chunk);
    auto h = scratch<V>((k.chunk + 1) * N), a = scratch<V>(k.chunk * N);
    auto steps = scratch<Step>(k.chunk);
    if (!a2 || !grad_h || !grad_a || !sums || !y || !h || !a || !steps) return TSM_OUT_OF_MEMORY;
    if (!load_a(p, a2.get())) return TSM_POSITIVE_A;
    gather(states_at(k.grad_final_state, p.batch), p, grad_h.get());
    for (int64_t j = 0; j < cells; ++j) grad_a[j] = V{};
    for (int64_t j = 0; j < 2 * blocks; ++j) sums[j] = V{};
    const Tape tape{h.get(), a.get(), y.get(), steps.get()};
    for (int64_t chunk = chunks() - 1; chunk >= 0; --chunk) {
      const int64_t begin = chunk * k.chunk;
      const int64_t end = begin + k.chunk < k.length ? begin + k.chunk : k.length;
      const void *saved = states_at(k.chunk_states, p.batch * chunks() + chunk);
      for (int64_t i = 0; i < blocks; ++i) {
        const Block q = block_of(p, i, a2.get());
        for (int64_t n = 0; n < N; ++n)
          tape.h[n] = S::load(lane(saved, n * k.channels + q.d), q.lanes);
        record_tile(p, q, tape, begin, end);
        const Grads g{&grad_h[i * N], &grad_a[i * N], &sums[2 * i], &sums[2 * i + 1]};
        backward_tile(p, q, tape, g, begin, end);
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
      : k(args), N(args.states),
        forward_tile_(args.states == 16 ? &Scan::forward_tile<16> : &Scan::forward_tile<0>) {}

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
