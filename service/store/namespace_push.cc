#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"
#include "service/store/staged_tensors.h"

namespace tensorkv {
namespace {

bool Takes(DType key, DType contribution) {
  return key == contribution || (IsFloat(key) && IsFloat(contribution));
}

}  // namespace

void Namespace::Push(PushRequest request, const CallContext& context,
                     ReplyCallback<PushReply> done) {
  Replies replies;
  Admission admission{.request = request,
                      .max_reply_bytes = context.max_reply_bytes,
                      .call = MakeRefCounted<PushCall>(),
                      .replies = replies};
  admission.call->done = std::move(done);

  absl::Status status = CheckFields(request);
  if (status.ok()) status = HoldContributions(admission);
  if (status.ok()) status = MoveToDevice(request);
  if (status.ok()) {
    MutexLock lock(&mutex_);
    status = Admit(admission);
  }
  if (!status.ok()) {
    std::move(admission.call->done)(std::move(status));
    return;
  }
  Send(std::move(replies));
  for (FoldOfKey& fold : admission.folds) RunFold(std::move(fold));
  RunUpdates(std::move(admission.runnable));
}

absl::Status Namespace::CheckFields(const PushRequest& request) const {
  RETURN_IF_ERROR(CheckNumEntries(request.entries.size()));
  RETURN_IF_ERROR(CheckCallId(request.call_id));
  RETURN_IF_ERROR(mode_->CheckPush(request));
  for (const PushEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
  }
  return absl::OkStatus();
}

absl::Status Namespace::HoldContributions(Admission& admission) {
  uint64_t bytes = 0;
  for (const PushEntry& entry : admission.request.entries) {
    if (!entry.skip) bytes += BytesToHold(entry.tensor);
  }
  const uint64_t overhead =
      admission.request.entries.size() * kContributionOverheadBytes;
  ASSIGN_OR_RETURN(admission.held, Reservation::Create(contributions_, bytes));
  ASSIGN_OR_RETURN(admission.overhead,
                   Reservation::Create(metadata_, overhead));
  return absl::OkStatus();
}

uint64_t Namespace::BytesToHold(const Tensor& tensor) const {
  if (!tensor.has_data() || IsCountedBy(*contributions_, tensor)) return 0;
  return tensor.size_bytes();
}

absl::Status Namespace::MoveToDevice(PushRequest& request) {
  for (PushEntry& entry : request.entries) {
    if (entry.skip) continue;
    ASSIGN_OR_RETURN(entry.tensor,
                     environment_.backend->ToDevice(entry.tensor));
  }
  return absl::OkStatus();
}

absl::Status Namespace::Admit(Admission& admission) {
  RETURN_IF_ERROR(TakeFailure(admission.request.worker));
  ASSIGN_OR_RETURN(std::vector<KeyContribution> contributions,
                   GroupByKey(admission.request));
  uint64_t room_bytes = 0;
  uint64_t reply_bytes = 0;
  for (const KeyContribution& each : contributions) {
    room_bytes += each.room_bytes;
    reply_bytes += each.reply_bytes;
  }
  if (reply_bytes > admission.max_reply_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "values of the reply: expected at most ", admission.max_reply_bytes,
        " bytes, got ", reply_bytes, "; push and pull fewer keys in one call"));
  }
  ASSIGN_OR_RETURN(admission.room, Reservation::Create(values_, room_bytes));

  admission.call->reply.results.resize(admission.request.entries.size());
  for (KeyContribution& each : contributions) {
    AdmitOne(std::move(each), admission);
  }
  if (admission.call->num_pending == 0) {
    admission.replies.pushes.push_back(admission.call);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Namespace::KeyContribution>> Namespace::GroupByKey(
    const PushRequest& request) {
  std::vector<KeyContribution> contributions;
  const absl::Status status = AddEntries(request, contributions);
  for (KeyContribution& each : contributions) each.key->position_in_call = 0;
  RETURN_IF_ERROR(status);
  return contributions;
}

absl::Status Namespace::AddEntries(
    const PushRequest& request, std::vector<KeyContribution>& contributions) {
  contributions.reserve(request.entries.size());
  for (size_t i = 0; i < request.entries.size(); ++i) {
    const PushEntry& entry = request.entries[i];
    ASSIGN_OR_RETURN(StoredKey * key, CheckEntry(request, entry));
    if (key->position_in_call == 0) {
      KeyContribution& added = contributions.emplace_back();
      added.key = key;
      key->position_in_call = static_cast<uint32_t>(contributions.size());
      if (mode_->NeedsRoom(*key, request)) {
        added.room_bytes = key->value_bytes();
      }
    }
    KeyContribution& contribution = contributions[key->position_in_call - 1];
    contribution.entries.push_back(static_cast<uint32_t>(i));
    contribution.reply_bytes += key->value_bytes();
    if (!entry.skip) contribution.held_bytes += BytesToHold(entry.tensor);
  }
  return absl::OkStatus();
}

absl::StatusOr<StoredKey*> Namespace::CheckEntry(const PushRequest& request,
                                                 const PushEntry& entry) const {
  StoredKey* key = keys_.Find(entry.key);
  if (key == nullptr) return NoSuchKey(entry.key);
  if (!entry.skip && (!Takes(key->dtype, entry.tensor.dtype()) ||
                      key->shape != entry.tensor.shape())) {
    return absl::InvalidArgumentError(
        absl::StrCat("key ", Quoted(entry.key), ": expected ",
                     Description(key->dtype, key->shape), ", got ",
                     entry.tensor.Description()));
  }
  // Later entries of the same key belong to the contribution just checked.
  if (key->position_in_call == 0) {
    RETURN_IF_ERROR(mode_->CheckKey(*key, request));
  }
  return key;
}

void Namespace::AdmitOne(KeyContribution contribution, Admission& admission) {
  StoredKey& key = *contribution.key;
  const size_t open_before = key.rounds ? key.rounds->num_open() : 0;
  Tensors tensors;
  for (const uint32_t i : contribution.entries) {
    PushEntry& entry = admission.request.entries[i];
    // Moved, so that a buffer that nobody else has can become the value.
    if (!entry.skip) tensors.push_back(std::move(entry.tensor));
  }
  std::optional<PendingUpdate> update = mode_->Admit(
      key, admission.request,
      {std::move(tensors), admission.held.Split(contribution.held_bytes),
       admission.overhead.Split(contribution.entries.size() *
                                kContributionOverheadBytes)},
      admission.room.Split(contribution.room_bytes));
  rounds_open_ += (key.rounds ? key.rounds->num_open() : 0) - open_before;

  const bool is_async = config_.mode == Mode::kAsync;
  for (const uint32_t entry : contribution.entries) {
    PushResult& result = admission.call->reply.results[entry];
    if (is_async) {
      result.version = key.version;
    } else {
      result.round = admission.request.step;
    }
  }
  if (!update) {
    if (auto fold = mode_->BeginFold(key, admission.request)) {
      admission.folds.push_back({KeyPtr(&key), *std::move(fold)});
    }
    return;
  }
  if (is_async) {
    update->call = admission.call;
    update->results = std::move(contribution.entries);
    ++admission.call->num_pending;
  }
  Enqueue(key, *std::move(update), admission.runnable, admission.replies);
}

void Namespace::Enqueue(StoredKey& key, PendingUpdate update,
                        std::vector<KeyPtr>& runnable, Replies& replies) {
  if (update.contributions.empty()) {  // every worker has skipped
    ++rounds_closed_;
    Wake(key.name, replies);
    return;
  }
  if (!key.pending) {
    key.pending = std::make_unique<std::deque<PendingUpdate>>();
  }
  key.pending->push_back(std::move(update));
  if (key.is_updating) return;
  key.is_updating = true;
  runnable.emplace_back(&key);
}

void Namespace::RunFold(FoldOfKey job) {
  absl::StatusOr<Contribution> sum = SumOf(job);
  Replies replies;
  std::vector<KeyPtr> runnable;
  {
    MutexLock lock(&mutex_);
    StoredKey& key = *job.key;
    if (!key.rounds) return;  // deleted or replaced meanwhile
    std::optional<Contribution> folded;
    // Without room for the sum, the contributions wait as they are.
    if (sum.ok()) folded = *std::move(sum);
    std::optional<PendingUpdate> update =
        mode_->EndFold(key, job.fold.step, std::move(folded));
    if (update) {
      --rounds_open_;
      Enqueue(key, *std::move(update), runnable, replies);
    }
  }
  Send(std::move(replies));
  RunUpdates(std::move(runnable));
}

absl::StatusOr<Contribution> Namespace::SumOf(const FoldOfKey& job) {
  static const UpdateRule* const kAssign = new UpdateRule();
  const DType dtype = AccumulateType(job.key->dtype);
  ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(dtype, job.key->shape));
  Contribution sum;
  ASSIGN_OR_RETURN(sum.held, Reservation::Create(contributions_, bytes));
  ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                   environment_.backend->Allocate(bytes, nullptr));
  std::vector<TensorView> views;
  for (const Tensor& tensor : job.fold.contributions) {
    views.push_back(tensor.view());
  }
  TensorUpdate update;
  update.rule = kAssign;
  update.contributions = views;
  update.value = {dtype, job.key->shape.num_elements(), buffer->mutable_data()};
  RETURN_IF_ERROR(environment_.backend->Apply({&update, 1}));
  ASSIGN_OR_RETURN(
      sum.tensors.emplace_back(),
      Tensor::FromBuffer(dtype, job.key->shape, std::move(buffer)));
  return sum;
}

