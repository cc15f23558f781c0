// The hand-written codec beside the generated code, on one message.

#ifndef TENSORKV_TESTS_CONTRACT_CODEC_COMPARISON_H_
#define TENSORKV_TESTS_CONTRACT_CODEC_COMPARISON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv::testing {

enum class MessageKind {
  kInit,
  kPush,
  kPushPull,
  kPullReply,
  kPart,
  kPushReply,
  kPull,
  kPushRows,
  kPullRows,
  kSetState,
  kGetState,
};
inline constexpr MessageKind kAllMessageKinds[] = {
    MessageKind::kInit,      MessageKind::kPush,     MessageKind::kPushPull,
    MessageKind::kPullReply, MessageKind::kPart,     MessageKind::kPushReply,
    MessageKind::kPull,      MessageKind::kPushRows, MessageKind::kPullRows,
    MessageKind::kSetState,  MessageKind::kGetState};

struct CodecComparison {
  // The hand-written codec gave a result.
  bool is_read = false;
  // The generated code and FromProto did.
  bool is_valid = false;
  // What is wrong with the hand-written codec; empty if nothing is.
  std::string disagreement;
};

// Has both read `bytes`, any at all, the hand-written codec from chunks of
// `chunk_bytes`. They disagree
//
//   - if it gives a result that the other does not give,
//   - if it gives one although the stream ends early,
//   - if it writes the value that the other gives in other bytes,
//   - or if it gives no result for those.
CodecComparison CompareCodecs(MessageKind kind, absl::string_view bytes,
                              int chunk_bytes);

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACT_CODEC_COMPARISON_H_
