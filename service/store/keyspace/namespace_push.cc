#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/keyspace/staged_tensors.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// How often a push is copied because its keys have moved.
constexpr int kMaxMoves = 10;

uint64_t SizeOfTensors(const PushRequest& request) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip) bytes = SumOfBytes(bytes, entry.tensor.size_bytes());
  }
  return bytes;
}

absl::Status CheckLength(const PushEntry& entry) {
  const int64_t expected = entry.encoding->payload_bytes();
  if (entry.tensor.size_bytes() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("payload: expected ", expected,
                                                 " bytes, got ",
                                                 entry.tensor.size_bytes()));
}

// What an encoded contribution's payload alone can show to be wrong. A check
// ahead of the payload has none to look at.
absl::Status CheckPayload(const PushEntry& entry) {
  if (!entry.encoding || entry.skip) return absl::OkStatus();
  absl::Status status = CheckLength(entry);
  if (status.ok() && entry.tensor.has_data()) {
    status = entry.encoding->CheckPayload(entry.tensor.data());
  }
  if (status.ok()) return status;
  return WithReason(absl::InvalidArgumentError(absl::StrCat(
                        "key ", Quoted(entry.key), ": ", status.message())),
                    Reason::kEncodingMalformed, {{"key", entry.key}});
}

bool Takes(DType key, DType contribution) {
  return key == contribution || (IsFloat(key) && IsFloat(contribution));
}

}  // namespace

void Namespace::Push(PushRequest request, const CallContext& context,
                     ReplyCallback<PushReply> done) {
  Push(std::move(request), context, /*names=*/nullptr, std::move(done));
}

void Namespace::Push(PushRequest request, const CallContext& context,
                     std::vector<PullEntry>* names,
                     ReplyCallback<PushReply> done) {
  absl::Status status = CheckFields(request);
  if (status.ok() && MustHold(request)) {
    return Hold(std::move(request), context, names, std::move(done));
  }
  if (!status.ok()) return std::move(done)(std::move(status));
  if (is_on_host_ || SizeOfTensors(request) <= kMaxBytesInline) {
    return PushNow(std::move(request), context, names, std::move(done));
  }
  // It begins with copies to the devices.
  TaskPool::Task push = [self = shared_from_this(),
                         request = std::move(request), context, names,
                         done = std::move(done)]() mutable {
    self->PushNow(std::move(request), context, names, std::move(done));
  };
  if (!Submit(std::move(push))) std::move(push)();
}

void Namespace::PushNow(PushRequest request, const CallContext& context,
                        std::vector<PullEntry>* names,
                        ReplyCallback<PushReply> done) {
  const auto call = MakeRefCounted<PushCall>();
  call->done = std::move(done);
  Replies replies;
  Work work{UpdatePass(environment_.devices, memory_.host().contributions)};
  std::vector<OpenedRound> opened;
  absl::Status status;
  {
    Admission admission{.request = std::move(request),
                        .context = context,
                        .names = names,
                        .call = call,
                        .replies = replies,
                        .work = work,
                        .opened = opened};
    status = HoldContributions(admission);
    if (status.ok()) status = MoveAndAdmit(admission);
  }  // gives back what was not taken before anybody hears of the end
  if (!status.ok()) return std::move(call->done)(std::move(status));
  Send(std::move(replies));
  WatchGrace(std::move(opened));
  Run(std::move(work));
}

uint64_t Namespace::Work::size_bytes() const {
  uint64_t bytes = updates.size_bytes();
  for (const FoldOfKey& fold : folds) {
    bytes += fold.fold.slots.size() * fold.key->num_elements() *
             SizeOf(AccumulateType(fold.key->dtype()));
  }
  return bytes;
}

void Namespace::Run(Work work) {
  if (work.size_bytes() <= kMaxBytesInline) return RunHere(std::move(work));
  RunLater(std::move(work));
}

void Namespace::RunHere(Work work) {
  for (FoldOfKey& fold : work.folds) RunFold(std::move(fold));
  RunUpdates(std::move(work.updates));
}

