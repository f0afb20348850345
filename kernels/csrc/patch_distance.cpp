// Distance of windows of a series to the nearest patch in memory, for one instruction set.
//
// A window becomes a point: means over blocks of rows; then, but for raw ones, less their mean and
// over their standard deviation (z) or its square root (half); then over the square root of their
// number, so that a squared distance is a mean. Lanes are patches in memory, so that no vector is
// ever summed across, and a few windows share each load. Differences are squared as they are: the
// textbook form |q|^2 - 2 q m + |m|^2 loses the small distances that matter here, and its rounding
// would depend on how many windows come together.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.h"
#include "parallel.h"
#include "simd.h"

namespace TSM_ISA {
namespace {

class PatchDistance {
  using S = Simd<float>;
  using V = S::V;
  static constexpr int vectors = TSM_LANES / S::W;
  static constexpr int together = 4;  // windows that share a load
  static constexpr int64_t most_points = 128;
  static constexpr float infinite = std::numeric_limits<float>::infinity();

  const tsm_patch_args &k;
  const int64_t points, tiles;

 public:
  explicit PatchDistance(const tsm_patch_args &args)
      : k(args), points(args.width / args.block),
        tiles((args.queries + together - 1) / together) {}

  int32_t run() const {
    return parallel_for(k.batch * k.channels * tiles, k.threads, [this](int64_t task) {
      const int64_t tile = task % tiles, series = task / tiles;
      const int64_t batch = series / k.channels, channel = series % k.channels;
      // The arithmetic of a window is the same in both, so its distance is, too.
      if (k.queries - tile * together >= together) {
        search<together>(batch, channel, tile * together);
      } else {
        for (int64_t q = tile * together; q < k.queries; ++q) search<1>(batch, channel, q);
      }
      return int32_t(TSM_OK);
    });
  }

 private:
  template <int Count>
  void search(int64_t batch, int64_t channel, int64_t first) const {
    float query[Count][most_points];
    for (int j = 0; j < Count; ++j) embed(batch, channel, start(first + j), query[j]);
    const float *memory = k.memory + channel * k.patches * points;
    V least[Count][vectors];
    for (int j = 0; j < Count; ++j) std::fill(least[j], least[j] + vectors, S::splat(infinite));
    for (int64_t base = 0; base < k.patches; base += TSM_LANES) {
      V sums[Count][vectors] = {};
      compare<Count>(query, memory + base * points, sums);
      TSM_UNROLL
      for (int j = 0; j < Count; ++j) {
        if (k.bounds) leave_out(base, start(first + j) + k.offset, sums[j]);
        TSM_UNROLL
        for (int v = 0; v < vectors; ++v) {
          least[j][v] = sums[j][v] < least[j][v] ? sums[j][v] : least[j][v];
        }
      }
    }
    for (int j = 0; j < Count; ++j) {
      float lanes[TSM_LANES];
      for (int v = 0; v < vectors; ++v) S::store(lanes + v * S::W, least[j][v]);
      const double squared = *std::min_element(lanes, lanes + TSM_LANES);
      k.out[(batch * k.queries + first + j) * k.channels + channel] = std::sqrt(squared);
    }
  }

  int64_t start(int64_t query) const { return k.first + query * k.stride; }

  // Most groups of patches lie far from a window as a whole.
  void leave_out(int64_t base, int64_t window, V *sums) const {
    const int64_t *bounds = k.bounds + base / TSM_LANES * 2;
    if (bounds[0] - window >= k.apart || window - bounds[1] >= k.apart) return;
    float lanes[TSM_LANES];
    for (int v = 0; v < vectors; ++v) S::store(lanes + v * S::W, sums[v]);
    for (int lane = 0; lane < TSM_LANES; ++lane) {
      if (std::abs(k.memory_start[base + lane] - window) < k.apart) lanes[lane] = infinite;
    }
    for (int v = 0; v < vectors; ++v) sums[v] = S::load(lanes + v * S::W);
  }

  template <int Count>
  void compare(const float (*query)[most_points], const float *memory, V (*sums)[vectors]) const {
    for (int64_t i = 0; i < points; ++i) {
      TSM_UNROLL
      for (int v = 0; v < vectors; ++v) {
        const V patch = S::load(memory + i * TSM_LANES + v * S::W);
        TSM_UNROLL
        for (int j = 0; j < Count; ++j) {
          const V gap = patch - query[j][i];
          sums[j][v] += gap * gap;
        }
      }
    }
  }

  void embed(int64_t batch, int64_t channel, int64_t begin, float *out) const {
    // The newest rows count: what does not fill a block is left out at the old end.
    const int64_t rest = k.width - points * k.block;
    const double *row = k.values + (batch * k.length + begin + rest) * k.channels + channel;
    double means[most_points], mean = 0, square = 0;
    for (int64_t i = 0; i < points; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < k.block; ++r, row += k.channels) sum += *row;
      means[i] = sum / double(k.block);
      mean += means[i];
    }
    mean = k.form == TSM_RAW ? 0 : mean / double(points);
    for (int64_t i = 0; i < points; ++i) square += (means[i] - mean) * (means[i] - mean);
    const double sd = std::max(std::sqrt(square / double(points)), k.least_sd);
    const double unit = k.form == TSM_RAW ? 1 : k.form == TSM_HALF ? std::sqrt(sd) : sd;
    const double factor = 1 / (unit * std::sqrt(double(points)));
    for (int64_t i = 0; i < points; ++i) out[i] = float((means[i] - mean) * factor);
  }
};

}  // namespace

int32_t patch_distance_f32(const tsm_patch_args *args) { return PatchDistance(*args).run(); }

}  // namespace TSM_ISA
