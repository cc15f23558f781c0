// Whether a call would be taken, before its elements are there.

#ifndef TENSORKV_SERVICE_STORE_KEYSPACE_STAGING_CHECKS_H_
#define TENSORKV_SERVICE_STORE_KEYSPACE_STAGING_CHECKS_H_

#include "absl/status/status.h"
#include "contract/requests.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// As in Staging.
absl::Status CheckInit(const NamespaceState& state, const InitRequest& request,
                       const Caller& caller);
absl::Status CheckPush(NamespaceState& state, const PushRequest& request,
                       const Caller& caller);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_KEYSPACE_STAGING_CHECKS_H_
