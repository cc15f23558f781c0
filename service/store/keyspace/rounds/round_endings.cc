#include "service/store/keyspace/rounds/round_endings.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rounds/exchanged_rounds.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/keyspace/waiting_calls.h"

namespace tensorkv {
namespace {

// Sums that are made together, while all that they are of is still there.
constexpr uint64_t kMaxBytesOfSums = 64 << 20;

// Keeps keys_with_rounds after a change of the key's rounds.
void RecordRounds(NamespaceState& state, StoredKey& key) {
  if (key.rounds->is_idle()) {
    state.keys_with_rounds.erase(&key);
  } else {
    state.keys_with_rounds.insert(&key);
  }
}

// Multiplies by the rule accumulate on zeros, which rounds once. Sums of
// integers stay as they are.
absl::Status Scale(const NamespaceState& state, const PartialSumOfKey& job,
                   Contribution& sum) {
  const DType dtype = AccumulateType(job.key->dtype());
  if (!IsFloat(dtype)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const UpdateRule rule,
      UpdateRule::Create({.name = "accumulate",
                          .hyperparameters = {{"scale", job.partial.scale}}}));
  const int64_t num_elements = job.key->NumElementsOf(sum.slots[0]);
  const uint64_t bytes = num_elements * SizeOf(dtype);
  // Until the unscaled sum is gone.
  ASSIGN_OR_RETURN(
      const Reservation tensor_reservation,
      Reservation::Create(state.memory.device().contributions, bytes));
  Backend& device = state.device();
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

// Gives the sum memory for so many elements, or the memory of the sum to which
// contributions are added.
absl::StatusOr<MutableTensorView> AllocateSum(const NamespaceState& state,
                                              PartialSumOfKey& job,
                                              int64_t num_elements,
                                              Contribution& sum) {
  const StoredKey& key = *job.key;
  const DType dtype = AccumulateType(key.dtype());
  const uint64_t bytes = num_elements * SizeOf(dtype);
  sum.is_partial_sum = !job.partial.place;
  if (job.partial.adds_to_first) {
    sum.tensor_reservation = std::move(job.partial.sum_reservation);
    Slot& slot = sum.slots.emplace_back(job.partial.slots.front());
    return MutableTensorView{dtype, num_elements, slot.buffer->mutable_data()};
  }
  if (job.partial.sum_reservation.bytes() >= bytes) {
    sum.tensor_reservation = job.partial.sum_reservation.Split(bytes);
  } else {
    ASSIGN_OR_RETURN(
        sum.tensor_reservation,
        Reservation::Create(state.memory.device().contributions, bytes));
  }
  Slot& slot = sum.slots.emplace_back();
  slot.dtype = dtype;
  ASSIGN_OR_RETURN(slot.buffer, state.device().Allocate(bytes, nullptr));
  slot.data = slot.buffer->data();
  return MutableTensorView{dtype, num_elements, slot.buffer->mutable_data()};
}

const UpdateRule& Accumulate() {
  static const UpdateRule* const rule =
      new UpdateRule(*UpdateRule::Create({.name = "accumulate"}));
  return *rule;
}

// Returns whether the sum is of what each contribution weighs: what one worker
// brings has one weight.
bool IsWeighted(const NamespaceState& state, const PartialSumOfKey& job) {
  return state.has_means() && !job.partial.place;
}

// The sum has rows too, those that are named, if all contributions have.
absl::StatusOr<Contribution> SumOfRows(const NamespaceState& state,
                                       PartialSumOfKey& job) {
  const StoredKey& key = *job.key;
  const bool has_tensors =
      std::any_of(job.partial.slots.begin(), job.partial.slots.end(),
                  [](const Slot& slot) { return !slot.rows; });
  RowBatches::Options options = {.num_rows = key.num_rows(),
                                 .slots = job.partial.slots,
                                 .update_all_rows = has_tensors,
                                 .is_compact = !has_tensors};
  if (IsWeighted(state, job)) options.total_weight = 0;
  options.whole.rule = &UpdateRule::Assign();
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
                   AllocateSum(state, job, num_elements, sum));
  sum.slots[0].update_all_rows = UpdatesAllRows(job.partial.slots);
  sum.slots[0].rows = std::move(ids);
  batches.SetValue(value);
  RETURN_IF_ERROR(ApplyAll(state.device(), batches));
  return sum;
}

// Sums of tensors, of any number of rounds: one batch of updates.
class TensorSums {
 public:
  explicit TensorSums(const NamespaceState& state) : state_(state) {}

