#include "service/store/keyspace/pull/pull_call.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/changes_reply.h"
#include "service/store/keyspace/pull/pull_at.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/pull/row_check.h"
#include "service/store/keyspace/pull/row_reads.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/names.h"

namespace tensorkv {

namespace {

// Besides its name: the entry, a watch, a pin, a value of the reply.
constexpr uint64_t kEntryOverheadBytes = sizeof(PullEntry) +
                                         sizeof(KeyWatches::Watch) +
                                         sizeof(KeyPtr) + sizeof(Value);

absl::Status CheckFields(const NamespaceState& state,
                         const PullRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  bool has_rows = false;
  bool has_tensors = false;
  bool shows_tokens = false;
  for (const PullEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    (entry.rows ? has_rows : has_tensors) = true;
    shows_tokens |= !entry.held.empty();
  }
  if (has_rows && request.dtype != DType::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype of a pull: expected none for rows, got ",
                     NameOf(request.dtype)));
  }
  RETURN_IF_ERROR(CheckCast(request.dtype));
  if (has_rows && request.changes) {
    return absl::InvalidArgumentError(
        "changes of a pull: expected none for rows, got some");
  }
  if (shows_tokens && !request.changes) {
    return absl::InvalidArgumentError(
        "held: expected none without changes, got a token");
  }
  if (has_rows && has_tensors) {
    return absl::InvalidArgumentError(
        "entries of a pull: expected rows in all or in none");
  }
  return absl::OkStatus();
}

}  // namespace

void StartPull(NamespaceState& state, PullRequest&& request, Step step,
               CallContext&& context, std::vector<uint64_t>* update_counts,
               ReplyCallback<PullReply>&& done) {
  absl::Status status = CheckFields(state, request);
  if (status.ok() && request.worker) {
    MutexLock lock(&state.mutex);
    status = state.CheckAndRenew(request.worker);
  }
  if (!status.ok()) return std::move(done)(std::move(status));
  if (request.at) {
    return StartPullAt(state, std::move(request), std::move(context),
                       std::move(done));
  }
  const auto call = std::make_shared<PullCall>(state, std::move(request), step,
                                               std::move(context), state.Now(),
                                               update_counts, std::move(done));
  for (bool must_watch = call->is_large(); must_watch;) {
    MutexLock large_lock(&state.large_calls_mutex);
    MutexLock lock(&state.mutex);
    if (call->is_finished) return;  // one of its keys has gone
    must_watch = call->WatchMore();
  }
  StartCall(state, call);
}

void Namespace::Pull(PullRequest request, CallContext context,
                     ReplyCallback<PullReply> done) {
  StartPull(*state_, std::move(request), UINT64_MAX, std::move(context),
            /*update_counts=*/nullptr, std::move(done));
}

void Namespace::PullOfPush(PullRequest request, Step step, CallContext context,
                           ReplyCallback<PullReply> done) {
  StartPull(*state_, std::move(request), step, std::move(context),
            /*update_counts=*/nullptr, std::move(done));
}

PullCall::PullCall(NamespaceState& state, PullRequest&& request, Step last,
                   CallContext&& context, absl::Duration started,
                   std::vector<uint64_t>* update_counts,
                   ReplyCallback<PullReply>&& done)
    : WaitingCall(std::move(context), started),
      state_(state),
      request_(std::move(request)),
      update_counts_(update_counts),
      reached_(last),
      last_(last),
      done_(std::move(done)) {
  if (request_.changes) held_.emplace(state, request_);
  if (request_.dtype != DType::kUnknown || request_.changes) {
    cancellation_ = this->context.cancellation;
  }
}

uint64_t WaitingBytes(const NamespaceState& state, const PullRequest& request) {
  uint64_t bytes = HeldValues::SizeBytes(request);
  for (const PullEntry& entry : request.entries) {
    bytes += kEntryOverheadBytes + entry.key.capacity() + entry.held.capacity();
    if (!entry.rows) continue;
    const Tensor& ids = entry.rows->tensor();
    // Ids of a stream have been staged.
    if (IsCountedBy(*state.memory.host().contributions, ids)) continue;
    bytes += ids.size_bytes();
  }
  return bytes;
}

bool PullCall::CanEnd() {
  if (has_answer_) return true;
  PullReply reply;
  const absl::StatusOr<bool> is_ready = Attempt(reply);
  if (!is_ready.ok()) {
    answer_ = is_ready.status();
    return true;
  }
  if (*is_ready) {
    answer_ = std::move(reply);
    return true;
  }
  if (held_) held_->Clear();
  reason = awaited_step > 0 ? WaitReason::kStaleness
                            : ReasonToWait(request_.entries[position_]);
  topic = awaited_step > 0 ? std::string(kProgressTopic)
                           : request_.entries[position_].key;
  return false;
}

absl::StatusOr<bool> PullCall::Attempt(PullReply& reply) {
  RETURN_IF_ERROR(CheckCaller());
  awaited_step = request_.worker ? state_.mode->AwaitedStep(reached_) : 0;
  if (awaited_step > 0) return false;
  if (num_looks_ > 0) {
    ASSIGN_OR_RETURN(const bool waits, WaitsForNext());
    if (waits) return false;
  }
  if (++num_looks_ > kMaxLooks) {
    return absl::UnavailableError(
        "keys of the pull came and went again and again while it waited");
  }
  return ReadAll(reply);
}

