#include "bench/gpu/updates.h"

#include "absl/types/span.h"
#include "base/status_macros.h"

namespace tensorkv::bench::gpu {

absl::StatusOr<std::shared_ptr<const Updates>> Updates::Create(
    Backend* backend, const RuleSpec& rule, const KeyUpdateShape& shape,
    int64_t num_updates) {
  ASSIGN_OR_RETURN(UpdateRule checked, UpdateRule::Create(rule));
  std::shared_ptr<Updates> updates(new Updates(backend, std::move(checked)));
  for (int64_t i = 0; i < num_updates; ++i) {
    ASSIGN_OR_RETURN(KeyUpdate key,
                     KeyUpdate::Create(*backend, &updates->rule_, shape));
    updates->keys_.push_back(std::move(key));
  }
  for (const KeyUpdate& key : updates->keys_) {
    updates->batch_.push_back(key.view());
  }
  return updates;
}

int64_t Updates::bytes_moved() const {
  int64_t bytes = 0;
  for (const TensorUpdate& update : batch_) bytes += BytesMoved(update);
  return bytes;
}

LoadShape Updates::shape() const {
  return {.bytes_per_call = bytes_moved(),
          .keys_per_call = static_cast<int64_t>(batch_.size())};
}

std::unique_ptr<Load> Updates::InOneBatch(
    std::shared_ptr<const Updates> updates) {
  const LoadShape shape = updates->shape();
  return std::make_unique<FunctionLoad>(
      shape,
      [updates = std::move(updates)](int) { return updates->ApplyTogether(); });
}

std::unique_ptr<Load> Updates::OneByOne(
    std::shared_ptr<const Updates> updates) {
  const LoadShape shape = updates->shape();
  return std::make_unique<FunctionLoad>(
      shape,
      [updates = std::move(updates)](int) { return updates->ApplyOneByOne(); });
}

absl::Status Updates::ApplyTogether() const { return backend_.Apply(batch_); }

absl::Status Updates::ApplyOneByOne() const {
  for (const TensorUpdate& update : batch_) {
    RETURN_IF_ERROR(backend_.Apply(absl::MakeConstSpan(&update, 1)));
  }
  return absl::OkStatus();
}

}  // namespace tensorkv::bench::gpu
