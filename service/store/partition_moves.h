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
// One that gives them fences them, passes on what they have, closes them, and
// then either has them back or lets them go, whichever the placement says:
//
//   Fence ─► TakeSnapshotOfFenced ─► Close ─┬─► Leave
//     └────────────────┴───────────────────┴─► Release
//
// One that gets them puts what it is given into its store by a Restoration.
// From its start until Own, calls about these keys fail as after Leave: there
// may be some that have been let in while the keys were here before, and have
// waited since.
//
// The first five are used by one thread; all are safe beside every other call
// of the store.
class PartitionMoves {
 public:
  virtual ~PartitionMoves() = default;

  // From now on, calls that would change keys of `partitions` are Unavailable
  // (KEY_MOVING), but for contributions to rounds of a step that any of them
  // had open in their namespace. Returns when no round of theirs is open or
  // to be pushed again, or all who took part have joined and are members no
  // more; what was admitted has an effect then, or updates ahead, or is made
  // again by whoever joins next. Whoever is refused has changed nothing. No key
  // is fenced before what else is copied of all keys, such as a checkpoint, has
  // ended, and none begins before the snapshot has been taken. After errors,
  // Release. Errors: those of `may_wait`, which is asked now and then while
  // such a copy goes on or rounds are open · Unimplemented: a namespace is
  // mirrored.
  virtual absl::Status Fence(const PartitionSet& partitions,
                             absl::FunctionRef<absl::Status()> may_wait) = 0;
  // Passes all namespaces to `sink`, each with its keys that are fenced, as of
  // after Fence, and without answers to calls. Errors: as of TakeSnapshot.
  virtual absl::Status TakeSnapshotOfFenced(SnapshotSink& sink) = 0;
  // Calls that would read fenced keys are Unavailable (KEY_MOVING), and
  // so is what waits for them.
  virtual void Close() = 0;
  // Has the fenced ones take calls again.
  virtual void Release() = 0;
  // Says that the fenced ones are another server's: their keys go, and calls
  // about them fail with FailedPrecondition (WRONG_SERVER).
  virtual void Leave() = 0;

  // Removes what the store has of `partitions`, and begins to get their keys.
  // Namespaces that are there stay; one that is not is made as it is
  // elsewhere, and one without keys gets the rules that it has elsewhere. Keys
  // are there with each Add; Commit does nothing. Every version that such a
  // namespace makes from then on is above those that it has given elsewhere to
  // keys that were deleted there. The store outlives what this returns.
  // Errors of Begin: FailedPrecondition (EXISTS_DIFFERENTLY) · Unimplemented
  // (MODE_BOUNDED) · Aborted: the namespace is not there, and was deleted here
  // meanwhile or shortly before; another server may not have heard that yet.
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
  // By the newest placement, this server owns these and has what it owns of
  // them: those that have come take calls.
  virtual void Own(const PartitionSet& partitions) = 0;
  // Removes what the store has of `partitions`, which are another server's.
  virtual void Discard(const PartitionSet& partitions) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_PARTITION_MOVES_H_
