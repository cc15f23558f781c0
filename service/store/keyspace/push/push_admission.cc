#include "service/store/keyspace/push/push_admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/push/waiting_push.h"
#include "service/store/keyspace/rounds/round_endings.h"
#include "service/store/keyspace/snapshots/snapshot_copies.h"
#include "service/store/keyspace/updates/row_batches.h"
#include "service/store/keyspace/updates/update_runner.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status CheckLength(const PushEntry& entry) {
  const int64_t expected = entry.encoding->payload_bytes();
  if (entry.tensor.size_bytes() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("payload: expected ", expected,
                                                 " bytes, got ",
                                                 entry.tensor.size_bytes()));
}

// Checks what an encoded contribution's payload alone can show to be wrong. A
// check ahead of the payload has none to look at.
absl::Status CheckPayload(const PushEntry& entry) {
  absl::Status status = CheckLength(entry);
  if (status.ok() && entry.tensor.has_data()) {
    status = entry.encoding->CheckPayload(entry.tensor.data());
  }
  if (status.ok()) return status;
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "key ", Quoted(entry.key), ": ", status.message())),
                    Reason::kEncodingMalformed, {{"key", entry.key}});
}

uint64_t UncountedBytes(const NamespaceMemory& memory, const Tensor& tensor) {
  const bool is_counted =
      !tensor.has_data() || IsCountedBy(*memory.host().contributions, tensor);
  return is_counted ? 0 : tensor.size_bytes();
}

// Returns how many bytes an entry costs besides its tensor.
uint64_t OverheadOf(const NamespaceMemory& memory, const PushEntry& entry) {
  if (!entry.rows) return kContributionOverheadBytes;
  return kContributionOverheadBytes +
         UncountedBytes(memory, entry.rows->tensor()) +
         entry.rows->size() * kBytesPerRowId;
}

uint64_t OverheadOf(const NamespaceMemory& memory, const PushRequest& request) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    bytes += OverheadOf(memory, entry);
  }
  return bytes;
}

// Counts a contribution that was refused with `status`.
void CountRefusal(NamespaceCounts& counts, const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kContributionExists:
      ++counts.contributions_duplicate;
      break;
    case Reason::kStepClosed:
      ++counts.contributions_late;
      break;
    case Reason::kNotMember:
    case Reason::kLeaseLost:
    case Reason::kGroupDoesNotJoin:
      ++counts.contributions_fenced;
      break;
    default:
      break;
  }
}

// Returns how many bytes of an entry are read before it takes effect. The guard
// decodes.
uint64_t BytesToRead(const PushEntry& entry, bool is_guarded) {
  if (entry.skip) return 0;
  if (!is_guarded || !entry.encoding || HasValues(entry.encoding->packing())) {
    return entry.tensor.size_bytes();
  }
  return entry.encoding->packing().num_elements * SizeOf(entry.dtype());
}

// Returns whether tensors are copied here on their way to the device.
bool CopiesHere(const NamespaceState& state, const PushRequest& request) {
  if (!state.tensor_placement->copies()) return false;
  const Backend& device = state.device();
  const Buffer* last = nullptr;
  for (const PushEntry& entry : request.entries) {
    const Buffer* const buffer = entry.tensor.buffer().get();
    if (entry.skip || buffer == last) continue;
    if (!device.CanRead(entry.tensor.data(), entry.tensor.size_bytes())) {
      return true;
    }
    last = buffer;
  }
  return false;
}

// Returns whether a push is not for the thread that it comes on: it is large,
// and begins with copies to memory from which the device takes it, with a look
// at each element for the guard, or with one at each index and scale of what is
// encoded.
bool TakesLong(const NamespaceState& state, const PushRequest& request) {
  const bool is_guarded = state.is_guarded;
  if (!is_guarded && !CopiesHere(state, request) &&
      std::none_of(
          request.entries.begin(), request.entries.end(),
          [](const PushEntry& entry) { return bool{entry.encoding}; })) {
    return false;
  }
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    bytes = SumOfBytes(bytes, BytesToRead(entry, is_guarded));
  }
  return bytes > kMaxBytesInline;
}

