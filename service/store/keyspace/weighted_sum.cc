#include "service/store/keyspace/weighted_sum.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/row_batches.h"
#include "service/store/names.h"

namespace tensorkv {

bool HasWeights(absl::Span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(), [](const Slot& slot) {
    return slot.weight != slot.num_entries;
  });
}

bool HasFactors(absl::Span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(),
                     [](const Slot& slot) { return slot.factor != 1; });
}

absl::Status CheckWeightsHaveNoRows(absl::string_view key,
                                    absl::Span<const Slot> slots) {
  if (!HasRows(slots) || !HasWeights(slots)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "key ", Quoted(key),
      ": some workers brought rows, and others tensors with weights"));
}

double MeanWeight(absl::Span<const Slot> slots) {
  Slot sum;
  TakeWeights(slots, sum);
  return sum.weight / sum.num_entries;
}

void TakeWeights(absl::Span<const Slot> slots, Slot& sum) {
  sum.weight = 0;
  sum.num_entries = 0;
  for (const Slot& slot : slots) {
    sum.weight += slot.weight;
    sum.num_entries += slot.num_entries;
  }
}

absl::Status SumWeighted(Backend& device, absl::Span<const Slot> slots,
                         const MutableTensorView& sum) {
  RETURN_IF_ERROR(device.Zero({&sum, 1}));
  for (const Slot& slot : slots) {
    ASSIGN_OR_RETURN(
        const UpdateRule add,
        UpdateRule::Create({.name = "accumulate",
                            .hyperparameters = {{"scale", slot.factor}}}));
    const TensorView contribution = {slot.dtype, sum.num_elements, slot.data};
    const Packing* const packing = slot.packing();
    TensorUpdate update;
    update.rule = &add;
    update.stored = sum;
    update.value = sum;
    update.contributions = absl::MakeConstSpan(&contribution, 1);
    if (packing != nullptr) {
      update.packings = absl::MakeConstSpan(&packing, 1);
    }
    RETURN_IF_ERROR(device.Apply({&update, 1}));
  }
  return absl::OkStatus();
}

// The functor's t is 1, so that the first two give it its share: weight over
// the sum of both.
absl::StatusOr<UpdateRule> WeightedAverage(const UpdateRule& average,
                                           const UpdateWeights& weights,
                                           double mean) {
  const Hyperparameters& given = average.spec().hyperparameters;
  const double weight = given.at("weight");
  return average.With({{"weight", weight * weights.weight},
                       {"initial_weight", given.at("initial_weight") +
                                              weight * weights.weight_before},
                       {"rescale_grad", given.at("rescale_grad") / mean}});
}

}  // namespace tensorkv
