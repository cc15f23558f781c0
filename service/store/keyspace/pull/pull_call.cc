#include "service/store/keyspace/pull/pull_call.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/keyspace/pull/pull_cast.h"
#include "service/store/keyspace/pull/row_check.h"
#include "service/store/keyspace/pull/row_reads.h"
#include "service/store/keyspace/push/staged_tensors.h"
#include "service/store/keyspace/waiting_calls.h"
#include "service/store/looks.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Bounds how many missing things an error names: statuses travel in HTTP/2
// headers, which are small.
constexpr size_t kMostMissingNamed = 8;

// One Pull from its call to its answer. Guarded by the namespace's mutex.
class PullCall final : public WaitingCall {
 public:
  // The worker of `request` need push no step again up to `last`.
  PullCall(NamespaceState& state, PullRequest request, Step last,
           CallContext context, absl::Duration started,
           std::vector<uint64_t>* update_counts, ReplyCallback<PullReply> done)
      : WaitingCall(std::move(context), started),
        state_(state),
        request_(std::move(request)),
        update_counts_(update_counts),
        reached_(last),
        last_(last),
        done_(std::move(done)) {
    if (request_.dtype != DType::kUnknown) {
      cancellation_ = this->context.cancellation;
    }
    for (const PullEntry& entry : request_.entries) {
      size_bytes_ += kEntryOverheadBytes + entry.key.capacity();
      if (!entry.rows) continue;
      const Tensor& ids = entry.rows->tensor();
      // Ids of a stream have been staged.
      if (IsCountedBy(*state.memory.host().contributions, ids)) continue;
      size_bytes_ += ids.size_bytes();
    }
  }

  // Returns whether watching all keys would hold the mutex for long.
  bool is_large() const { return request_.entries.size() > kKeysPerLock; }
  // Does one locking of what a large call does before Start: looks whether it
  // must wait and, if so, watches some more of its keys. Returns false after
  // the last.
  bool WatchMore();

  bool CanEnd() override;
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override { answer_ = status; }
  uint64_t size_bytes() const override { return size_bytes_; }
  void Finish() override;
  void Send() override;
  bool is_slow_to_send() const override { return is_large(); }

  // Returns whether the call ends when that key is deleted.
  bool EndsWith(const StoredKey& key) const {
    return !request_.wait_for_keys || AwaitsRoundOf(key);
  }
  // Errors: Aborted (WORKER_LEFT), if it waits for a round of the key that
  // lacks a worker that has left.
  absl::Status CheckNobodyLeft(const StoredKey& key) const {
    if (!request_.worker) return absl::OkStatus();
    CountLook();
    return state_.mode->CheckNobodyLeft(key, request_.worker->rank, reached_);
  }
  // Returns whether it waits for rounds of the key that are open, or not
  // applied.
  bool AwaitsRoundOf(const StoredKey& key) const {
    return request_.worker && reason != WaitReason::kStaleness && key.rounds &&
           key.rounds->num_open() > 0 &&
           key.rounds->Awaits(request_.worker->rank, reached_);
  }

 private:
  // Besides its name: the entry, a watch, a pin, a value of the reply.
  static constexpr uint64_t kEntryOverheadBytes =
      sizeof(PullEntry) + sizeof(KeyWatches::Watch) + sizeof(KeyPtr) +
      sizeof(Value);
  // Keys of the call that come and go again and again cannot have it look at
  // all the others without end.
  static constexpr int kMaxLooks = 16;

