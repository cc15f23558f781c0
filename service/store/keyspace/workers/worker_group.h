// The workers of one namespace: who is a member, and whom a step needs.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "contract/call_fields.h"
#include "service/store/keyspace/workers/group_member.h"
#include "service/store/keyspace/workers/worker_group_options.h"
#include "service/store/worker_snapshot.h"

namespace tensorkv {

// Keeps names, ranks, epochs, leases and steps. Not thread-safe. Has no clock:
// the caller passes the monotonic time, and asks for what has expired.
//
// A group whose bounds are equal has a place for every rank, and every rank is
// needed; one that has left as options say. Nobody has to join it: as long as
// no one has, any rank of epoch 0 is a worker. An elastic group needs the
// workers that are live, once min_workers have been live at the same time;
// before that, it needs the ranks below min_workers.
//
// Invariants:
//  1. At most one live worker has a name, a rank, an epoch.
//  2. What a step that somebody has reached needs only shrinks: who comes
//     later is needed from the next step on, unless the step waited for the
//     rank anyway.
class WorkerGroup {
 public:
  explicit WorkerGroup(const WorkerGroupOptions& options);

  // Returns the rank that Join would give to `name`. Errors: Join's of ranks.
  absl::StatusOr<uint32_t> RankFor(
      absl::string_view name, uint64_t replaces_epoch,
      std::optional<uint32_t> wanted = std::nullopt) const;

  // Returns which epoch the worker of that name replaces if it joins as the
  // namespace's home has decided; 0: none. Errors: FailedPrecondition
  // (LEASE_LOST): that rank or name has had the epoch, or a later one.
  absl::StatusOr<uint64_t> EpochBefore(absl::string_view name,
                                       const Worker& joined) const;
  // Returns the live worker of that name whose rank is not `rank`.
  std::optional<Worker> FormerOf(absl::string_view name, uint32_t rank) const;
  // Returns the highest epoch of all members, or 0.
  uint64_t max_epoch() const;
  // Returns for how many ranks there is memory; ReserveRank and Join add it.
  uint32_t num_ranks() const { return static_cast<uint32_t>(members_.size()); }
  void ReserveRank(uint32_t rank) { At(rank); }
  // Returns whether the worker of that name had the rank and was lost, or is
  // awaited after a restore.
  bool WasLost(uint32_t rank, absl::string_view name) const;
  // Returns whether the rank's worker has left and is not awaited again.
  bool HasLeft(uint32_t rank) const { return StateOf(rank) == State::kLeft; }

  // Makes `name` a worker: on its former rank if that is free, else on the
  // lowest that nobody has had, else on the lowest that is free (in an elastic
  // group, on the lowest that is free at once). It goes on with the steps of a
  // rank that steps wait for, or that has left a group which is whole or does
  // not go on; else it starts after `reached`, a step that the group has
  // reached, but not below its own where each worker counts alone.
  // A live worker of that name and of the epoch `replaces_epoch` is the caller
  // itself: it goes on with the new epoch. Any other worker gets the rank that
  // is `wanted`, if one is.
  // REQUIRES: nobody has had `epoch`, which is not 0, but the caller itself.
  // Errors: InvalidArgument (lease out of bounds, no such rank) · AlreadyExists
  // (another live worker has the name, or the rank) · ResourceExhausted (no
  // rank is free) · FailedPrecondition (the workers of this group do not join).
  absl::StatusOr<Worker> Join(absl::string_view name, absl::Duration lease,
                              uint64_t epoch, uint64_t replaces_epoch,
                              Step reached, absl::Duration now,
                              std::optional<uint32_t> wanted = std::nullopt);

  // Returns OK if `worker` may act; CheckJoined only if it has joined. Errors:
  // InvalidArgument (no such rank) · FailedPrecondition (no member any more).
  absl::Status Check(const Worker& worker, absl::Duration now) const;
  absl::Status CheckJoined(const Worker& worker, absl::Duration now) const;

  // REQUIRES for these: Check is OK.
  void Renew(const Worker& worker, absl::Duration now);
  // `step` is the last that a worker of another server has contributed to
  // there.
  void Leave(const Worker& worker, std::optional<Step> step = std::nullopt);

