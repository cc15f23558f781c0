// Remembers what has changed in a namespace, for all its watches together.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_CHANGE_LOG_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_CHANGE_LOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/store/change_memory.h"
#include "service/store/keyspace/watch/recent_changes.h"

namespace tensorkv {

// WatchFilter says what a watch is told of: keys that begin with a prefix, or
// one key, and snapshots of one series, or of all if its name is empty. What
// lies in slices has names of ours, which a prefix of theirs alone matches.
struct WatchFilter {
  std::optional<std::string> prefix;
  std::optional<std::string> key;
  std::optional<std::string> series;

  bool MatchesKey(absl::string_view name) const;
  bool MatchesSeries(absl::string_view name) const;
};

// Says what is told of a key: all; nothing, as it is another server's; nothing
// yet, as it is on its way to one.
enum class KeyTelling { kTold, kSkipped, kLater };

// Says what one call reads of a log.
struct LogReading {
  const WatchFilter& filter;
  // Nothing is read before all effects up to this revision have ended.
  uint64_t not_before = 0;
  size_t max_changes = 0;
  // Bounds how often the log is locked.
  size_t max_locks = 1;
  // Is asked of keys, and of the empty one for series, which are the home's.
  absl::FunctionRef<KeyTelling(absl::string_view key)> telling;
};

// The changes of a namespace in the order of their revisions, the newest of
// each key and series. Thread-safe, but for what the teller alone calls, who is
// one thread at a time. Writers never wait for its mutex, which nobody has for
// longer than some thousand changes take.
//
// Invariants:
//  1. A change has a position, above those of the changes before it. A watch is
//     at the position of the last one that it was told.
//  2. The indexes by name have the position of every change.
//  3. Whoever is at a position of at least floor_ lacks no change that is not
//     here.
//  4. Changes whose revision is above told() wait, unsettled.
//  5. What the log tells of a key or a series never goes back.
class ChangeLog {
 public:
  // The memory bounds what is remembered.
  explicit ChangeLog(std::shared_ptr<ChangeMemory> memory);
  ~ChangeLog();

  // Returns the position of the last change.
  uint64_t last() const { return last_.load(std::memory_order_acquire); }
  // Returns the revision up to which there are all changes.
  uint64_t told() const { return told_.load(std::memory_order_acquire); }
  // Returns how many bytes it takes.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Returns whether all changes after the position are remembered.
  bool Covers(uint64_t position) const { return position >= floor_.load(); }

  // Are for the teller.
  void Add(RecentChanges::Batch batch);
  // Has whoever is at a position up to now begin anew. Takes no lock.
  void Break();
  // Forgets all. REQUIRES: Break was called before.
  void Clear();

  // Adds some of the changes after the position to `reply`, and has the
  // position and the reply say how far it has come. Looks at a bounded number
  // of changes, after which there is more. Returns what Covers does.
  bool Read(const LogReading& reading, uint64_t& position,
            WatchReply& reply) const;
  // Calls `visit` for some thousand changes after the position, and moves that.
  // Returns what Covers does.
  bool Visit(uint64_t& position,
             absl::FunctionRef<void(uint64_t position, const RecordedChange&)>
                 visit) const;

 private:
  struct Contents;

  // Forgets the oldest changes beyond what the log may take.
  void Trim();
  // Returns the changes that are settled by `told`, in their order; keeps the
  // others.
  std::vector<RecordedChange> Settle(RecentChanges::Batch& batch,
                                     uint64_t told);
  void InsertAll(absl::Span<RecordedChange> changes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(RecordedChange change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(uint64_t position) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Erases up to `max_changes` of the oldest. Returns whether there are more.
  bool TrimSome(size_t max_changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RaiseFloor(uint64_t floor);
  // Reads some changes, of which `end` is the last. Returns whether to go on.
  bool ReadSome(const LogReading& reading, uint64_t end, uint64_t& position,
                size_t& bytes, WatchReply& reply) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<ChangeMemory> memory_;
  // These rise alone: last_ and told_ by the teller.
  std::atomic<uint64_t> last_{0};
  std::atomic<uint64_t> told_{0};
  std::atomic<uint64_t> floor_{0};
  std::atomic<uint64_t> bytes_{0};
  // These are the teller's.
  bool has_joined_ = false;
  std::vector<RecordedChange> unsettled_;
  uint64_t unsettled_bytes_ = 0;
  mutable Mutex mutex_;
  std::unique_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_)
      ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_CHANGE_LOG_H_