void Namespace::RunUpdates(std::vector<KeyPtr> keys) {
  if (keys.empty()) return;
  Replies replies;
  {
    UpdatePass pass(environment_.backend, contributions_);
    {
      MutexLock lock(&mutex_);
      for (const KeyPtr& key : keys) pass.Take(key.get());
    }
    const absl::Status status = pass.Run();
    {
      MutexLock lock(&mutex_);
      keys = EndPass(pass, status, replies);
    }
  }  // gives back memory and reservations before anybody hears of the end
  Send(std::move(replies));
  if (keys.empty()) return;
  environment_.executor->Submit(
      [self = shared_from_this(), keys = std::move(keys)]() mutable {
        self->RunUpdates(std::move(keys));
      });
}

std::vector<Namespace::KeyPtr> Namespace::EndPass(UpdatePass& pass,
                                                  const absl::Status& status,
                                                  Replies& replies) {
  pass.Publish(status);
  std::vector<KeyPtr> runnable;
  for (UpdatePass::Item& item : pass.items()) {
    EndUpdate(item, status, replies);
    if (!item.key->has_pending()) continue;
    item.key->is_updating = true;
    runnable.push_back(item.key);
  }
  // After all are published: a waiting pull sees one moment of all its keys.
  for (UpdatePass::Item& item : pass.items()) Wake(item.key->name, replies);
  return runnable;
}

