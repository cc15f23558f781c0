// Handles what several servers have answered to one call.

#ifndef TENSORKV_CLIENT_CLUSTER_ALL_REPLIES_H_
#define TENSORKV_CLIENT_CLUSTER_ALL_REPLIES_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "client/cluster/merged_replies.h"
#include "client/cluster/share_outcomes.h"

namespace tensorkv {

template <typename Reply>
std::vector<absl::Status> StatusesOf(
    const std::vector<absl::StatusOr<Reply>>& replies) {
  std::vector<absl::Status> statuses;
  for (const auto& reply : replies) statuses.push_back(reply.status());
  return statuses;
}

// Returns all replies. Errors: where there are errors, the one that
// MostActionableError chooses.
template <typename Reply>
absl::StatusOr<std::vector<Reply>> AllOf(
    std::vector<absl::StatusOr<Reply>> replies) {
  RETURN_IF_ERROR(MostActionableError(StatusesOf(replies)));
  std::vector<Reply> all;
  for (auto& reply : replies) all.push_back(*std::move(reply));
  return all;
}

// Returns all servers but the first, which are asked once that has answered.
inline absl::Span<const std::string> AfterFirst(
    const std::vector<std::string>& servers) {
  return absl::MakeConstSpan(servers).subspan(1);
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_ALL_REPLIES_H_
