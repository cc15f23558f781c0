// Tells what a snapshot remembers of the calls that clients have made.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SAVED_CLIENTS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SAVED_CLIENTS_H_

#include <vector>

#include "service/store/call_answer.h"

namespace tensorkv {

// Returns what is to be remembered of the clients that there were before the
// snapshot and after it. Calls that had an answer before have their effect in
// the snapshot; of those that had none, one cannot tell.
std::vector<ClientSnapshot> ClientsOfSnapshot(
    std::vector<ClientSnapshot> before,
    const std::vector<ClientSnapshot>& after, bool has_rounds);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_SNAPSHOTS_SAVED_CLIENTS_H_
