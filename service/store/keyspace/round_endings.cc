#include "service/store/keyspace/round_endings.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/row_batches.h"
#include "service/store/keyspace/update_runner.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/keyspace/weighted_sum.h"

namespace tensorkv {
namespace {

// Keeps busy_keys after a change of the key's rounds.
void NoteRounds(NamespaceState& state, StoredKey& key) {
  if (key.rounds->is_idle()) {
    state.busy_keys.erase(&key);
  } else {
    state.busy_keys.insert(&key);
  }
}

// Multiplies by the rule accumulate on zeros, which rounds once. Sums of
// integers stay as they are.
absl::Status Scale(const NamespaceState& state, const FoldOfKey& job,
                   Contribution& sum) {
  const DType dtype = AccumulateType(job.key->dtype());
  if (!IsFloat(dtype)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const UpdateRule rule,
      UpdateRule::Create({.name = "accumulate",
                          .hyperparameters = {{"scale", job.fold.scale}}}));
  const int64_t num_elements = job.key->NumElementsOf(sum.slots[0]);
  const uint64_t bytes = num_elements * SizeOf(dtype);
  // Until the unscaled sum is gone.
  ASSIGN_OR_RETURN(const Reservation held,
                   Reservation::Create(
                       state.memory.on(job.key->device).contributions, bytes));
  Backend& device = state.DeviceOf(*job.key);
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

// Gives the sum memory for so many elements.
absl::StatusOr<MutableTensorView> AllocateSum(const NamespaceState& state,
                                              const StoredKey& key,
                                              int64_t num_elements,
                                              Contribution& sum) {
  const DType dtype = AccumulateType(key.dtype());
  const uint64_t bytes = num_elements * SizeOf(dtype);
  ASSIGN_OR_RETURN(
      sum.held,
      Reservation::Create(state.memory.on(key.device).contributions, bytes));
  Slot& slot = sum.slots.emplace_back();
  slot.dtype = dtype;
  ASSIGN_OR_RETURN(slot.buffer, state.DeviceOf(key).Allocate(bytes, nullptr));
  slot.data = slot.buffer->data();
  return MutableTensorView{dtype, num_elements, slot.buffer->mutable_data()};
}

// The sum has rows too, those that are named, if all contributions have.
absl::StatusOr<Contribution> SumOfRows(const NamespaceState& state,
                                       const FoldOfKey& job,
                                       const UpdateRule& assign) {
  const StoredKey& key = *job.key;
  const bool has_tensors =
      std::any_of(job.fold.slots.begin(), job.fold.slots.end(),
                  [](const Slot& slot) { return !slot.rows; });
  RowBatches::Options options = {.num_rows = key.num_rows(),
                                 .slots = job.fold.slots,
                                 .updates_all_rows = has_tensors,
                                 .is_compact = !has_tensors};
  options.whole.rule = &assign;
  options.whole.stored = {key.dtype(), key.num_elements(), nullptr};
  options.whole.value.dtype = AccumulateType(key.dtype());
  RowBatches batches(options);
  Contribution sum;
  int64_t num_elements = key.num_elements();
  RefPtr<const RowIds> ids;
  if (!has_tensors) {
    const std::vector<int64_t> rows = batches.NamedRows();
    const auto num_rows = static_cast<int64_t>(rows.size());
    ASSIGN_OR_RETURN(
        sum.overhead,
        Reservation::Create(state.memory.metadata(),
                            num_rows * (kBytesPerRowId + sizeof(int64_t))));
    ASSIGN_OR_RETURN(Tensor tensor,
                     Tensor::CopyOf(DType::kI64, {num_rows}, rows.data()));
    ASSIGN_OR_RETURN(ids, RowIds::Create(std::move(tensor)));
    num_elements = key.num_elements_of_row() * num_rows;
  }
  ASSIGN_OR_RETURN(const MutableTensorView value,
                   AllocateSum(state, key, num_elements, sum));
  sum.slots[0].updates_all_rows = UpdatesAllRows(job.fold.slots);
  sum.slots[0].rows = std::move(ids);
  batches.SetValue(value);
  RETURN_IF_ERROR(ApplyAll(state.DeviceOf(key), batches));
  return sum;
}

absl::Status SumTensors(Backend& device, absl::Span<const Slot> slots,
                        const MutableTensorView& sum) {
  static const UpdateRule* const kAssign = new UpdateRule();
  if (HasFactors(slots)) return SumWeighted(device, slots, sum);
  std::vector<TensorView> views;
  std::vector<const Packing*> packings;
  for (const Slot& each : slots) {
    views.push_back({each.dtype, sum.num_elements, each.data});
    packings.push_back(each.packing());
  }
  TensorUpdate update;
  update.rule = kAssign;
  update.contributions = views;
  update.packings = packings;
  update.value = sum;
  return device.Apply({&update, 1});
}

absl::StatusOr<Contribution> SumOf(const NamespaceState& state,
                                   const FoldOfKey& job) {
  static const UpdateRule* const kAssign = new UpdateRule();
  const Slots& slots = job.fold.slots;
  Contribution sum;
  if (HasRows(slots)) {
    RETURN_IF_ERROR(CheckWeightsHaveNoRows(job.key->name(), slots));
    ASSIGN_OR_RETURN(sum, SumOfRows(state, job, *kAssign));
  } else {
    ASSIGN_OR_RETURN(
        const MutableTensorView value,
        AllocateSum(state, *job.key, job.key->num_elements(), sum));
    RETURN_IF_ERROR(SumTensors(state.DeviceOf(*job.key), slots, value));
  }
  TakeWeights(slots, sum.slots[0]);
  if (job.fold.scale != 1) RETURN_IF_ERROR(Scale(state, job, sum));
  return sum;
}

// The round cannot be summed.
void FailFold(Transaction& transaction, const FoldOfKey& job,
              const absl::Status& status) {
  if (!job.key->rounds->IsOpen(job.fold.step, job.fold.id)) return;
  FailRounds(transaction, *job.key, job.fold.step,
             std::make_shared<RoundFailure>(
                 RoundFailure{std::string(status.message()), {}}));
  WakeAll(transaction);
}

}  // namespace

void CloseRounds(Transaction& transaction, StoredKey& key,
                 PendingUpdates updates) {
  NamespaceState& state = transaction.state();
  state.counts.rounds_open -= updates.size();
  for (PendingUpdate& update : updates) {
    state.workers->Close(update.round);
    Enqueue(transaction, key, std::move(update));
  }
  if (auto fold = key.rounds->BeginScaling()) {
    transaction.work().folds.push_back({KeyPtr(&key), *std::move(fold)});
  }
  NoteRounds(state, key);
}

void CloseRounds(Transaction& transaction, StoredKey& key,
                 ClosedRounds closed) {
  CloseRounds(transaction, key, UpdatesOf(std::move(closed)));
}

void FailRounds(Transaction& transaction, StoredKey& key, Step step,
                const RoundFailurePtr& failure) {
  NamespaceState& state = transaction.state();
  FailedRounds failed = key.rounds->Fail(step, failure);
  const uint64_t num_failed = failed.open.size() + failed.num_closed;
  state.counts.rounds_open -= failed.open.size();
  state.counts.rounds_failed += num_failed;
  transaction.ReportFailedRounds(key.name(), step, *failure, num_failed);
  transaction.Drop(std::move(failed.open));
  NoteRounds(state, key);
}

void RemoveRounds(Transaction& transaction, StoredKey& key,
                  RoundsOfKeys& ended) {
  if (!key.rounds) return;
  NamespaceState& state = transaction.state();
  const size_t num_open = key.rounds->num_open();
  if (num_open > 0) ended.emplace(key.name(), key.rounds.get());
  state.counts.rounds_open -= num_open;
  state.counts.rounds_failed += num_open;
  key.rounds->ForgiveAll();
  state.busy_keys.erase(&key);
  transaction.Drop(std::move(key.rounds));
}

void BeginFold(Transaction& transaction, StoredKey& key) {
  if (auto fold = key.rounds->BeginFold()) {
    transaction.work().folds.push_back({KeyPtr(&key), *std::move(fold)});
  }
}

void RunFold(NamespaceState& state, FoldOfKey job) {
  absl::StatusOr<Contribution> sum = SumOf(state, job);
  std::optional<Contribution> folded;  // what is left of it goes last
  Transaction transaction(state);
  StoredKey& key = *job.key;
  if (!key.rounds) return;  // deleted or replaced meanwhile
  if (sum.ok()) {
    folded = *std::move(sum);
  } else if (job.fold.scale != 1) {
    FailFold(transaction, job, sum.status());
  }
  // Without room for the sum, the contributions wait as they are.
  CloseRounds(transaction, key, key.rounds->EndFold(job.fold, folded));
  if (sum.ok()) BeginFold(transaction, key);
  transaction.Unlock();
  // Nothing counts what was summed any more, and nobody has a sum that came too
  // late.
  job.fold.slots.clear();
  folded.reset();
}

}  // namespace tensorkv