absl::Status Namespace::CheckFields(const PushRequest& request) const {
  RETURN_IF_ERROR(CheckNumEntries(request.entries.size()));
  RETURN_IF_ERROR(mode_->CheckPush(request));
  for (const PushEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    RETURN_IF_ERROR(CheckPayload(entry));
  }
  return absl::OkStatus();
}

absl::Status Namespace::HoldContributions(Admission& admission) {
  ASSIGN_OR_RETURN(Reservation held,
                   Reservation::Create(memory_.host().contributions,
                                       BytesToHold(admission.request)));
  if (is_on_host_) {
    admission.held.Merge(0, std::move(held));
  } else {
    admission.held_on_host = std::move(held);
  }
  const uint64_t overhead =
      admission.request.entries.size() * kContributionOverheadBytes;
  ASSIGN_OR_RETURN(admission.overhead,
                   Reservation::Create(memory_.metadata(), overhead));
  return absl::OkStatus();
}

uint64_t Namespace::BytesToHold(const Tensor& tensor) const {
  const bool is_counted =
      !tensor.has_data() || IsCountedBy(*memory_.host().contributions, tensor);
  return is_counted ? 0 : tensor.size_bytes();
}

uint64_t Namespace::BytesToHold(const PushRequest& request) const {
  uint64_t bytes = 0;
  for (const PushEntry& entry : request.entries) {
    if (!entry.skip) bytes += BytesToHold(entry.tensor);
  }
  return bytes;
}

BytesByDevice Namespace::BytesOfCopies(const PushRequest& request,
                                       const GroupedEntries& entries) const {
  BytesByDevice bytes = memory_.NoBytes();
  if (is_on_host_) return bytes;
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    if (entry.skip) continue;
    bytes[entries.keys[i].key->device] += entry.tensor.size_bytes();
  }
  return bytes;
}

// A second turn is for a key that was replaced meanwhile, by one on another
// device.
absl::Status Namespace::MoveAndAdmit(Admission& admission) {
  for (int turn = 0; turn < kMaxMoves; ++turn) {
    if (!is_on_host_) RETURN_IF_ERROR(CopyToDevices(admission));
    MutexLock lock(&mutex_);
    const absl::StatusOr<bool> is_admitted = Admit(admission);
    if (!is_admitted.ok()) {
      CountRefusal(is_admitted.status());
      return is_admitted.status();
    }
    if (*is_admitted) return absl::OkStatus();
  }
  return absl::UnavailableError(
      "keys of the push were replaced again and again while it was copied");
}

// Nothing is copied for a push that would be refused as things are.
absl::Status Namespace::CopyToDevices(Admission& admission) {
  admission.copies.clear();  // of the turn before
  admission.held = {};
  {
    MutexLock lock(&mutex_);
    const absl::StatusOr<GroupedEntries> entries = Check(admission);
    if (!entries.ok()) {
      CountRefusal(entries.status());
      return entries.status();
    }
    const BytesByDevice copies = BytesOfCopies(admission.request, *entries);
    ASSIGN_OR_RETURN(admission.held,
                     memory_.Reserve(&MemoryAccounts::contributions, copies));
    RETURN_IF_ERROR(memory_.CheckRoom(
        {.host = SumOfBytes(BytesForReply(admission, *entries),
                            entries->note_bytes),
         .devices = entries->room_bytes}));
    admission.devices.clear();
    for (const KeyOfEntry& entry : entries->keys) {
      admission.devices.push_back(entry.key->device);
    }
  }
  return MakeCopies(admission);
}

// The values of a PushPull are copied for its reply, which must not fail when
// the push has taken effect. What the tensors of the call took is free again by
// then.
uint64_t Namespace::BytesForReply(const Admission& admission,
                                  const GroupedEntries& entries) {
  if (admission.names == nullptr) return 0;
  const uint64_t bytes =
      SumOfBytes(entries.reply_bytes, entries.keys.size() * kBufferAlignment);
  uint64_t freed_bytes = 0;
  for (const PushEntry& entry : admission.request.entries) {
    if (!entry.skip) freed_bytes += entry.tensor.size_bytes();
  }
  return bytes - std::min(bytes, freed_bytes);
}

