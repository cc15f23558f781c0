// How much of everything is measured.

#ifndef TENSORKV_BENCH_DATA_PATH_SUITES_PLAN_H_
#define TENSORKV_BENCH_DATA_PATH_SUITES_PLAN_H_

#include <string>

#include "bench/data_path/measure/interleaved.h"

namespace tensorkv::bench {

struct Plan {
  bool is_quick = false;
  MeasureOptions measure;
  std::string only;  // in the names of rows; empty: all of them
};

}  // namespace tensorkv::bench

#endif  // TENSORKV_BENCH_DATA_PATH_SUITES_PLAN_H_
