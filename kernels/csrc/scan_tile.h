// What both passes of the selective scan share: the walk over tiles and the step sizes.
//
//   dt = clip(softplus(delta + bias), dt_min, dt_max) * dt_scale
//   h  = exp(dt A) h + dt B u,   y = C h + D u,   out = y silu(z)
//
// Lanes are channels. A task walks the tiles of time of its channels in order, and within a tile it
// takes strips of channels. The rows of a strip are staged: read as they lie in memory, one after the
// other, and laid out so that each block of W channels finds its steps side by side. A block then does
// the tile in phases. The first makes the step sizes. Next a few states at a time, K of them, pass
// over all steps: the states stay in registers, what they leave behind in first-level cache. The last
// applies the gate. Results take the place of what was staged and go back to memory row by row.
// Missing steps are not staged, so that no phase knows of them.
#pragma once

#include <initializer_list>
#include <limits>

#include "ahead.h"
#include "kernels.h"
#include "parallel.h"
#include "series.h"
#include "simd.h"

namespace TSM_ISA {

// T is the type of the arithmetic, E that of the rows of u, delta, z, B, C and out.
template <class T, class E>
class ScanTask {
 protected:
  using S = Simd<T>;
  using V = typename S::V;
  static constexpr int W = S::W;
  static constexpr int K = W / 2;     // the sums of K states over lanes, twice, fill one vector
  static constexpr int unrolled = 4;  // steps side by side in the phases without a recurrence
  static constexpr T log2e = T(1.4426950408889634), ln2 = T(0.69314718055994531);

  // One series and the share of a group's channels that one task owns, in blocks of W lanes.
  struct Part {
    tsm_series series;
    int64_t index, group, split, first, end;
    int64_t blocks() const { return (end - first + W - 1) / W; }
    int64_t channel(int64_t block) const { return first + block * W; }
    int lanes(int64_t block) const {
      int64_t left = end - channel(block);
      return left < W ? int(left) : W;
    }
  };

  // The constants of a block of channels.
  struct Block {
    V d_skip, bias;
    const V *a2;  // A log2(e), (N,)
  };

  // The observed steps of one block in a tile: what was staged, and what the phases hand on.
  struct Steps {
    int64_t live;
    V longest;                                // dt, for each lane
    V *u, *delta, *z, *scale, *grad_out;      // staged; results overwrite them
    V *size, *dt, *input, *y;                 // size: before clip and scale; input = dt u; y = C h
    V *first, *power;                         // tied decays: exp(dt A_1), and that of states done
    V *grad_input, *grad_log2, *slope;        // slope = grad_z / y
    V *decay;                                 // exp(dt A) of up to K states, `span` steps each
    int64_t span;
    const T *b, *c, *step_scale;              // step_scale: a dt_scale that channels share
  };

  // The memory behind the steps of a strip.
  struct Tile {
    static constexpr int staged = 5, passed = 9 + K;
    static constexpr int64_t strip = 512 / sizeof(V);  // blocks: some cache lines of every row
    int64_t span, begin, end, live;
    std::unique_ptr<int64_t[], AlignedDelete> t;  // places of the observed steps
    std::unique_ptr<T[], AlignedDelete> maps;     // rows of B, then of C, and the shared dt_scale
    std::unique_ptr<V[], AlignedDelete> vectors;

    Tile(int64_t chunk, int64_t states)
        : span(chunk + unrolled), t(scratch<int64_t>(chunk)),
          maps(scratch<T>((2 * states + 1) * span)),
          vectors(scratch<V>((staged * strip + passed) * span)) {}
    bool allocated() const { return t && maps && vectors; }
    V *stage(int operand) const { return &vectors[operand * strip * span]; }

