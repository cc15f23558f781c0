// Updates of a pass as backends take them.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_BATCH_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_BATCH_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "kernels/backend.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/rules/rule_state.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/updates/update_item.h"
#include "tensor/tensor.h"

namespace tensorkv {

// Return the elements of a buffer that is as large as the key's value, and the
// value. REQUIRES: nobody replaces it.
inline MutableTensorView ViewOf(const StoredKey& key, DType dtype,
                                Buffer& buffer) {
  return {dtype, key.num_elements(), buffer.mutable_data()};
}
inline MutableTensorView ValueOf(const StoredKey& key) {
  return ViewOf(key, key.dtype(), *key.value);
}

// Appends the tensors of `states`, the key's.
void AppendStates(const StoredKey& key, const RuleState& states,
                  std::vector<MutableTensorView>& views);

// Sets what few updates have, but for states and packings.
void DescribeExtras(const UpdateItem& item, const UpdateExtras& extras,
                    TensorUpdate& update);

// Sets an item's update as backends take it, but for states and packings.
// `tensors` are the contributions; `extras` may be null.
inline void Describe(const UpdateItem& item, const UpdateExtras* extras,
                     absl::Span<const TensorView> tensors,
                     TensorUpdate& update) {
  update.rule = item.rule;
  update.update_count = item.update_count;
  update.stored = update.value = ValueOf(*item.key);
  update.contributions = tensors;
  if (extras != nullptr) DescribeExtras(item, *extras, update);
}

// A batch of updates, and the views that they refer to. Used by one thread.
class UpdateBatch {
 public:
  // Begins a batch, in the memory of the last one, of at most as many updates.
  // `num_slots` and `num_states` bound what they refer to.
  void Begin(size_t num_updates, size_t num_slots, size_t num_states);

  // Adds an item's update by `tensors`, which outlive the batch, and may have
  // slots. `extras` may be null.
  void Add(const UpdateItem& item, const UpdateExtras* extras,
           absl::Span<const TensorView> tensors, absl::Span<const Slot> slots) {
    TensorUpdate& update = updates_[num_updates_++];
    Describe(item, extras, tensors, update);
    if (extras != nullptr) AddRest(*item.key, *extras, slots);
    if (!slots.empty()) AddPackings(slots);
  }
  // Adds a copy of an item's whole value to its target.
  void AddCopy(const UpdateItem& item, const UpdateExtras& extras);

  absl::Span<const TensorUpdate> updates() const {
    return absl::MakeConstSpan(updates_).first(num_updates_);
  }

 private:
  // Add to the last update its states and the weights of its contributions, and
  // how these are packed.
  void AddRest(const StoredKey& key, const UpdateExtras& extras,
               absl::Span<const Slot> slots);
  void AddWeights(double total, absl::Span<const Slot> slots);
  void AddPackings(absl::Span<const Slot> slots);

  // More than num_updates_: what follows is used for the next ones.
  std::vector<TensorUpdate> updates_;
  size_t num_updates_ = 0;
  // False if some of them have what not every update sets.
  bool is_as_made_ = true;
  size_t num_slots_ = 0;
  std::vector<const Packing*> packings_;
  std::vector<double> factors_;
  std::vector<ContributionWeights> weights_;
  std::vector<MutableTensorView> states_;
  std::vector<TensorView> copied_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_UPDATES_UPDATE_BATCH_H_
