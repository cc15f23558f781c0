// Checks what a reply that is a message can show to be wrong by itself, as
// FromProto does for other replies.
//
// Pure functions, thread-safe. Errors: InvalidArgument, naming the field;
// MalformedReply makes the caller's error of it.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_REPLY_CHECKS_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_REPLY_CHECKS_H_

#include "absl/status/status.h"
#include "contract/requests.h"

namespace tensorkv {

absl::Status CheckFields(const JoinReply& reply);
absl::Status CheckFields(const KeepAliveReply& reply);
absl::Status CheckFields(const ListReply& reply);
absl::Status CheckFields(const StatReply& reply);
absl::Status CheckFields(const DescribeNamespaceReply& reply);
absl::Status CheckFields(const ListNamespacesReply& reply);
absl::Status CheckFields(const UpdateNamespaceReply& reply);
absl::Status CheckFields(const DescribeClusterReply& reply);
// Other replies have no field that could be wrong.
template <typename Reply>
absl::Status CheckFields(const Reply&) {
  return absl::OkStatus();
}

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_REPLY_CHECKS_H_
