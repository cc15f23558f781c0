// Targets that name a cluster: "cluster:host:port,host:port".

#ifndef TENSORKV_CLIENT_CLUSTER_CLUSTER_TARGET_H_
#define TENSORKV_CLIENT_CLUSTER_CLUSTER_TARGET_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns whether `target` says that it is one of a cluster.
bool IsClusterTarget(absl::string_view target);

// Returns the servers that `target` names, in its order: some of the cluster's,
// or all. Each is whatever a target may be that names a server. REQUIRES:
// IsClusterTarget. Errors: InvalidArgument (a server without a name).
absl::StatusOr<std::vector<std::string>> ParseClusterTarget(
    absl::string_view target);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_CLUSTER_TARGET_H_
