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
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "contract/requests.h"
#include "service/store/keyspace/watch/recent_changes.h"

namespace tensorkv {

// What a watch is told of: keys that begin with a prefix, or one key, and
// snapshots of one series, or of all if its name is empty.
struct WatchFilter {
  std::optional<std::string> prefix;
  std::optional<std::string> key;
  std::optional<std::string> series;

  bool MatchesKey(absl::string_view name) const;
  bool MatchesSeries(absl::string_view name) const;
};

// The changes of a namespace in the order of their revisions, the newest of
// each key and series. Thread-safe; writers never wait for its mutex.
//
// Invariants:
//  1. A change has a position, above those of the changes before it. A watch is
//     at the position of the last one that it was told.
//  2. The index by name has the position of every change.
//  3. Whoever is at a position of at least floor_ lacks no change that is not
//     here.
//  4. Changes whose revision is above told() wait, unsettled.
class ChangeLog {
 public:
  // `max_bytes` bounds what is remembered, and what waits.
  explicit ChangeLog(uint64_t max_bytes);
  ~ChangeLog();

  // Returns the position of the last change.
  uint64_t last() const { return last_.load(std::memory_order_acquire); }
  // Returns the revision up to which there are all changes.
  uint64_t told() const { return told_.load(std::memory_order_acquire); }

  void Add(const RecentChanges::Batch& batch);
  // Forgets all: who is at a position up to now must begin anew. Returns what
  // there was, for the caller to destroy with no lock held.
  [[nodiscard]] std::shared_ptr<const void> Clear();

  // Returns whether all changes after the position are remembered.
  bool Covers(uint64_t position) const;
  // Adds to `reply` up to `max_changes` of the filter's changes after the
  // position, if all effects up to `not_before` have ended, and has the
  // position and the reply say how far it has come. Returns what Covers does.
  bool Read(const WatchFilter& filter, uint64_t not_before, size_t max_changes,
            uint64_t& position, WatchReply& reply) const;

 private:
  struct Change;
  struct Contents;

  // Returns the changes that are settled by `told`, in their order; keeps the
  // others.
  std::vector<Change> Settle(const RecentChanges::Batch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Insert(Change change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(uint64_t position) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<Contents> ClearLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads some changes. Returns whether to go on.
  bool ReadSome(const WatchFilter& filter, size_t max_changes,
                uint64_t& position, size_t& bytes, WatchReply& reply) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  // These change with mutex_ alone.
  std::atomic<uint64_t> last_{0};
  std::atomic<uint64_t> told_{0};
  mutable Mutex mutex_;
  std::unique_ptr<Contents> contents_ ABSL_GUARDED_BY(mutex_)
      ABSL_PT_GUARDED_BY(mutex_);
  uint64_t floor_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WATCH_CHANGE_LOG_H_
