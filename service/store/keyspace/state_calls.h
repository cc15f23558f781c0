// The Pulls and Inits that name states of keys.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_STATE_CALLS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_STATE_CALLS_H_

#include <algorithm>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

// Returns whether any entry of a Pull or Init names a state; then all must.
template <typename Entry>
bool NamesStates(const std::vector<Entry>& entries) {
  return std::any_of(entries.begin(), entries.end(),
                     [](const Entry& entry) { return !entry.state.empty(); });
}

// Make a Pull, or an Init, of states: these are copied in an access of each key
// between its updates. `done` is called once, now or on the thread that ends
// the last access. REQUIRES, also for what follows: NamesStates of the
// request's entries.
void PullStates(NamespaceState& state, PullRequest request,
                const CallContext& context, ReplyCallback<PullReply> done);
void InitStates(NamespaceState& state, InitRequest request,
                ReplyCallback<InitReply> done);

// Checks the fields of the Init that can be checked without looking at keys.
absl::Status CheckStateFields(const NamespaceState& state,
                              const InitRequest& request);
// Returns the bytes that the Init needs, as things are. Errors: those of Init.
absl::StatusOr<BytesNeeded> BytesToInitStates(const NamespaceState& state,
                                              const InitRequest& request);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_STATE_CALLS_H_
