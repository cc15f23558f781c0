// Weights of contributions: what they make of a sum, and of the rule `average`.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_WEIGHTED_SUM_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_WEIGHTED_SUM_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/update_rule.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Return whether weights bear on an update by these contributions, and whether
// some elements must be multiplied before they are added.
bool HasWeights(absl::Span<const Slot> slots);
bool HasFactors(absl::Span<const Slot> slots);

// Checks that contributions with weights bring no rows. Errors:
// FailedPrecondition, if some weigh more or less than 1 and some bring rows.
absl::Status CheckWeightsHaveNoRows(absl::string_view key,
                                    absl::Span<const Slot> slots);

// Returns the mean over the entries of what they weigh.
double MeanWeight(absl::Span<const Slot> slots);

// Sets the weight and the number of entries of `sum` to those of all `slots`
// together.
void AddUpWeights(absl::Span<const Slot> slots, Slot& sum);

// Sums of contributions of tensors, each times its factor, in their order and
// from 0, so that a sum of sums has the same bits. Made together, as a device
// takes about as long for many small tensors as for one. Not thread-safe.
class WeightedSums {
 public:
  // Adds a sum to make: of `slots`, into `value`, which has the accumulate type
  // of the key. What both refer to outlives this.
  void Add(absl::Span<const Slot> slots, const MutableTensorView& value) {
    sums_.push_back({slots, value});
  }

  // Makes the sums on `device`, whose memory all tensors are in, and returns
  // when they are there. Errors: those of Backend.
  absl::Status Run(Backend& device) const;

 private:
  struct Sum {
    absl::Span<const Slot> slots;
    MutableTensorView value;
  };

  // Adds of each sum the slot of that place, where there is one.
  absl::Status AddSlots(size_t place, Backend& device) const;

  std::vector<Sum> sums_;
};

// UpdateWeights is what an update weighs, and the ones before it all in all.
struct UpdateWeights {
  double weight = 1;
  double weight_before = 0;
};

// Returns the rule by which `average` computes an update by a sum whose
// elements were multiplied by weights of mean `mean`: the one that does so in
// its first update. Errors: InvalidArgument (the products are out of range).
absl::StatusOr<UpdateRule> WeightedAverage(const UpdateRule& average,
                                           const UpdateWeights& weights,
                                           double mean);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_WEIGHTED_SUM_H_
