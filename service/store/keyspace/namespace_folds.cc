#include <optional>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace.h"

namespace tensorkv {

void Namespace::BeginFold(StoredKey& key, Work& work) {
  if (auto fold = key.rounds->BeginFold()) {
    work.folds.push_back({KeyPtr(&key), *std::move(fold)});
  }
}

void Namespace::RunFold(FoldOfKey job) {
  absl::StatusOr<Contribution> sum = SumOf(job);
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  {
    MutexLock lock(&mutex_);
    StoredKey& key = *job.key;
    if (!key.rounds) return;  // deleted or replaced meanwhile
    std::optional<Contribution> folded;
    if (sum.ok()) {
      folded = *std::move(sum);
    } else if (job.fold.scale != 1) {
      FailFold(job, sum.status(), replies);
    }
    // Without room for the sum, the contributions wait as they are.
    ClosedRounds closed = key.rounds->EndFold(job.fold, std::move(folded));
    EnqueueRounds(key, UpdatesOf(std::move(closed)), work, replies);
    if (sum.ok()) BeginFold(key, work);
  }
  // Nothing counts what was summed any more.
  job.fold.slots.clear();
  Send(std::move(replies));
  Run(std::move(work));
}

void Namespace::FailFold(const FoldOfKey& job, const absl::Status& status,
                         Replies& replies) {
  if (!job.key->rounds->IsOpen(job.fold.step, job.fold.id)) return;
  FailRounds(*job.key, job.fold.step,
             std::make_shared<RoundFailure>(
                 RoundFailure{std::string(status.message()), {}}),
             replies);
  WakeAll(replies);
}

absl::StatusOr<Contribution> Namespace::SumOf(const FoldOfKey& job) {
  static const UpdateRule* const kAssign = new UpdateRule();
  const DType dtype = AccumulateType(job.key->dtype());
  const int64_t num_elements = job.key->num_elements();
  const uint64_t bytes = num_elements * SizeOf(dtype);
  Contribution sum;
  ASSIGN_OR_RETURN(
      sum.held,
      Reservation::Create(memory_.on(job.key->device).contributions, bytes));
  Slot& slot = sum.slots.emplace_back();
  slot.dtype = dtype;
  Backend& device = DeviceOf(*job.key);
  ASSIGN_OR_RETURN(slot.buffer, device.Allocate(bytes, nullptr));
  slot.data = slot.buffer->data();
  std::vector<TensorView> views;
  std::vector<const Packing*> packings;
  for (const Slot& each : job.fold.slots) {
    views.push_back({each.dtype, num_elements, each.data});
    packings.push_back(each.packing());
  }
  TensorUpdate update;
  update.rule = kAssign;
  update.contributions = views;
  update.packings = packings;
  update.value = {dtype, num_elements, slot.buffer->mutable_data()};
  RETURN_IF_ERROR(device.Apply({&update, 1}));
  if (job.fold.scale != 1) RETURN_IF_ERROR(Scale(job, sum));
  return sum;
}

// By the rule accumulate on zeros, which rounds once. Sums of integers stay as
// they are.
absl::Status Namespace::Scale(const FoldOfKey& job, Contribution& sum) {
  const DType dtype = AccumulateType(job.key->dtype());
  if (!IsFloat(dtype)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const UpdateRule rule,
      UpdateRule::Create({.name = "accumulate",
                          .hyperparameters = {{"scale", job.fold.scale}}}));
  const int64_t num_elements = job.key->num_elements();
  const uint64_t bytes = num_elements * SizeOf(dtype);
  // Until the unscaled sum is gone.
  ASSIGN_OR_RETURN(
      const Reservation held,
      Reservation::Create(memory_.on(job.key->device).contributions, bytes));
  Backend& device = DeviceOf(*job.key);
  ASSIGN_OR_RETURN(RefPtr<Buffer> scaled, device.Allocate(bytes, nullptr));
  Slot& slot = sum.slots[0];
  const TensorView contribution = {dtype, num_elements, slot.data};
  TensorUpdate update;
  update.rule = &rule;
  update.value = {dtype, num_elements, scaled->mutable_data()};
  update.stored = {dtype, num_elements, scaled->data()};
  update.contributions = absl::MakeConstSpan(&contribution, 1);
  RETURN_IF_ERROR(device.Zero({&update.value, 1}));
  RETURN_IF_ERROR(device.Apply({&update, 1}));
  slot.buffer = std::move(scaled);
  slot.data = slot.buffer->data();
  return absl::OkStatus();
}

}  // namespace tensorkv
