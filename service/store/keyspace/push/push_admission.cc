#include "service/store/keyspace/push/push_admission.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "service/store/keyspace/push/push_check.h"
#include "service/store/keyspace/push/push_reply.h"
#include "service/store/keyspace/push/pushed_deltas.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/keyspace/waiting_calls.h"

namespace tensorkv {

bool CopiesHere(const NamespaceState& state, const PushRequest& request) {
  if (!state.tensor_placement->copies()) return false;
  const Backend& device = state.device();
  const Buffer* last = nullptr;
  for (const PushEntry& entry : request.entries) {
    const Buffer* const buffer = entry.tensor.buffer().get();
    if (BringsNothing(entry) || buffer == last) continue;
    if (!device.CanRead(entry.tensor.data(), entry.tensor.size_bytes())) {
      return true;
    }
    last = buffer;
  }
  return false;
}

absl::Status PushAdmission::Run() {
  if (pull_ != nullptr && request_.publish_as) {
    return absl::InvalidArgumentError(
        "publish_as: expected none in a PushPull, got one");
  }
  ASSIGN_OR_RETURN(publication_, Publication::Of(request_));
  RETURN_IF_ERROR(guard_.MeasureAndClip(request_));
  LookAtRows(state_, request_);
  RETURN_IF_ERROR(ReserveForTensors());
  if (is_copied_) RETURN_IF_ERROR(CopyToDevice());
  ASSIGN_OR_RETURN(const bool is_admitted, TryAdmit());
  if (is_admitted) return absl::OkStatus();
  // Meanwhile an update of one of the keys has begun.
  RETURN_IF_ERROR(copies_.Start());
  return TryAdmit().status();
}

absl::Status PushAdmission::ReserveForTensors() {
  ASSIGN_OR_RETURN(
      Reservation arrived,
      Reservation::Create(state_.memory.host().contributions,
                          UncountedBytes(state_.memory, request_)));
  if (is_copied_) {
    arrived_bytes_ = std::move(arrived);
  } else {
    tensor_bytes_ = std::move(arrived);
  }
  ASSIGN_OR_RETURN(overhead_,
                   Reservation::Create(state_.memory.metadata(),
                                       OverheadOf(state_.memory, request_)));
  return absl::OkStatus();
}

// Nothing is copied for a push that would be refused as things are.
absl::Status PushAdmission::CopyToDevice() {
  Reservation copy_reservation;
  bool can_start_later = !CopiesHere(state_, request_);
  {
    MutexLock lock(&state_.mutex);
    ASSIGN_OR_RETURN(const EntriesByKey entries, Check());
    ASSIGN_OR_RETURN(
        copy_reservation,
        Reservation::Create(state_.memory.device().contributions,
                            PushCopies::BytesOf(state_, request_)));
    const uint64_t reply_bytes =
        pull_ == nullptr
            ? 0
            : BytesForReply(state_, request_, entries, pull_->dtype);
    RETURN_IF_ERROR(state_.memory.CheckHeadroom(
        {.host = SumOfBytes(reply_bytes, entries.record_bytes),
         .device = BytesBesideTensors(entries)}));
    can_start_later &= copies_.CanStartLater(entries);
  }
  RETURN_IF_ERROR(copies_.Make(request_, std::move(copy_reservation)));
  return can_start_later ? absl::OkStatus() : copies_.Start();
}

absl::StatusOr<bool> PushAdmission::TryAdmit() {
  transaction_.Lock();
  absl::StatusOr<bool> is_admitted = Admit();
  transaction_.Unlock();
  return is_admitted;
}

absl::StatusOr<EntriesByKey> PushAdmission::Check() const {
  ASSIGN_OR_RETURN(EntriesByKey entries, CheckKeys(state_, request_));
  RETURN_IF_ERROR(CheckBases(state_, request_, entries, bases_));
  const absl::Status guarded =
      guard_.Check(request_, entries, state_.counts.guarded);
  if (!guarded.ok()) {
    RecordGuard(entries, /*is_refused=*/true);
    return guarded;
  }
  if (pull_ != nullptr) {
    RETURN_IF_ERROR(
        CheckReply(state_, request_, entries, pull_->dtype, max_reply_bytes_));
  }
  return entries;
}

void PushAdmission::RecordGuard(const EntriesByKey& entries,
                                bool is_refused) const {
  StepRecords* const records = state_.mode->step_records();
  if (records == nullptr || !guard_.is_on()) return;
  records->PushGuarded(request_.step, request_.worker->rank,
                       guard_.Effects(entries, is_refused));
}

void PushAdmission::SkipWeightless() {
  for (PushEntry& entry : request_.entries) entry.skip = BringsNothing(entry);
}

void PushAdmission::SkipEmptyLists(const EntriesByKey& entries) {
  const auto is_empty_list = [](const PushEntry& entry) {
    return entry.rows && entry.rows->size() == 0 && !entry.update_all_rows;
  };
  for (uint32_t first = 0; first < entries.keys.size(); ++first) {
    if (!entries.keys[first].is_first) continue;
    // Those of other workers may bring elements.
    bool weighs = state_.has_means() && !applies_at_once_;
    if (weighs) {
      entries.ForEach(first, [&](uint32_t i) {
        const PushEntry& entry = request_.entries[i];
        weighs &= entry.skip || is_empty_list(entry);
      });
    }
    entries.ForEach(first, [&](uint32_t i) {
      PushEntry& entry = request_.entries[i];
      if (entry.skip || !is_empty_list(entry)) return;
      entry.skip = !std::exchange(weighs, false);
    });
  }
}

absl::StatusOr<bool> PushAdmission::Admit() {
  ASSIGN_OR_RETURN(const EntriesByKey entries, Check());
  if (!copies_.has_started() && !copies_.CanStartLater(entries)) return false;
  const MemoryAccounts& memory = state_.memory.device();
  ASSIGN_OR_RETURN(value_reservation_,
                   Reservation::Create(memory.values, entries.new_value_bytes));
  if (state_.config.mirrored) {
    ASSIGN_OR_RETURN(
        decoded_bytes_,
        Reservation::Create(memory.contributions, entries.decoded_bytes));
  }
  if (entries.has_sums) {
    ASSIGN_OR_RETURN(sum_bytes_, Reservation::Create(memory.contributions,
                                                     entries.sum_bytes));
  }
  ASSIGN_OR_RETURN(records_, Reservation::Create(state_.memory.metadata(),
                                                 entries.record_bytes));
  RETURN_IF_ERROR(publication_.Check(transaction_));
  if (state_.has_means()) SkipWeightless();
  guard_.SkipAndCount(entries, request_, state_.counts.guarded);
  RecordGuard(entries, /*is_refused=*/false);
  if (entries.has_rows) SkipEmptyLists(entries);
  copies_.Swap(request_);

  AdmitKeys(entries);
  transaction_.work().updates.SetUploads(copies_.TakeToStart());
  transaction_.work().updates.AddReservations(std::move(tensor_bytes_),
                                              std::move(overhead_),
                                              std::move(value_reservation_));
  RecordStep();
  call_->reply.published = publication_.Take(transaction_, call_);
  if (pull_ != nullptr) {
    for (PushEntry& entry : request_.entries) {
      pull_->entries.push_back({std::move(entry.key)});
    }
  }
  if (call_->num_pending == 0) transaction_.Send(call_);
  return true;
}

void PushAdmission::AdmitKeys(const EntriesByKey& entries) {
  const size_t num_entries = request_.entries.size();
  std::vector<PushResult>& results = call_->reply.results;
  results.resize(num_entries);
  transaction_.work().updates.Reserve(num_entries);
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    const EntriesByKey::KeyOfEntry& entry = entries.keys[i];
    if (entry.is_first && !entry.is_repeat) AdmitKey(entries, i);
  }
  if (num_begun_ > 0) {
    state_.revisions.Begin(transaction_.revision(), num_begun_);
    call_->num_pending += num_begun_;
  }
  for (const auto& [first, result] : entries.repeats) {
    entries.ForEach(first, [&](uint32_t i) { results[i] = result; });
  }
}