  // Checks that the caller may read, as far as the fence and the group go, and
  // need push no step of what it reads again.
  absl::Status CheckCaller();
  // Looks at the keys only if the fence is another than when they were seen.
  absl::Status CheckFence();
  bool MustWait(const StoredKey& key) const {
    return request_.worker &&
           state_.mode->MustWait(key, request_.worker->rank, reached_);
  }
  uint32_t NumContributions(const StoredKey& key) const {
    if (!request_.worker) return 0;
    return state_.mode->NumContributions(key, request_.worker->rank, reached_);
  }
  // Returns whether the key is as the entry wants it, but for an update under
  // way.
  bool IsReached(const StoredKey* key, const PullEntry& entry) const {
    return key != nullptr && key->version >= entry.min_version &&
           !MustWait(*key);
  }
  // Returns whether the call need not wait any longer. A call looks at all
  // entries when it begins, then waits for one after the other, and looks at
  // all again when it has come to the end: that takes constant time per wake,
  // in the mean.
  absl::StatusOr<bool> Attempt(PullReply& reply);
  // Moves position_ on to the next entry that is to be waited for; false if
  // there is none.
  absl::StatusOr<bool> WaitsForNext();
  // Returns whether all entries can be read at this moment, into `reply`. If
  // not, position_ is at one that cannot.
  absl::StatusOr<bool> ReadAll(PullReply& reply);
  // Has the call wait for the entry at `position`. Errors: NotFound · Aborted
  // (WORKER_LEFT).
  absl::Status WaitFor(size_t position, const StoredKey* key);
  // Returns what an entry waits for.
  WaitReason ReasonToWait(const PullEntry& entry) const;
  absl::Status Missing(const PullEntry& entry) const;
  // Returns whether the call is to hear when some of its keys go: all, unless
  // it may wait for keys to appear; then those of whose rounds it is a part,
  // which have been there before the call.
  bool Watches() const { return !request_.wait_for_keys || request_.worker; }
  // Watches some of its next keys. Errors: NotFound · Aborted (WORKER_LEFT).
  absl::Status WatchNext();
  // Ends some of these watches.
  void UnwatchNext();
  // Checks that the entry's rows can be read, if it asks for any; adds the
  // answer to `reply`, without elements. Errors: InvalidArgument.
  absl::Status AddRows(StoredKey* key, const PullEntry& entry,
                       PullReply& reply);
  // The answer becomes an error if its values are more than the reply may have.
  void CheckAnswerBytes();
  // Keeps the values of all the call's keys readable, so that one that waits
  // for the updates of several keys waits for no more than one of each.
  void Pin();
  void Unpin();

  NamespaceState& state_;
  PullRequest request_;
  // Null unless the caller wants them.
  std::vector<uint64_t>* const update_counts_;
  // A worker waits for what it had contributed before its call, which the first
  // look finds, not for what it contributes meanwhile. Where its steps go back,
  // with keys that a lost server had, so does this.
  Step reached_;
  // It may have to push again what comes after: it goes on where others have
  // gone back to.
  const Step last_;
  uint64_t size_bytes_ = kOverheadBytes;
  ReplyCallback<PullReply> done_;
  // Null unless values are to be converted.
  std::shared_ptr<Cancellation> cancellation_;
  bool has_answer_ = false;
  absl::StatusOr<PullReply> answer_;
  // Whose rows are to be read, by entry; empty unless the call is about rows.
  std::vector<KeyPtr> keys_of_rows_;
  // The entry that is waited for; the entries before were reached once.
  size_t position_ = 0;
  int num_looks_ = 0;
  // Keys whose num_pulls_pinning counts this call: none unless it waits for
  // nothing but updates under way.
  std::vector<KeyPtr> pinned_;
  // Watch the first entries; they have been looked at whether they have one.
  std::vector<KeyWatches::Watch> watches_;
  size_t num_watched_ = 0;
  // That the entries have passed.
  std::shared_ptr<const KeyFence::View> seen_fence_;
};

