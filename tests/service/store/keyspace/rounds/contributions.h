// Contributions of one element to rounds, and what has come of them.

#ifndef TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTIONS_H_
#define TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTIONS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/store/keyspace/rounds/rounds.h"

namespace tensorkv::testing {

inline Contribution Of(double value) {
  Contribution contribution;
  contribution.slots.emplace_back(
      PushEntry{.tensor = *Tensor::Filled(DType::kF32, {1}, value)});
  return contribution;
}

inline std::vector<float> ValuesOf(const ClosedRound& round) {
  std::vector<float> values;
  for (const Slot& slot : round.slots) {
    values.push_back(*reinterpret_cast<const float*>(slot.data));
  }
  return values;
}

// The one round, or none.
inline std::optional<ClosedRound> OnlyOf(ClosedRounds rounds) {
  EXPECT_LE(rounds.size(), 1u);
  if (rounds.empty()) return std::nullopt;
  return std::move(rounds[0]);
}

inline WorkerGroupOptions GroupOf(uint32_t num_workers) {
  return {.min_workers = num_workers,
          .max_workers = num_workers,
          .on_worker_loss = OnWorkerLoss::kContinue};
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_STORE_KEYSPACE_ROUNDS_CONTRIBUTIONS_H_
