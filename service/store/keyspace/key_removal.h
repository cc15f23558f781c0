// Delete, and what else takes keys out of a namespace.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/pull_call.h"
#include "service/store/keyspace/transaction.h"

namespace tensorkv {

// As in TensorStore.
absl::StatusOr<DeleteReply> Delete(NamespaceState& state,
                                   const DeleteRequest& request);

// Takes a key out of the table, with its rounds; adds them to `ended` if any is
// open.
void RemoveKey(Transaction& transaction, absl::string_view name,
               RoundsOfKeys& ended);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_REMOVAL_H_
