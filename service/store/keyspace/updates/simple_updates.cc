#include "service/store/keyspace/updates/simple_updates.h"

#include <algorithm>

#include "service/store/keyspace/push/staged_tensors.h"

namespace tensorkv {
namespace {

// Bounds a batch: the backend's reads of so many updates take a fifth of a
// second-level cache.
constexpr size_t kBatchUpdates = 1024;

// Says how far ahead of an update the memory of others is fetched.
constexpr size_t kUpdatesAhead = 8;

void Fetch(const SimpleUpdates::Update& update) {
  __builtin_prefetch(update.key);
  __builtin_prefetch(update.data);
}

// Returns whether the entry has a tensor of its key's dtype, and nothing with
// it.
bool IsOneTensor(const PushEntry& entry) {
  return !entry.skip && !entry.encoding && !entry.rows &&
         (entry.weight == 0 || entry.weight == 1) && entry.tensor.has_data();
}

}  // namespace

SimpleUpdates::AskedRule::AskedRule(const UpdateRule& rule)
    : rule(&rule),
      looks_at_nothing_else(rule.num_states() == 0 && !rule.takes_seed() &&
                            !rule.takes_sums()),
      is_assign(rule.kind() == RuleKind::kAssign),
      work_factor(rule.work_factor()) {}

bool SimpleUpdates::IsSimple(const StoredKey& key,
                             const PushEntry& entry) const {
  const Tensor& tensor = entry.tensor;
  if (!asked_.looks_at_nothing_else || key.rule_state != nullptr ||
      key.multipliers || !IsOneTensor(entry) || tensor.dtype() != key.dtype() ||
      key.value->size_bytes() == 0 || !key.is_writable()) {
    return false;
  }
  // An own buffer becomes the value as it is.
  return !asked_.is_assign || tensor.buffer()->size_bytes() < kOwnBufferBytes ||
         !tensor.fills_buffer();
}

bool SimpleUpdates::Add(StoredKey* key, const RefPtr<QueuedCall>& call,
                        const PushEntry& entry, uint32_t result) {
  if (asked_.rule != key->rule.get()) asked_ = AskedRule(*key->rule);
  if (!IsSimple(*key, entry)) return false;
  if (!call_) {
    call_ = call;
    revision_ = key->revision;
  }
  if (rules_.empty() || rules_.back() != key->rule) rules_.push_back(key->rule);
  const Tensor& tensor = entry.tensor;
  if (buffers_.empty() || buffers_.back() != tensor.buffer()) {
    buffers_.push_back(tensor.buffer());
  }
  work_bytes_ +=
      (kUpdateBytes + 2 * key->value->size_bytes()) * asked_.work_factor;
  key->is_updating = true;
  key->value_is_changing = true;
  updates_.push_back({.key = key,
                      .rule = asked_.rule,
                      .data = tensor.data(),
                      .update_count = key->CountUpdate(),
                      .result = result});
  return true;
}

void SimpleUpdates::Run(Backend& device) {
  const size_t batch_size = std::min(updates_.size(), kBatchUpdates);
  std::vector<TensorView> contributions(batch_size);
  std::vector<TensorUpdate> batch(batch_size);
  for (size_t i = 0; i < batch_size; ++i) {
    batch[i].contributions = absl::MakeConstSpan(&contributions[i], 1);
  }
  while (num_run_ < updates_.size() && status_.ok()) {
    const size_t size = std::min(updates_.size() - num_run_, batch_size);
    for (size_t i = 0; i < size; ++i) {
      const Update& from = updates_[num_run_ + i];
      if (num_run_ + i + kUpdatesAhead < updates_.size()) {
        Fetch(updates_[num_run_ + i + kUpdatesAhead]);
      }
      TensorUpdate& update = batch[i];
      update.rule = from.rule;
      update.update_count = from.update_count;
      update.value = {from.key->dtype(), from.key->num_elements(),
                      from.key->value->mutable_data()};
      update.stored = update.value;
      contributions[i] = {update.value.dtype, update.value.num_elements,
                          from.data};
    }
    status_ = device.Apply(absl::MakeConstSpan(batch).first(size));
    if (status_.ok()) num_run_ += size;
  }
}

void SimpleUpdates::Complete(const Update& update, const absl::Status& status,
                             Version restored_versions) {
  StoredKey& key = *update.key;
  key.is_updating = false;
  key.value_is_changing = false;
  key.EndCount(/*is_applied=*/status.ok());
  if (status.ok()) key.version = key.NextVersion(restored_versions);
}

}  // namespace tensorkv