    Steps steps(int64_t block, int64_t states) const {
      V *const at = &vectors[block * span], *const more = &vectors[staged * strip * span];
      const int64_t next = strip * span;
      const T *const b = maps.get();
      return {live, V{}, at, at + next, at + 2 * next, at + 3 * next, at + 4 * next,
              more, more + span, more + 2 * span, more + 3 * span, more + 4 * span,
              more + 5 * span, more + 6 * span, more + 7 * span, more + 8 * span,
              more + 9 * span, span, b, b + live * states, b + 2 * live * states};
    }
  };

  const tsm_scan_args &k;
  const int64_t N;

  explicit ScanTask(const tsm_scan_args &args) : k(args), N(args.states) {}

  static const T *lane(const void *p, int64_t offset) { return static_cast<const T *>(p) + offset; }
  static T *lane(void *p, int64_t offset) { return static_cast<T *>(p) + offset; }

  int64_t chunks(const Part &p) const { return (p.series.length + k.chunk - 1) / k.chunk; }

  Block block_of(const Part &p, int64_t i, const V *a2) const {
    const int64_t d = p.channel(i);
    const int lanes = p.lanes(i);
    return {k.d_skip ? S::load(lane(k.d_skip, d), lanes) : V{},
            k.delta_bias ? S::load(lane(k.delta_bias, d), lanes) : V{}, a2 + i * N};
  }

  // Points a tile at a chunk: its observed steps and what all channels share of them.
  void seat(const Part &p, Tile &tile, int64_t chunk) const {
    const int64_t length = p.series.length, states = N;
    tile.begin = chunk * k.chunk;
    tile.end = tile.begin + k.chunk < length ? tile.begin + k.chunk : length;
    tile.live = 0;
    for (int64_t t = tile.begin; t < tile.end; ++t)
      if (!missing(k.mask, p.series, t)) tile.t[tile.live++] = t;
    T *b = tile.maps.get(), *c = b + tile.live * states, *scale = c + tile.live * states;
    for (int64_t i = 0; i < tile.live; ++i) {
      const int64_t t = tile.t[i];
      const E *from_b = row<E>(k.b, p.series, t, p.group * k.b.inner_stride);
      const E *from_c = row<E>(k.c, p.series, t, p.group * k.c.inner_stride);
      for (int64_t n = 0; n < states; ++n) {
        b[i * states + n] = widen(from_b[n]);
        c[i * states + n] = widen(from_c[n]);
      }
      if (k.dt_scale.data && !k.dt_scale.inner_stride) scale[i] = *row<T>(k.dt_scale, p.series, t, 0);
    }
    for (int i = 0; i < unrolled; ++i) scale[tile.live + i] = T(0);
  }

  // Calls pass(first, end) for the strips of a part's blocks.
  template <class F>
  void each_strip(const Part &p, const F &pass) const {
    for (int64_t first = 0; first < p.blocks(); first += Tile::strip)
      pass(first, first + Tile::strip < p.blocks() ? first + Tile::strip : p.blocks());
  }

  // Rows of the blocks from `first` to `end`, from memory to the stage and back. The phases take
  // steps in groups of `unrolled`, so the stage ends with zeros.
  template <class X>
  void stage(const tsm_view &v, const Part &p, const Tile &tile, int64_t first, int64_t end,
             int operand) const {
    if (!v.data) return;
    V *const to = tile.stage(operand);
    const int64_t whole = p.lanes(end - 1) == W ? end : end - 1;
    for (int64_t i = 0; i < tile.live; ++i) {
      const X *const from = row<X>(v, p.series, tile.t[i], p.channel(first));
      for (int64_t j = first; j < whole; ++j)
        to[(j - first) * tile.span + i] = S::load(from + (j - first) * W);
      if (whole < end)
        to[(whole - first) * tile.span + i] = S::load(from + (whole - first) * W, p.lanes(whole));
    }
    for (int64_t j = first; j < end; ++j)
      for (int i = 0; i < unrolled; ++i) to[(j - first) * tile.span + tile.live + i] = V{};
  }
  template <class X>
  void unstage(const tsm_view &v, const Part &p, const Tile &tile, int64_t first, int64_t end,
               int operand) const {
    if (!v.data) return;
    const V *const from = tile.stage(operand);
    int64_t i = 0;
    for (int64_t t = tile.begin; t < tile.end; ++t) {
      X *const to = row<X>(v, p.series, t, p.channel(first));
      const bool live = i < tile.live && tile.t[i] == t;
      for (int64_t j = first; j < end; ++j)
        S::store(to + (j - first) * W, live ? from[(j - first) * tile.span + i] : V{}, p.lanes(j));
      i += live;
    }
  }
  // The operands by their place on the stage; each pass moves those that it has.
  enum Operand { at_u, at_delta, at_z, at_scale, at_grad_out };

