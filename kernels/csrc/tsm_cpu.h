/* The C ABI of the CPU kernels: every exported symbol and every rule a caller must keep.
 *
 * Axes: B batch, L time, D channels, N states, G groups, W filter width.
 * Layout: channels innermost and contiguous; batch and time have strides in elements, which may be
 *   zero (broadcast) or negative (a reversed scan is a view that starts at its last row).
 * Types: `_f32` and `_f64` symbols read and write float and double everywhere; masks are bytes.
 * Aliasing: outputs never overlap inputs or each other.
 * Absent operands: a null `data`. Outputs that are null are not computed.
 * Threads: the caller passes the count. Results of a forward do not depend on it; a backward is the
 *   same from run to run for equal `threads` and `splits`.
 * Return value: one of the TSM_* codes. On an error the outputs hold no meaning.
 */
#ifndef TSM_CPU_H
#define TSM_CPU_H

#include <stdint.h>

#define TSM_ABI_VERSION 1

enum { TSM_OK = 0, TSM_OUT_OF_MEMORY = 1, TSM_POSITIVE_A = 2 };

typedef struct tsm_view {
  void *data;
  int64_t batch_stride;
  int64_t time_stride;
  int64_t inner_stride; /* of B, C: from group to group; of dt_scale: 0 (one value a step) or 1 */
} tsm_view;

typedef struct tsm_scan_args {
  int64_t batch, length, channels, states, groups;
  int64_t splits; /* parts of a group's channels that run in parallel */
  int64_t chunk;  /* steps between two saved states */
  int32_t threads;
  int32_t softplus;
  double dt_min, dt_max;
  /* inputs: views are (B, L, D); b and c (B, L, G, N); mask (B, L) */
  tsm_view u, delta, z, b, c, mask, dt_scale;
  const void *a_t;           /* (N, D): A transposed, all entries <= 0 */
  const void *d_skip;        /* (D,) */
  const void *delta_bias;    /* (D,) */
  const void *initial_state; /* (B, N, D) */
  /* forward outputs */
  tsm_view out;
  void *final_state;  /* (B, N, D) */
  void *chunk_states; /* (B, ceil(L / chunk), N, D): the state before each chunk; input of backward */
  /* backward inputs */
  tsm_view grad_out;
  const void *grad_final_state; /* (B, N, D) */
  /* backward outputs; grad_b and grad_c are added to, so they start at zero */
  tsm_view grad_u, grad_delta, grad_z, grad_dt_scale; /* (B, L, D) */
  tsm_view grad_b, grad_c;                            /* (splits, B, L, G, N), inner_stride: split */
  void *grad_a_t;                                     /* (B, N, D) */
  void *grad_d_skip, *grad_delta_bias;                /* (B, D) */
  void *grad_initial_state;                           /* (B, N, D) */
} tsm_scan_args;

typedef struct tsm_conv_args {
  int64_t batch, length, channels, width;
  int64_t tile; /* time steps of one task */
  int32_t threads;
  int32_t silu;
  tsm_view x, mask;
  const void *weight_t;      /* (W, D) */
  const void *bias;          /* (D,) */
  const void *initial_state; /* (B, W - 1, D), oldest first */
  tsm_view out;
  tsm_view grad_out, grad_x;
  void *grad_weight_t;      /* (B * tiles, W, D): one part a task */
  void *grad_bias;          /* (B * tiles, D) */
  void *grad_initial_state; /* (B, W - 1, D) */
} tsm_conv_args;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

int32_t tsm_abi_version(void);
/* "avx512", "avx2" or "generic": what this processor gets. TSMAMBA_ISA in the environment asks for
 * a lesser one; other values are ignored. */
const char *tsm_isa(void);

int32_t tsm_selective_scan_fwd_f32(const tsm_scan_args *args);
int32_t tsm_selective_scan_fwd_f64(const tsm_scan_args *args);
int32_t tsm_selective_scan_bwd_f32(const tsm_scan_args *args);
int32_t tsm_selective_scan_bwd_f64(const tsm_scan_args *args);
int32_t tsm_causal_conv_fwd_f32(const tsm_conv_args *args);
int32_t tsm_causal_conv_fwd_f64(const tsm_conv_args *args);
int32_t tsm_causal_conv_bwd_f32(const tsm_conv_args *args);
int32_t tsm_causal_conv_bwd_f64(const tsm_conv_args *args);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
