// How much of everything is measured.

#ifndef TENSORKV_BENCH_HARNESS_PLAN_H_
#define TENSORKV_BENCH_HARNESS_PLAN_H_

#include <string>

#include "absl/time/time.h"
#include "bench/harness/interleaved.h"

namespace tensorkv::bench {

struct Plan {
  bool is_quick = false;
  MeasureOptions measure;
  std::string only;  // in the names of rows; empty: all of them
  // No row begins later.
  absl::Duration time_limit = absl::InfiniteDuration();
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_HARNESS_PLAN_H_
