/* The C ABI of the CPU kernels: every exported symbol and every rule a caller must keep.
 *
 * Axes: B batch, L time, D channels, N states, G groups, W filter width.
 * Layout: channels innermost and contiguous; batch and time have strides in elements, which may be
 *   zero (broadcast) or negative (a reversed scan is a view that starts at its last row).
 * Types: `_f32` and `_f64` symbols read and write float and double everywhere; masks are bytes.
 *   `_bf16` symbols read and write bfloat16 in the operands with a time axis (of the scan, dt_scale
 *   and the gradients of b and c excepted) and float elsewhere; they compute in float.
 * Packed series: `series` describes `batch` series of unequal length within the batch rows of the
 *   views; without it each batch row is a series of `length` steps. States are per series. Pieces
 *   are the chunks of a scan and the tiles of a convolution.
 * Aliasing: outputs never overlap inputs or each other.
 * Absent operands: a null `data`. Outputs that are null are not computed.
 * Threads: the caller passes the count. Results of a forward do not depend on it; a backward is the
 *   same from run to run for equal `threads` and `splits`.
 * Return value: one of the TSM_* codes. On an error the outputs hold no meaning.
 */
#ifndef TSM_CPU_H
#define TSM_CPU_H

#include <stdint.h>

#define TSM_ABI_VERSION 4

enum { TSM_OK = 0, TSM_OUT_OF_MEMORY = 1, TSM_POSITIVE_A = 2 };

typedef struct tsm_view {
  void *data;
  int64_t batch_stride;
  int64_t time_stride;
  int64_t inner_stride; /* of B, C: from group to group; of dt_scale: 0 (one value a step) or 1 */
} tsm_view;

typedef struct tsm_series {
  int64_t row;    /* its batch row in the views */
  int64_t start;  /* its first step there, in the order of the views */
  int64_t length; /* number of steps, which may be 0 */
  int64_t piece;  /* number of pieces of the series before it */
} tsm_series;

typedef struct tsm_scan_args {
  int64_t batch, length, channels, states, groups;
  int64_t splits; /* parts of a group's channels that run in parallel */
  int64_t chunk;  /* steps between two saved states */
  int32_t threads;
  int32_t softplus;
  int32_t tied; /* a_t[n] = (n + 1) a_t[0] */
  double dt_min, dt_max;
  const tsm_series *series;
  /* inputs: views are (B, L, D); b and c (B, L, G, N); mask (B, L) */
  tsm_view u, delta, z, b, c, mask, dt_scale;
  const void *a_t;           /* (N, D): A transposed, all entries <= 0 */
  const void *d_skip;        /* (D,) */
  const void *delta_bias;    /* (D,) */
  const void *initial_state; /* (B, N, D) */
  /* forward outputs */
  tsm_view out;
  void *final_state;  /* (B, N, D) */
  void *chunk_states; /* (chunks, N, D): the state before each chunk; input of backward */
  void *total_dt;     /* (B, D): sum of the step sizes; exp(A total_dt) decays a state over a series */
  /* backward inputs */
  tsm_view grad_out;
  const void *grad_final_state; /* (B, N, D) */
  /* backward outputs; with total_dt, only it and grad_initial_state are computed */
  tsm_view grad_u, grad_delta, grad_z, grad_dt_scale; /* (B, L, D) */
  tsm_view grad_b, grad_c;                            /* (splits, B, L, G, N), inner_stride: split */
  void *grad_a_t;                                     /* (B, N, D) */
  void *grad_d_skip, *grad_delta_bias;                /* (B, D) */
  void *grad_initial_state;                           /* (B, N, D) */
} tsm_scan_args;

typedef struct tsm_conv_args {
  int64_t batch, length, channels, width;
  int64_t tile;  /* time steps of one task */
  int64_t tiles; /* tasks: tiles of all series */
  int32_t threads;
  int32_t silu;
  const tsm_series *series;
  tsm_view x, mask;
  const void *weight_t;      /* (W, D) */
  const void *bias;          /* (D,) */
  const void *initial_state; /* (B, W - 1, D), oldest first */
  tsm_view out;
  tsm_view grad_out, grad_x;
  void *grad_weight_t;      /* (tiles, W, D): one part a task */
  void *grad_bias;          /* (tiles, D) */
  void *grad_initial_state; /* (B, W - 1, D) */
} tsm_conv_args;

/* One step of a causal stack of Mamba blocks, for many streams.
 *
 * M width of the stack, E inner width, R rank of the step sizes, S = R + 2N what an input selects.
 * A star is a size rounded up to a multiple of TSM_PANEL; what is beyond the size is zero. A matrix
 * (in, out) is laid out in panels: (out* / TSM_PANEL, in, TSM_PANEL). */
#define TSM_PANEL 32
#define TSM_LINE 16 /* channels of a cache line */

