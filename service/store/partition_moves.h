// Moves the keys of partitions from one server's store to another's.

#ifndef TENSORKV_SERVICE_STORE_PARTITION_MOVES_H_
#define TENSORKV_SERVICE_STORE_PARTITION_MOVES_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "service/store/key_fence.h"
#include "service/store/snapshot.h"

namespace tensorkv {

// The store of a server that gives partitions away, and of one that gets them.
//
// One that gives them passes on what they have, and then what has changed
// meanwhile, again and again; fences them, passes on the last changes, closes
// them, and then either has them back or lets them go, whichever the placement
// says:
//
//   TakeChanges… ─► Fence ─► TakeSnapshotOfFenced ─► FenceReads ─┬─► GiveAway
//    ▲  └─────────────┴────────────────┼─────────────────────────┴─► Unfence
//    └─────────────────────────────────┘
//
// One that gets them puts what it is given into its store by a Restoration.
// From its start until Own, calls about these keys fail as after GiveAway:
// there may be some that have been let in while the keys were here before, and
// have waited since.
//
// TakeChanges to GiveAway are used by one thread at a time; all are safe beside
// every other call of the store.
class PartitionMoves {
 public:
  virtual ~PartitionMoves() = default;

  // Passes all namespaces to `sink`, each with its keys of `partitions`, while
  // calls go on, and without answers to calls. Those that change meanwhile are
  // as they were before or as they are afterwards. When called again in the
  // same move, of which the partitions are the same, passes what has changed
  // since the call before began; also after TakeSnapshotOfFenced was
  // Unavailable, and then the keys take calls again. After errors, Unfence.
  // Errors: as of TakeSnapshot · Aborted: a namespace was deleted whose keys
  // were passed on · ResourceExhausted: also, so many keys were removed since
  // that they could not all be recorded · Unimplemented: a namespace is
  // mirrored.
  virtual absl::Status TakeChanges(const PartitionSet& partitions,
                                   SnapshotSink& sink) = 0;
  // Fences the move's partitions, and blocks until no call changes their keys
  // any more. From now on, calls that would change them are Unavailable
  // (KEY_MOVING), but for contributions up to the last step of which any of
  // them had a round open in their namespace. Returns when none of their rounds
  // is open or must be pushed again, or all who took part had joined and are
  // members no more. What was admitted has had its effect then, or waits in the
  // queue of its key, or is made again by whoever joins next. Whoever is
  // refused has changed nothing. After errors, Unfence. Errors: those of
  // `may_wait`, which is asked now and then while rounds are open ·
  // Unimplemented: a namespace is mirrored.
  virtual absl::Status Fence(const PartitionSet& partitions,
                             absl::FunctionRef<absl::Status()> may_wait) = 0;
  // Passes all namespaces to `sink`, each with its keys that are fenced, as of
  // after Fence, or what has changed of them since TakeChanges was called last.
  // Errors: as of TakeChanges · Unavailable: rules change, or rounds have
  // failed since Fence; TakeChanges may be called again.
  virtual absl::Status TakeSnapshotOfFenced(SnapshotSink& sink) = 0;
  // Refuses calls that would read fenced keys, and contributions to them, with
  // Unavailable (KEY_MOVING), and ends so the calls that wait for them.
  virtual void FenceReads() = 0;
  // Ends the move: the fenced partitions stay here and take calls again.
  virtual void Unfence() = 0;
  // Ends the move: the fenced partitions are another server's. Their keys are
  // removed, and calls about them fail with FailedPrecondition (WRONG_SERVER).
  virtual void GiveAway() = 0;

  // Removes what the store has of `partitions`, and begins to get their keys.
  // Namespaces that are there stay; one that is not is made as it is
  // elsewhere, and one without keys gets the rules that it has elsewhere. Keys
  // are there with each Add, in place of those of their names. A namespace may
  // begin again, with what has changed (has_only_changes) or anew. Commit,
  // which may be called again, has the groups go on from the steps elsewhere,
  // and every version from then on be above those that the namespace has given
  // elsewhere to keys that were deleted there. The store outlives what this
  // returns. Errors of Begin: FailedPrecondition (EXISTS_DIFFERENTLY) ·
  // Unimplemented (MODE_BOUNDED) · Aborted: the namespace is not there, and was
  // deleted here meanwhile or shortly before; another server may not have heard
  // that yet. Errors of Begin and Commit: Aborted: the namespace was replaced
  // here since it began.
  virtual std::unique_ptr<Restoration> StartAdoption(
      const PartitionSet& partitions) = 0;
  // Begins as StartAdoption does, for what a checkpoint of a server that is
  // lost has of `partitions`: all else of it is passed over, and so is a
  // namespace that is there with another configuration. The groups of its
  // namespaces are as after a restart from that checkpoint: nobody is a member
  // before he has joined again, and goes on from the lower of the steps there
  // and here. Once Commit has been called, versions of all namespaces but
  // mirrored ones go on above all that the lost server may have given, be it
  // that nothing was restored.
  virtual std::unique_ptr<Restoration> StartTakeover(
      const PartitionSet& partitions) = 0;
  // Has partitions that have come take calls: by the newest placement this
  // server owns `partitions`, and has their keys. It owns no others.
  virtual void Own(const PartitionSet& partitions) = 0;
  // Removes what the store has of `partitions`, which are another server's.
  virtual void Discard(const PartitionSet& partitions) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_PARTITION_MOVES_H_