absl::Status Namespace::MakeCopies(Admission& admission) {
  const std::vector<PushEntry>& entries = admission.request.entries;
  admission.copies.resize(entries.size());
  CopiesByDevice copies(environment_.devices->size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].skip) continue;
    const Tensor& tensor = entries[i].tensor;
    const DeviceIndex device = admission.devices[i];
    const auto bytes = static_cast<size_t>(tensor.size_bytes());
    ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                     (*environment_.devices)[device].Allocate(bytes, nullptr));
    copies[device].push_back({tensor.data(), buffer->mutable_data(), bytes});
    admission.copies[i] =
        Tensor::OfBuffer(tensor.dtype(), tensor.shape(), std::move(buffer));
  }
  return environment_.devices->CopyToDevices(copies);
}

bool Namespace::AreAtTheirKeys(const Admission& admission,
                               const GroupedEntries& entries) const {
  if (is_on_host_) return true;
  for (size_t i = 0; i < entries.keys.size(); ++i) {
    if (entries.keys[i].key->device != admission.devices[i]) return false;
  }
  return true;
}

// Swapped: what was copied goes without the mutex.
void Namespace::TakeCopies(Admission& admission) {
  for (size_t i = 0; i < admission.copies.size(); ++i) {
    PushEntry& entry = admission.request.entries[i];
    if (!entry.skip) std::swap(entry.tensor, admission.copies[i]);
  }
}

absl::StatusOr<Namespace::GroupedEntries> Namespace::Check(
    const Admission& admission) {
  const PushRequest& request = admission.request;
  RETURN_IF_ERROR(Admit(request.worker));
  ASSIGN_OR_RETURN(GroupedEntries entries, GroupByKey(request));
  const uint64_t max_reply_bytes = admission.context.max_reply_bytes;
  const bool pulls = admission.names != nullptr;
  if (!pulls || entries.reply_bytes <= max_reply_bytes) return entries;
  return WithReason(
      absl::ResourceExhaustedError(
          absl::StrCat("values of the reply: expected at most ",
                       max_reply_bytes, " bytes, got ", entries.reply_bytes,
                       "; push and pull fewer keys in one call")),
      Reason::kReplyTooLarge,
      {{"needed", entries.reply_bytes}, {"available", max_reply_bytes}});
}

absl::StatusOr<bool> Namespace::Admit(Admission& admission) {
  PushRequest& request = admission.request;
  ASSIGN_OR_RETURN(const GroupedEntries entries, Check(admission));
  if (!AreAtTheirKeys(admission, entries)) return false;
  ASSIGN_OR_RETURN(admission.room, memory_.Reserve(&MemoryAccounts::values,
                                                   entries.room_bytes));
  ASSIGN_OR_RETURN(admission.notes,
                   Reservation::Create(memory_.metadata(), entries.note_bytes));
  TakeCopies(admission);

  admission.call->reply.results.resize(request.entries.size());
  admission.work.updates.Reserve(request.entries.size());
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    const KeyOfEntry& entry = entries.keys[i];
    if (entry.is_first && !entry.is_repeat) AdmitKey(entries, i, admission);
  }
  for (const auto& [first, result] : entries.repeats) {
    entries.ForEach(
        first, [&](uint32_t i) { admission.call->reply.results[i] = result; });
  }
  admission.work.updates.Hold(std::move(admission.held),
                              std::move(admission.overhead),
                              std::move(admission.room));
  NoteStep(request, admission.replies);
  if (admission.names != nullptr) {
    for (PushEntry& entry : request.entries) {
      admission.names->push_back({std::move(entry.key), 0});
    }
  }
  if (admission.call->num_pending == 0) {
    admission.replies.pushes.push_back(admission.call);
  }
  return true;
}

absl::StatusOr<Namespace::GroupedEntries> Namespace::GroupByKey(
    const PushRequest& request) {
  GroupedEntries entries = {.room_bytes = memory_.NoBytes()};
  const absl::Status status = AddEntries(request, entries);
  for (const KeyOfEntry& entry : entries.keys) entry.key->position_in_call = 0;
  RETURN_IF_ERROR(status);
  return entries;
}