void PushAdmission::AdmitKey(const EntriesByKey& entries, uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  bool is_skipped = true;
  entries.ForEach(first,
                  [&](uint32_t i) { is_skipped &= request_.entries[i].skip; });
  // What is skipped changes nothing that snapshots would have to keep.
  const bool may_begin =
      applies_at_once_ &&
      (is_skipped ? !key.is_updating
                  : TryBegin(transaction_, key,
                             entries.keys[first].brings_reservation));
  if (!forgets_contributions_) {
    const PushMode& mode = *state_.mode;
    mode.Record(key, request_,
                records_.Split(mode.BytesToRecord(key, request_)));
  }
  if (!applies_at_once_) return AddToRound(entries, first);
  if (!may_begin) return QueueUpdate(entries, first);
  const bool has_one_entry = entries.keys[first].next == 0;
  if (is_copied_ || !has_one_entry ||
      !transaction_.work().updates.AddTensor(&key, call_,
                                             request_.entries[first], first)) {
    return UpdateIdleKey(entries, first);
  }
  ++num_begun_;
}

void PushAdmission::UpdateIdleKey(const EntriesByKey& entries, uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  bool is_skipped = true;
  entries.ForEach(first, [&](uint32_t i) {
    is_skipped &= request_.entries[i].skip;
    call_->reply.results[i].version = key.version;
  });
  if (is_skipped) return;
  UpdatePass& updates = transaction_.work().updates;
  updates.Begin(&key, call_);
  entries.ForEach(first, [&](uint32_t i) {
    updates.AddResult(i);
    PushEntry& entry = request_.entries[i];
    // Moved, so that a buffer that nobody else has can become the value.
    if (!entry.skip) updates.AddSlot(Slot(std::move(entry)));
  });
  updates.End(entries.keys[first].brings_reservation);
  ++num_begun_;
}

