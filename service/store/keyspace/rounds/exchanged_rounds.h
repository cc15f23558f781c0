// Rounds of a mirrored namespace, whose sums several servers make together.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_EXCHANGED_ROUNDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_EXCHANGED_ROUNDS_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rounds/contribution.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Ends the partial sum of `job`, with the mutex held: the round gets `sum`, or
// fails with its error. `total` gets what is left of a sum that came too late;
// the caller destroys it without the mutex.
using EndOfPartialSum = std::function<void(
    Transaction& transaction, const PartialSumOfKey& job,
    absl::StatusOr<Contribution>& sum, std::optional<Contribution>& total)>;

// Gives the rounds of `jobs` to the RoundExchange and returns. When the
// exchange has a sum or an error, the pool calls `end` with it, once for each
// job.
void RunExchange(NamespaceState& state, std::vector<PartialSumOfKey> jobs,
                 EndOfPartialSum end);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_ROUNDS_EXCHANGED_ROUNDS_H_