  // Returns the live workers whose lease has ended; Lose makes them lost.
  std::vector<uint32_t> Expired(absl::Duration now) const;
  void Lose(uint32_t rank);
  // The worker says itself that it is lost: its lease ends, and Lose follows.
  void EndLease(const Worker& worker, absl::Duration now);
  // Goes by what `options` say of losses. Returns the ranks that were lost,
  // have left or have not come back since a restore if nothing waits for them
  // now; else later steps need them again.
  std::vector<uint32_t> SetOnWorkerLoss(const WorkerGroupOptions& options);
  // Returns when the first lease ends, if it is not renewed.
  absl::Duration next_expiry() const;
  // Returns whether the worker of that rank contributes here.
  bool IsLocal(uint32_t rank) const {
    return !options_.is_local || options_.is_local(rank);
  }
  // Return whether a step, and a barrier, cannot end here without that worker.
  bool Needs(uint32_t rank, Step step) const;
  bool NeedsAtBarrier(uint32_t rank) const;
  // Returns whether the worker of `rank` has left after that of `member`
  // joined, in a group of a fixed size that fails then.
  bool HasLeftSince(uint32_t rank, uint32_t member) const;
  // Returns those of `ranks` that have left since `member` joined.
  std::vector<uint32_t> LeftSince(absl::Span<const uint32_t> ranks,
                                  uint32_t member) const;
  // Returns whether all `ranks` have left since the first of `members` joined.
  bool HaveLeftSinceAny(absl::Span<const uint32_t> ranks,
                        absl::Span<const uint32_t> members) const;
  // Returns whether that worker has left another server without part in `step`.
  bool IsLackingElsewhere(uint32_t rank, Step step) const;
  // Returns whether members have left a group of a fixed size that fails then.
  bool LacksThoseWhoLeft() const { return is_whole() && num_left_ > 0; }
  // Returns a number above every rank that any step needs.
  uint32_t end_rank() const;
  // Returns whether the full sum of `step` has that rank's, even if lost.
  bool CountsIn(uint32_t rank, Step step) const;
  // Returns whether `rank` takes part in `step`, having joined before it.
  bool TakesPart(uint32_t rank, Step step) const;
  // Returns whether a restore has lost the last step of the rank, which has not
  // gone on to a later one since.
  bool RepeatsStep(uint32_t rank) const;
  // Records that the worker has contributed to `step`; 0: to none yet.
  void Reach(const Worker& worker, Step step);
  // Records that a round of `step` has closed.
  void Close(Step step);
  // Lowers max_step when workers have gone: to the highest step that has closed
  // or a needed worker has reached, or to `open`, whose round is open.
  void LowerMaxStep(Step open);
  // Returns the last step that a worker of that rank has contributed to.
  Step step_of(uint32_t rank) const;
  // Returns the first step that the worker of that rank takes part in.
  Step first_step_of(uint32_t rank) const;
  // Returns the highest step that anybody has reached, or that has closed.
  Step max_step() const { return max_step_; }
  // Returns the lowest step that a worker who is needed, and has not left, has
  // reached; max_step if there is none.
  Step slowest_step() const;
  // Returns which needed workers, who have not left, have not reached `step`.
  std::vector<uint32_t> NeededBelow(Step step) const;
  // Returns `ranks 2, 5 (rank 5 lost its lease 3.1s ago)`.
  std::string Describe(absl::Span<const uint32_t> ranks,
                       absl::Duration now) const;
  // Returns the error of a wait for workers that ends: DeadlineExceeded
  // (WAIT_ENDED), `barrier "b": waiting for ranks 2, 5`.
  absl::Status MissingError(absl::string_view subject,
                            absl::Span<const uint32_t> ranks,
                            absl::Duration now) const;
  // Returns `rank 5 ("b") lost its lease of 2s`, or `rank 5 ("b") has failed`.
  std::string DescribeLoss(uint32_t rank) const;
  // Returns why a call cannot wait for ranks that have left: Aborted, `barrier
  // "b": rank 5 ("b") has left`.
  absl::Status LeftError(absl::string_view subject,
                         absl::Span<const uint32_t> ranks) const;
  // Returns what every rank has had, but for those that nobody has had.
  std::vector<WorkerSnapshot> Save() const;
  Step max_closed() const { return max_closed_; }
  // Restores a group that was saved: workers have their ranks, if nobody later
  // had them here, and steps, and are gone until they join again, as all of a
  // fixed group are awaited to. An elastic one forms anew; one in use stays.
  void Restore(const std::vector<WorkerSnapshot>& workers, Step max_closed,
               absl::Duration now);
  // Takes over the steps of the same group at another server, from which keys
  // come. If `has_keys` (before those come), steps here stay, as some may have
  // to be pushed again, and only how far somebody may push is taken over.
  void AdoptSteps(const std::vector<WorkerSnapshot>& workers, Step max_closed,
                  bool has_keys);
  // Takes the group back to the steps of `workers`, where these are lower. Its
  // members are gone as after Restore.
  void GoBack(const std::vector<WorkerSnapshot>& workers, absl::Duration now);
  // Has contributions to `step` and later steps made again: they are lost.
  void RepeatFrom(Step step);
  // Returns with which name the rank was joined last; empty: with none.
  absl::string_view name_of(uint32_t rank) const;
  std::vector<MemberStatus> List(absl::Duration now) const;
  absl::Duration LeaseRemaining(const Worker& worker, absl::Duration now) const;
  // Returns the size of a group whose size is fixed, else how many are live.
  uint32_t num_workers() const;
  uint32_t num_live() const { return num_live_; }
  uint64_t num_expirations() const { return num_expirations_; }
  bool is_elastic() const {
    return options_.min_workers != options_.max_workers;
  }
  // Returns whether min_workers have been live at once.
  bool is_formed() const { return is_formed_; }

