// Values and metadata as JSON, one object per line.

#ifndef TENSORKV_CLIENT_CLI_JSON_TEXT_H_
#define TENSORKV_CLIENT_CLI_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/metadata_text.h"
#include "contract/requests.h"

namespace tensorkv {

// {"key":"3","dtype":"f32","shape":[2,3],"version":1,"values":[2.0,...]}
//
// Elements in row-major order, as few digits as their dtype needs; NaN and
// infinities are the strings "NaN", "Infinity" and "-Infinity", as in
// protobuf's JSON. All of them, however many. No newline at the end.
std::string ValueJson(absl::string_view key, const Value& value);

// {"key":"3","version":2} or, in a sync namespace, {"key":"3","step":7}.
std::string PushResultJson(absl::string_view key, const PushResult& result);

// Returns the digest, where there is one, as 16 hexadecimal digits.
std::string KeyStatusJson(const KeyStatus& status);

std::string NamespaceStatusJson(const NamespaceStatus& status);
std::string WorkerStatusJson(const WorkerStatus& status);
// Returns the incarnation as 16 hexadecimal digits.
std::string ServerStatusJson(const ServerStatus& status);

// Returns the server's status, with null for what it does not tell.
std::string ClusterServerJson(const ClusterServerStatus& status);
std::string ResizeJson(const ResizeClusterReply& reply);

std::string CheckpointJson(const CheckpointStatus& status);

// An empty pattern is "*".
// {"pattern":"*.bias","rule":"sgd","hyperparameters":{...},"keep_master":true}
std::string RuleJson(absl::string_view key_pattern, const RuleSpec& rule);

// {"pattern":"*.bias","multipliers":{"learning_rate":2,"weight_decay":0}}
std::string MultipliersJson(const MultipliersBinding& binding);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_JSON_TEXT_H_
