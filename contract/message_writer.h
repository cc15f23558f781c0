// Encodes messages with tensors without copying large payloads: metadata goes
// into one buffer with the small payloads (wire_writer.h says what is small),
// larger ones stay where they are and are referenced. Messages without tensors
// that have an entry per key are written here too, without an allocation for
// each entry.
//
// The bytes are those that ToProto and the generated serializer give. The
// messages may be larger than a transport takes (2 GiB for the generated code,
// 4 GiB for gRPC): check size_bytes() before sending one.
//
// What is written in one piece for many small entries takes its memory from
// `pool`, where there is one: pages that are touched for the first time cost
// more than what is written there.
//
// REQUIRES of every function: tensors with elements have host memory.
// Thread-safe.

#ifndef TENSORKV_CONTRACT_MESSAGE_WRITER_H_
#define TENSORKV_CONTRACT_MESSAGE_WRITER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "contract/encoded_message.h"
#include "contract/requests.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

EncodedMessage EncodeInit(const InitRequest& request);
EncodedMessage EncodePush(const PushRequest& request,
                          BufferPool* pool = nullptr);
// Encodes a PushPullRequest. `max_reply_bytes` takes the place of the request's
// own.
EncodedMessage EncodePushPull(const PushPullRequest& request,
                              uint64_t max_reply_bytes,
                              BufferPool* pool = nullptr);
inline EncodedMessage EncodePushPull(const PushPullRequest& request) {
  return EncodePushPull(request, request.max_reply_bytes);
}
// Encodes a PushResponse.
EncodedMessage EncodePushReply(const PushReply& reply);
// Encodes a PullRequest. `max_reply_bytes` takes the place of the request's
// own.
EncodedMessage EncodePull(const PullRequest& request, uint64_t max_reply_bytes,
                          BufferPool* pool = nullptr);
inline EncodedMessage EncodePull(const PullRequest& request) {
  return EncodePull(request, request.max_reply_bytes);
}

// Encodes the PullStreamRequest of a call's only stripe, whatever stripe the
// request names. REQUIRES: it is of a PullRequest without rows.
EncodedMessage EncodePullStream(const PullStreamRequest& request,
                                BufferPool* pool = nullptr);

// Bounds what a value takes in a reply besides its elements: numbers and
// lengths of 10 bytes each for the version and 8 dimensions, and tags.
inline constexpr uint64_t kMaxValueOverheadBytes = 128;

// Encodes a PullResponse or another reply with values, all of which have the
// same form.
EncodedMessage EncodePullReply(const PullReply& reply);
// Encodes a PullChunk with a batch of values.
EncodedMessage EncodePullBatch(absl::Span<const Value> values);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MESSAGE_WRITER_H_