typedef struct tsm_layer {
  const float *norm;             /* (M*,) */
  const float *in_proj;          /* matrix (M, 2E*): x in the first E*, z in the others */
  const float *in_bias;          /* (2E*,) or null */
  const float *conv_t;           /* (W, E*) */
  const float *conv_bias;        /* (E*,) or null */
  const float *x_proj;           /* matrix (E, S*) */
  const float *dt_proj;          /* matrix (R, E*) */
  const float *dt_bias;          /* (E*,) */
  const float *gain_proj;        /* matrix (E, 2N*) or null: logits of gains on B and C */
  const float *gain_bias;        /* (2N*,) */
  const float *a_t;              /* (N, E*), times log2(e) */
  const float *d_skip;           /* (E*,) */
  const float *out_proj;         /* matrix (E, M*) */
  const float *out_bias;         /* (M*,) or null */
} tsm_layer;

typedef struct tsm_stack_args {
  int64_t streams, layers, model, inner, states, width, rank;
  int32_t threads;
  int32_t tied;            /* a_t[n] = (n + 1) a_t[0] */
  float eps, gain_limit;   /* of the norms; of the logits of gains, on both sides */
  const tsm_layer *layer;  /* (layers,) */
  const float *norm_f;     /* (M*,) */
  const float *x;          /* (streams, M) */
  const float *dt_scale;   /* (streams,) or null: time since the last step */
  const int64_t *slot;     /* (streams,) or null: whose state each row advances; all different */
  float *state;            /* (slots, layers, E* / TSM_LINE, W - 1 + N, TSM_LINE): for each few
                              channels the last inputs of the convolution, oldest first, then the
                              scan's state; updated in place */
  float *out;              /* (streams, M) */
} tsm_stack_args;

/* Patches in memory that one vector of the kernel compares at once, or several do. */
enum { TSM_LANES = 16 };
/* How a window of a series becomes a point; see patch_distance.cpp. */
enum { TSM_RAW = 0, TSM_HALF = 1, TSM_Z = 2 };

/* Distance of windows of series to the nearest of the patches in memory. */
typedef struct tsm_patch_args {
  int64_t batch, length, channels;
  int64_t queries, first, stride; /* windows of each series and channel: how many, the first row of
                                     the first, and rows from one to the next */
  int64_t width, block;    /* rows of a window; rows that one number of a point stands for */
  int64_t patches;         /* in memory, a multiple of TSM_LANES; the surplus ones are infinite */
  int64_t apart;           /* patches that start nearer to a window than this do not count */
  int64_t offset;          /* row of the memory's series that is row 0 of the values */
  int32_t threads, form;
  double least_sd;         /* of a window */
  const double *values;    /* (batch, length, channels) */
  const float *memory;     /* (channels, patches / TSM_LANES, width / block, TSM_LANES) */
  const int64_t *memory_start; /* (patches,): first row of each */
  const int64_t *bounds;   /* (patches / TSM_LANES, 2): least and greatest of those that lie
                              together, or null: all patches count */
  double *out;             /* (batch, queries, channels); infinite where no patch counts */
} tsm_patch_args;

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

int32_t tsm_abi_version(void);
/* "avx512", "avx2" or "generic": what this processor gets. TSMAMBA_ISA in the environment asks for
 * a lesser one; other values are ignored. */
const char *tsm_isa(void);

/* Asks the system to back new memory with large pages, where it can; otherwise does nothing. A fresh
 * output of some megabytes costs more in page faults than a kernel takes to fill it. Several threads
 * make the pages at once: later they would meet at the same one, and each would clear it. */
void tsm_prepare_pages(void *memory, int64_t bytes, int32_t threads);

int32_t tsm_selective_scan_fwd_f32(const tsm_scan_args *args);
int32_t tsm_selective_scan_fwd_f64(const tsm_scan_args *args);
int32_t tsm_selective_scan_fwd_bf16(const tsm_scan_args *args);
int32_t tsm_selective_scan_bwd_f32(const tsm_scan_args *args);
int32_t tsm_selective_scan_bwd_f64(const tsm_scan_args *args);
int32_t tsm_selective_scan_bwd_bf16(const tsm_scan_args *args);
int32_t tsm_causal_conv_fwd_f32(const tsm_conv_args *args);
int32_t tsm_causal_conv_fwd_f64(const tsm_conv_args *args);
int32_t tsm_causal_conv_fwd_bf16(const tsm_conv_args *args);
int32_t tsm_causal_conv_bwd_f32(const tsm_conv_args *args);
int32_t tsm_causal_conv_bwd_f64(const tsm_conv_args *args);
int32_t tsm_causal_conv_bwd_bf16(const tsm_conv_args *args);
int32_t tsm_stack_step_f32(const tsm_stack_args *args);
int32_t tsm_patch_distance_f32(const tsm_patch_args *args);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