  void stage_inputs(const Part &p, const Tile &tile, int64_t first, int64_t end) const {
    stage<E>(k.u, p, tile, first, end, at_u);
    stage<E>(k.delta, p, tile, first, end, at_delta);
    stage<E>(k.z, p, tile, first, end, at_z);
    if (k.dt_scale.inner_stride) stage<T>(k.dt_scale, p, tile, first, end, at_scale);
  }

  // Where the walk over strips stands.
  struct Place {
    int64_t chunk, first;
  };
  // The lines of a view that the rows of a chunk hold from `inner` on, or one line of each.
  template <class X>
  void want(Ahead &ahead, const tsm_view &v, const Part &p, int64_t chunk, int64_t inner,
            int64_t bytes, bool write = false) const {
    if (!v.data) return;
    const int64_t begin = chunk * k.chunk, left = p.series.length - begin;
    const auto *const first = reinterpret_cast<const char *>(row<X>(v, p.series, begin, inner));
    for (int64_t line = 0; line < bytes; line += Ahead::line)
      ahead.want(first + line, v.time_stride * int64_t(sizeof(X)), left < k.chunk ? left : k.chunk,
                 write);
  }
  // What block i of the strip at a place reads or writes of a view.
  template <class X>
  void want_block(Ahead &ahead, const tsm_view &v, const Part &p, Place at, int64_t i,
                  bool write = false) const {
    const int64_t channel = p.channel(at.first + i), bytes = W * sizeof(X);
    // Blocks narrower than a line share it; the first asks for it.
    if (channel < p.end && channel * int64_t(sizeof(X)) % Ahead::line < bytes)
      want<X>(ahead, v, p, at.chunk, channel, bytes, write);
  }

  // What block i of the strip at a place will read, and if it is the first of a chunk, B and C as well.
  Ahead inputs_ahead(const Part &p, Place next, int64_t i) const {
    Ahead ahead;
    if (next.chunk < 0 || next.chunk >= chunks(p)) return ahead;
    for (const tsm_view &v : {k.u, k.delta, k.z}) want_block<E>(ahead, v, p, next, i);
    if (i || next.first) return ahead;
    for (const tsm_view &v : {k.b, k.c})
      want<E>(ahead, v, p, next.chunk, p.group * v.inner_stride, N * sizeof(E));
    return ahead;
  }

  // To the exponential a NaN with its sign bit set is a very negative number.
  static V plain_nan(V x) {
    return x == x ? x : S::splat(std::numeric_limits<T>::quiet_NaN());
  }

  V scaled(const Steps &s, int64_t i, V dt) const {
    if (!k.dt_scale.data) return dt;
    return dt * (k.dt_scale.inner_stride ? s.scale[i] : S::splat(s.step_scale[i]));
  }
  V clipped(V dt) const { return S::at_most(S::at_least(dt, T(k.dt_min)), T(k.dt_max)); }

