// When a contribution becomes an update: the difference between the modes of
// a namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_MODE_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_MODE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/data_requests.h"
#include "contract/namespace_config.h"
#include "service/store/keyspace/rounds/rounds.h"
#include "service/store/keyspace/stored_key.h"
#include "service/store/keyspace/workers/worker_group.h"
#include "service/store/snapshot.h"

namespace tensorkv {

using PendingUpdates = absl::InlinedVector<PendingUpdate, 1>;

// Returns the updates that closed rounds become.
PendingUpdates UpdatesOf(ClosedRounds rounds);

// What the mode of a namespace (async, bounded, sync) does with contributions.
// Const after construction, but for what Update changes; its methods are called
// with the namespace's mutex held; CheckPush and waits_for_slower also without.
class PushMode {
 public:
  virtual ~PushMode() = default;

  // Returns the group that `config` asks for, but for the bounds of leases.
  static WorkerGroupOptions GroupOf(const NamespaceConfig& config);

  // Checks what `config` says of workers and rounds. Errors: InvalidArgument
  // (workers, rounds, quorum; a field that the mode does not use).
  static absl::Status CheckConfig(const NamespaceConfig& config);

  // Returns the mode that `config` asks for. The other arguments outlive it;
  // `snapshots` says which are open, null that there are none. Errors: those of
  // CheckConfig.
  static absl::StatusOr<std::unique_ptr<PushMode>> Create(
      const NamespaceConfig& config, const WorkerGroup* workers,
      const SnapshotRevisions* snapshots = nullptr);

  // Sets the fields of `config` for which the mode has a default.
  virtual void FillDefaults(NamespaceConfig& config) const = 0;

  // Goes by the fields of `config` from now on that UpdateNamespace may change;
  // the others are as they were. REQUIRES: CheckConfig is OK.
  virtual void Update(const NamespaceConfig& config) {}
  // Returns the quorums that count for some steps although `config` has
  // another; RestoreQuorums takes them back before any round has begun.
  virtual std::vector<FormerQuorum> former_quorums() const { return {}; }
  virtual void RestoreQuorums(std::vector<FormerQuorum> former_quorums) {}

  // Returns whether a contribution is an update of its own.
  virtual bool applies_at_once() const = 0;

  // Returns what records the steps of the namespace; null: nothing does.
  virtual StepRecords* step_records() const { return nullptr; }

  // Returns whether contributions, besides, neither wait for other workers nor
  // are remembered: then CheckKey finds nothing, and Record does nothing.
  virtual bool forgets_contributions() const { return false; }

  // Checks that a key may have that dtype. Errors: InvalidArgument.
  static absl::Status CheckAllowsDType(Aggregation aggregation,
                                       absl::string_view key, DType dtype);

  // Checks that the request has what the mode needs. Errors: InvalidArgument
  // (no worker, no step).
  virtual absl::Status CheckPush(const PushRequest& request) const = 0;

  // Checks that `worker` may call, as itself. Errors: those of
  // WorkerGroup::Check.
  virtual absl::Status CheckWorker(const std::optional<Worker>& worker,
                                   absl::Duration now) const = 0;

  // Checks that the request's step follows what has been reached, by its worker
  // or by the group, where that does not depend on the key. REQUIRES: CheckPush
  // is OK. Errors: FailedPrecondition (STEP_GAP).
  virtual absl::Status CheckStep(const PushRequest& request) const {
    return absl::OkStatus();
  }

  // Checks that the caller may contribute to `key` now. Returns nothing if so;
  // if it has contributed before, the result to repeat. Errors: those of Push.
  virtual absl::StatusOr<std::optional<PushResult>> CheckKey(
      const StoredKey& key, const PushRequest& request) const = 0;

  // Returns how many bytes Record will need of the budget.
  virtual uint64_t BytesToRecord(const StoredKey& key,
                                 const PushRequest& request) const {
    return 0;
  }
  // Remembers the contribution before Add, or allocates what Add remembers it
  // in. `overhead` has BytesToRecord. REQUIRES: CheckKey has returned nothing.
  virtual void Record(StoredKey& key, const PushRequest& request,
                      Reservation overhead) const {}

  // Restores what the key remembered of contributions when it was saved.
  // REQUIRES: nobody has contributed to it. Errors: ResourceExhausted.
  virtual absl::Status Restore(const KeySnapshot& snapshot,
                               const RefPtr<BudgetAccount>& overhead,
                               StoredKey& key) const {
    return absl::OkStatus();
  }

  // Returns whether the contribution must bring a reservation for a new value.
  virtual bool NeedsReservation(const StoredKey& key,
                                const PushRequest& request) const = 0;

  // Returns the result as it is known when the push takes effect. REQUIRES: it
  // is recorded, and not added yet.
  virtual PushResult ResultOf(const StoredKey& key,
                              const PushRequest& request) const = 0;
  // Returns whether the step of `request` counts as reached by its worker.
  virtual bool CountsStep(const PushRequest& request) const {
    return request.worker && request.step > 0 && !request.entries.empty();
  }

  // Adds the contribution to `key`; returns the updates that are ready now.
  // REQUIRES: it is recorded.
  virtual PendingUpdates Add(StoredKey& key, const PushRequest& request,
                             Contribution contribution,
                             Reservation value_reservation) const = 0;

  // Return whether the worker of `rank` must push steps again before it reads
  // some keys, and whether steps of `key` up to `last` are among them. Errors:
  // Aborted (ROUND_FAILED).
  virtual bool MustRepush(uint32_t rank) const { return false; }
  virtual absl::Status CheckNothingToRepush(const StoredKey& key, uint32_t rank,
                                            Step last) const {
    return absl::OkStatus();
  }

  // Returns whether the worker of `rank` must wait before it reads `key`: for
  // rounds up to step `last` that it has contributed to.
  virtual bool MustWait(const StoredKey& key, uint32_t rank, Step last) const {
    return false;
  }
  // Checks that it does not wait so in vain, for workers that have left since
  // it joined. Errors: Aborted (WORKER_LEFT).
  virtual absl::Status CheckNobodyLeft(const StoredKey& key, uint32_t rank,
                                       Step last) const {
    return absl::OkStatus();
  }
  // Returns how many contributions the last round had that it waits for, once
  // it has ended; 0 if there is none.
  virtual uint32_t NumContributions(const StoredKey& key, uint32_t rank,
                                    Step last) const {
    return 0;
  }
  // Returns the error of such a wait that ends now, which names who is missing.
  // REQUIRES: MustWait.
  virtual absl::Status DescribeWait(const StoredKey& key, uint32_t rank,
                                    absl::Duration now) const {
    return absl::OkStatus();
  }

  // Returns whether workers wait for slower ones at all.
  virtual bool waits_for_slower() const { return false; }
  // Returns the step that all needed workers must reach before a worker that
  // has reached `step` may go on; 0 if it may now. A push of step n asks with n
  // - 1.
  virtual Step AwaitedStep(Step step) const { return 0; }
  // Returns the error of a wait that ends now, which names who has not reached
  // `step`: DeadlineExceeded (WAIT_ENDED).
  absl::Status DescribeAwaited(Step step, absl::Duration now) const;

  // Returns the step that a worker which joins now counts as having reached.
  virtual Step StepOfJoiner() const = 0;

  // Returns the step that the worker of `rank` is to push next, or again.
  virtual Step NextStepOf(uint32_t rank) const = 0;

 protected:
  explicit PushMode(const WorkerGroup* workers) : workers_(*workers) {}
  const WorkerGroup& workers() const { return workers_; }

 private:
  const WorkerGroup& workers_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_MODE_H_
