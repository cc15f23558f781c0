// The snapshots of a namespace that are open, and what they need of keys that
// have changed since.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_OPEN_SNAPSHOTS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_OPEN_SNAPSHOTS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/store/key_fence.h"
#include "service/store/keyspace/snapshots/kept_key.h"
#include "service/store/keyspace/snapshots/snapshot_history.h"

namespace tensorkv {

// A snapshot: all effects whose revisions are up to its own, and none of later
// ones. Whoever has it takes each key once: from the table, in byte order, or
// from what OpenSnapshots keeps of keys that have changed before their turn.
struct OpenSnapshot {
  // It has the keys of that namespace, which outlives it, or with `its_fence`
  // those that this fences.
  explicit OpenSnapshot(
      absl::string_view its_name_space,
      std::shared_ptr<const KeyFence::View> its_fence = nullptr)
      : name_space(its_name_space), fence(std::move(its_fence)) {}

  // Returns whether the snapshot has keys of that name, and has yet to take
  // them.
  bool Lacks(absl::string_view name) const {
    return !is_walked && failure.ok() && name > walked &&
           (fence == nullptr || fence->Fences(name_space, name));
  }

  const absl::string_view name_space;
  const std::shared_ptr<const KeyFence::View> fence;
  // Set by OpenSnapshots::Open.
  uint64_t revision = 0;
  // Numbers the first of the former keys that it has not looked at.
  uint64_t next_former = 0;
  // Keys of the table with names up to here are taken; all, if is_walked.
  std::string walked;
  bool is_walked = false;
  // Not OK: it lacks nothing, as there is no memory for what it would need.
  absl::Status failure;
};

// Guarded by the namespace's mutex.
//
// A key knows since which revision it is what it is. Before it changes, what it
// has been since then is kept if a snapshot of that time has yet to take it:
// one copy for all such snapshots. Each of them looks at what is kept in the
// order in which it was, and the last one lets it go. So no change depends on
// how many snapshots are open, and none is looked at while a key is newer than
// the newest.
//
// Invariants:
//  1. open_ is in the order of the revisions.
//  2. num_readers of a former key counts the open snapshots whose revisions are
//     in [since, until) and that have not looked at it.
class OpenSnapshots {
 public:
  // What a key was, from a revision on until before another.
  struct Former {
    KeptKeyPtr key;
    uint64_t since = 0;
    uint64_t until = 0;
    size_t num_readers = 0;
  };
  // By their numbers, in the order in which they were kept.
  using FormerKeys = std::map<uint64_t, Former>;

  // Opens a snapshot, which stays where it is until Close. REQUIRES: no other
  // snapshot, and no change, has that revision or a higher one.
  void Open(OpenSnapshot* snapshot, uint64_t revision);
  // Has the snapshot lack nothing from now on, and lets go of up to `max_keys`
  // of what it has not looked at, which are moved to `dropped`. Returns whether
  // that was all: then the snapshot is closed, as one that has failed is.
  bool Close(OpenSnapshot* snapshot, size_t max_keys,
             std::vector<KeptKeyPtr>& dropped);

  // Has all open snapshots fail with `status`: they are closed, and lack
  // nothing. Returns what was kept for them, which is to go without the mutex.
  FormerKeys FailAll(const absl::Status& status);

  // Count who takes snapshots, from before the first key until all are passed
  // on, or the snapshot has failed and its reader has let go of the rest. As
  // long as there is somebody, snapshots may have values of keys.
  void BeginReading() { ++num_reading_; }
  void EndReading() { --num_reading_; }
  bool has_readers() const { return num_reading_ > 0; }

  // Returns the revisions of the oldest and newest open snapshot.
  const SnapshotRevisions& revisions() const { return revisions_; }
  uint64_t newest() const { return revisions_.newest; }

  // Returns whether a snapshot with a revision in [since, until) may lack keys
  // of that name. Looks at a few of these snapshots at most.
  bool MayLack(absl::string_view name, uint64_t since, uint64_t until) const;
  // Keeps what a key has been since a revision until before another.
  void Keep(KeptKeyPtr kept, uint64_t since, uint64_t until);
  // Moves those of the next `max_keys` former keys that the snapshot lacks to
  // `taken`, and references to others, perhaps the last ones, to `dropped`.
  // Returns whether the snapshot has looked at all. REQUIRES: it is open.
  bool Take(OpenSnapshot& snapshot, size_t max_keys,
            std::vector<KeptKeyPtr>& taken, std::vector<KeptKeyPtr>& dropped);

  // Returns how many former keys are kept.
  size_t num_kept() const { return former_.size(); }
  // Is notified when a kept key becomes ready. Not a CondVar: the mutex is a
  // fair one.
  std::condition_variable_any& changed() { return changed_; }

 private:
  using Opened = std::vector<OpenSnapshot*>;

  // Returns the first open snapshot of at least that revision.
  Opened::const_iterator FirstFrom(uint64_t revision) const;
  bool HasTakenAll(const OpenSnapshot& snapshot) const {
    return snapshot.next_former == next_former_;
  }
  // Has the snapshot look at the next former key; returns it if it is one of
  // the snapshot's, null otherwise.
  KeptKeyPtr TakeNext(OpenSnapshot& snapshot);

  // Sets revisions_ after a change of open_.
  void SetRevisions();

  Opened open_;
  SnapshotRevisions revisions_;
  size_t num_reading_ = 0;
  FormerKeys former_;
  uint64_t next_former_ = 0;
  std::condition_variable_any changed_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_OPEN_SNAPSHOTS_H_
