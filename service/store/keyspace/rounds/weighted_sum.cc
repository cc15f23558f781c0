#include "service/store/keyspace/rounds/weighted_sum.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/names.h"

namespace tensorkv {

bool HasWeights(absl::Span<const Slot> slots) {
  return std::any_of(slots.begin(), slots.end(),
                     [](const Slot& slot) { return slot.has_weight; });
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
  AddUpWeights(slots, sum);
  return sum.weight / sum.num_entries;
}

void AddUpWeights(absl::Span<const Slot> slots, Slot& sum) {
  sum.weight = 0;
  sum.num_entries = 0;
  for (const Slot& slot : slots) {
    sum.weight += slot.weight;
    sum.num_entries += slot.num_entries;
    sum.has_weight |= slot.has_weight;
  }
}

absl::Status WeightedSums::Run(Backend& device) const {
  if (sums_.empty()) return absl::OkStatus();
  std::vector<MutableTensorView> values;
  size_t num_places = 0;
  for (const Sum& sum : sums_) {
    values.push_back(sum.value);
    num_places = std::max(num_places, sum.slots.size());
  }
  RETURN_IF_ERROR(device.Zero(values));
  for (size_t place = 0; place < num_places; ++place) {
    RETURN_IF_ERROR(AddSlots(place, device));
  }
  return absl::OkStatus();
}

absl::Status WeightedSums::AddSlots(size_t place, Backend& device) const {
  // The updates refer to the elements.
  std::deque<UpdateRule> rules;
  std::deque<TensorView> contributions;
  std::deque<const Packing*> packings;
  std::vector<TensorUpdate> updates;
  double factor = 0;  // of the last rule: a push often has the same throughout
  for (const Sum& sum : sums_) {
    if (place >= sum.slots.size()) continue;
    const Slot& slot = sum.slots[place];
    if (std::exchange(factor, slot.factor) != slot.factor) {
      ASSIGN_OR_RETURN(
          rules.emplace_back(),
          UpdateRule::Create({.name = "accumulate",
                              .hyperparameters = {{"scale", slot.factor}}}));
    }
    contributions.push_back({slot.dtype, sum.value.num_elements, slot.data});
    packings.push_back(slot.packing());
    TensorUpdate& update = updates.emplace_back();
    update.rule = &rules.back();
    update.stored = sum.value;
    update.value = sum.value;
    update.contributions = absl::MakeConstSpan(&contributions.back(), 1);
    if (packings.back() != nullptr) {
      update.packings = absl::MakeConstSpan(&packings.back(), 1);
    }
  }
  return device.Apply(updates);
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
