// What a group of workers computes, step by step, as the fault suite and its
// workers know it.

#ifndef TENSORKV_TESTS_INTEGRATION_FAULT_MODEL_H_
#define TENSORKV_TESTS_INTEGRATION_FAULT_MODEL_H_

#include <cstdint>
#include <vector>

#include "contract/requests.h"
#include "tensor/tensor.h"

namespace tensorkv::testing {

// What a worker pushes in one step.
inline constexpr const char* kFaultKeys[] = {"sum", "other"};
inline constexpr int kNumFaultKeys = 2;
inline constexpr int64_t kNumFaultElements = 16;

// Contributions that differ by rank, key and step, so that no two mixed up sums
// are the same; small enough for sums of f64 to be exact.
inline int64_t AmountOf(uint32_t rank, int key, Step step) {
  return static_cast<int64_t>((step * step + 7) * (rank * 1009 + 1)) *
         (key + 1);
}

inline Tensor ContributionOf(uint32_t rank, int key, Step step) {
  return *Tensor::Filled(DType::kF64, {kNumFaultElements},
                         static_cast<double>(AmountOf(rank, key, step)));
}

// The values after the rounds of no step, of step 1, up to `num_steps`, each of
// which has summed one contribution of each worker.
inline std::vector<int64_t> SumsUpTo(uint32_t num_workers, int key,
                                     Step num_steps) {
  std::vector<int64_t> sums = {0};
  for (Step step = 1; step <= num_steps; ++step) {
    sums.push_back(sums.back());
    for (uint32_t rank = 0; rank < num_workers; ++rank) {
      sums.back() += AmountOf(rank, key, step);
    }
  }
  return sums;
}

inline int64_t SumAfter(uint32_t num_workers, int key, Step step) {
  return SumsUpTo(num_workers, key, step).back();
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_FAULT_MODEL_H_
