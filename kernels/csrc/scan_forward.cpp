// Selective scan, forward pass, for one instruction set; scan_tile.h tells how the work is cut.
#include "scan_tile.h"

namespace TSM_ISA {
namespace {

template <class T, class E>
class ScanForward : ScanTask<T, E> {
  using Base = ScanTask<T, E>;
  using typename Base::Block, typename Base::Part, typename Base::Place, typename Base::Steps;
  using typename Base::S, typename Base::Tile, typename Base::V;
  using Base::k, Base::N, Base::unrolled;

  // Count states from the n-th pass over the tile.
  template <int Count>
  void recur(const Steps &s, const V *a2, V *state, int64_t n, Ahead &ahead) const {
    const int64_t states = N, live = s.live, span = s.span;
    const T *b = s.b + n, *c = s.c + n;
    const V *const input = s.input, *const decay = s.decay;
    V *const sum = s.y, h[Count];
    for (int j = 0; j < Count; ++j) {
      Base::decays(s, a2[n + j], s.decay + j * span);
      ahead.fetch();
      h[j] = state[n + j];
    }
    for (int64_t i = 0; i < live; ++i, b += states, c += states) {
      V y = sum[i];
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) {
        h[j] = decay[j * span + i] * h[j] + input[i] * b[j];
        y += h[j] * c[j];
      }
      sum[i] = y;
    }
    for (int j = 0; j < Count; ++j) state[n + j] = h[j];
  }

  // Last phase: skip connection and gate. The output takes the place of u.
  void close(const Block &q, const Steps &s) const {
    const bool gated = k.z.data;
    for (int64_t i = 0; i < s.live; i += unrolled) {
      V y[unrolled], gate[unrolled];
      for (int j = 0; j < unrolled; ++j) y[j] = s.y[i + j] + q.d_skip * s.u[i + j];
      if (gated) {
        for (int j = 0; j < unrolled; ++j) gate[j] = s.z[i + j];
        S::template sigmoid<unrolled>(gate);
        for (int j = 0; j < unrolled; ++j) y[j] *= s.z[i + j] * gate[j];
      }
      for (int j = 0; j < unrolled; ++j) s.u[i + j] = y[j];
    }
  }

  void run_strip(const Part &p, const Tile &tile, Place here, int64_t end, const V *a2, V *h,
                 V *total_dt) const {
    const int64_t first = here.first;
    const Place next = end < p.blocks() ? Place{here.chunk, end} : Place{here.chunk + 1, 0};
    Base::stage_inputs(p, tile, first, end);
    for (int64_t block = first; block < end; ++block) {
      const Block q = Base::block_of(p, block, a2);
      Steps s = tile.steps(block - first, N);
      Base::open(q, s);
      Ahead ahead = Base::inputs_ahead(p, next, block - first);
      Base::template want_block<E>(ahead, k.out, p, here, block - first, true);
      ahead.share(N);
      Base::each_group([&](auto count, int64_t n) {
        recur<decltype(count)::value>(s, q.a2, h + block * N, n, ahead);
      });
      if (k.total_dt) Base::add_dt(s, total_dt + block);
      if (k.out.data) close(q, s);
    }
    Base::template unstage<E>(k.out, p, tile, first, end, Base::at_u);
  }

  int32_t run_part(const Part &p) const {
    const int64_t blocks = p.blocks();
    auto a2 = scratch<V>(blocks * N), h = scratch<V>(blocks * N), total_dt = scratch<V>(blocks);
    Tile tile(k.chunk, N);
    if (!a2 || !h || !total_dt || !tile.allocated()) return TSM_OUT_OF_MEMORY;
    if (!Base::load_a(p, a2.get())) return TSM_POSITIVE_A;
    Base::gather(Base::states_at(k.initial_state, p.index), p, h.get());
    for (int64_t i = 0; i < blocks; ++i) total_dt[i] = V{};
    for (int64_t chunk = 0; chunk < Base::chunks(p); ++chunk) {
      Base::seat(p, tile, chunk);
      if (k.chunk_states)
        Base::scatter(h.get(), p, Base::states_at(k.chunk_states, p.series.piece + chunk));
      Base::each_strip(p, [&](int64_t first, int64_t end) {
        run_strip(p, tile, {chunk, first}, end, a2.get(), h.get(), total_dt.get());
      });
    }
    if (k.final_state) Base::scatter(h.get(), p, Base::states_at(k.final_state, p.index));
    if (k.total_dt) Base::scatter_channels(total_dt.get(), p, Base::channels_at(k.total_dt, p.index));
    return TSM_OK;
  }

 public:
  explicit ScanForward(const tsm_scan_args &args) : Base(args) {}
  int32_t run() const {
    return Base::each_part([this](const Part &p) { return run_part(p); });
  }
};

}  // namespace

int32_t scan_fwd_f32(const tsm_scan_args *args) { return ScanForward<float, float>(*args).run(); }
int32_t scan_fwd_f64(const tsm_scan_args *args) { return ScanForward<double, double>(*args).run(); }
int32_t scan_fwd_bf16(const tsm_scan_args *args) { return ScanForward<float, Bf16>(*args).run(); }

}  // namespace TSM_ISA
