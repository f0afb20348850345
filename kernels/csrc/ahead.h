// Rows that later work will read, asked for a few at a time between other work.
//
// A tile is read in a burst and computed on for long. Left to itself the processor fetches nothing in
// the meantime and then waits for every row.
#pragma once

#include <cstdint>

namespace TSM_ISA {

class Ahead {
 public:
  static constexpr int64_t line = 64;  // bytes that memory gives at a time

  // Wants `rows` lines, `stride` bytes apart; more views than there is room for are left out.
  void want(const void *first, int64_t stride, int64_t rows, bool write) {
    if (count == most) return;
    wanted[count++] = {static_cast<const char *>(first), stride, rows, write};
    lines += rows;
  }

  // Sets the number of calls of `fetch` that shall get all of it.
  void share(int64_t calls) { quota = calls > 0 ? (lines + calls - 1) / calls : 0; }

  void fetch() {
    for (int64_t left = quota; left > 0 && at < count;) {
      Rows &r = wanted[at];
      const int64_t n = left < r.rows ? left : r.rows;
      if (r.write)
        for (int64_t i = 0; i < n; ++i) __builtin_prefetch(r.first + i * r.stride, 1, 2);
      else
        for (int64_t i = 0; i < n; ++i) __builtin_prefetch(r.first + i * r.stride, 0, 2);
      r.first += n * r.stride;
      left -= n;
      at += !(r.rows -= n);
    }
  }

 private:
  struct Rows {
    const char *first;
    int64_t stride, rows;
    bool write;
  };
  static constexpr int most = 12;
  Rows wanted[most];
  int64_t lines = 0, quota = 0;
  int count = 0, at = 0;
};

}  // namespace TSM_ISA