bool PullCall::WatchMore() {
  has_answer_ = num_looks_ == 0 && CanEnd();
  if (has_answer_ || !Watches()) return false;
  if (absl::Status status = WatchNext(); !status.ok()) {
    answer_ = std::move(status);
    has_answer_ = true;
    return false;
  }
  return num_watched_ < request_.entries.size();
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
  reason = awaited_step > 0 ? WaitReason::kStaleness
                            : ReasonToWait(request_.entries[position_]);
  topic = awaited_step > 0 ? std::string(kProgressTopic)
                           : request_.entries[position_].key;
  return false;
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

absl::StatusOr<bool> PullCall::WaitsForNext() {
  const std::vector<PullEntry>& entries = request_.entries;
  for (size_t i = position_; i < entries.size(); ++i) {
    const StoredKey* key = state_.keys.Find(entries[i].key);
    const bool is_reached = IsReached(key, entries[i]);
    // A key that is pinned has at most the update that was under way then.
    if (is_reached && (pinned_.empty() || !key->value_is_changing)) continue;
    if (!is_reached) Unpin();
    RETURN_IF_ERROR(WaitFor(i, key));
    return true;
  }
  return false;
}

absl::StatusOr<bool> PullCall::ReadAll(PullReply& reply) {
  const std::vector<PullEntry>& entries = request_.entries;
  reply.values.reserve(entries.size());
  if (update_counts_ != nullptr) update_counts_->clear();
  keys_of_rows_.clear();
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

absl::Status PullCall::WaitFor(size_t position, const StoredKey* key) {
  position_ = position;
  if (key != nullptr) RETURN_IF_ERROR(CheckNobodyLeft(*key));
  if (key == nullptr && !request_.wait_for_keys) {
    return state_.NoSuchKey(request_.entries[position].key);
  }
  // A wait that cannot end well does not begin.
  return num_watched_ == 0 && Watches() ? WatchNext() : absl::OkStatus();
}

absl::Status PullCall::WatchNext() {
  const std::vector<PullEntry>& entries = request_.entries;
  watches_.reserve(entries.size());  // they must stay where they are
  const size_t end = std::min(num_watched_ + kKeysPerLock, entries.size());
  while (num_watched_ < end) {
    const std::string& name = entries[num_watched_++].key;
    const StoredKey* key = state_.keys.Find(name);
    if (request_.wait_for_keys) {
      if (key == nullptr || !MustWait(*key)) continue;
    } else if (key == nullptr) {
      return state_.NoSuchKey(name);
    }
    RETURN_IF_ERROR(CheckNobodyLeft(*key));
    watches_.push_back({.key = key, .call = this});
    state_.watches.Add(&watches_.back());
  }
  return absl::OkStatus();
}

void PullCall::UnwatchNext() {
  for (size_t i = 0; i < kKeysPerLock && !watches_.empty(); ++i) {
    KeyWatches::Watch& watch = watches_.back();
    if (watch.key != nullptr) state_.watches.Remove(&watch);
    watches_.pop_back();
  }
}

void PullCall::Pin() {
  if (!pinned_.empty()) return;
  pinned_.reserve(request_.entries.size());
  for (const PullEntry& entry : request_.entries) {
    StoredKey* key = state_.keys.Find(entry.key);
    ++key->num_pulls_pinning;
    pinned_.emplace_back(key);
  }
}

void PullCall::Unpin() {
  for (KeyPtr& key : pinned_) {
    --key->num_pulls_pinning;
    // It was deleted, and nobody else has it.
    if (key->IsUnique()) state_.keys.DeferDestruction(std::move(key));
  }
  pinned_.clear();
}

// The keys themselves go without the mutex, in Send, and so do the watches of
// large calls.
void PullCall::Finish() {
  for (const KeyPtr& key : pinned_) --key->num_pulls_pinning;
  UnwatchNext();
}

WaitReason PullCall::ReasonToWait(const PullEntry& entry) const {
  const StoredKey* key = state_.keys.Find(entry.key);
  if (key == nullptr) return WaitReason::kKey;
  if (MustWait(*key)) return WaitReason::kRound;
  return key->version < entry.min_version ? WaitReason::kVersion
                                          : WaitReason::kUpdate;
}

absl::Status PullCall::Missing(const PullEntry& entry) const {
  const StoredKey* key = state_.keys.Find(entry.key);
  const auto missing = [&entry](absl::string_view problem) {
    return absl::DeadlineExceededError(
        absl::StrCat("key ", Quoted(entry.key), problem));
  };
  switch (ReasonToWait(entry)) {
    case WaitReason::kRound:
      return state_.mode->DescribeWait(*key, request_.worker->rank,
                                       state_.Now());
    case WaitReason::kKey:
      return WithReason(missing(" does not exist yet"), Reason::kWaitEnded,
                        {{"key", entry.key}});
    case WaitReason::kVersion:
      return WithReason(
          missing(absl::StrCat(": expected version ", entry.min_version,
                               ", got ", key->version)),
          Reason::kWaitEnded,
          {{"key", entry.key}, {"version", entry.min_version}});
    default:
      return WithReason(missing(": its update is under way"),
                        Reason::kWaitEnded, {{"key", entry.key}});
  }
}

// Looks at some of many keys only, from the one that is waited for.
absl::Status PullCall::Missing() const {
  if (awaited_step > 0)
    return state_.mode->DescribeAwaited(awaited_step, state_.Now());
  std::vector<absl::Status> missing;
  size_t num_missing = 0;
  const size_t num_entries = request_.entries.size();
  const size_t begin = is_large() ? position_ : 0;
  const size_t end = std::min(begin + kKeysPerLock, num_entries);
  for (size_t i = begin; i < end; ++i) {
    const PullEntry& entry = request_.entries[i];
    const StoredKey* key = state_.keys.Find(entry.key);
    if (IsReached(key, entry) && !key->value_is_changing) continue;
    if (++num_missing <= kMostMissingNamed) missing.push_back(Missing(entry));
  }
  if (num_missing == 0) return Missing(request_.entries[position_]);
  std::string text = absl::StrJoin(
      missing, "; ", [](std::string* out, const absl::Status& each) {
        absl::StrAppend(out, each.message());
      });
  if (num_missing > missing.size()) {
    absl::StrAppend(&text, "; and ", num_missing - missing.size(), " more");
  }
  if (end < num_entries) {
    absl::StrAppend(&text, "; the last ", num_entries - end,
                    " keys were not looked at");
  }
  return WithMessage(missing[0], text);
}

void PullCall::CheckAnswerBytes() {
  if (!answer_.ok()) return;
  absl::Status status = CheckReplyBytes(*answer_, context.max_reply_bytes);
  if (!status.ok()) answer_ = std::move(status);
}

void PullCall::Send() {
  while (!watches_.empty()) {
    MutexLock large_lock(&state_.large_calls_mutex);
    MutexLock lock(&state_.mutex);
    UnwatchNext();
  }
  // The cancellation may keep the call, which then keeps no more than itself.
  const CallContext rest = {.cancellation = std::move(cancellation_)};
  pinned_ = {};
  watches_ = {};
  seen_fence_ = nullptr;
  const std::vector<KeyPtr> keys_of_rows = std::move(keys_of_rows_);
  std::vector<RefPtr<const RowIds>> rows;
  if (!keys_of_rows.empty()) {
    for (const PullEntry& entry : request_.entries) rows.push_back(entry.rows);
  }
  std::optional<PullCast> cast;
  if (answer_.ok() && request_.dtype != DType::kUnknown) {
    cast.emplace(request_.dtype, *answer_);
  }
  request_ = {};
  CheckAnswerBytes();
  if (!answer_.ok()) return SendOnce(std::move(done_), std::move(answer_));
  if (!keys_of_rows.empty()) {
    return SendRows(state_, keys_of_rows, std::move(rows), *std::move(answer_),
                    std::move(done_));
  }
  if (cast) {
    return SendCast(state_, rest, *std::move(cast), *std::move(answer_),
                    std::move(done_));
  }
  state_.tensor_placement->Send(*std::move(answer_), std::move(done_));
}

absl::Status CheckFields(const NamespaceState& state,
                         const PullRequest& request) {
  RETURN_IF_ERROR(state.CheckNumEntries(request.entries.size()));
  bool has_rows = false;
  bool has_tensors = false;
  for (const PullEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
    (entry.rows ? has_rows : has_tensors) = true;
  }
  if (has_rows && request.dtype != DType::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype of a pull: expected none for rows, got ",
                     NameOf(request.dtype)));
  }
  RETURN_IF_ERROR(CheckCast(request.dtype));
  if (has_rows && has_tensors) {
    return absl::InvalidArgumentError(
        "entries of a pull: expected rows in all or in none");
  }
  return absl::OkStatus();
}

}  // namespace

