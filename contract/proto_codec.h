// Translates the contract's messages (proto/tensorkv/v1/) without tensors to
// the values that the code has of them, and back. One file for server and
// client, so that both mean the same by every field. Calls with tensors have a
// codec of their own: payload_reader.h and message_writer.h.
//
// ToProto fills an empty message. Errors of every FromProto: InvalidArgument
// (malformed).
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_PROTO_CODEC_H_
#define TENSORKV_CONTRACT_PROTO_CODEC_H_

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "contract/placement.h"
#include "contract/requests.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

// These are for replies without tensors that files have too.
InitReply FromProto(const v1::InitResponse& proto);
void ToProto(const InitReply& reply, v1::InitResponse* proto);
InitReply FromProto(const v1::SetStateResponse& proto);
void ToProto(const InitReply& reply, v1::SetStateResponse* proto);
PushReply FromProto(const v1::PushResponse& proto);
void ToProto(const PushReply& reply, v1::PushResponse* proto);

// These are for messages that are parts of others, or of files.
Multipliers FromProto(const v1::Multipliers& proto);
void ToProto(const Multipliers& multipliers, v1::Multipliers* proto);

RuleSpec FromProto(const v1::Rule& proto);
void ToProto(const RuleSpec& rule, v1::Rule* proto);

Mode FromProto(v1::Mode proto);

// Choices that only newer servers know become kUnknown.
absl::StatusOr<NamespaceConfig> FromProto(const v1::NamespaceConfig& proto);
void ToProto(const NamespaceConfig& config, v1::NamespaceConfig* proto);
// Returns the configuration that a request has. Errors: also InvalidArgument
// for a choice that is unknown here.
absl::StatusOr<NamespaceConfig> KnownConfig(const v1::NamespaceConfig& proto);

// Errors: InvalidArgument for a number that is unknown here.
absl::StatusOr<OnExisting> DecodeOnExisting(v1::OnExisting proto);
v1::OnExisting EncodeOnExisting(OnExisting on_existing);

void ToProto(const ClusterServer& server, v1::ClusterServer* proto);

absl::StatusOr<ClusterPlacement> FromProto(const v1::ClusterPlacement& proto);
void ToProto(const ClusterPlacement& placement, v1::ClusterPlacement* proto);

// Returns `entry 3 ("fc1.w")`, counted from 0; long keys are cut.
std::string EntryName(int index, absl::string_view key);

// FromProto and ToProto for code that works for every method: with the type of
// the result named. The message of a call without tensors is its own value.
template <typename Value, typename Message>
absl::StatusOr<Value> ValueOf(Message&& proto) {
  if constexpr (std::is_same_v<Value, std::remove_cvref_t<Message>>) {
    return std::forward<Message>(proto);
  } else {
    return FromProto(std::forward<Message>(proto));
  }
}
template <typename Message, typename Value>
Message MessageOf(const Value& value) {
  Message proto;
  ToProto(value, &proto);
  return proto;
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_PROTO_CODEC_H_
