// Push: checked whole, then taken in whole.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_ADMISSION_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_ADMISSION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"
#include "service/store/keyspace/push/gradient_guard.h"
#include "service/store/keyspace/push/push_copies.h"
#include "service/store/keyspace/transaction.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Pushes as TensorStore says. `pull`, if not null, is the pull with which a
// PushPull goes on, so that its reply counts too: it takes the names of the
// entries once the push is in.
void Push(NamespaceState& state, PushRequest request,
          const CallContext& context, PullRequest* pull,
          ReplyCallback<PushReply> done);

// Checks the fields of a push that can be checked without looking at keys.
absl::Status CheckFields(const NamespaceState& state,
                         const PushRequest& request);

// Returns the bytes that the push will reserve, if it can be admitted as things
// are; else the error of Push, which is then counted as a refusal. Renews the
// lease of its worker.
absl::StatusOr<BytesNeeded> BytesToPush(NamespaceState& state,
                                        const PushRequest& request);

// Returns the bytes that a push must reserve for its tensors: none where their
// memory is counted already or not there yet.
uint64_t UncountedBytes(const NamespaceMemory& memory,
                        const PushRequest& request);

// One push on its way into the store. Used by one thread.
//
// It checks the call, reserves what it needs, and makes it take effect in one
// transaction. Then the transaction owns what follows: the updates that the
// push has made ready, and its answer if nothing is to be waited for. Otherwise
// the last of its updates ends the call (QueuedCall::num_pending); in a sync
// namespace nothing does, as a contribution is answered when it is there. What
// the push has not used of its reservations goes before anybody hears of it:
// members are destroyed from the last to the first, which is the transaction.
class PushAdmission {
 public:
  // `call` has the callback that gets the answer. The other arguments are those
  // of Push.
  PushAdmission(NamespaceState& state, PushRequest request,
                const CallContext& context, PullRequest* pull,
                RefPtr<QueuedCall> call)
      : transaction_(state, std::defer_lock),
        state_(state),
        request_(std::move(request)),
        context_(context),
        applies_at_once_(state.mode->applies_at_once()),
        forgets_contributions_(state.mode->forgets_contributions()),
        is_copied_(state.tensor_placement->copies()),
        pull_(pull),
        call_(std::move(call)),
        guard_(state.Guard(), state.config.num_workers > 0,
               state.memory.host().contributions) {}

  // Makes the push take effect. After an error nothing has happened, and the
  // call is the caller's to answer.
  absl::Status Run();

 private:
  // Reserves what the tensors take on the host and besides themselves.
  absl::Status ReserveForTensors();
  // Checks a push, then makes copies of its tensors on the device, and starts
  // them unless its updates can.
  absl::Status CopyToDevice();
  // Returns the values of a PushPull as its caller wants them.
  uint64_t ReplyBytes(const EntriesByKey& entries) const;
  // Returns the bytes that the reply will take of the budget, beyond those that
  // the push has now.
  uint64_t BytesForReply(const EntriesByKey& entries) const;
  // Returns which of so many bytes exceed those of the call's tensors, which
  // are free again when the push has taken effect: a reply must not fail then.
  uint64_t BytesBeyondTensors(uint64_t bytes) const;
  // Checks a push and makes it take effect. False, and nothing has happened, if
  // copies must be started before.
  absl::StatusOr<bool> TryAdmit();

  // REQUIRES for these: the mutex is held. Checks that the push can be
  // admitted, but for the budget. Counts what the guard refuses.
  absl::StatusOr<EntriesByKey> Check() const;
  // Checks that the values of a PushPull can be converted as its caller wants
  // them, and sent.
  absl::Status CheckReply(const EntriesByKey& entries) const;
  absl::Status CheckCasts(const EntriesByKey& entries) const;
  // Does what TryAdmit says, with the mutex held.
  absl::StatusOr<bool> Admit();
  // Sets `skip` of the entries with lists of no rows: they change nothing.
  void SkipEmptyLists();
  void AdmitKeys(const EntriesByKey& entries);
  // Admits what the entries of one key bring, from its `first` on.
  void AdmitKey(const EntriesByKey& entries, uint32_t first);
  // Updates an idle key where contributions do not wait, as most pushes of many
  // keys do, without the detour of a PendingUpdate.
  void UpdateIdleKey(const EntriesByKey& entries, uint32_t first);
  // Updates the key where the update is of the simplest kind; returns false,
  // and nothing has happened, if it is not.
  bool UpdateSimply(const EntriesByKey& entries, uint32_t first);
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

  Transaction transaction_;
  NamespaceState& state_;
  PushRequest request_;
  const CallContext& context_;
  // Say what the namespace's mode and placement answer; asked for once, not by
  // key.
  const bool applies_at_once_;
  const bool forgets_contributions_;
  const bool is_copied_;  // on the way to the device
  PullRequest* const pull_;
  const RefPtr<QueuedCall> call_;
  GuardedPush guard_;
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
