// List and Stat: what is known of keys besides their values.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_

#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"

namespace tensorkv {

// As in TensorStore.
absl::StatusOr<ListReply> List(const NamespaceState& state,
                               const ListRequest& request);
absl::StatusOr<StatReply> Stat(NamespaceState& state,
                               const StatRequest& request);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_KEY_STATUS_H_
