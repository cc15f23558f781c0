// Rounds of a mirrored namespace, whose sums several servers make together.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_EXCHANGED_ROUNDS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_EXCHANGED_ROUNDS_H_

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "service/store/keyspace/contribution.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// Ends the partial sum of a job.
using EndOfPartialSum = std::function<void(
    Transaction& transaction, const PartialSumOfKey& job,
    absl::StatusOr<Contribution>& sum, std::optional<Contribution>& total)>;

// Has the exchange sum the rounds of `jobs`, and ends each by `end`, later.
void RunExchange(NamespaceState& state, std::vector<PartialSumOfKey> jobs,
                 EndOfPartialSum end);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_EXCHANGED_ROUNDS_H_
