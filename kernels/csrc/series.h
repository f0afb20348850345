// The series of a call: packed ones as the caller describes them, else one to a batch row.
#pragma once

#include "tsm_cpu.h"

namespace TSM_ISA {

inline tsm_series series_at(const tsm_series *packed, int64_t index, int64_t length, int64_t piece) {
  if (packed) return packed[index];
  return {index, 0, length, index * ((length + piece - 1) / piece)};
}

// The element of a view at a step of a series.
template <class E>
E *row(const tsm_view &v, const tsm_series &s, int64_t t, int64_t inner) {
  return static_cast<E *>(v.data) + s.row * v.batch_stride + (s.start + t) * v.time_stride + inner;
}

inline bool missing(const tsm_view &mask, const tsm_series &s, int64_t t) {
  return mask.data && !*row<const uint8_t>(mask, s, t, 0);
}

}  // namespace TSM_ISA