absl::Status Namespace::AddEntries(const PushRequest& request,
                                   GroupedEntries& entries) {
  RETURN_IF_ERROR(FindKeys(request.entries, entries));
  for (uint32_t i = 0; i < entries.keys.size(); ++i) {
    StoredKey& key = *entries.keys[i].key;
    const PushEntry& entry = request.entries[i];
    RETURN_IF_ERROR(CheckEntry(key, entry));
    const uint32_t last = key.position_in_call;
    key.position_in_call = i + 1;
    entries.reply_bytes += key.value_bytes();
    if (last > 0) {
      entries.keys[last - 1].next = i;
      continue;
    }
    entries.keys[i].is_first = true;
    ASSIGN_OR_RETURN(const std::optional<PushResult> repeat,
                     mode_->CheckKey(key, request));
    if (repeat) {
      entries.keys[i].is_repeat = true;
      entries.repeats.emplace_back(i, *repeat);
      continue;
    }
    if (mode_->NeedsRoom(key, request)) {
      entries.room_bytes[key.device] += key.value_bytes();
    }
    entries.note_bytes += mode_->BytesToNote(key, request);
  }
  return absl::OkStatus();
}

absl::Status Namespace::FindKeys(absl::Span<const PushEntry> from,
                                 GroupedEntries& entries) {
  entries.keys.reserve(from.size());
  for (const PushEntry& entry : from) {
    StoredKey* const key = keys_.Find(entry.key);
    if (key == nullptr) return NoSuchKey(entry.key);
    __builtin_prefetch(key->value.get());
    entries.keys.push_back({.key = key});
  }
  return absl::OkStatus();
}

absl::Status Namespace::CheckEntry(const StoredKey& key,
                                   const PushEntry& entry) {
  if (entry.skip ||
      (Takes(key.dtype(), entry.dtype()) && key.HasShape(entry.shape()))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("key ", Quoted(entry.key), ": expected ",
                   Description(key.dtype(), key.shape()), ", got ",
                   Description(entry.dtype(), entry.shape())));
}

void Namespace::AdmitKey(const GroupedEntries& entries, uint32_t first,
                         Admission& admission) {
  StoredKey& key = *entries.keys[first].key;
  const PushRequest& request = admission.request;
  mode_->Note(key, request,
              admission.notes.Split(mode_->BytesToNote(key, request)));
  const bool applies_at_once = mode_->applies_at_once();
  if (applies_at_once && !key.is_updating) {
    return UpdateIdleKey(entries, first, admission);
  }
  const bool opens_round = mode_->NeedsRoom(key, request);
  Reservation room =
      admission.room.Split(key.device, opens_round ? key.value_bytes() : 0);
  const size_t open_before = applies_at_once ? 0 : key.rounds->num_open();
  PendingUpdates updates =
      mode_->Admit(key, request, TakeContribution(entries, first, admission),
                   std::move(room));
  if (!applies_at_once) {
    rounds_open_ += key.rounds->num_open() + updates.size() - open_before;
    EnqueueRounds(key, std::move(updates), admission.work, admission.replies);
    BeginFold(key, admission.work);
    if (config_.quorum > 0 && opens_round && key.rounds->num_open() > 0 &&
        !key.rounds->OpensRound(request.step)) {
      admission.opened.push_back({std::string(key.name()), request.step,
                                  key.rounds->IdOf(request.step)});
    }
    return;
  }
  for (PendingUpdate& update : updates) {
    update.call = admission.call;
    entries.ForEach(first, [&](uint32_t i) { update.results.push_back(i); });
    ++admission.call->num_pending;
    Enqueue(key, std::move(update), admission.work.updates, admission.replies);
  }
}