void PushAdmission::QueueUpdate(const EntriesByKey& entries, uint32_t first) {
  for (PendingUpdate& update : AddContribution(entries, first)) {
    update.call = call_;
    entries.ForEach(first, [&](uint32_t i) { update.results.push_back(i); });
    ++call_->num_pending;
    Enqueue(transaction_, *entries.keys[first].key, std::move(update));
  }
}

void PushAdmission::AddToRound(const EntriesByKey& entries, uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  const bool opens_round = key.rounds->OpensRound(request_.step);
  const size_t open_before = key.rounds->num_open();
  PendingUpdates updates = AddContribution(entries, first);
  state_.counts.rounds_open +=
      key.rounds->num_open() + updates.size() - open_before;
  CloseRounds(transaction_, key, std::move(updates));
  BeginPartialSum(transaction_, key);
  if (opens_round) state_.round_times.Begin(state_, key, request_.step);
}

PendingUpdates PushAdmission::AddContribution(const EntriesByKey& entries,
                                              uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  Contribution contribution;
  uint64_t tensor_bytes = 0;
  uint64_t overhead_bytes = 0;
  uint64_t decoded_bytes = 0;
  std::optional<uint64_t> sum_bytes;
  if (entries.has_sums) {
    sum_bytes = SumBytes(state_, request_, entries, first);
  }
  entries.ForEach(first, [&](uint32_t i) {
    call_->reply.results[i] = state_.mode->ResultOf(key, request_);
    PushEntry& entry = request_.entries[i];
    overhead_bytes += OverheadOf(state_.memory, entry);
    decoded_bytes += DecodedBytes(state_, key, entry);
    if (entry.skip) return;
    // The buffers of copies are counted.
    if (!is_copied_) {
      tensor_bytes += UncountedBytes(state_.memory, entry.tensor);
    }
    contribution.slots.emplace_back(std::move(entry));
  });
  contribution.tensor_reservation = tensor_bytes_.Split(tensor_bytes);
  contribution.overhead = overhead_.Split(overhead_bytes);
  if (decoded_bytes > 0) {
    contribution.decoded = decoded_bytes_.Split(decoded_bytes);
  }
  if (sum_bytes) {
    contribution.needs_sum = true;
    contribution.sum_reservation = sum_bytes_.Split(*sum_bytes);
  }
  Reservation value_reservation = value_reservation_.Split(
      entries.keys[first].brings_reservation ? key.value_bytes() : 0);
  return state_.mode->Add(key, request_, std::move(contribution),
                          std::move(value_reservation));
}

void PushAdmission::RecordStep() {
  const PushMode& mode = *state_.mode;
  if (!mode.CountsStep(request_)) return;
  WorkerGroup& workers = *state_.workers;
  if (!mode.waits_for_slower()) {
    return workers.Reach(*request_.worker, request_.step);
  }
  const Step slowest = workers.slowest_step();
  workers.Reach(*request_.worker, request_.step);
  // Applied at once: no step that somebody has reached is made anew.
  workers.Close(request_.step);
  if (workers.slowest_step() > slowest) Wake(transaction_, kProgressTopic);
}

}  // namespace tensorkv
