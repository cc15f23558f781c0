// Tells calls about named snapshots, which no cluster has yet, from others.

#ifndef TENSORKV_CLIENT_CLUSTER_SNAPSHOT_CALLS_H_
#define TENSORKV_CLIENT_CLUSTER_SNAPSHOT_CALLS_H_

#include "absl/status/status.h"
#include "contract/any_call.h"

namespace tensorkv {

// Checks that a call neither takes a snapshot nor reads or tells of one.
// Errors: Unimplemented.
template <typename Request>
absl::Status CheckNeedsNoSnapshot(const Request& request) {
  bool needs_one = kIsOfSnapshots<Request>;
  if constexpr (requires { request.publish_as; }) {
    needs_one |= request.publish_as.has_value();
  } else if constexpr (requires { request.at.has_value(); }) {
    needs_one |= request.at.has_value();
  } else if constexpr (requires { request.has_at(); }) {
    needs_one |= request.has_at();
  }
  if (!needs_one) return absl::OkStatus();
  return absl::UnimplementedError(
      "snapshots: expected a client of one server, got one of several");
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_SNAPSHOT_CALLS_H_