// Returns how many bytes the entries take of the device besides their tensors.
uint64_t BytesOf(const EntriesByKey& entries) {
  return SumOfBytes(SumOfBytes(entries.new_value_bytes, entries.decoded_bytes),
                    entries.sum_bytes);
}

// Finds what is to be known of row ids before the mutex is held.
void LookAtRows(const NamespaceState& state, const PushRequest& request) {
  if (!MayNeedSums(state, request)) return;
  for (const PushEntry& entry : request.entries) {
    if (entry.rows) entry.rows->has_repeats();
  }
}

// Makes a push whose fields are right and that need not wait for other workers.
void PushNow(NamespaceState& state, PushRequest request,
             const CallContext& context, PullRequest* pull,
             ReplyCallback<PushReply> done) {
  const auto call = MakeRefCounted<QueuedCall>();
  call->done = std::move(done);
  call->is_followed = pull != nullptr;
  const absl::Status status =
      PushAdmission(state, std::move(request), context, pull, call).Run();
  if (!status.ok()) std::move(call->done)(status);
}

void PushHere(NamespaceState& state, PushRequest request,
              const CallContext& context, PullRequest* pull,
              ReplyCallback<PushReply> done) {
  absl::Status status = CheckFields(state, request);
  if (!status.ok()) return std::move(done)(std::move(status));
  if (MustWaitForOthers(state, request)) {
    return ParkPush(state, std::move(request), context, pull, std::move(done));
  }
  PushNow(state, std::move(request), context, pull, std::move(done));
}

}  // namespace

void Push(NamespaceState& state, PushRequest request,
          const CallContext& context, PullRequest* pull,
          ReplyCallback<PushReply> done) {
  if (!TakesLong(state, request)) {
    return PushHere(state, std::move(request), context, pull, std::move(done));
  }
  TaskPool::Task push = [state = state.shared_from_this(),
                         request = std::move(request), context, pull,
                         done = std::move(done)]() mutable {
    PushHere(*state, std::move(request), context, pull, std::move(done));
  };
  if (!state.Submit(std::move(push))) std::move(push)();
}

void Namespace::Push(PushRequest request, const CallContext& context,
                     ReplyCallback<PushReply> done) {
  Push(std::move(request), context, /*pull=*/nullptr, std::move(done));
}

void Namespace::Push(PushRequest request, const CallContext& context,
                     PullRequest* pull, ReplyCallback<PushReply> done) {
  tensorkv::Push(*state_, std::move(request), context, pull, std::move(done));
}

absl::Status CheckFields(const NamespaceState& state,
                         const PushRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  RETURN_IF_ERROR(state.mode->CheckPush(request));
  for (const PushEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    if (entry.skip || !entry.encoding) continue;
    RETURN_IF_ERROR(CheckPayload(entry));
    if (entry.rows && HasValues(entry.encoding->packing())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "key ", Quoted(entry.key),
          ": expected rows with an encoding that has a code for each element, "
          "got top_k or random_k"));
    }
  }
  return absl::OkStatus();
}

uint64_t UncountedBytes(const NamespaceMemory& memory,
                        const PushRequest& request) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip) bytes += UncountedBytes(memory, entry.tensor);
  }
  return bytes;
}

absl::StatusOr<BytesNeeded> BytesToPush(NamespaceState& state,
                                        const PushRequest& request) {
  LookAtRows(state, request);
  BytesNeeded bytes = {.host = OverheadOf(state.memory, request) +
                               UncountedBytes(state.memory, request)};
  MutexLock lock(&state.mutex);
  absl::Status status = state.CheckAndRenew(request.worker);
  if (status.ok()) {
    const absl::StatusOr<EntriesByKey> entries = GroupByKey(state, request);
    if (entries.ok()) {
      bytes.host += entries->record_bytes;
      bytes.device =
          SumOfBytes(PushCopies::BytesOf(state, request), BytesOf(*entries));
      return bytes;
    }
    status = entries.status();
  }
  CountRefusal(state.counts, status);
  return status;
}