void Namespace::EnqueueRounds(StoredKey& key, PendingUpdates updates,
                              Work& work, Replies& replies) {
  rounds_open_ -= updates.size();
  for (PendingUpdate& update : updates) {
    workers_->Close(update.round);
    Enqueue(key, std::move(update), work.updates, replies);
  }
  if (auto fold = key.rounds->BeginScaling()) {
    work.folds.push_back({KeyPtr(&key), *std::move(fold)});
  }
  NoteRounds(key);
}

void Namespace::UpdateIdleKey(const GroupedEntries& entries, uint32_t first,
                              Admission& admission) {
  StoredKey& key = *entries.keys[first].key;
  bool is_skipped = true;
  entries.ForEach(first, [&](uint32_t i) {
    is_skipped &= admission.request.entries[i].skip;
    admission.call->reply.results[i].version = key.version;
  });
  if (is_skipped) return;
  UpdatePass& updates = admission.work.updates;
  updates.Begin(&key, admission.call);
  entries.ForEach(first, [&](uint32_t i) {
    updates.AddResult(i);
    PushEntry& entry = admission.request.entries[i];
    // Moved, so that a buffer that nobody else has can become the value.
    if (!entry.skip) updates.AddSlot(Slot(std::move(entry)));
  });
  updates.End();
  ++admission.call->num_pending;
}

Contribution Namespace::TakeContribution(const GroupedEntries& entries,
                                         uint32_t first, Admission& admission) {
  const StoredKey& key = *entries.keys[first].key;
  Contribution contribution;
  uint64_t held_bytes = 0;
  uint64_t overhead_bytes = 0;
  entries.ForEach(first, [&](uint32_t i) {
    admission.call->reply.results[i] = ResultOf(key, admission.request);
    overhead_bytes += kContributionOverheadBytes;
    PushEntry& entry = admission.request.entries[i];
    if (entry.skip) return;
    held_bytes += BytesToHold(entry.tensor);
    contribution.slots.emplace_back(std::move(entry));
  });
  contribution.held = admission.held.Split(key.device, held_bytes);
  contribution.overhead = admission.overhead.Split(overhead_bytes);
  return contribution;
}

PushResult Namespace::ResultOf(const StoredKey& key,
                               const PushRequest& request) const {
  if (mode_->applies_at_once()) return {.version = key.version};
  return {.step = request.step};
}

void Namespace::Enqueue(StoredKey& key, PendingUpdate update,
                        UpdatePass& updates, Replies& replies) {
  if (update.slots.empty()) {  // every worker has skipped
    ++rounds_closed_;
    if (!key.is_updating) key.rounds->Apply(update.round, key.version);
    Wake(key.name(), replies);
    return;
  }
  if (!key.is_updating) {
    updates.Add(&key, std::move(update));
    return;
  }
  if (!key.pending) key.pending = std::make_unique<std::list<PendingUpdate>>();
  key.pending->push_back(std::move(update));
}

void Namespace::RunUpdates(UpdatePass updates) {
  if (updates.empty()) return;
  Replies replies;
  std::vector<KeyPtr> more;
  {
    UpdatePass pass = std::move(updates);
    pass.Run();
    MutexLock lock(&mutex_);
    more = EndPass(pass, replies);
  }  // gives back memory and reservations before anybody hears of the end
  Send(std::move(replies));
  if (more.empty()) return;
  Submit([self = shared_from_this(), keys = std::move(more)]() mutable {
    self->RunPending(std::move(keys));
  });
}

void Namespace::RunPending(std::vector<KeyPtr> keys) {
  UpdatePass updates(environment_.devices, memory_.host().contributions);
  updates.Reserve(keys.size());
  {
    MutexLock lock(&mutex_);
    for (const KeyPtr& key : keys) updates.AddPending(key.get());
  }
  RunUpdates(std::move(updates));
}

