// Encodes messages with tensors without copying large payloads: metadata goes
// into one buffer with the small payloads (wire_writer.h says what is small),
// larger ones stay where they are and are referenced. Requests without tensors
// that have an entry per key are written here too, without an allocation for
// each entry.
//
// The bytes are those that the generated serializer gives. The messages may be
// larger than a transport takes (2 GiB for the generated code, 4 GiB for gRPC):
// check size_bytes() before sending one.
//
// These functions copy into memory of `pool`, where there is one: pages that
// are touched for the first time cost more than what is written there.
//
// REQUIRES of every function: tensors with elements that are written have host
// memory.
// Thread-safe.

#ifndef TENSORKV_CONTRACT_MESSAGE_WRITER_H_
#define TENSORKV_CONTRACT_MESSAGE_WRITER_H_

#include <cstdint>
#include <optional>

#include "contract/data_requests.h"
#include "contract/encoded_message.h"
#include "contract/stream_requests.h"
#include "contract/wire_writer.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

// Encodes a request of data_requests.h. Where it has bounds of its reply,
// `bounds` take the place of them, if they are given.
template <typename Request>
EncodedMessage EncodeRequest(
    const Request& request,
    std::optional<wire::ReplyBounds> bounds = std::nullopt,
    BufferPool* pool = nullptr);

// Encodes the first message of a stream: the manifest of a call, its tensors
// without data. The only stripe of a call is left out. A PushRequest whose
// entries have rows is written as a PushRowsRequest.
EncodedMessage EncodeManifest(const InitRequest& request, const Stripe& stripe);
EncodedMessage EncodeManifest(const SetStateRequest& request,
                              const Stripe& stripe);
EncodedMessage EncodeManifest(const PushRequest& request, const Stripe& stripe);
EncodedMessage EncodeManifest(const PushPullRequest& request,
                              const Stripe& stripe);

// Encodes a PushResponse or PushRowsResponse, which have the same form.
EncodedMessage EncodePushReply(const PushReply& reply);

// Bounds what a value takes in a reply besides its elements: numbers and
// lengths of 10 bytes each for the version and 8 dimensions, and tags; and a
// change, with a token of 64 bytes and a digest.
inline constexpr uint64_t kMaxValueOverheadBytes = 216;

// Encodes a PullResponse or another reply with values, all of which have the
// same form. Leaves out their elements where there is a ticket.
EncodedMessage EncodePullReply(const PullReply& reply);
// Encodes a PullChunk with the manifest of the values.
EncodedMessage EncodePullManifest(const PullReply& reply);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MESSAGE_WRITER_H_
