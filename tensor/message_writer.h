// Encodes messages with tensors without copying large payloads: metadata goes
// into one buffer, elements stay where they are and are referenced.
//
// Byte for byte what ToProto and the generated serializer give. The messages
// may be larger than a transport takes (2 GiB for the generated code, 4 GiB
// for gRPC): check size_bytes() before sending one.
//
// REQUIRES of every function: tensors with elements have host memory.
// Pure functions, thread-safe.

#ifndef TENSORKV_TENSOR_MESSAGE_WRITER_H_
#define TENSORKV_TENSOR_MESSAGE_WRITER_H_

#include <cstddef>

#include "tensor/encoded_message.h"
#include "tensor/requests.h"

namespace tensorkv {

// Payloads up to this size are copied beside the metadata. A piece of its own
// costs a transport an allocation, several atomic operations and an entry in
// the system call's vector, together about as much as copying this.
inline constexpr size_t kMaxCopiedPayloadBytes = 4096;

EncodedMessage EncodeInit(const InitRequest& request);
EncodedMessage EncodePush(const PushRequest& request);
// A PushPullRequest.
EncodedMessage EncodePushPull(const PushRequest& request);
// A PullResponse or PushPullResponse, which have the same form.
EncodedMessage EncodePullReply(const PullReply& reply);

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_MESSAGE_WRITER_H_