  // Gives a partial sum memory, which has it once Run has returned.
  absl::StatusOr<Contribution> Add(PartialSumOfKey& job) {
    const int64_t num_elements = job.key->num_elements();
    Contribution sum;
    ASSIGN_OR_RETURN(const MutableTensorView value,
                     AllocateSum(state_, job, num_elements, sum));
    const bool is_weighted = IsWeighted(state_, job);
    Inputs& inputs = inputs_.emplace_back();
    absl::Span<const Slot> slots = job.partial.slots;
    if (job.partial.adds_to_first) slots.remove_prefix(1);
    for (const Slot& each : slots) {
      inputs.views.push_back({each.dtype, num_elements, each.data});
      inputs.packings.push_back(each.packing());
      if (is_weighted) inputs.factors.push_back(each.factor());
    }
    TensorUpdate& update = batch_.emplace_back();
    update.rule = &UpdateRule::Assign();
    if (job.partial.adds_to_first) {
      update.rule = &Accumulate();
      update.stored = {value.dtype, num_elements, value.data};
    }
    update.contributions = inputs.views;
    update.packings = inputs.packings;
    update.value = value;
    inputs.weights.each = inputs.factors;
    if (is_weighted) update.weights = &inputs.weights;
    return sum;
  }

  absl::Status Run() {
    return batch_.empty() ? absl::OkStatus() : state_.device().Apply(batch_);
  }

 private:
  struct Inputs {
    std::vector<TensorView> views;
    std::vector<const Packing*> packings;
    std::vector<double> factors;
    ContributionWeights weights;
  };