std::vector<Namespace::KeyPtr> Namespace::EndPass(UpdatePass& pass,
                                                  Replies& replies) {
  std::vector<KeyPtr> more;
  const uint64_t failed_before = rounds_failed_;
  for (UpdatePass::Item& item : pass.items()) {
    const absl::Status& status = pass.StatusOf(item);
    UpdatePass::Publish(item, status);
    EndUpdate(pass, item, status, replies);
    if (!item.key->has_pending()) continue;
    item.key->is_updating = true;
    more.push_back(item.key);
  }
  if (waits_.num_parked() == 0) return more;
  if (rounds_failed_ > failed_before) {
    WakeAll(replies);
    return more;
  }
  // After all are published: a waiting pull sees one moment of all its keys.
  for (const UpdatePass::Item& item : pass.items()) {
    Wake(item.key->name(), replies);
  }
  return more;
}

void Namespace::EndUpdate(const UpdatePass& pass, const UpdatePass::Item& item,
                          const absl::Status& status, Replies& replies) {
  if (status.ok()) {
    ++updates_applied_;
    ++revision_;
  }
  if (item.round != 0) EndRound(item, status, replies);
  if (item.call == nullptr) return;
  PushCall& call = *item.call;
  if (status.ok()) {
    ++call.num_applied;
  } else {
    call.status = status;
  }
  for (const uint32_t result : pass.ResultsOf(item)) {
    call.reply.results[result].version = item.key->version;
  }
  if (--call.num_pending > 0) return;
  // Not as if nothing had happened: the call must not be made again.
  if (!call.status.ok() && call.num_applied > 0) {
    call.status = absl::InternalError(
        absl::StrCat("applied to ", call.num_applied,
                     " keys, not to the others: ", call.status.message()));
  }
  replies.pushes.emplace_back(&call);
}

void Namespace::EndRound(const UpdatePass::Item& item,
                         const absl::Status& status, Replies& replies) {
  if (status.ok()) ++rounds_closed_;
  StoredKey& key = *item.key;
  if (!key.rounds) return;  // deleted or replaced meanwhile
  if (status.ok()) return key.rounds->Apply(item.round, key.version);
  // What has closed since was to be applied to the value that is not there.
  replies.dropped_updates.push_back(std::move(key.pending));
  FailRounds(key, item.round,
             std::make_shared<RoundFailure>(
                 RoundFailure{std::string(status.message()), {}}),
             replies);
}

void Namespace::FailRounds(StoredKey& key, Step step,
                           const RoundFailurePtr& failure, Replies& replies) {
  FailedRounds failed = key.rounds->Fail(step, failure);
  rounds_open_ -= failed.open.size();
  const uint64_t num_failed = failed.open.size() + failed.num_closed;
  rounds_failed_ += num_failed;
  if (replies.num_failed_rounds == 0 && num_failed > 0) {
    replies.failed_round = absl::StrCat(
        "round ", step, " of ", Quoted(key.name()), ": ", failure->text);
  }
  replies.num_failed_rounds += num_failed;
  replies.dropped_rounds.push_back(std::move(failed.open));
  NoteRounds(key);
}

void Namespace::NoteRounds(StoredKey& key) {
  if (key.rounds->is_idle()) {
    busy_keys_.erase(&key);
  } else {
    busy_keys_.insert(&key);
  }
}

bool Namespace::CountsStep(const PushRequest& request) const {
  if (!request.worker || request.step == 0 || request.entries.empty()) {
    return false;
  }
  return config_.mode != Mode::kAsync || request.worker->epoch != 0;
}

// The worker of `request` has reached its step.
void Namespace::NoteStep(const PushRequest& request, Replies& replies) {
  if (!CountsStep(request)) return;
  if (config_.mode != Mode::kBounded) {
    return workers_->Reach(*request.worker, request.step);
  }
  const Step slowest = workers_->slowest_step();
  workers_->Reach(*request.worker, request.step);
  if (workers_->slowest_step() > slowest) Wake(kProgressTopic, replies);
}

void Namespace::CountRefusal(const absl::Status& status) {
  switch (ReasonOf(status)) {
    case Reason::kContributionExists:
      ++contributions_duplicate_;
      break;
    case Reason::kStepClosed:
      ++contributions_late_;
      break;
    case Reason::kNotMember:
    case Reason::kLeaseLost:
    case Reason::kGroupDoesNotJoin:
      ++contributions_fenced_;
      break;
    default:
      break;
  }
}

}  // namespace tensorkv
