// One pull from its call to its answer.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull/held_values.h"
#include "service/store/keyspace/waits.h"
#include "service/store/looks.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Returns how many bytes a request that waits takes that nothing else counts.
uint64_t WaitingBytes(const NamespaceState& state, const PullRequest& request);

// One Pull from its call to its answer. Guarded by the namespace's mutex.
class PullCall final : public WaitingCall {
 public:
  // The worker of `request` need push no step again up to `last`.
  PullCall(NamespaceState& state, PullRequest&& request, Step last,
           CallContext&& context, absl::Duration started,
           std::vector<uint64_t>* update_counts,
           ReplyCallback<PullReply>&& done);

  // Returns whether watching all keys would hold the mutex for long.
  bool is_large() const { return request_.entries.size() > kKeysPerLock; }
  // Does one locking of what a large call does before Start: looks whether it
  // must wait and, if so, watches some more of its keys. Returns false after
  // the last.
  bool WatchMore();

  bool CanEnd() override;
  absl::Status Missing() const override;
  void Fail(const absl::Status& status) override { answer_ = status; }
  uint64_t size_bytes() const override {
    return kOverheadBytes + WaitingBytes(state_, request_);
  }
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
  ReplyCallback<PullReply> done_;
  // Null unless values are to be converted.
  std::shared_ptr<Cancellation> cancellation_;
  bool has_answer_ = false;
  absl::StatusOr<PullReply> answer_;
  // Has the values that the caller holds; nothing unless it asks for changes.
  std::optional<HeldValues> held_;
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

// Starts a pull as Namespace::PullOfPush does; `done` is called once, now or
// when the wait has ended. `update_counts`, which is null or outlives the call,
// gets those of the keys as they are with their values.
void StartPull(NamespaceState& state, PullRequest&& request, Step step,
               CallContext&& context, std::vector<uint64_t>* update_counts,
               ReplyCallback<PullReply>&& done);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PULL_PULL_CALL_H_