  const NamespaceState& state_;
  std::deque<Inputs> inputs_;  // the updates refer to its elements
  std::vector<TensorUpdate> batch_;
};

// Returns the partial sums, in their order.
std::vector<absl::StatusOr<Contribution>> SumsOf(
    const NamespaceState& state, absl::Span<PartialSumOfKey> jobs) {
  TensorSums tensors(state);
  std::vector<absl::StatusOr<Contribution>> sums;
  sums.reserve(jobs.size());
  for (PartialSumOfKey& job : jobs) {
    sums.push_back(HasRows(job.partial.slots) ? SumOfRows(state, job)
                                              : tensors.Add(job));
  }
  const absl::Status summed = tensors.Run();
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (!sums[i].ok()) continue;
    absl::Status status;
    if (!HasRows(jobs[i].partial.slots)) status = summed;
    const Slots& summed_slots = jobs[i].partial.slots;
    Slot& slot = sums[i]->slots[0];
    slot.is_weighted = IsWeighted(state, jobs[i]);
    slot.weight = slot.is_weighted ? TotalWeight(summed_slots)
                                   : summed_slots.front().weight;
    if (status.ok() && jobs[i].partial.scale != 1) {
      status = Scale(state, jobs[i], *sums[i]);
    }
    if (!status.ok()) sums[i] = std::move(status);
  }
  return sums;
}

// The round cannot be summed.
void FailPartialSum(Transaction& transaction, const PartialSumOfKey& job,
                    const absl::Status& status) {
  const auto first = job.key->rounds->FirstToFail(job.partial);
  if (!first) return;
  FailRounds(transaction, *job.key, *first,
             std::make_shared<RoundFailure>(
                 RoundFailure{std::string(status.message()), {}}));
  WakeAll(transaction);
}

// Without memory for the sum, the contributions wait as they are, unless the
// round cannot close without it, or the sum that was there is lost.
void EndPartialSum(Transaction& transaction, const PartialSumOfKey& job,
                   absl::StatusOr<Contribution>& sum,
                   std::optional<Contribution>& total) {
  StoredKey& key = *job.key;
  if (!key.rounds) return;  // deleted or replaced meanwhile
  const bool is_summed = sum.ok();
  if (is_summed) {
    total = *std::move(sum);
  } else if (job.partial.scale != 1 || job.partial.is_exchange ||
             job.partial.place || job.partial.adds_to_first) {
    FailPartialSum(transaction, job, sum.status());
  }
  CloseRounds(transaction, key, key.rounds->EndPartialSum(job.partial, total));
  if (is_summed) return BeginPartialSum(transaction, key);
  // A sum that has had no memory is not tried again at once.
  if (auto next = key.rounds->BeginSum()) {
    transaction.work().partial_sums.push_back({KeyPtr(&key), *std::move(next)});
  }
}

// Ends partial sums in one transaction.
void RunSome(NamespaceState& state, absl::Span<PartialSumOfKey> jobs) {
  std::vector<absl::StatusOr<Contribution>> sums = SumsOf(state, jobs);
  // What is left of them is destroyed last.
  std::vector<std::optional<Contribution>> total(jobs.size());
  Transaction transaction(state);
  for (size_t i = 0; i < jobs.size(); ++i) {
    EndPartialSum(transaction, jobs[i], sums[i], total[i]);
  }
  transaction.Unlock();
  // Nothing counts what was summed any more, and nobody has a sum that came too
  // late. A key that was removed meanwhile goes with its job.
  for (PartialSumOfKey& job : jobs) job = {};
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
  if (auto partial = key.rounds->BeginScaling()) {
    transaction.work().partial_sums.push_back(
        {KeyPtr(&key), *std::move(partial)});
  }
  BeginExchange(transaction, key);
  RecordRounds(state, key);
}

void CloseRounds(Transaction& transaction, StoredKey& key,
                 ClosedRounds closed) {
  CloseRounds(transaction, key, UpdatesOf(std::move(closed)));
}

void FailRounds(Transaction& transaction, StoredKey& key, Step step,
                const RoundFailurePtr& failure) {
  NamespaceState& state = transaction.state();
  FailedRounds failed = key.rounds->FailFrom(step, failure);
  const uint64_t num_failed = failed.open.size() + failed.num_closed;
  state.counts.rounds_open -= failed.open.size();
  state.counts.rounds_failed += num_failed;
  transaction.ReportFailedRounds(key.name(), step, *failure, num_failed);
  transaction.Drop(std::move(failed.open));
  if (!failed.late.empty()) transaction.Drop(std::move(failed.late));
  RecordRounds(state, key);
}

void RemoveRounds(Transaction& transaction, StoredKey& key,
                  absl::string_view why) {
  if (!key.rounds) return;
  NamespaceState& state = transaction.state();
  const size_t num_open = key.rounds->num_open();
  state.counts.rounds_open -= num_open;
  state.counts.rounds_failed += num_open;
  key.rounds->Abandon(why);
  state.keys_with_rounds.erase(&key);
  transaction.Drop(std::move(key.rounds));
}

void BeginPartialSum(Transaction& transaction, StoredKey& key) {
  if (auto partial = key.rounds->BeginPartialSum()) {
    transaction.work().partial_sums.push_back(
        {KeyPtr(&key), *std::move(partial)});
  }
}

// No update is ahead: is_updating may say that the key is being copied.
void BeginExchange(Transaction& transaction, StoredKey& key) {
  if (auto partial = key.rounds->BeginExchange()) {
    transaction.work().partial_sums.push_back(
        {KeyPtr(&key), *std::move(partial), key.version});
  }
}

void RunPartialSums(NamespaceState& state, std::vector<PartialSumOfKey> jobs) {
  const auto exchanges = std::stable_partition(
      jobs.begin(), jobs.end(),
      [](const PartialSumOfKey& job) { return !job.partial.is_exchange; });
  if (exchanges != jobs.end()) {
    RunExchange(state,
                {std::make_move_iterator(exchanges),
                 std::make_move_iterator(jobs.end())},
                EndPartialSum);
    jobs.erase(exchanges, jobs.end());
  }
  for (size_t first = 0; first < jobs.size();) {
    uint64_t bytes = 0;
    size_t end = first;
    while (end < jobs.size() && (end == first || bytes < kMaxBytesOfSums)) {
      bytes += jobs[end++].size_bytes();
    }
    RunSome(state, absl::MakeSpan(jobs).subspan(first, end - first));
    first = end;
  }
}

}  // namespace tensorkv
