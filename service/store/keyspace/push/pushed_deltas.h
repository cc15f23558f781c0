// Pushes of what has changed: before they are admitted they become pushes of
// whole tensors, which count only while their keys have certain versions.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSHED_DELTAS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSHED_DELTAS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "contract/data_requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"
#include "service/store/keyspace/push/push_call.h"

namespace tensorkv {

// Returns whether some entries are deltas.
bool HasDeltas(const PushRequest& request);

// Checks of an entry that is a delta what can be checked without looking at its
// key. Errors: those of PushedDelta.
absl::Status CheckDelta(const NamespaceState& state, const PushEntry& entry);

// Returns, by the entries of a push, what each builds on: kNoVersion where it
// shows what is no token of its key. Returns nothing for a push without deltas.
std::vector<DeltaBase> BasesOf(const NamespaceState& state,
                               const PushRequest& request);

// Checks that the keys have `bases`, which BasesOf has returned, when the push
// is admitted now; and of a push with deltas, or one that asks for tokens, that
// keys get what these entries bring as it is. Of contributions that are there
// already nothing is checked. REQUIRES: the mutex is held. Errors: Aborted
// (BASE_CHANGED) · InvalidArgument.
absl::Status CheckBases(const NamespaceState& state, const PushRequest& request,
                        const EntriesByKey& entries,
                        absl::Span<const DeltaBase> bases);

// Returns how many bytes the whole tensors take that the deltas become.
uint64_t BytesOfWholes(const EntriesByKey& entries,
                       absl::Span<const DeltaBase> bases);

// Decodes the deltas of the push, on threads of the pool, and puts the whole
// tensors in their places; but what is there already stays as it is. Then calls
// `admit` with the push, whose `bases` say what it still needs. After an error
// the call has been answered, and nothing has happened.
// REQUIRES: its fields are right; the mutex is not held.
void DecodeDeltas(NamespaceState& state, PushCall call,
                  absl::AnyInvocable<void(PushCall) &&> admit);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSHED_DELTAS_H_
