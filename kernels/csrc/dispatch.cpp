// Chooses the instruction set once, by what the processor reports, and forwards every C symbol.
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "kernels.h"

namespace {

enum class Isa { generic, avx2, avx512 };

Isa detect() {
#ifdef TSM_X86
  __builtin_cpu_init();
  const char *asked = std::getenv("TSMAMBA_ISA");
  const bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool wide = fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  const auto is = [asked](const char *name) { return asked && !std::strcmp(asked, name); };
  if (is("generic")) return Isa::generic;
  if (wide && !is("avx2")) return Isa::avx512;
  if (fma) return Isa::avx2;
#endif
  return Isa::generic;
}

Isa isa() {
  static const Isa chosen = detect();
  return chosen;
}

}  // namespace

#ifdef TSM_X86
#define TSM_FORWARD(symbol, kernel, args_type)                       \
  int32_t symbol(const args_type *args) {                            \
    switch (isa()) {                                                 \
      case Isa::avx512: return avx512::kernel(args);                 \
      case Isa::avx2: return avx2::kernel(args);                     \
      default: return generic::kernel(args);                         \
    }                                                                \
  }
#else
#define TSM_FORWARD(symbol, kernel, args_type) \
  int32_t symbol(const args_type *args) { return generic::kernel(args); }
#endif

extern "C" {

int32_t tsm_abi_version(void) { return TSM_ABI_VERSION; }

const char *tsm_isa(void) {
  switch (isa()) {
    case Isa::avx512: return "avx512";
    case Isa::avx2: return "avx2";
    default: return "generic";
  }
}

void tsm_prepare_pages(void *memory, int64_t bytes, int32_t threads) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t page = 4096, large = uintptr_t(1) << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + uintptr_t(bytes)) / page * page;
  if (begin >= end) return;
  madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  if (threads < 2) return;
  const int64_t count = int64_t((end - 1) / large - begin / large + 1);
#ifdef _OPENMP
#pragma omp parallel for schedule(static) num_threads(threads)
#endif
  for (int64_t i = 0; i < count; ++i) {
    const uintptr_t at = (begin / large + uintptr_t(i)) * large;
    const uintptr_t from = at < begin ? begin : at, to = at + large < end ? at + large : end;
    madvise(reinterpret_cast<void *>(from), to - from, MADV_POPULATE_WRITE);
  }
#endif
#endif
  (void)memory, (void)bytes, (void)threads;
}

TSM_FORWARD(tsm_selective_scan_fwd_f32, scan_fwd_f32, tsm_scan_args)
TSM_FORWARD(tsm_selective_scan_fwd_f64, scan_fwd_f64, tsm_scan_args)
TSM_FORWARD(tsm_selective_scan_fwd_bf16, scan_fwd_bf16, tsm_scan_args)
TSM_FORWARD(tsm_selective_scan_bwd_f32, scan_bwd_f32, tsm_scan_args)
TSM_FORWARD(tsm_selective_scan_bwd_f64, scan_bwd_f64, tsm_scan_args)
TSM_FORWARD(tsm_selective_scan_bwd_bf16, scan_bwd_bf16, tsm_scan_args)
TSM_FORWARD(tsm_causal_conv_fwd_f32, conv_fwd_f32, tsm_conv_args)
TSM_FORWARD(tsm_causal_conv_fwd_f64, conv_fwd_f64, tsm_conv_args)
TSM_FORWARD(tsm_causal_conv_fwd_bf16, conv_fwd_bf16, tsm_conv_args)
TSM_FORWARD(tsm_causal_conv_bwd_f32, conv_bwd_f32, tsm_conv_args)
TSM_FORWARD(tsm_causal_conv_bwd_f64, conv_bwd_f64, tsm_conv_args)
TSM_FORWARD(tsm_causal_conv_bwd_bf16, conv_bwd_bf16, tsm_conv_args)
TSM_FORWARD(tsm_stack_step_f32, stack_step_f32, tsm_stack_args)
TSM_FORWARD(tsm_patch_distance_f32, patch_distance_f32, tsm_patch_args)

}
