// Loop helper with an explicit thread count.
//
// OpenMP rather than a pool of our own: torch's workers spin for a while after each of its ops, and
// a second pool would fight them for the cores. torch opens its OpenMP runtime globally, so our
// calls bind to that same runtime and its pool.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

namespace TSM_ISA {

// Runs task i for i < tasks and returns the greatest of their codes (TSM_OK is the least).
template <class F>
int32_t parallel_for(int64_t tasks, int threads, const F &run) {
  int32_t code = 0;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads(threads) reduction(max : code) \
    if (threads > 1 && tasks > 1)
#endif
  for (int64_t i = 0; i < tasks; ++i) {
    const int32_t result = run(i);
    code = result > code ? result : code;
  }
  return code;
}

struct AlignedDelete {
  void operator()(void *p) const { ::operator delete(p, std::align_val_t(64)); }
};

// Uninitialised memory for n vectors; null when there is none to be had.
template <class V>
std::unique_ptr<V[], AlignedDelete> scratch(int64_t n) {
  void *p = ::operator new(n * sizeof(V) + 64, std::align_val_t(64), std::nothrow);
  return std::unique_ptr<V[], AlignedDelete>(static_cast<V *>(p));
}

}  // namespace TSM_ISA
