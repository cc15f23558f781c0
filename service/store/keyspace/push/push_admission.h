// Push: checked whole, then taken in whole.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_ADMISSION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_ADMISSION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"
#include "service/store/keyspace/push/gradient_guard.h"
#include "service/store/keyspace/push/push_call.h"
#include "service/store/keyspace/push/push_copies.h"
#include "service/store/keyspace/snapshots/taking.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Returns whether tensors are copied here on their way to the device.
bool CopiesHere(const NamespaceState& state, const PushRequest& request);

// One push on its way into the store. Used by one thread.
//
// It checks the call, reserves what it needs, and makes it take effect in the
// transaction. That owns what follows: the updates that the push has made
// ready, and its answer if nothing is to be waited for. Otherwise the last of
// its updates ends the call (QueuedCall::num_pending); in a sync namespace
// nothing does, as a contribution is answered when it is there. What the push
// has not used of its reservations must go before the transaction ends, and
// anybody hears of the end.
class PushAdmission {
 public:
  // `transaction` is not locked, and outlives this; `queued` has the callback
  // that gets the answer.
  PushAdmission(Transaction& transaction, PushCall call,
                RefPtr<QueuedCall> queued)
      : transaction_(transaction),
        state_(transaction.state()),
        request_(std::move(call.request)),
        bases_(std::move(call.bases)),
        max_reply_bytes_(call.context.max_reply_bytes),
        applies_at_once_(state_.mode->applies_at_once()),
        forgets_contributions_(state_.mode->forgets_contributions()),
        is_copied_(state_.tensor_placement->copies()),
        pull_(call.pull),
        call_(std::move(queued)),
        guard_(state_.Guard(), state_.config.num_workers > 0,
               state_.memory.host().contributions) {}

  // Makes the push take effect. After an error nothing has happened, and the
  // call is the caller's to answer.
  absl::Status Run();

 private:
  // Reserves what the tensors take on the host and besides themselves.
  absl::Status ReserveForTensors();
  // Checks a push, then makes copies of its tensors on the device, and starts
  // them unless its updates can.
  absl::Status CopyToDevice();
  // Checks a push and makes it take effect. False, and nothing has happened, if
  // copies must be started before.
  absl::StatusOr<bool> TryAdmit();

  // REQUIRES for these: the mutex is held. Checks that the push can be
  // admitted, but for the budget. Counts what is refused.
  absl::StatusOr<EntriesByKey> Check() const;
  // Does what TryAdmit says, with the mutex held.
  absl::StatusOr<bool> Admit();
  // Records in the step what the gradient guard does.
  void RecordGuard(const EntriesByKey& entries, bool is_refused) const;
  // Set `skip` of entries that change nothing: those that weigh nothing, and
  // those with lists of no rows. Of a key for which a worker has no others one
  // stays where it weighs in the mean of a round.
  void SkipWeightless();
  void SkipEmptyLists(const EntriesByKey& entries);
  void AdmitKeys(const EntriesByKey& entries);
  // Admits what the entries of one key bring, from its `first` on.
  void AdmitKey(const EntriesByKey& entries, uint32_t first);
  // Updates an idle key where contributions do not wait, without the detour of
  // a PendingUpdate, by what UpdatePass::AddTensor does not take.
  void UpdateIdleKey(const EntriesByKey& entries, uint32_t first);
  // Queues what is brought for a key whose update runs.
  void QueueUpdate(const EntriesByKey& entries, uint32_t first);
  // Adds what is brought to the key's round, where it waits for the
  // contributions of others.
  void AddToRound(const EntriesByKey& entries, uint32_t first);
  // Returns the updates that Enqueue and the key's rounds take of the
  // reservations.
  PendingUpdates AddContribution(const EntriesByKey& entries, uint32_t first);
  // Records that the worker of the push has reached its step.
  void RecordStep();

  Transaction& transaction_;
  NamespaceState& state_;
  PushRequest request_;
  const std::vector<DeltaBase> bases_;
  const uint64_t max_reply_bytes_;
  // Say what the namespace's mode and placement answer; asked for once, not by
  // key.
  const bool applies_at_once_;
  const bool forgets_contributions_;
  const bool is_copied_;  // on the way to the device
  PullRequest* const pull_;
  const RefPtr<QueuedCall> call_;
  GuardedPush guard_;
  Publication publication_;
  // Counts the updates that have not been queued.
  uint64_t num_begun_ = 0;
  // They count the tensors where they are kept, what these are decoded to
  // there, sums of several tensors of one key, what each contribution costs
  // besides, new values, and the memory of who has contributed.
  Reservation tensor_bytes_;
  Reservation decoded_bytes_;
  Reservation sum_bytes_;
  Reservation overhead_;
  Reservation value_reservation_;
  Reservation records_;
  // Counts the tensors where they have arrived, if they are copied.
  Reservation arrived_bytes_;
  // They take the tensors' places when the push is in.
  PushCopies copies_{&state_};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_ADMISSION_H_