void StartPull(NamespaceState& state, PullRequest request, Step step,
               CallContext context, std::vector<uint64_t>* update_counts,
               ReplyCallback<PullReply> done) {
  absl::Status status = CheckFields(state, request);
  if (status.ok() && request.worker) {
    MutexLock lock(&state.mutex);
    status = state.CheckAndRenew(request.worker);
  }
  if (!status.ok()) return std::move(done)(std::move(status));
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
  PullOfPush(std::move(request), UINT64_MAX, std::move(context),
             std::move(done));
}

void Namespace::PullOfPush(PullRequest request, Step step, CallContext context,
                           ReplyCallback<PullReply> done) {
  StartPull(*state_, std::move(request), step, std::move(context),
            /*update_counts=*/nullptr, std::move(done));
}

namespace {

// Ends the pulls that watch the key for which `check` returns an error, with
// that.
void EndWatching(Transaction& transaction, const StoredKey& key,
                 absl::FunctionRef<absl::Status(const PullCall&)> check) {
  std::vector<std::pair<WaitingCallPtr, absl::Status>> ending;
  for (KeyWatches::Watch* watch = transaction.state().watches.Find(&key);
       watch != nullptr; watch = watch->next) {
    CountLook();
    if (watch->call->is_finished) continue;
    absl::Status status = check(static_cast<const PullCall&>(*watch->call));
    if (status.ok()) continue;
    ending.emplace_back(watch->call->shared_from_this(), std::move(status));
  }
  for (const auto& [call, status] : ending) {
    // It may have watched the key twice.
    if (!call->is_finished) FailCall(transaction, call, status);
  }
}

}  // namespace

void EndPullsOf(Transaction& transaction, const StoredKey& key) {
  NamespaceState& state = transaction.state();
  EndWatching(transaction, key, [&](const PullCall& call) {
    return call.EndsWith(key) ? state.NoSuchKey(key.name()) : absl::OkStatus();
  });
  // The remaining watches wait for other keys, or for this one to come again.
  while (KeyWatches::Watch* const watch = state.watches.Find(&key)) {
    state.watches.Remove(watch);
  }
}

void EndPullsOfRounds(Transaction& transaction, const StoredKey& key,
                      absl::FunctionRef<absl::Status()> status) {
  EndWatching(transaction, key, [&](const PullCall& call) {
    return call.AwaitsRoundOf(key) ? status() : absl::OkStatus();
  });
}

void EndPullsThatLackWorkers(Transaction& transaction, const StoredKey& key) {
  EndWatching(transaction, key,
              [&](const PullCall& call) { return call.CheckNobodyLeft(key); });
}

}  // namespace tensorkv
