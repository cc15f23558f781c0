#include "service/store/keyspace/updates/update_batch.h"

#include <algorithm>
#include <utility>

#include "xxhash.h"

namespace tensorkv {
namespace {

// Returns a seed that is the same on every server and after every start.
uint64_t SeedOf(absl::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

}  // namespace

void AppendStates(const StoredKey& key, const RuleState& states,
                  std::vector<MutableTensorView>& views) {
  const DType dtype = StateSpec::DTypeFor(key.dtype());
  for (const RefPtr<Buffer>& state : states.states) {
    views.push_back({dtype,
                     static_cast<int64_t>(state->size_bytes() / SizeOf(dtype)),
                     state->mutable_data()});
  }
}

void DescribeExtras(const UpdateItem& item, const UpdateExtras& extras,
                    TensorUpdate& update) {
  const StoredKey& key = *item.key;
  if (item.rule->takes_seed()) update.seed = SeedOf(key.name());
  update.num_averaged = extras.num_averaged;
  if (extras.multipliers) update.multipliers = *extras.multipliers;
  if (key.shape().rank() > 0) update.num_rows = key.num_rows();
  if (!extras.is_in_place) update.value.data = extras.target->mutable_data();
  if (extras.rule_state && extras.rule_state->master) {
    update.master = ViewOf(key, DType::kF32, *extras.rule_state->master);
  }
}

void UpdateBatch::Begin(size_t num_updates, size_t num_slots,
                        size_t num_states) {
  if (!std::exchange(is_as_made_, true)) updates_.clear();
  updates_.resize(std::max(updates_.size(), num_updates));
  num_updates_ = 0;
  num_slots_ = num_slots;
  packings_.clear();
  factors_.clear();
  weights_.clear();
  states_.clear();
  copied_.clear();
  states_.reserve(num_states);  // the updates refer to the elements
}

void UpdateBatch::AddRest(const StoredKey& key, const UpdateExtras& extras,
                          absl::Span<const Slot> slots) {
  is_as_made_ = false;
  if (extras.total_weight) AddWeights(*extras.total_weight, slots);
  if (!extras.rule_state) return;
  const size_t first = states_.size();
  AppendStates(key, *extras.rule_state, states_);
  updates_[num_updates_ - 1].states =
      absl::MakeConstSpan(states_).subspan(first);
}

void UpdateBatch::AddWeights(double total, absl::Span<const Slot> slots) {
  factors_.reserve(num_slots_);
  weights_.reserve(updates_.size());
  for (const Slot& slot : slots) factors_.push_back(slot.factor());
  weights_.push_back({absl::MakeConstSpan(factors_).last(slots.size()), total});
  updates_[num_updates_ - 1].weights = &weights_.back();
}

void UpdateBatch::AddPackings(absl::Span<const Slot> slots) {
  const bool has_packed =
      std::any_of(slots.begin(), slots.end(),
                  [](const Slot& slot) { return bool{slot.encoding}; });
  if (!has_packed) return;
  is_as_made_ = false;
  packings_.reserve(num_slots_);
  for (const Slot& slot : slots) packings_.push_back(slot.packing());
  updates_[num_updates_ - 1].packings =
      absl::MakeConstSpan(packings_).last(slots.size());
}

void UpdateBatch::AddCopy(const UpdateItem& item, const UpdateExtras& extras) {
  const MutableTensorView value = ValueOf(*item.key);
  copied_.reserve(num_slots_);
  copied_.push_back(value);
  updates_[num_updates_++] = {
      .rule = &UpdateRule::Assign(),
      .contributions = absl::MakeConstSpan(copied_).last(1),
      .value = {value.dtype, value.num_elements,
                extras.target->mutable_data()}};
}

}  // namespace tensorkv