void Namespace::EndUpdate(UpdatePass::Item& item, const absl::Status& status,
                          Replies& replies) {
  if (status.ok()) ++updates_applied_;
  if (item.update.round != 0) EndRound(item, status);
  if (!item.update.call) return;
  PushCall& call = *item.update.call;
  if (!status.ok()) call.status = status;
  for (const uint32_t result : item.update.results) {
    call.reply.results[result].version = item.key->version;
  }
  if (--call.num_pending == 0) replies.pushes.push_back(item.update.call);
}

void Namespace::EndRound(const UpdatePass::Item& item,
                         const absl::Status& status) {
  if (status.ok()) {
    ++rounds_closed_;
    return;
  }
  ++rounds_failed_;
  if (item.key->rounds) item.key->rounds->Reopen(item.update.round);
  for (uint32_t rank = 0; rank < config_.num_workers; ++rank) {
    AddFailure(rank, absl::StrCat("round ", item.update.round, " of ",
                                  Quoted(item.key->name),
                                  " failed: ", status.message()));
  }
}

void Namespace::AddFailure(uint32_t rank, absl::string_view message) {
  absl::Status& failure = failures_[rank];
  failure = absl::AbortedError(
      failure.ok() ? message : absl::StrCat(failure.message(), "; ", message));
}

bool Namespace::HasFailure(const std::optional<Worker>& worker) const {
  return worker && failures_.contains(worker->rank);
}

absl::Status Namespace::TakeFailure(const std::optional<Worker>& worker) {
  if (!worker) return absl::OkStatus();
  const auto failure = failures_.find(worker->rank);
  if (failure == failures_.end()) return absl::OkStatus();
  absl::Status status = std::move(failure->second);
  failures_.erase(failure);
  return status;
}

}  // namespace tensorkv