  // First phase: fills size, dt and input, and clears y.
  void open(const Block &q, Steps &s) const {
    V longest{};
    const bool softplus = k.softplus;
    for (int64_t i = 0; i < s.live; i += unrolled) {
      V size[unrolled];
      for (int j = 0; j < unrolled; ++j) size[j] = s.delta[i + j] + q.bias;
      if (softplus) S::template softplus<unrolled>(size);
      for (int j = 0; j < unrolled; ++j) {
        const V dt = plain_nan(scaled(s, i + j, clipped(size[j])));
        s.size[i + j] = size[j];
        s.dt[i + j] = dt;
        s.input[i + j] = dt * s.u[i + j];
        s.y[i + j] = V{};
        longest = dt > longest ? dt : longest;
      }
    }
    s.longest = longest;
    if (k.tied && N)
      for (int64_t i = 0; i < s.live; i += unrolled) {
        S::template exp2<false, unrolled>(s.dt + i, q.a2[0], s.first + i);
        for (int j = 0; j < unrolled; ++j) s.power[i + j] = S::splat(1);
      }
  }

  static void add_dt(const Steps &s, V *total) {
    for (int64_t i = 0; i < s.live; ++i) *total += s.dt[i];
  }

  // The decays exp(dt A) of one state at all steps. Tied states must be taken in order.
  void decays(const Steps &s, V a2, V *out) const {
    if (k.tied) {
      for (int64_t i = 0; i < s.live; ++i) out[i] = s.power[i] *= s.first[i];
      return;
    }
    const V least = s.longest * a2;
    bool bounded = true;
    for (int i = 0; i < W; ++i) bounded &= least[i] >= S::least_exponent;
    if (bounded)
      for (int64_t i = 0; i < s.live; i += unrolled)
        S::template exp2<true, unrolled>(s.dt + i, a2, out + i);
    else
      for (int64_t i = 0; i < s.live; i += unrolled)
        S::template exp2<false, unrolled>(s.dt + i, a2, out + i);
  }

  // Calls pass(count, n) for groups of states that cover all N; count is a constant.
  template <class F>
  void each_group(const F &pass) const {
    int64_t n = 0;
    for (; n + K <= N; n += K) pass(std::integral_constant<int, K>{}, n);
    for (; n < N; ++n) pass(std::integral_constant<int, 1>{}, n);
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
  // One vector a block to a (D,) row.
  void scatter_channels(const V *src, const Part &p, void *dst) const {
    for (int64_t i = 0; i < p.blocks(); ++i)
      S::store(lane(dst, p.channel(i)), src[i], p.lanes(i));
  }
  // The slice of an (index, N, D) array, or null.
  void *states_at(const void *states, int64_t index) const {
    return states ? lane(const_cast<void *>(states), index * N * k.channels) : nullptr;
  }
  void *channels_at(void *rows, int64_t index) const { return lane(rows, index * k.channels); }

  // A log2(e) of a part's blocks; false if an entry is positive.
  bool load_a(const Part &p, V *a2) const {
    gather(k.a_t, p, a2);
    bool positive = false;
    for (int64_t j = 0; j < p.blocks() * N; ++j) {
      for (int i = 0; i < W; ++i) positive |= a2[j][i] > 0;
      a2[j] = plain_nan(a2[j] * log2e);
    }
    return !positive;
  }

  // Runs pass(part) for every series, group and split.
  template <class F>
  int32_t each_part(const F &pass) const {
    const int64_t tasks = k.batch * k.groups * k.splits, per_group = k.channels / k.groups;
    const int64_t blocks = (per_group + W - 1) / W;
    return parallel_for(tasks, k.threads, [&](int64_t i) {
      const int64_t split = i % k.splits, group = i / k.splits % k.groups;
      const int64_t index = i / k.splits / k.groups;
      const int64_t origin = group * per_group, last = origin + per_group;
      const int64_t end = origin + blocks * (split + 1) / k.splits * W;
      return pass(Part{series_at(k.series, index, k.length, k.chunk), index, group, split,
                       origin + blocks * split / k.splits * W, end < last ? end : last});
    });
  }
};

}  // namespace TSM_ISA
