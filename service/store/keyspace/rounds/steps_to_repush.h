// Failed rounds, and which steps their contributors must push again.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEPS_TO_REPUSH_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEPS_TO_REPUSH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "contract/call_fields.h"

namespace tensorkv {

// Why rounds failed. Shared by all rounds that failed for one cause.
struct RoundFailure {
  // `rank 5 ("b") lost its lease of 2s`.
  std::string text = {};
  // The ranks that were lost, if any were, or that had not come in time.
  std::vector<uint32_t> ranks;
  // Where a round's time was over: those that had come, and its step. Later
  // rounds, and what that one was to take, fail with it.
  std::vector<uint32_t> came = {};
  Step step = 0;
};
using RoundFailurePtr = std::shared_ptr<const RoundFailure>;

// Counts, by rank and step, the keys whose failed rounds a worker of the
// namespace must repush; the Rounds of each key know which. Not thread-safe.
class StepsToRepush {
 public:
  // Counts one more key of which the worker must push that step again.
  void Add(uint32_t rank, Step step) { ++by_rank_[rank][step]; }
  // Counts one key less. REQUIRES: it was added.
  void Remove(uint32_t rank, Step step) {
    const auto steps = by_rank_.find(rank);
    const auto count = steps->second.find(step);
    if (--count->second == 0) steps->second.erase(count);
    if (steps->second.empty()) by_rank_.erase(steps);
  }

  bool Has(uint32_t rank) const { return by_rank_.contains(rank); }
  // Returns the lowest step that `rank` must push again for any key, or
  // `otherwise`.
  Step LowestOf(uint32_t rank, Step otherwise) const {
    const auto steps = by_rank_.find(rank);
    return steps == by_rank_.end() ? otherwise : steps->second.begin()->first;
  }

 private:
  absl::flat_hash_map<uint32_t, absl::btree_map<Step, uint64_t>> by_rank_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_STEPS_TO_REPUSH_H_
