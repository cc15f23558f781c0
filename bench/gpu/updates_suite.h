// Updates by the kernels, beside copies within the device.

#ifndef TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
#define TENSORKV_BENCH_GPU_UPDATES_SUITE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/gpu/plain_copies.h"
#include "bench/gpu/sizes.h"
#include "bench/harness/row_runner.h"
#include "bench/harness/section.h"
#include "bench/key_update.h"
#include "kernels/backend.h"
#include "tensor/rule_spec.h"

namespace tensorkv::bench::gpu {

// One large update, and how fast it should be beside a copy.
struct LargeUpdate {
  std::string name;
  RuleSpec rule;
  DType dtype = DType::kF32;
  int num_contributions = 1;
  double goal = 0;

  KeyUpdateShape ShapeOf(int64_t num_elements) const {
    return {.dtype = dtype,
            .num_elements = num_elements,
            .num_contributions = num_contributions};
  }
};
std::vector<LargeUpdate> LargeUpdates();

// Every rule over one large tensor, by the bytes that it moves.
Section MeasureLargeUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner);

// Many small tensors in one batch: beside a call for each of them, and beside a
// copy that moves as many bytes.
Section MeasureSmallUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner);

}  // namespace tensorkv::bench::gpu

#endif  // TENSORKV_BENCH_GPU_UPDATES_SUITE_H_
