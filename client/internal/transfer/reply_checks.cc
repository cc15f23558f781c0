#include "client/internal/transfer/reply_checks.h"

#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

// Checks every message of a list; errors name the entry.
template <typename Messages, typename Check>
absl::Status CheckAll(const Messages& messages, Check check) {
  for (int i = 0; i < messages.size(); ++i) {
    const absl::Status status = check(messages[i]);
    if (!status.ok()) return ErrorFrom(absl::StrCat("entry ", i), status);
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const v1::NamespaceConfig& config) {
  RETURN_IF_ERROR(
      DecodeDuration("quorum_grace", config.quorum_grace()).status());
  return DecodeDuration("round_timeout", config.round_timeout()).status();
}

// Checks that the message has a worker with a rank.
template <typename Message>
absl::Status CheckHasRank(const Message& message) {
  if (!message.has_worker()) {
    return absl::InvalidArgumentError("worker: missing");
  }
  if (message.worker().has_rank()) return absl::OkStatus();
  return absl::InvalidArgumentError("worker.rank: missing");
}

absl::Status CheckWorker(const WorkerStatus& worker) {
  RETURN_IF_ERROR(CheckHasRank(worker));
  return DecodeDuration("lease_remaining", worker.lease_remaining()).status();
}

absl::Status CheckStatus(const NamespaceStatus& status) {
  RETURN_IF_ERROR(CheckConfig(status.config()));
  RETURN_IF_ERROR(CheckAll(status.workers(), CheckWorker));
  for (const v1::WaitStatus& wait : status.waits()) {
    RETURN_IF_ERROR(DecodeDuration("waited", wait.waited()).status());
  }
  return absl::OkStatus();
}

// Checks that keys have shapes; errors name the key.
absl::Status CheckShapes(
    const google::protobuf::RepeatedPtrField<KeyStatus>& keys) {
  for (int i = 0; i < keys.size(); ++i) {
    if (const auto shape = ShapeOf(keys[i]); !shape.ok()) {
      return ErrorFrom(EntryName(i, keys[i].key()), shape.status());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFields(const JoinReply& reply) {
  RETURN_IF_ERROR(CheckHasRank(reply));
  return DecodeDuration("lease", reply.lease()).status();
}

absl::Status CheckFields(const KeepAliveReply& reply) {
  return DecodeDuration("lease_remaining", reply.lease_remaining()).status();
}

absl::Status CheckFields(const ListReply& reply) {
  return CheckShapes(reply.keys());
}

absl::Status CheckFields(const StatReply& reply) {
  return CheckShapes(reply.keys());
}

absl::Status CheckFields(const DescribeNamespaceReply& reply) {
  return CheckStatus(reply.status());
}

absl::Status CheckFields(const ListNamespacesReply& reply) {
  return CheckAll(reply.namespaces(), CheckStatus);
}

absl::Status CheckFields(const UpdateNamespaceReply& reply) {
  return CheckConfig(reply.config());
}

absl::Status CheckFields(const DescribeClusterReply& reply) {
  return FromProto(reply.placement()).status();
}

}  // namespace tensorkv