absl::Status PushAdmission::Run() {
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
    const absl::StatusOr<EntriesByKey> entries = Check();
    if (!entries.ok()) {
      CountRefusal(state_.counts, entries.status());
      return entries.status();
    }
    ASSIGN_OR_RETURN(
        copy_reservation,
        Reservation::Create(state_.memory.device().contributions,
                            PushCopies::BytesOf(state_, request_)));
    RETURN_IF_ERROR(state_.memory.CheckHeadroom(
        {.host = SumOfBytes(BytesForReply(*entries), entries->record_bytes),
         .device = BytesOf(*entries)}));
    can_start_later &= copies_.CanStartLater(*entries);
  }
  RETURN_IF_ERROR(copies_.Make(request_, std::move(copy_reservation)));
  return can_start_later ? absl::OkStatus() : copies_.Start();
}

uint64_t PushAdmission::ReplyBytes(const EntriesByKey& entries) const {
  if (pull_->dtype == DType::kUnknown) return entries.value_bytes;
  uint64_t bytes = 0;
  for (const EntriesByKey::KeyOfEntry& entry : entries.keys) {
    bytes += entry.key->num_elements() * SizeOf(pull_->dtype);
  }
  return bytes;
}

// The values of a PushPull are copied for its reply.
uint64_t PushAdmission::BytesForReply(const EntriesByKey& entries) const {
  if (pull_ == nullptr) return 0;
  return BytesBeyondTensors(
      SumOfBytes(ReplyBytes(entries), entries.keys.size() * kBufferAlignment));
}

uint64_t PushAdmission::BytesBeyondTensors(uint64_t bytes) const {
  const uint64_t freed_bytes = PushCopies::BytesFreedOnHost(state_, request_);
  return bytes - std::min(bytes, freed_bytes);
}

absl::StatusOr<bool> PushAdmission::TryAdmit() {
  transaction_.Lock();
  absl::StatusOr<bool> is_admitted = Admit();
  if (!is_admitted.ok()) {
    CountRefusal(state_.counts, is_admitted.status());
  }
  transaction_.Unlock();
  return is_admitted;
}

void PushAdmission::SkipEmptyLists() {
  for (PushEntry& entry : request_.entries) {
    if (entry.rows && entry.rows->size() == 0 && !entry.update_all_rows) {
      entry.skip = true;
    }
  }
}

absl::StatusOr<EntriesByKey> PushAdmission::Check() const {
  RETURN_IF_ERROR(state_.gone);
  RETURN_IF_ERROR(state_.CheckAndRenew(request_.worker));
  ASSIGN_OR_RETURN(EntriesByKey entries, GroupByKey(state_, request_));
  RETURN_IF_ERROR(guard_.Check(request_, entries, state_.counts.guarded));
  if (pull_ != nullptr) RETURN_IF_ERROR(CheckReply(entries));
  return entries;
}

// The device converts the values. What copies of the call's tensors take there
// is free by then.
absl::Status PushAdmission::CheckCasts(const EntriesByKey& entries) const {
  const DType dtype = pull_->dtype;
  RETURN_IF_ERROR(CheckCast(dtype));
  uint64_t cast_bytes = 0;
  for (const EntriesByKey::KeyOfEntry& entry : entries.keys) {
    const StoredKey& key = *entry.key;
    RETURN_IF_ERROR(CheckCast(dtype, key));
    if (key.dtype() == dtype) continue;
    cast_bytes += key.num_elements() * SizeOf(dtype);
  }
  if (is_copied_) {
    cast_bytes -= std::min(cast_bytes, PushCopies::BytesOf(state_, request_));
  } else {
    cast_bytes = BytesBeyondTensors(cast_bytes);
  }
  return state_.memory.CheckHeadroom({.device = cast_bytes});
}

