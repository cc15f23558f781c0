// Keeps the calls of watches that wait, and tells them of changes.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALLS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/store/byte_budget.h"
#include "service/store/keyspace/earliest_alarm.h"
#include "service/store/keyspace/watch/change_log.h"
#include "service/store/keyspace/watch/watch_token.h"
#include "service/store/namespace_summary.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// WatchTerms are those on which a watch is told of changes: what a Watch says.
struct WatchTerms {
  WatchFilter filter;
  absl::Duration interval;
  size_t max_changes = 0;
};

// One call from its start to its answer. WatchCalls's mutex guards it while it
// is parked; else it is its only user's.
struct WatchCall : std::enable_shared_from_this<WatchCall> {
  // May wait for `timeout`, of which at most half is spent on gathering.
  WatchCall(WatchTerms terms, WatchToken token, CallContext context,
            ReplyCallback<WatchReply> done, absl::Duration now,
            absl::Duration timeout);

  // Returns how many bytes that nothing else counts it keeps while it waits:
  // this object, its places, what gRPC keeps of it, and names, of which there
  // is a copy in the index.
  uint64_t size_bytes() const;

  const WatchTerms terms;
  CallContext context;
  ReplyCallback<WatchReply> done;
  WatchToken token;
  const absl::Duration started;
  // Is looked at then, if it has to be told of anything; ends at `end`.
  const absl::Duration due;
  const absl::Duration end;
  // It waits for others, but none of these needs its caller's other calls: so
  // the caller pays for each watch.
  std::shared_ptr<const void> share;
  Reservation reservation;

  // These are of WatchCalls.
  std::optional<uint64_t> interruption;
  bool is_parked = false;
  bool is_cancelled = false;
  // Something after its position may have to be told.
  bool is_behind = false;
  absl::Duration looked_at;
};
using WatchCallPtr = std::shared_ptr<WatchCall>;

// The calls of a namespace's watches. Thread-safe. It has a mutex of its own:
// nobody who changes a key or ends a round looks at a watch.
//
// Locks are taken in this order: this mutex, that of the log, those of the
// alarms; never the namespace's with this one held.
//
// Invariants:
//  1. A parked call is in queue_ and, by its filter, in the index.
//  2. Nothing up to marked_ has to be told to a parked call that is not behind.
class WatchCalls {
 public:
  struct Counts {
    WaitStatus waits;
    // Says what watches were told, and how often one must begin anew.
    uint64_t changes_told = 0;
    uint64_t watches_compacted = 0;
  };

  // `state` has the log, and outlives this.
  explicit WatchCalls(NamespaceState& state) : state_(state) {
    counts_.waits.reason = WaitReason::kChange;
  }

  // Has the call wait until there is something to tell, or its end.
  void Start(const WatchCallPtr& call);
  // Finds out which calls have to be told of what the log has got. Called by
  // the log's teller.
  void MarkBehind();
  // Ends all calls with `status`; if `for_ever`, those that start later, too.
  void End(const absl::Status& status, bool for_ever);

  // Records that a watch asks. Takes no lock.
  void Touch();
  // Returns whether none has asked for so long that none will go on. Takes no
  // lock.
  bool IsForgotten() const;
  // Counts what a call was told.
  void Count(const absl::StatusOr<WatchReply>& reply);
  Counts counts() const;

 private:
  // Looks at some of the calls whose time has come, and has another task look
  // at the others.
  void LookAtDue();
  static void LookAtDueOnPool(NamespaceState& state);
  // Ends the call, or parks it again.
  void Look(const WatchCallPtr& call);
  void Cancel(const WatchCallPtr& call);
  // Ends a call that is not parked.
  void Send(const WatchCallPtr& call, absl::StatusOr<WatchReply> reply);

  // Errors: the status with which the call ends.
  absl::Status Park(const WatchCallPtr& call);
  void MarkBehind(WatchCall& call, uint64_t position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkBehind(uint64_t position, const RecordedChange& change)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkAt(absl::string_view id, uint64_t position)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const WatchCallPtr& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  NamespaceState& state_;
  // Says how many calls have waited and not ended, parked or looked at.
  std::atomic<uint64_t> num_waiting_{0};
  // By the clock of the alarms.
  std::atomic<int64_t> last_use_nanoseconds_{0};

  mutable Mutex mutex_;
  // By looked_at.
  absl::btree_set<std::pair<absl::Duration, WatchCallPtr>> queue_
      ABSL_GUARDED_BY(mutex_);
  // By what is watched, and how many prefixes there are of each size.
  absl::flat_hash_map<std::string, absl::flat_hash_set<WatchCall*>> index_
      ABSL_GUARDED_BY(mutex_);
  absl::btree_map<size_t, size_t> prefix_sizes_ ABSL_GUARDED_BY(mutex_);
  uint64_t marked_ ABSL_GUARDED_BY(mutex_) = 0;
  // Not OK: no call waits any more.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  // Says how often all were ended, and with what.
  uint64_t num_interruptions_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status interruption_ ABSL_GUARDED_BY(mutex_);
  EarliestAlarm alarm_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

// Returns what a watch is told now, maybe no changes, with the token of where
// it is then; or that it must begin anew. No mutex need be held.
// Locks the log up to `max_locks` times.
absl::StatusOr<WatchReply> ReadChanges(const NamespaceState& state,
                                       const WatchTerms& terms,
                                       size_t max_locks, WatchToken& token);

// Has the reply say where the watch is, and of what.
void SetToken(const NamespaceState& state, const WatchToken& token,
              WatchReply& reply);

// The keys of a namespace that are the server's at one moment: the others' are
// told by those.
class OwnKeys {
 public:
  explicit OwnKeys(const NamespaceState& state);

  // Returns what is told of the key; of the empty one, what is told of series.
  KeyTelling TellingOf(absl::string_view key) const;

 private:
  const absl::string_view name_space_;
  const std::shared_ptr<const KeyFence::View> fence_;
  const std::shared_ptr<const OwnedPartitions> owned_;
};

// Has what has changed taken to the log: soon, if there is more to tell than
// what was taken; else once watches may be forgotten. REQUIRES: the mutex of
// the namespace is held.
void ScheduleTelling(NamespaceState& state);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_WATCH_CALLS_H_
