// Holds what the parts of a namespace share, and what its mutex guards.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_STATE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_STATE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/task_pool.h"
#include "kernels/backend.h"
#include "service/store/call_window.h"
#include "service/store/keyspace/earliest_alarm.h"
#include "service/store/keyspace/key_table.h"
#include "service/store/keyspace/moves/moving_keys.h"
#include "service/store/keyspace/namespace.h"
#include "service/store/keyspace/pull/changes_sent.h"
#include "service/store/keyspace/pull/value_token.h"
#include "service/store/keyspace/push/push_mode.h"
#include "service/store/keyspace/revisions.h"
#include "service/store/keyspace/rounds/round_times.h"
#include "service/store/keyspace/rules/rule_bindings.h"
#include "service/store/keyspace/snapshots/named_snapshots.h"
#include "service/store/keyspace/snapshots/open_snapshots.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/tensor_placement.h"
#include "service/store/keyspace/waits.h"
#include "service/store/keyspace/watch/change_log.h"
#include "service/store/keyspace/watch/recent_changes.h"
#include "service/store/keyspace/watch/watch_calls.h"
#include "service/store/keyspace/workers/worker_group.h"
#include "service/store/memory_budgets.h"
#include "service/store/store_observer.h"

namespace tensorkv {

using KeyPtr = RefPtr<StoredKey>;

// Bound what a call may do on the thread that it comes on, which others need
// too: 1 MiB is read and written in about 0.1 ms, and a pattern is matched with
// a key of 1 KiB in 3 us at most.
inline constexpr uint64_t kMaxBytesInline = 1 << 20;
inline constexpr size_t kMaxMatchesInline = 256;
inline constexpr size_t kMaxKeysInline = 256;

// Bounds how many keys one locking of the mutex is for, where a call has many.
inline constexpr size_t kKeysPerLock = 1024;

// NamespaceCounts counts what is not kept anywhere else.
struct NamespaceCounts {
  uint64_t updates_applied = 0;
  uint64_t rounds_open = 0;
  uint64_t rounds_closed = 0;
  uint64_t rounds_failed = 0;
  // Contributions that were refused.
  uint64_t contributions_late = 0;
  uint64_t contributions_duplicate = 0;
  uint64_t contributions_fenced = 0;
  // Counts what the gradient guard has found, in order of ranks.
  std::vector<GuardCounts> guarded;
};

// One mutex guards all metadata, so that a call over many keys is checked and
// takes effect at one moment, and a pull sees one moment of all its keys.
// Elements are never read or written under it: updates run outside, in order
// per key (docs/decisions/0003-one-lock-per-namespace.md).
//
// Keys, values and rules change in a Transaction alone, and so does whatever
// others wait for. Who only reads, counts, renews a lease or begins an update
// of a key that is due takes the mutex by itself.
//
// Locks are taken in this order: large_calls_mutex, mutex, and those of the
// alarms and of a Cancellation, under which nothing of a namespace is called.
// The mutex of the store is taken with none of these held; those of the call
// window, of the task pool and of watches never with `mutex`. No answer is sent
// under `mutex`, and no update runs; no memory of a device is allocated, and no
// pattern is matched. What takes so long that others must wait for all of it,
// as a change of rules, is no lock but a RulesHold, for which calls wait
// without a thread. Who takes a snapshot takes the mutex for some keys at a
// time.
//
// The mutex is fair, so that calls over many keys, which take it again and
// again, let others in between.
//
// Work that goes on without a caller (tasks, alarms) keeps this, or looks
// whether it is there yet; a namespace that was deleted lives until the last
// call of it has ended.
struct NamespaceState : std::enable_shared_from_this<NamespaceState> {
  NamespaceState(std::string name, NamespaceConfig config,
                 std::unique_ptr<OpenSnapshots> snapshots,
                 std::unique_ptr<WorkerGroup> workers,
                 std::unique_ptr<PushMode> mode, SharedRule rule,
                 const NamespaceEnvironment& environment, uint64_t uid);

  absl::Duration Now() const { return environment.alarms->Now(); }
  Backend& device() const { return *environment.device; }
  // Tells the observer. REQUIRES: no lock is held.
  void Report(StoreEvent event, absl::string_view detail) const {
    if (environment.observer == nullptr) return;
    environment.observer->Report(event, name, detail);
  }
  // Has the pool run `task`, unless the store has ended: then nobody can see
  // what it would do, false is returned and the task is left as it is.
  bool Submit(TaskPool::Task&& task) {
    return environment.pool->Submit(name, std::move(task));
  }
  // Does so with a task for those who only read, which stands in no push's way.
  // No name of a namespace begins as this owner's.
  bool SubmitRead(TaskPool::Task&& task) {
    return environment.pool->Submit("\2" + name, std::move(task));
  }
  // Has the pool run `task`, or runs it here if the store has ended.
  void Run(TaskPool::Task task) {
    if (!Submit(std::move(task))) std::move(task)();
  }
  // Returns whether rules get means of contributions in place of sums.
  bool has_means() const { return config.aggregation == Aggregation::kMean; }
  // Returns the present bindings; locks the mutex.
  std::shared_ptr<const RuleBindings> Bindings() const {
    MutexLock lock(&mutex);
    return bindings;
  }
  // Returns the gradient guard; locks the mutex if there is one.
  GradientGuard Guard() const {
    if (!is_guarded) return {};
    MutexLock lock(&mutex);
    return config.gradient_guard;
  }
  // Returns which keys take no calls, now that the mutex is held; null: all do.
  // Keys of a mirrored namespace do not move.
  std::shared_ptr<const KeyFence::View> Fence() const {
    if (environment.fence == nullptr || config.mirrored) return nullptr;
    return environment.fence->view();
  }
  // Returns what the server owns of a cluster, now that the mutex is held; null
  // in none, or of a mirrored namespace.
  std::shared_ptr<const OwnedPartitions> Owned() const {
    if (environment.fence == nullptr || config.mirrored) return nullptr;
    return environment.fence->owned();
  }
  // Returns the NotFound of a call that names `key`.
  absl::Status NoSuchKey(absl::string_view key) const;
  // Checks that a call may have so many entries.
  absl::Status CheckNumEntries(size_t num_entries) const;
  // Checks that there is headroom for `staging_bytes`, which staging gives, and
  // for the bytes that `check` returns. A call that was made before needs only
  // the former, and no error of `check` counts for it.
  absl::Status CheckHeadroomUnlessRepeat(
      const Caller& caller, const std::optional<CallId>& call_id,
      uint64_t staging_bytes,
      absl::FunctionRef<absl::StatusOr<BytesNeeded>()> check) const;
  // Returns the last version that `key` has, or that the updates under way will
  // report.
  Version LastVersionOf(const StoredKey& key) const {
    const uint64_t num_ahead = key.num_updates_ahead();
    return num_ahead == 0
               ? key.version
               : std::max(key.version, restored_versions) + num_ahead;
  }
  // Checks that `worker`, if there is one, may call; if so, renews its lease.
  // REQUIRES: the mutex is held.
  absl::Status CheckAndRenew(const std::optional<Worker>& worker);

