// What a push is asked before it takes effect: by a stream ahead of its
// payload, and by its admission.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CHECK_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/push/entries_by_key.h"

namespace tensorkv {

// Checks the fields of a push that can be checked without looking at keys.
absl::Status CheckFields(const NamespaceState& state,
                         const PushRequest& request);

// Finds what is to be known of row ids before the mutex is held.
void LookAtRows(const NamespaceState& state, const PushRequest& request);

// Checks the push as things are, but for its elements, its reply and the
// budget; counts a refusal, and renews the lease of its worker. REQUIRES: the
// mutex is held. Errors: those of Push.
absl::StatusOr<EntriesByKey> CheckKeys(NamespaceState& state,
                                       const PushRequest& request);

// Returns the bytes that an entry, or all, must reserve for tensors: none where
// their memory is counted already or not there yet.
uint64_t UncountedBytes(const NamespaceMemory& memory, const Tensor& tensor);
uint64_t UncountedBytes(const NamespaceMemory& memory,
                        const PushRequest& request);
// Returns how many bytes an entry, or all, costs besides its tensor.
uint64_t OverheadOf(const NamespaceMemory& memory, const PushEntry& entry);
uint64_t OverheadOf(const NamespaceMemory& memory, const PushRequest& request);
// Returns how many bytes the entries take of the device besides their tensors.
uint64_t BytesBesideTensors(const EntriesByKey& entries);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_PUSH_PUSH_CHECK_H_