absl::Status PushAdmission::CheckReply(const EntriesByKey& entries) const {
  if (pull_->dtype != DType::kUnknown) {
    RETURN_IF_ERROR(CheckCasts(entries));
  }
  const uint64_t max_bytes = context_.max_reply_bytes;
  const uint64_t bytes = ReplyBytes(entries);
  if (bytes <= max_bytes) return absl::OkStatus();
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "values of the reply: expected at most ", max_bytes, " bytes, got ",
          bytes, "; push and pull fewer keys in one call")),
      Reason::kReplyTooLarge, {{"needed", bytes}, {"available", max_bytes}});
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
  copies_.Swap(request_);
  if (entries.has_rows) SkipEmptyLists();
  guard_.SkipAndCount(entries, request_, state_.counts.guarded);

  AdmitKeys(entries);
  transaction_.work().updates.SetUploads(copies_.TakeToStart());
  transaction_.work().updates.AddReservations(std::move(tensor_bytes_),
                                              std::move(overhead_),
                                              std::move(value_reservation_));
  RecordStep();
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
  UpdatePass& updates = transaction_.work().updates;
  if (applies_at_once_ && !is_copied_) {
    updates.simple().Reserve(num_entries);
  } else {
    updates.Reserve(num_entries);
  }
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    const EntriesByKey::KeyOfEntry& entry = entries.keys[i];
    if (entry.is_first && !entry.is_repeat) AdmitKey(entries, i);
  }
  for (const auto& [first, result] : entries.repeats) {
    entries.ForEach(first, [&](uint32_t i) { results[i] = result; });
  }
}

void PushAdmission::AdmitKey(const EntriesByKey& entries, uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  const bool may_begin = applies_at_once_ && TryBegin(transaction_, key);
  if (!forgets_contributions_) {
    const PushMode& mode = *state_.mode;
    mode.Record(key, request_,
                records_.Split(mode.BytesToRecord(key, request_)));
  }
  if (!applies_at_once_) return AddToRound(entries, first);
  if (!may_begin) return QueueUpdate(entries, first);
  if (!UpdateSimply(entries, first)) UpdateIdleKey(entries, first);
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
  state_.revisions.Begin(key.revision);
  ++call_->num_pending;
}

bool PushAdmission::UpdateSimply(const EntriesByKey& entries, uint32_t first) {
  if (is_copied_ || entries.keys[first].next != 0) return false;
  StoredKey& key = *entries.keys[first].key;
  if (!transaction_.work().updates.simple().Add(
          &key, call_, request_.entries[first], first)) {
    return false;
  }
  state_.revisions.Begin(key.revision);
  ++call_->num_pending;
  return true;
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
  if (opens_round) state_.graces.Begin(state_, key, request_.step);
}

PendingUpdates PushAdmission::AddContribution(const EntriesByKey& entries,
                                              uint32_t first) {
  StoredKey& key = *entries.keys[first].key;
  Contribution contribution;
  uint64_t tensor_bytes = 0;
  uint64_t overhead_bytes = 0;
  uint64_t decoded_bytes = 0;
  const uint64_t sum_bytes =
      entries.has_sums ? SumBytes(state_, request_, entries, first) : 0;
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
  if (sum_bytes > 0) {
    contribution.needs_sum = true;
    contribution.sum_reservation = sum_bytes_.Split(sum_bytes);
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

absl::Status Namespace::CheckPush(const PushRequest& request,
                                  const Caller& caller) {
  RETURN_IF_ERROR(CheckFields(*state_, request));
  return state_->CheckHeadroomUnlessRepeat(
      caller, request.call_id,
      BytesToStage(state_->tensor_placement->sharing(), request),
      [&] { return BytesToPush(*state_, request); });
}

}  // namespace tensorkv