  const std::string name;
  // Never 0: tells this namespace from others of its name, and which of them
  // was created later. The same at all servers of a cluster.
  const uint64_t uid;
  // Tells this life of the namespace from all others, to readers.
  const TokenNumbers tokens;
  // With every default filled in. UpdateNamespace changes some of its fields,
  // those of CheckUpdateMask: the mutex guards these. The others never change.
  NamespaceConfig config;
  // Says whether config.gradient_guard is on.
  std::atomic<bool> is_guarded;
  const std::unique_ptr<OpenSnapshots> snapshots ABSL_PT_GUARDED_BY(mutex);
  const std::unique_ptr<WorkerGroup> workers ABSL_PT_GUARDED_BY(mutex);
  const NamespaceEnvironment environment;
  NamespaceMemory memory;
  const std::unique_ptr<TensorPlacement> tensor_placement;
  const std::unique_ptr<NamedSnapshots> named ABSL_PT_GUARDED_BY(mutex);
  ChangesSent changes_sent;
  // What watches may be told, and those that wait for it.
  const std::unique_ptr<ChangeLog> log;
  const std::unique_ptr<WatchCalls> watch_calls;
  // Applies pushes. `memory` counts what it keeps.
  const std::unique_ptr<PushMode> mode;
  // The answers to the calls made in this namespace.
  const std::shared_ptr<CallWindow> calls;

  // Held in each locking by calls that read many keys: so a call for few keys
  // waits for one of them, however many such calls there are.
  FairMutex large_calls_mutex ABSL_ACQUIRED_BEFORE(mutex);

  mutable FairMutex mutex;
  KeyTable keys ABSL_GUARDED_BY(mutex);
  // Replaced as a whole, so that it can be read without the mutex.
  std::shared_ptr<const RuleBindings> bindings ABSL_GUARDED_BY(mutex);
  // While rules change: the keys that have come since that began.
  std::optional<std::vector<KeyPtr>> keys_made ABSL_GUARDED_BY(mutex);
  // Set by a change of rules that new keys would outrun: until it has ended,
  // who makes keys waits for the hold of rules.
  bool new_keys_wait ABSL_GUARDED_BY(mutex) = false;
  // Whether somebody has the RulesHold, and who waits for it, in their order.
  bool rules_are_held ABSL_GUARDED_BY(mutex) = false;
  std::list<WaitingCall*> rules_waits ABSL_GUARDED_BY(mutex);
  Waits waits ABSL_GUARDED_BY(mutex);
  KeyWatches watches ABSL_GUARDED_BY(mutex);
  // Not OK: no call waits any more, and this is what it is told.
  absl::Status end_of_waits ABSL_GUARDED_BY(mutex);
  // Not OK: the store has it no more, so what would change it is told this.
  absl::Status gone ABSL_GUARDED_BY(mutex);
  // The keys that have open rounds, or rounds that workers must push again.
  absl::flat_hash_set<StoredKey*> keys_with_rounds ABSL_GUARDED_BY(mutex);
  // Those of what was admitted, and of snapshots; kept through deletes of keys.
  Revisions revisions ABSL_GUARDED_BY(mutex);
  // No key that was deleted has had a version above.
  Version version_floor ABSL_GUARDED_BY(mutex) = 0;
  // No update makes a version up to here: the namespace may have had it after
  // the moment from which it was restored.
  Version restored_versions ABSL_GUARDED_BY(mutex) = 0;
  // Null unless keys of the namespace are to move to another server.
  std::unique_ptr<MovingKeys> moving ABSL_GUARDED_BY(mutex);
  RoundTimes round_times ABSL_GUARDED_BY(mutex);
  // Counts what `workers` keeps.
  Reservation worker_overhead ABSL_GUARDED_BY(mutex);
  EarliestAlarm lease_alarm ABSL_GUARDED_BY(mutex);
  EarliestAlarm snapshot_alarm ABSL_GUARDED_BY(mutex);
  // What has ended that `log` has not taken yet, and when it does.
  RecentChanges changes ABSL_GUARDED_BY(mutex);
  EarliestAlarm change_alarm ABSL_GUARDED_BY(mutex);
  NamespaceCounts counts ABSL_GUARDED_BY(mutex);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_NAMESPACE_STATE_H_
