// The kernels as each instruction set's objects export them to dispatch.cpp. CMake compiles the
// kernel sources once per set, with TSM_ISA naming the namespace.
#pragma once

#include "tsm_cpu.h"

#define TSM_DECLARE_KERNELS(isa)                 \
  namespace isa {                                \
  int32_t scan_fwd_f32(const tsm_scan_args *);   \
  int32_t scan_fwd_f64(const tsm_scan_args *);   \
  int32_t scan_fwd_bf16(const tsm_scan_args *);  \
  int32_t scan_bwd_f32(const tsm_scan_args *);   \
  int32_t scan_bwd_f64(const tsm_scan_args *);   \
  int32_t scan_bwd_bf16(const tsm_scan_args *);  \
  int32_t conv_fwd_f32(const tsm_conv_args *);   \
  int32_t conv_fwd_f64(const tsm_conv_args *);   \
  int32_t conv_fwd_bf16(const tsm_conv_args *);  \
  int32_t conv_bwd_f32(const tsm_conv_args *);   \
  int32_t conv_bwd_f64(const tsm_conv_args *);   \
  int32_t conv_bwd_bf16(const tsm_conv_args *);  \
  int32_t stack_step_f32(const tsm_stack_args *); \
  int32_t patch_distance_f32(const tsm_patch_args *); \
  }

TSM_DECLARE_KERNELS(generic)
#ifdef TSM_X86
TSM_DECLARE_KERNELS(avx2)
TSM_DECLARE_KERNELS(avx512)
#endif