 private:
  using State = GroupMember::State;
  using Member = GroupMember;

  // Returns whether the worker of that name has, or had, the rank and may have
  // it again: from a live one only in place of its epoch.
  bool IsOf(uint32_t rank, absl::string_view name,
            uint64_t replaces_epoch) const;
  // Returns the lowest that no live worker has; of a group of fixed size one
  // that nobody has had, if there is any.
  std::optional<uint32_t> FreeRank() const;
  // Returns `rank`, if `name` can have it.
  absl::StatusOr<uint32_t> WantedRank(absl::string_view name,
                                      uint64_t replaces_epoch,
                                      uint32_t rank) const;
  absl::Status CheckMayJoin(absl::string_view name, uint64_t replaces_epoch,
                            absl::Duration now) const;
  // Has a worker that joins go on, or begin after `reached` or its last step.
  void BeginSteps(uint32_t rank, bool is_same, uint64_t epoch, Step reached);
  State StateOf(uint32_t rank) const;
  // Returns whether the group is of a fixed size and awaits those lost.
  bool is_whole() const;
  // Returns whether the worker is live or awaited, and has not left.
  bool IsAtWork(uint32_t rank) const;
  // Returns whether steps wait for that rank although no live worker has it.
  bool IsAwaited(uint32_t rank) const;
  // Contributions of that rank are lost: if its worker has left a group that is
  // whole or does not go on, it is not done after all.
  void AwaitAgain(uint32_t rank);
  Member& At(uint32_t rank);
  Step& StepAt(uint32_t rank);

  WorkerGroupOptions options_;
  // The member of each rank; ranks above are vacant.
  std::vector<Member> members_;
  // The steps that each rank has reached, also without joining; 0 above.
  std::vector<Step> steps_;
  // The ranks of RepeatsStep.
  absl::flat_hash_set<uint32_t> repeating_ranks_;
  uint32_t num_live_ = 0;
  uint64_t num_expirations_ = 0;
  uint32_t num_left_ = 0;  // ranks whose workers have left
  uint64_t last_order_ = 0;
  Step max_step_ = 0;
  Step max_closed_ = 0;
  bool is_formed_;
  bool has_joined_ = false;
  bool is_static_ = false;  // workers have contributed without joining
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_WORKERS_WORKER_GROUP_H_