absl::Status PullCall::CheckCaller() {
  RETURN_IF_ERROR(CheckFence());
  RETURN_IF_ERROR(state_.mode->CheckWorker(request_.worker, state_.Now()));
  if (!request_.worker) return absl::OkStatus();
  const uint32_t rank = request_.worker->rank;
  reached_ = std::min(reached_, state_.workers->step_of(rank));
  if (!state_.mode->MustRepush(rank)) return absl::OkStatus();
  for (const PullEntry& entry : request_.entries) {
    const StoredKey* key = state_.keys.Find(entry.key);
    if (key == nullptr) continue;
    RETURN_IF_ERROR(state_.mode->CheckNothingToRepush(*key, rank, last_));
  }
  return absl::OkStatus();
}

absl::Status PullCall::CheckFence() {
  std::shared_ptr<const KeyFence::View> fence = state_.Fence();
  if (fence == seen_fence_) return absl::OkStatus();
  RETURN_IF_ERROR(
      CheckEach(fence, request_.entries,
                [this](const KeyFence::View& fence, const PullEntry& entry) {
                  return fence.CheckRead(state_.name, entry.key);
                }));
  seen_fence_ = std::move(fence);
  return absl::OkStatus();
}

absl::StatusOr<bool> PullCall::ReadAll(PullReply& reply) {
  const std::vector<PullEntry>& entries = request_.entries;
  reply.values.reserve(entries.size());
  if (update_counts_ != nullptr) update_counts_->clear();
  keys_of_rows_.clear();
  if (held_) held_->Clear();
  std::optional<size_t> first_busy;
  const bool is_cast = request_.dtype != DType::kUnknown;
  KeyTable::Finder finder(state_.keys, entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    StoredKey* const key = finder.Find(entries[i].key);
    if (!IsReached(key, entries[i])) {
      Unpin();
      keys_of_rows_.clear();  // while the table still has them
      RETURN_IF_ERROR(WaitFor(i, key));
      return false;
    }
    if (entries[i].rows) {
      RETURN_IF_ERROR(AddRows(key, entries[i], reply));
      continue;
    }
    if (is_cast) RETURN_IF_ERROR(CheckCast(request_.dtype, *key));
    if (key->value_is_changing && !first_busy) first_busy = i;
    if (first_busy) continue;
    reply.values.emplace_back(key->version, key->ToTensor(),
                              NumContributions(*key));
    if (held_) {
      held_->Look(state_, entries[i].key, i, reply.values.back(), key->revision,
                  /*is_present=*/true);
    }
    if (update_counts_ != nullptr)
      update_counts_->push_back(key->num_applied());
  }
  if (!first_busy) return true;
  Pin();
  RETURN_IF_ERROR(
      WaitFor(*first_busy, state_.keys.Find(entries[*first_busy].key)));
  return false;
}

absl::Status PullCall::AddRows(StoredKey* key, const PullEntry& entry,
                               PullReply& reply) {
  RETURN_IF_ERROR(CheckRowIds(*key, *entry.rows));
  ASSIGN_OR_RETURN(const Shape shape, ShapeOfRows(*key, entry.rows->size()));
  ASSIGN_OR_RETURN(Tensor rows, Tensor::WithoutData(key->dtype(), shape));
  reply.values.push_back(
      {key->version, std::move(rows), NumContributions(*key)});
  keys_of_rows_.emplace_back(key);
  return absl::OkStatus();
}

void PullCall::Send() {
  while (!watches_.empty()) {
    MutexLock large_lock(&state_.large_calls_mutex);
    MutexLock lock(&state_.mutex);
    UnwatchNext();
  }
  // The cancellation may keep the call, which then keeps no more than itself.
  ReplyTerms terms = {.dtype = request_.dtype,
                      .max_bytes = context.max_reply_bytes,
                      .deadline = started + context.timeout,
                      .cancellation = std::move(cancellation_),
                      .share = context.share.lock()};
  pinned_ = {};
  watches_ = {};
  seen_fence_ = nullptr;
  const std::vector<KeyPtr> keys_of_rows = std::move(keys_of_rows_);
  std::vector<RefPtr<const RowIds>> rows;
  if (!keys_of_rows.empty()) {
    for (const PullEntry& entry : request_.entries) rows.push_back(entry.rows);
  }
  std::vector<HeldValues::Base> bases;
  if (answer_.ok() && held_) {
    bases = std::move(*held_).Name(request_, *answer_);
  }
  held_.reset();
  request_ = {};
  if (!keys_of_rows.empty()) CheckAnswerBytes();
  if (!answer_.ok()) return SendOnce(std::move(done_), std::move(answer_));
  if (!keys_of_rows.empty()) {
    return SendRows(state_, keys_of_rows, std::move(rows), *std::move(answer_),
                    std::move(done_));
  }
  SendChanges(state_, std::move(terms), std::move(bases), *std::move(answer_),
              std::move(done_));
}

void PullCall::CheckAnswerBytes() {
  if (!answer_.ok()) return;
  absl::Status status = CheckReplyBytes(*answer_, context.max_reply_bytes);
  if (!status.ok()) answer_ = std::move(status);
}

}  // namespace tensorkv
